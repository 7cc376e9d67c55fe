"""Simulation-based calibration of the lecture BNN with known noise: seconds, and where they go.

The promise is 100 data sets in ten minutes on two idle cores. The smaller the noise, the more leapfrog steps a
trajectory takes: that, more than the number of data sets, is what the time depends on. `chees` is the default here: on
the way in its trajectories are of some ten steps, where the trees of `nuts` are of hundreds.

python benchmarks/sbc.py --data-sets 10
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import zoo
from zoo.infer.lockstep import Batch

PROMISED = 600.0


def counted(steps: list[float]) -> Any:
    """`Batch.step` that notes how long each call takes."""
    step = Batch.step

    def timed(batch: Batch) -> None:
        begun = time.perf_counter()
        step(batch)
        steps.append(time.perf_counter() - begun)

    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="chees")
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--max-seconds", type=float)
    args = parser.parse_args()
    problem = zoo.load("bnn_regression", scaling="none", noise=args.noise, n=args.rows)
    steps: list[float] = []
    Batch.step = counted(steps)  # type: ignore[method-assign]
    begun, used = time.perf_counter(), time.process_time()
    found = zoo.sbc(
        problem, args.method, data_sets=args.data_sets, chains=args.chains, warmup=args.warmup, engine="compiled",
        max_seconds=args.max_seconds,
    )  # fmt: skip
    clock, used = time.perf_counter() - begun, time.process_time() - used
    print(found)
    print(f"{clock:.0f} s ({used:.0f} CPU s), promised for 100 data sets: < {PROMISED:g} s")
    print(f"{len(steps)} steps of the batch, {sum(steps):.0f} s in them, {1e3 * sum(steps) / len(steps):.2f} ms each")


if __name__ == "__main__":
    main()
