"""What a gradient of the lecture BNN costs: against the number of rows, and of chains; and the peak memory of each.

python benchmarks/scaling.py --save docs/scaling

Rows from 10^2 to 10^6 at 4 chains, chains from 1 to 1,024 at 100 rows; each size in a process of its own. `per` is the
time by row and chain: constant where the cost is linear. "pieces of": rows of a piece, where the rows leave the cache.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from side import machine, measure

HERE = Path(__file__).parent
ROWS, CHAINS = (100, 1_000, 10_000, 100_000, 1_000_000), (1, 4, 16, 64, 256, 1024)


def own(rows: int, chains: int) -> dict[str, float]:
    """Microseconds of a sampler's compiled gradient of all chains, on memory that stays, and megabytes above the start.

    "pieces": rows of a piece where the rows are computed in pieces, else 0.
    """
    import torch

    import zoo
    from zoo.core.handlers import pyro_state
    from zoo.infer.density import density
    from zoo.infer.engine import gradient_on
    from zoo.infer.in_pieces import InPieces
    from zoo.infer.in_place import compile_in_place
    from zoo.infer.piece_graph import PieceGraph, at_hand
    from zoo.infer.piece_size import in_pieces
    from zoo.infer.threads import running_on

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    target = in_pieces(density(zoo.load("bnn_regression", scaling="none", n=rows)), chains)
    position = torch.randn(chains, target.dim, generator=torch.Generator().manual_seed(0)) * 0.3
    piece = PieceGraph(target, position) if isinstance(target, InPieces) else None
    (x, y), more = target.problem.arguments()
    with pyro_state(validate=False), torch.no_grad(), at_hand(piece):
        call, compiled = compile_in_place(
            lambda x, y, u: gradient_on(target, ((x, y), more))(u), [x, y], [position]
        )  # fmt: skip
    with running_on(compiled.threads), at_hand(piece):
        call((position,))
        begun, calls = time.perf_counter(), 0
        while calls < 5 or time.perf_counter() - begun < 1.0:
            call((position,))
            calls += 1
        took = (time.perf_counter() - begun) / calls
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = piece.threads if piece else compiled.threads
    size = target.size if isinstance(target, InPieces) else 0
    return {"us": took * 1e6, "mb": (after - before) / 1024, "threads": threads, "pieces": size}


WIDE = ("     rows", "chains", "         us", "ns per row and chain", "    MB", "threads", "pieces of")
HEAD = tuple(name.strip() for name in WIDE)


def cells(rows: int, chains: int, one: dict[str, float]) -> list[str]:
    """A line of the table, as `HEAD` says."""
    each = one["us"] * 1e3 / (rows * chains)
    whole = [f"{rows:,}", f"{chains:,}", f"{one['us']:,.0f}", f"{each:.2f}", f"{one['mb']:.0f}"]
    return [*whole, f"{one['threads']:.0f}", f"{one['pieces']:,.0f}" if one["pieces"] else ""]


def save(path: Path, found: list[tuple[int, int, dict[str, float]]], option: str) -> None:
    """The table as Markdown, and two log-log panels, as .md and .svg; `option` is what the command was given."""
    lines = [HEAD, ("---:",) * len(HEAD), *(cells(*entry) for entry in found)]
    words = (
        f"A gradient of the lecture BNN on {machine()}, by `python benchmarks/scaling.py{option}`; MB: peak above the "
        "start."
    )
    table = [f"| {' | '.join(line)} |" for line in lines]
    path.with_suffix(".md").write_text("\n".join(["# Scaling", "", words, "", *table]) + "\n")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
    for axis, which, label in ((axes[0], 0, "rows, 4 chains"), (axes[1], 1, "chains, 100 rows")):
        kept = [entry for entry in found if (entry[1] == 4 if which == 0 else entry[0] == 100)]
        sizes = [entry[which] for entry in kept]
        axis.loglog(sizes, [entry[2]["us"] for entry in kept], "o-")
        axis.set(xlabel=label, ylabel="microseconds a gradient")
    figure.tight_layout()
    figure.savefig(path.with_suffix(".svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="0: as the zoo chooses")
    parser.add_argument("--save", type=Path, help="path without suffix, for .md and .svg")
    parser.add_argument("--own", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.own:
        print(json.dumps(own(*args.own)))
        return
    print("  ".join(WIDE))
    found: list[tuple[int, int, dict[str, float]]] = []
    for rows, chains in [*((n, 4) for n in ROWS), *((100, c) for c in CHAINS if c != 4)]:
        one = measure([sys.executable, __file__, "--own", str(rows), str(chains)], args.threads)
        found.append((rows, chains, one))
        print(
            "  ".join(f"{cell:>{len(name)}}" for name, cell in zip(WIDE, cells(rows, chains, one), strict=True)),
            flush=True,
        )
    if args.save:
        option = f" --threads {args.threads}" if args.threads else ""
        save(args.save, sorted(found, key=lambda entry: entry[:2]), option)


if __name__ == "__main__":
    main()
