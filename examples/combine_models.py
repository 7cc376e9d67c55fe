"""Two of the zoo's models in one of your own: numbers and yes/no answers that depend on the same slope.

Look for: both parts are the zoo's models as they are, each given the shared w. What is learned adds up: the sd of
w from both is smaller than from either, and NUTS and SVI find the mean and sd that quadrature gives.

Source: Thome, "Bayesian linear regression"; Bishop 2006, sections 3.3 and 4.5.
"""

from __future__ import annotations

import argparse

import pyro
import pyro.distributions as dist
import torch
from pyro.contrib.autoname import scope
from pyro.poutine import block, condition

import zoo


def part(name, model, w, x, y, **hyper):
    """A zoo model with a w from outside (its own prior of w hidden) and its sites called "<name>/y" and so on."""
    with scope(prefix=name):
        block(condition(model, {"w": w}), hide=["w"])(x, y, bias=False, **hyper)


def both(x, numbers=None, answers=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(1), 1.0).to_event(1))  # (1,)
    if numbers is not None:
        part("numbers", zoo.linear_regression.model, w, x, numbers, noise=1.0)
    if answers is not None:
        part("answers", zoo.logistic_regression.model, w, x, answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    draws, generator = 500 if parser.parse_args().quick else 2000, torch.Generator().manual_seed(1)
    x = torch.linspace(-2, 2, 8, dtype=torch.float64)[:, None]
    f, error, u = 1.2 * x[:, 0], torch.randn(8, generator=generator).to(x), torch.rand(8, generator=generator)
    each = {"numbers": f + error, "answers": (u < f.sigmoid()).to(x)}
    runs = {k: zoo.run(zoo.Problem(k, both, {"x": x, k: y}), "laplace", draws=20_000) for k, y in each.items()}
    problem = zoo.Problem("both", both, {"x": x, **each})
    runs["both, nuts"] = zoo.run(problem, "nuts", chains=8, draws=draws, warmup=200, engine="eager")
    runs["both, svi"] = zoo.run(problem, "svi", steps=3 * draws, draws=20_000, engine="eager")
    w = torch.linspace(-5, 5, 20_001).to(x)  # quadrature: prior x Gaussians x sigmoids
    y, signs = each["numbers"][:, None], 2 * each["answers"][:, None] - 1
    p = (-(w**2) / 2 + (-((y - x * w) ** 2) / 2 + (signs * x * w).sigmoid().log()).sum(0)).softmax(0)
    mean, sd = float((p * w).sum()), float((p * w**2).sum() - (p * w).sum() ** 2) ** 0.5
    print(f"{'exact':<10}  w = {mean:.3f} +- {sd:.3f}")
    for name, fit in runs.items():
        m, s = float(fit.draws["w"].mean()), float(fit.draws["w"].std())
        print(f"{name:<10}  w = {m:.3f} +- {s:.3f}   ({', '.join(fit.predict())})")
        assert (abs(m - mean) < 0.15 * sd and abs(s / sd - 1) < 0.1) == name.startswith("both")
    print(zoo.compare(runs["both, nuts"], runs["both, svi"]))


if __name__ == "__main__":
    main()
