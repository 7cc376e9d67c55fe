"""Comparing two posteriors of 4,000 draws at 1,000 points: seconds, whole and by part; the promise is < 2 s.

Draws are made by hand, so that nothing but the comparison is measured. Pairs of draws are of 500 of each, sorting and
projecting of all 4,000.

python benchmarks/compare.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import zoo
from zoo.core.quantities import quantities
from zoo.report.joint import Draws, Part, joint_distances
from zoo.report.marginals import distances, marginal

PROMISED = 2.0


def posterior(kind: str, seed: int, draws: int, points: int) -> zoo.Posterior:
    """Draws of a line's weights near its posterior, 20 columns, four chains."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(100, 20, generator=torch.Generator().manual_seed(9))
    test = torch.randn(points, 20, generator=torch.Generator().manual_seed(10))
    data = zoo.Data(x, x.sum(1), test, test.sum(1))
    weights = {"w": 1 + 0.1 * torch.randn(4, draws // 4, 20, generator=g), "b": torch.randn(4, draws // 4, generator=g)}
    return zoo.Posterior(zoo.load("linear_regression", data), "nuts" if kind == "markov" else "svi", kind, weights)


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor (all threads together), the least of several."""
    found = []
    for _ in range(repeats):
        begun = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    return min(clock for clock, _ in found), min(used for _, used in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    gold, other = (posterior(kind, i, args.draws, args.points) for i, kind in enumerate(("markov", "iid")))
    test = gold.problem.data.x_test
    f = [quantities(fit, fit.predict(test))["f"].values for fit in (gold, other)]
    own = [marginal(v, None, fit.kind) for v, fit in zip(f, (gold, other), strict=True)]
    pair = [Draws({"f": Part(v, m)}, None, fit.kind, 1000.0) for v, m, fit in zip(f, own, (gold, other), strict=True)]
    parts: dict[str, Callable[[], Any]] = {
        "predict, both": lambda: [fit.predict(test) for fit in (gold, other)],
        "marginals, both": lambda: [marginal(v, None, fit.kind) for v, fit in zip(f, (gold, other), strict=True)],
        "distances of marginals": lambda: distances(*own),
        "joint distances": lambda: joint_distances(*pair),
    }
    parts["zoo.compare"] = lambda: zoo.compare(gold, other)
    print(
        f"{args.draws} draws x {args.points} points; promised for zoo.compare: < {PROMISED:g} s\n{'s':>30}{'CPU s':>8}"
    )
    for name, call in parts.items():
        clock, used = seconds(call, args.repeats)
        print(f"{name:<24}{clock:6.2f}{used:8.2f}")


if __name__ == "__main__":
    main()
