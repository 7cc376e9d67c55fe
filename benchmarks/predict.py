"""Predictions of 4,000 draws of the lecture BNN at 1,000 rows, and log likelihoods, against pyro.infer.Predictive.

Draws are made by hand, so that nothing but the prediction is measured. `mapped` is what runs below the size from which
compiling pays, as here, and without a compiler; both give f, y, mean and variance, Predictive f and y.

python benchmarks/predict.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import pyro.infer
import torch

import zoo
from zoo.core import over_draws


def posterior(draws: int) -> zoo.Posterior:
    """Draws of the network's weights, four chains, from their prior."""
    problem = zoo.load("bnn_regression", scaling="none", n=100)
    g = torch.Generator().manual_seed(0)
    shapes = {"w1": (1, 50), "b1": (50,), "w2": (50, 1), "b2": (1,)}
    values = {name: torch.randn(4, draws // 4, *shape, generator=g) for name, shape in shapes.items()}
    return zoo.Posterior(problem, "nuts", "markov", values | {"noise": torch.rand(4, draws // 4, generator=g) + 0.1})


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Of the first call, and the least of the next ones, by the clock."""
    found = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return found[0], min(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    fit, x = posterior(args.draws), torch.linspace(-4, 4, args.rows)[:, None]
    y = x.squeeze(-1).sin()
    stock = pyro.infer.Predictive(fit.problem.model, {n: v.flatten(0, 1) for n, v in fit.draws.items()})
    calls: dict[str, Callable[[], Any]] = {
        "Predictive": lambda: stock(x),
        "predict": lambda: fit.predict(x),
        "log_likelihood": lambda: fit.log_likelihood(x, y),
    }
    print(f"{args.draws} draws x {args.rows} rows, {args.threads} thread(s), the least of {args.repeats} calls")
    print(f"{'seconds':<24}{'first':>8}{'later':>8}  Predictive / this")
    peer = None
    for rule, name in ((None, "Predictive"), ("mapped", "predict"), ("mapped", "log_likelihood"),
                       ("compiled", "predict"), ("compiled", "log_likelihood")):  # fmt: skip
        over_draws.LEAST_WORK = 10**18 if rule == "mapped" else 1
        first, later = seconds(calls[name], args.repeats)
        peer = later if peer is None else peer
        print(f"{name + (f', {rule}' if rule else ''):<24}{first:8.2f}{later:8.2f}{peer / later:11.1f}", flush=True)


if __name__ == "__main__":
    main()
