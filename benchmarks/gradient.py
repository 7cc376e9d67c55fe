"""One gradient of the lecture BNN for 1 to 64 chains at once: this zoo's compiled density against NumPyro's.

python benchmarks/gradient.py --peer peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CHAINS = (1, 4, 16, 64)


def own() -> dict[str, float]:
    """Microseconds of a compiled gradient for each number of chains."""
    import torch

    import zoo
    from zoo.core.handlers import pyro_state
    from zoo.infer.density import density
    from zoo.infer.graph import compile_graph

    target = density(zoo.load("bnn_regression", scaling="none", n=100))
    both = torch.func.vmap(torch.func.grad_and_value(target.log_density))
    found = {}
    for chains in CHAINS:
        position = torch.randn(chains, target.dim, generator=torch.Generator().manual_seed(0)) * 0.3
        with pyro_state(validate=False):
            compiled = compile_graph(lambda u: both(u), [position])
        calls = 3000 // chains + 200
        for _ in range(50):
            compiled.call(position)
        begun = time.perf_counter()
        for _ in range(calls):
            compiled.call(position)
        found[str(chains)] = (time.perf_counter() - begun) / calls * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with NumPyro")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--own", action="store_true", help="measure this side only, print JSON")
    args = parser.parse_args()
    if args.own:
        print(json.dumps(own()))
        return
    from side import measure, medians

    mine, theirs = [], []
    for _ in range(args.repeats):
        mine.append(measure([sys.executable, str(HERE / "gradient.py"), "--own"], args.threads))
        if args.peer:
            theirs.append(measure([args.peer, str(HERE / "peers" / "numpyro_bnn.py"), "gradient"], args.threads))
    one = medians(mine)
    other = medians(theirs) if theirs else {}
    print(f"microseconds a gradient of all chains, {args.threads} thread(s), median of {args.repeats} runs")
    print("chains   zoo  NumPyro  ratio")
    for chains, value in one.items():
        peer = other.get(chains, float("nan"))
        print(f"{chains:>6} {value:5.0f} {peer:8.0f} {value / peer:6.2f}")


if __name__ == "__main__":
    main()
