"""A step of svi on the lecture BNN, mean-field q and Adam, 1 and 16 restarts, against NumPyro's and stock Pyro's.

python benchmarks/svi.py --peer peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from problems import write

HERE = Path(__file__).parent
RESTARTS = (1, 16)


def own(steps: int) -> dict[str, float]:
    """Microseconds a step of all restarts, and the seconds before the first.

    Of two fits, so that what is done once (the guide's first run; in the peer it is part of compiling) is no step's.
    """
    import zoo

    problem, found = zoo.load("bnn_regression", scaling="none", n=100), {}
    for restarts in RESTARTS:
        options = {"restarts": restarts, "draws": 1, "engine": "compiled", "progress": False}
        few, many = (zoo.run(problem, "svi", steps=count, **options).seconds for count in (steps, 3 * steps))
        found[f"step, {restarts}"] = (many["warmup"] - few["warmup"]) / (2 * steps) * 1e6
        found[f"before s, {restarts}"] = few["compile"] + few["warmup"] - steps * found[f"step, {restarts}"] / 1e6
    return found


def stock(steps: int) -> dict[str, float]:
    """Microseconds a step of stock Pyro's SVI."""
    import pyro
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal

    import zoo

    problem = zoo.load("bnn_regression", scaling="none", n=100)
    args, kwargs = problem.arguments()
    svi = SVI(problem.model, AutoNormal(problem.model), pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    for _ in range(20):
        svi.step(*args, **kwargs)
    begun = time.perf_counter()
    for _ in range(steps):
        svi.step(*args, **kwargs)
    return {"step, 1": (time.perf_counter() - begun) / steps * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with NumPyro")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--own", choices=("zoo", "pyro"), help="measure this side only, print JSON")
    args = parser.parse_args()
    if args.own:
        print(json.dumps(own(args.steps) if args.own == "zoo" else stock(args.steps // 20)))
        return
    from side import measure, medians

    folder = tempfile.TemporaryDirectory()
    data = write("lecture_bnn", Path(folder.name))
    size, here = ["--steps", str(args.steps)], [sys.executable, str(HERE / "svi.py"), "--own"]
    runs: dict[str, list[Any]] = {"zoo": [], "NumPyro": [], "Pyro": []}
    for _ in range(args.repeats):
        runs["zoo"].append(measure([*here, "zoo", *size], args.threads))
        runs["Pyro"].append(measure([*here, "pyro", *size], args.threads))
        if args.peer:
            peer = [args.peer, str(HERE / "peers" / "numpyro_models.py"), "svi", "lecture_bnn", str(data), *size]
            runs["NumPyro"].append(measure(peer, args.threads))
    one, other, slow = (medians(runs[name]) if runs[name] else {} for name in ("zoo", "NumPyro", "Pyro"))
    folder.cleanup()
    print(f"microseconds a step of all restarts, {args.threads} thread(s), median of {args.repeats} runs")
    print(f"{'':>14}{'zoo':>9}{'NumPyro':>9}{'Pyro':>9}  zoo/NumPyro  Pyro/zoo")
    for key, value in one.items():
        peer, pyro = other.get(key, float("nan")), slow.get(key, float("nan"))
        print(f"{key:>14}{value:9.4g}{peer:9.4g}{pyro:9.4g}{value / peer:13.2f}{pyro / value:10.0f}")


if __name__ == "__main__":
    main()
