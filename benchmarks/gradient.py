"""One gradient for 1 to 64 chains at once, on three problems: this zoo's compiled density against NumPyro's.

python benchmarks/gradient.py --peer peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from problems import NAMES, write

HERE = Path(__file__).parent
CHAINS = (1, 4, 16, 64)


def own(name: str) -> dict[str, float]:
    """Microseconds of a compiled gradient for each number of chains, called as samplers call their steps."""
    import torch
    from problems import problem

    from zoo.core.handlers import pyro_state
    from zoo.infer.density import density
    from zoo.infer.in_place import compile_in_place
    from zoo.infer.threads import running_on

    target = density(problem(name))
    both = torch.func.vmap(torch.func.grad_and_value(target.log_density))
    found = {}
    for chains in CHAINS:
        position = torch.randn(chains, target.dim, generator=torch.Generator().manual_seed(0)) * 0.3
        with pyro_state(validate=False):
            call, compiled = compile_in_place(lambda u: both(u), [position], ())
        with running_on(compiled.threads):
            for _ in range(50):
                call(())
            begun, calls = time.perf_counter(), 0
            while calls < 50 or time.perf_counter() - begun < 1.0:
                call(())
                calls += 1
            found[str(chains)] = (time.perf_counter() - begun) / calls * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with NumPyro")
    parser.add_argument("--problems", default=",".join(NAMES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="0: as each side chooses")
    parser.add_argument("--own", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.own:
        print(json.dumps(own(args.own)))
        return
    from side import measure, medians

    print(f"microseconds a gradient of all chains, threads {args.threads or 'free'}, median of {args.repeats} runs")
    print(f"{'':12s} chains      zoo  NumPyro  ratio")
    for name in args.problems.split(","):
        mine, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            peer = [
                args.peer,
                str(HERE / "peers" / "numpyro_models.py"),
                "gradient",
                name,
                str(write(name, Path(folder))),
            ]
            for _ in range(args.repeats):
                mine.append(measure([sys.executable, str(HERE / "gradient.py"), "--own", name], args.threads))
                if args.peer:
                    theirs.append(measure(peer, args.threads))
        other = medians(theirs) if theirs else {}
        for chains, value in medians(mine).items():
            their = other.get(chains, float("nan"))
            print(f"{name:12s} {chains:>6} {value:8.0f} {their:8.0f} {value / their:6.2f}", flush=True)


if __name__ == "__main__":
    main()
