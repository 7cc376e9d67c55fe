"""Effective draws a second of the zoo's samplers, NumPyro's NUTS, BlackJAX's ChEES and MCLMC, and stock Pyro's NUTS.

python benchmarks/samplers.py --peer peers/bin/python                       # every side as it comes
python benchmarks/samplers.py --peer peers/bin/python --threads 1           # everybody on one thread
python benchmarks/samplers.py --peer peers/bin/python --save docs/samplers  # docs/samplers.md, .svg and .json

A whole run takes hours: what is saved is added to what the .json of the same machine has, row by row, so that a run may
be of one problem (`--problems logistic`) or a few samplers (`--methods chees --peers nuts`).

The same float32 data for all; every run in a process of its own; compiling is a column apart and no part of the rate,
warm-up is (JAX's sides are compiled ahead of their runs); ESS of all by one function from saved draws: the least of f
at the data and of log noise; medians over seeds. Stock Pyro takes hours: its figure, made where NumPyro's NUTS is
measured, is the ESS a step of that, the same sampler in the same coordinates, over stock's seconds a step. `mclmc` of
BlackJAX has no Metropolis step and a bias; the zoo's has one and none. On the networks the zoo's samplers have
mass="prior", BlackJAX's ChEES the unit mass or a learned one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from problems import NAMES, least_ess, write
from side import machine, measure, medians

HERE = Path(__file__).parent
OWN = {"nuts": {"chains": 4}, "chees": {"chains": 16}, "mclmc": {"chains": 16}}
PEERS = {
    "nuts": "NumPyro", "nuts_parallel": "NumPyro", "chees": "BlackJAX", "chees_diagonal": "BlackJAX",
    "mclmc": "BlackJAX",
}  # fmt: skip
# A network's weights have the prior's scale in every direction but a few, and chains then start in its units.
MASS = {"lecture_bnn": {"mass": "prior"}, "boston_bnn": {"mass": "prior"}}
# (warmup, draws) of samplers with four chains, and of those with sixteen.
SIZES = {
    "lecture_bnn": ((500, 500), (500, 500)),
    "logistic": ((500, 500), (500, 500)),
    "boston_bnn": ((300, 300), (300, 300)),
}


def own(name: str, method: str, out: str, warmup: int, draws: int, seed: int) -> dict[str, float]:
    """A run of the zoo's; saves f and noise."""
    import numpy as np
    from problems import problem

    import zoo

    options = {**OWN[method], **MASS.get(name, {})}
    fit = zoo.run(problem(name), method, warmup=warmup, draws=draws, seed=seed, progress=False, **options)
    saved = {"f": fit.predict()["f"].numpy(), **({"noise": fit.draws["noise"].numpy()} if "noise" in fit.draws else {})}
    np.savez(out, **saved)
    return {**fit.seconds, "steps": float(fit.stats["steps"].double().mean())}


def stock(name: str, seconds: float = 30.0) -> dict[str, float]:
    """Seconds of a leapfrog step of pyro.infer's HMC on this model."""
    import torch
    from problems import problem
    from pyro.infer.mcmc.util import initialize_model
    from pyro.ops.integrator import velocity_verlet

    target = problem(name)
    args, kwargs = target.arguments()
    start, potential, *_ = initialize_model(target.model, model_args=args, model_kwargs=kwargs)
    momentum = {k: torch.zeros_like(v) for k, v in start.items()}
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        velocity_verlet(start, momentum, potential, lambda r: r, 1e-6, num_steps=10)
        steps += 10
    return {"step": (time.perf_counter() - begun) / steps}


def rows(name: str, args: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each sampler on one problem, as soon as it is measured."""
    data = write(name, folder)
    here = [sys.executable, str(HERE / "samplers.py"), "--own"]
    sides = [("zoo", m, [*here, name, m]) for m in args.methods.split(",") if m]
    if args.peer:
        script = [args.peer, str(HERE / "peers" / "jax_samplers.py")]
        sides += [(PEERS[m], m, [*script, m, name, str(data)]) for m in args.peers.split(",") if m]
    for side, method, command in sides:
        four = method.startswith("nuts") or (side, method) == ("BlackJAX", "mclmc")
        warmup, draws = (int(args.scale * size) for size in SIZES[name][0 if four else 1])
        found = _seeds(command, folder / f"{side}-{method}.npz", warmup, draws, args)
        row = {"problem": name, "side": side, "method": method, "threads": args.threads, "seeds": args.seeds, **found}
        yield row
        if (side, method) == ("NumPyro", "nuts") and not args.no_stock:
            yield _stock_row(row, measure([*here, name, "stock"], args.threads)["step"])


def _seeds(command: list[str], out: Path, warmup: int, draws: int, args: argparse.Namespace) -> dict[str, float]:
    """Medians over seeds of what a run tells of itself and of its ESS."""
    seen = []
    for seed in range(args.seeds):
        size = ["--warmup", str(warmup), "--draws", str(draws), "--seed", str(seed)]
        one = measure([*command, str(out), *size], args.threads)
        ess = least_ess(out)
        seen.append({**one, "ess": ess, "rate": ess / (one["warmup"] + one["sample"])})
    return {"iterations": warmup + draws, **medians(seen)}


def _stock_row(nuts: dict[str, Any], step: float) -> dict[str, Any]:
    """ESS a leapfrog step of NumPyro's NUTS over stock's seconds a step, four chains one after another."""
    half = 2 * nuts["iterations"] * nuts["steps"] * step
    found = {"compile": 0.0, "warmup": half, "sample": half, "rate": nuts["ess"] / (2 * half)}
    return {**nuts, "side": "Pyro (extrapolated)", **found}


COLUMNS = (
    "problem", "sampler", "iterations", "compile s", "warm-up s", "sampling s", "steps a draw", "least ESS", "ESS/s",
    "seeds",
)  # fmt: skip
NUMBERS = ("iterations", "compile", "warmup", "sample", "steps", "ess", "rate")
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
WORDS = """Made by `python benchmarks/samplers.py`, which says how; medians over seeds. Iterations are those of a
chain, warm-up and draws together, half and half. lecture_bnn: 1-50-1, 100 rows; logistic: 24 columns and an intercept,
1,000 rows; boston_bnn: 13-50-50-1, 506 rows. On the networks the zoo's samplers have mass="prior"."""
MODES = {1: "One thread each", 0: "Threads as each side chooses"}


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    numbers = " | ".join(f"{row[key]:.4g}" for key in NUMBERS)
    return f"| `{row['problem']}` | {row['side']} {row['method']} | {numbers} | {row['seeds']} |"


def merged(path: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows kept at `path` with this one, which takes the place of its like; refused where another machine made them."""
    kept = json.loads(path.read_text()) if path.exists() else {"machine": machine(), "rows": []}
    if kept["machine"] != machine():
        raise SystemExit(f"{path} is of {kept['machine']}, this is {machine()}: save under another name")
    rows = {_key(row): row for row in (*kept["rows"], row)}
    order = sorted(
        rows.values(), key=lambda row: (not row["threads"], NAMES.index(row["problem"]), row["side"] != "zoo")
    )
    path.write_text(json.dumps({"machine": machine(), "rows": order}, indent=1) + "\n")
    return order


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["threads"], row["problem"], row["side"], row["method"]


def save(path: Path, row: dict[str, Any]) -> None:
    """The table as Markdown, and bars of ESS a second, as .md and .svg beside the rows in .json."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = merged(path.with_suffix(".json"), row)
    modes = [threads for threads in MODES if any(row["threads"] == threads for row in rows)]
    tables = [
        [MODES[mode] + ":", "", HEAD, *(line(row) for row in rows if row["threads"] == mode), ""] for mode in modes
    ]
    words = f"{machine()}. {WORDS}"
    path.with_suffix(".md").write_text("\n".join(["# Samplers", "", words, "", *(s for t in tables for s in t)]))
    size = (4 * len(NAMES), 3.2 * len(modes))
    figure, axes = plt.subplots(len(modes), len(NAMES), figsize=size, squeeze=False)
    for (mode, name), axis in zip(((m, n) for m in modes for n in NAMES), axes.flat, strict=True):
        here = [row for row in rows if (row["threads"], row["problem"]) == (mode, name)]
        colours = ["C0" if row["side"] == "zoo" else "C7" for row in here]
        axis.barh([f"{row['side']} {row['method']}" for row in here], [row["rate"] for row in here], color=colours)
        axis.set(xscale="log", title=f"{name}, {MODES[mode].lower()}", xlabel="effective draws a second")
        axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path.with_suffix(".svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with NumPyro and BlackJAX")
    parser.add_argument("--problems", default=",".join(NAMES))
    parser.add_argument("--methods", default=",".join(OWN), help="of the zoo")
    parser.add_argument("--peers", default=",".join(PEERS), help="of the others")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of draws; .1 tries it out")
    parser.add_argument(
        "--threads", type=int, choices=tuple(MODES), default=0, help="1: one for everybody; 0: as each side chooses"
    )
    parser.add_argument("--no-stock", action="store_true", help="leave stock Pyro out")
    parser.add_argument("--save", type=Path, help="path without suffix, for .md and .svg")
    parser.add_argument("--own", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--warmup", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--draws", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.own:
        one = stock(args.own[0]) if args.own[1] == "stock" else own(*args.own, args.warmup, args.draws, args.seed)
        print(json.dumps(one))
        return
    print(f"{machine()}. {MODES[args.threads]}. Median of {args.seeds} seeds.", HEAD, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in (row for name in args.problems.split(",") for row in rows(name, args, Path(folder))):
            print(line(row), flush=True)
            if args.save:
                save(args.save, row)


if __name__ == "__main__":
    main()
