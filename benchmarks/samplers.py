"""Effective draws a second of the zoo's samplers, NumPyro's NUTS, BlackJAX's ChEES and MCLMC, and stock Pyro's NUTS.

python benchmarks/samplers.py --peer peers/bin/python                       # every side as it comes
python benchmarks/samplers.py --peer peers/bin/python --threads 1           # everybody on one thread
python benchmarks/samplers.py --peer peers/bin/python --save docs/samplers  # docs/samplers.md and .svg

The same float32 data for all; every run in a process of its own; compiling is a column apart and no part of the rate
(JAX's sides compile in a first run and are timed in a second); ESS of all by one function from saved draws: the least
of f at the data and of log noise; medians over seeds. Stock Pyro takes hours:
its figure is the zoo's ESS a NUTS step over stock's seconds a step. `mclmc` of BlackJAX has no Metropolis step and a
bias; the zoo's has one and none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from problems import NAMES, least_ess, write

HERE = Path(__file__).parent
OWN = {"nuts": {"chains": 4}, "chees": {"chains": 16}, "mclmc": {"chains": 16}}
PEERS = {"nuts": "NumPyro", "nuts_parallel": "NumPyro", "chees": "BlackJAX", "mclmc": "BlackJAX"}
# (warmup, draws) of samplers with four chains, and of those with sixteen.
SIZES = {
    "lecture_bnn": ((500, 500), (500, 500)),
    "logistic": ((500, 500), (500, 500)),
    "boston_bnn": ((150, 150), (300, 300)),
}


def own(name: str, method: str, out: str, warmup: int, draws: int, seed: int) -> dict[str, float]:
    """A run of the zoo's; saves f and noise."""
    import numpy as np
    from problems import problem

    import zoo

    fit = zoo.run(problem(name), method, warmup=warmup, draws=draws, seed=seed, progress=False, **OWN[method])
    saved = {"f": fit.predict()["f"].numpy(), **({"noise": fit.draws["noise"].numpy()} if "noise" in fit.draws else {})}
    np.savez(out, **saved)
    run = fit.seconds["warmup"] + fit.seconds["sample"]
    return {"compile": fit.seconds["compile"], "run": run, "steps": float(fit.stats["steps"].double().mean())}


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


def rows(name: str, args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A row for each sampler on one problem."""
    from side import measure

    data, found = write(name, folder), []
    here = [sys.executable, str(HERE / "samplers.py"), "--own"]
    sides: list[tuple[str, str, list[str]]] = [("zoo", m, [*here, name, m]) for m in args.methods.split(",")]
    if args.peer:
        script = [args.peer, str(HERE / "peers" / "jax_samplers.py")]
        sides += [(PEERS[m], m, [*script, m, name, str(data)]) for m in args.peers.split(",")]
    for side, method, command in sides:
        four = method.startswith("nuts") or (side, method) == ("BlackJAX", "mclmc")
        warmup, draws = (int(args.scale * size) for size in SIZES[name][0 if four else 1])
        seen = []
        for seed in range(args.seeds):
            out = folder / f"{side}-{method}.npz"
            size = ["--warmup", str(warmup), "--draws", str(draws), "--seed", str(seed)]
            one = measure([*command, str(out), *size], args.threads)
            seen.append({**one, "ess": least_ess(out)})
        row = {key: statistics.median(run[key] for run in seen) for key in seen[0]}
        rate = statistics.median(run["ess"] / run["run"] for run in seen)
        found.append(
            {"problem": name, "side": side, "method": method, "rate": rate, "iterations": warmup + draws, **row}
        )
        print(line(found[-1]), flush=True)
    if not args.no_stock:
        found.append(_stock_row(name, found, measure([*here, name, "stock"], args.threads)["step"]))
        print(line(found[-1]), flush=True)
    return found


def _stock_row(name: str, found: list[dict[str, Any]], step: float) -> dict[str, Any]:
    """ESS a leapfrog step of the zoo's NUTS over stock's seconds a step, chain after chain."""
    nuts = next(row for row in found if (row["side"], row["method"]) == ("zoo", "nuts"))
    run = OWN["nuts"]["chains"] * nuts["iterations"] * nuts["steps"] * step
    nan = float("nan")
    return {"problem": name, "side": "Pyro (extrapolated)", "method": "nuts", "compile": nan, "run": run,
            "steps": nuts["steps"], "ess": nuts["ess"], "rate": nuts["ess"] / run}  # fmt: skip


HEAD = "| problem | sampler | compile s | run s | steps a draw | least ESS | ESS/s |\n|---|---|---|---|---|---|---|"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    numbers = " | ".join(f"{row[key]:.3g}" for key in ("compile", "run", "steps", "ess", "rate"))
    return f"| `{row['problem']}` | {row['side']} {row['method']} | {numbers} |"


def machine(threads: int) -> str:
    """The processor, its cores and the threads used."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [entry.split(":")[1].strip() for entry in lines if entry.startswith("model name")]
    used = "one thread each" if threads == 1 else "threads as each side chooses"
    return f"{named[0] if named else platform.processor() or platform.machine()}, {os.cpu_count()} cores, {used}"


def save(path: Path, found: list[dict[str, Any]], words: str) -> None:
    """The table as Markdown, and bars of ESS a second, as .md and .svg beside each other."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path.with_suffix(".md").write_text(f"# Samplers\n\n{words}\n\n" + "\n".join([HEAD, *map(line, found)]) + "\n")
    names = list(dict.fromkeys(row["problem"] for row in found))
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.2), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        own_rows = [row for row in found if row["problem"] == name]
        colours = ["C0" if row["side"] == "zoo" else "C7" for row in own_rows]
        axis.barh(
            [f"{row['side']} {row['method']}" for row in own_rows], [row["rate"] for row in own_rows], color=colours
        )
        axis.set(xscale="log", title=name, xlabel="effective draws a second")
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
    parser.add_argument("--threads", type=int, default=0, help="1: one for everybody; 0: as each side chooses")
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
    words = f"{machine(args.threads)}. Median of {args.seeds} seeds."
    print(words, HEAD, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = [row for name in args.problems.split(",") for row in rows(name, args, Path(folder))]
    if args.save:
        save(args.save, found, words)


if __name__ == "__main__":
    main()
