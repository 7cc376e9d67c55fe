"""Two flips of a coin, both heads: what is P(heads)?

Look for: maximum likelihood says 1, and so does the MAP of a flat prior, at the very edge; the posterior mean
says .75, and the prior Beta(2, 2) pulls it to .67. A model's evidence is its mean likelihood over the prior.

Source: Yandex, "What is probability? Two coin flips"; Bishop 2006, section 2.1.
"""

from __future__ import annotations

import argparse
import math

import zoo


def show(a: float, b: float) -> dict[str, float]:
    """Posterior mean and sd, MAP and evidence under the prior Beta(a, b)."""
    problem = zoo.load("coin_flip", n=2, heads=2, a=a, b=b)
    exact = zoo.run(problem, "exact", draws=1).exact
    theta = exact.posterior["theta"]
    mode = zoo.run(problem, "map")
    row = {
        "mean": float(theta.mean),
        "sd": float(theta.stddev),
        "MAP": float(mode.draws["theta"][0, 0]),
        "evidence": math.exp(exact.log_evidence),
    }
    print(f"Beta({a:g}, {b:g})  " + "  ".join(f"{name} {value:.4f}" for name, value in row.items()))
    if not mode.ok:
        print(f"            map says: {mode.outcome}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer prior draws")
    args = parser.parse_args()

    print("two flips, two heads; maximum likelihood 1.0000")
    flat, beta22 = show(1.0, 1.0), show(2.0, 2.0)
    assert abs(flat["mean"] - 0.75) < 1e-6
    assert abs(flat["sd"] - 0.1936491673) < 1e-6
    assert abs(flat["evidence"] - 1 / 3) < 1e-6
    assert flat["MAP"] > 0.99
    assert abs(beta22["mean"] - 2 / 3) < 1e-6
    assert abs(beta22["MAP"] - 0.75) < 1e-3
    assert abs(beta22["evidence"] - 0.3) < 1e-6

    draws = 10_000 if args.quick else 100_000
    theta = zoo.run(zoo.load("coin_flip"), "prior", draws=draws, seed=0).draws["theta"].double()
    likelihood = theta**2
    mean, error = float(likelihood.mean()), float(likelihood.std()) / draws**0.5
    print(f"evidence as the mean likelihood of {draws} prior draws: {mean:.4f} +- {error:.4f}")
    assert abs(mean - 1 / 3) < 4 * error


if __name__ == "__main__":
    main()
