"""A Bayesian neural network on real data: how far are SVI, Laplace and MAP from the NUTS gold standard?

Look for: in the table `sd` (below .8 is over-confident) and `off` (means, in gold sds), and under it a
sentence a method; demo/picture.png shows predictions against what was observed, with 50 and 95 % intervals.

Source: Thome, "Bayesian neural networks"; Neal 1996.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import zoo

# method: its options, and what --quick changes
RUNS = {
    "nuts": ({"chains": 4, "draws": 500, "warmup": 400}, {"draws": 200, "warmup": 200}),
    "svi": ({"steps": 4000, "draws": 2000}, {"steps": 1000, "draws": 500}),
    "laplace": ({"draws": 2000}, {"draws": 500}),
    "map": ({}, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="diabetes", help="a CSV file, or a bundled set (default: diabetes)")
    parser.add_argument("--target", help="the column to predict (default: the last)")
    parser.add_argument("--hidden", type=int, default=10, help="hidden units (default: 10)")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    parser.add_argument("--quick", action="store_true", help="few draws: to see that it runs")
    args = parser.parse_args()

    from zoo.data import tables
    from zoo.report.pictures import picture

    begun = time.perf_counter()
    data = tables.load(args.data, target=args.target)
    print(f"{data.info['source']}: {len(data.x)} rows of {data.x.shape[1]}, {len(data.x_test)} held out")
    problem = zoo.load("bnn_regression", data=data, hidden=args.hidden)
    args.out.mkdir(parents=True, exist_ok=True)
    fits = []
    for method, (options, quick) in RUNS.items():
        fits.append(zoo.run(problem, method, seed=0, **(options | quick if args.quick else options)))
        print(f"{fits[-1]}\n  -> {fits[-1].save(args.out / f'{method}.nc')}", flush=True)
    comparison = zoo.compare(*fits)
    print(comparison)
    print(f"-> {picture(*fits, to=args.out / 'picture.png')}; {time.perf_counter() - begun:.0f} s in all")
    assert list(comparison.frame["method"]) == list(RUNS)


if __name__ == "__main__":
    main()
