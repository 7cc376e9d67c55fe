"""NUTS on the lecture BNN, four chains: seconds and effective draws a second, against NumPyro's vectorised chains.

python benchmarks/nuts.py --peer peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent


def own(warmup: int, draws: int, seed: int) -> dict[str, float]:
    """Seconds by stage, leapfrog steps of the longest chain, and the smallest bulk ESS of f at the data."""
    import zoo
    from zoo.core.diagnostics import ess

    problem = zoo.load("bnn_regression", scaling="none", n=100)
    fit = zoo.run(problem, "nuts", chains=4, warmup=warmup, draws=draws, seed=seed)
    least = float(ess(fit.predict()["f"].numpy()).min())
    run = fit.seconds["warmup"] + fit.seconds["sample"]
    steps = float(fit.stats["steps"].sum(1).max())
    return {
        "compile": fit.seconds["compile"],
        "seconds": run,
        "us a step": fit.seconds["sample"] / steps * 1e6,
        "min ESS": least,
        "min ESS/s": least / run,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with NumPyro")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--own", type=int, metavar="SEED", help="measure this side only, print JSON")
    args = parser.parse_args()
    if args.own is not None:
        print(json.dumps(own(args.warmup, args.draws, args.own)))
        return
    from side import measure, medians

    size = ["--warmup", str(args.warmup), "--draws", str(args.draws)]
    mine, theirs = [], []
    for seed in range(args.repeats):
        mine.append(measure([sys.executable, str(HERE / "nuts.py"), "--own", str(seed), *size], args.threads))
        if args.peer:
            peer = [args.peer, str(HERE / "peers" / "numpyro_bnn.py"), "nuts", "--seed", str(seed), *size]
            theirs.append(measure(peer, args.threads))
    print(f"4 x ({args.warmup} + {args.draws}), {args.threads} thread(s), median of {args.repeats} seeds")
    other = medians(theirs) if theirs else {}
    print(f"{'':>10}   zoo  NumPyro  ratio")
    for key, value in medians(mine).items():
        peer = other.get(key, float("nan"))
        print(f"{key:>10} {value:5.4g} {peer:8.4g} {value / peer if peer else float('nan'):6.2f}")


if __name__ == "__main__":
    main()
