"""Which of these weights would you prefer? Every prior's answer, and what that does to a regression.

Look for: a Normal prior finds huge weights 10^22 nats worse, a Laplace prior 10^11, a Cauchy prior only 400. With
ten predictors of which two count, the Laplace prior's MAP has exact zeros, the Normal prior's only small numbers.

Source: Yandex, "Priors: which of these weights would you prefer?"; Tibshirani 1996.
"""

from __future__ import annotations

import argparse

import torch

import zoo
from zoo.core.priors import weights

MODEST = torch.tensor([0.3, -1.2, 0.8, 2.1, -0.4, 1.6, -0.9, 0.1], dtype=torch.float64)
HUGE = 1e11 * MODEST
PRIORS = {"normal": {}, "laplace": {}, "student_t": {"df": 1.0}, "mixture": {"pi": 0.25}}


def scores() -> None:
    print("log prior density of    modest weights     the same x 1e11")
    for name, options in PRIORS.items():
        prior = weights(name, 1.0, MODEST.shape, MODEST, options)
        one, two = (float(prior.log_prob(w)) for w in (MODEST, HUGE))
        print(f"{name:<14}{one:24.4f}{two:20.6g}")
        assert two < one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer scales")
    args = parser.parse_args()
    scores()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 10, generator=generator, dtype=torch.float64)
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * torch.randn(50, generator=generator, dtype=torch.float64)
    print("MAP weights by prior and scale: zeros of 10, largest")
    for scale in (0.02, 0.2) if args.quick else (0.01, 0.02, 0.05, 0.1, 0.2, 1.0):
        zeros = {}
        for prior in ("laplace", "normal"):
            problem = zoo.load(
                "linear_regression", zoo.Data(x, y), bias=False, noise=0.5, prior=prior, prior_scale=scale
            )
            fit = zoo.run(problem, "map")
            w = fit.draws["w"][fit.settings["best"], 0].abs()
            zeros[prior] = int((w < 1e-6).sum())
            print(f"  {prior:<8} scale {scale:<5} zeros {zeros[prior]:2d}, largest {float(w.max()):.3f}")
        assert zeros["normal"] == 0  # L2 shrinks,
        assert zeros["laplace"] > 0 or scale > 0.1  # L1 makes zeros


if __name__ == "__main__":
    main()
