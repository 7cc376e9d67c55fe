"""Makes docs/table.json, docs/table.md and README's table: every method on every model that has gold, how far off.

    python docs/make_table.py                         all models: half an hour or more
    python docs/make_table.py coin_flip               only that model's rows, the others are kept
    python docs/make_table.py --methods nuts,chees    only these rows
    python docs/make_table.py --page                  only the texts, out of the numbers there are

Distances are those of `zoo.compare(zoo.find_gold(problem), fit)`: at the gold's probes, in its sds. Every method takes
its own defaults but for what METHODS names.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo.report.finite import NotFiniteError
from zoo.report.gold import folder, open_gold

ROOT = Path(__file__).resolve().parents[1]
NUMBERS, PAGE, README = ROOT / "docs" / "table.json", ROOT / "docs" / "table.md", ROOT / "README.md"
BEGIN, END = "<!-- table: python docs/make_table.py -->\n", "<!-- end of table -->"
METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "nuts": {},
    "hmc": {},
    "chees": {"draws": 500},
    "mclmc": {"draws": 500},
    "mala": {"draws": 4000},
    "sghmc": {"batch_size": 10, "draws": 4000, "step_size": 1e-3},
    "sgld": {"batch_size": 10, "draws": 4000},
    "laplace": {},
    "svi full_rank": {"guide": "full_rank"},
    "svi low_rank": {"guide": "low_rank"},
    "svi normal": {},
    "svi dropout": {"guide": "bernoulli_dropout"},
    "map": {},
}
NETWORKS = ("bnn_regression", "bnn_classification", "heteroscedastic_regression", "mc_dropout")
# Trees of 1,000 steps a draw: chees is the sampler of networks, with the prior's mass.
TOO_SLOW_ON_NETWORKS = ("nuts", "hmc", "mala", "svi full_rank")
ON_NETWORKS: dict[str, dict[str, Any]] = {"chees": {"mass": "prior"}, "mclmc": {"mass": "prior"}}
LARGE = 1e5  # beyond it the digits say nothing
MEASURED = ("off", "sd_ratio", "w1", "in95", "sw2", "sw2_floor", "min_ess", "ess_per_s", "seconds")
HEAD = "| method | off | sd | W1 | in 95 % | SW2 | floor | ESS | ESS/s | s | verdict |\n|---|" + "---:|" * 9 + "---|"
INTRODUCTION = """<!-- Made by `python docs/make_table.py`. Do not edit. -->

# How wrong is each method, on each model?

Against the gold of each model (`zoo gold` lists it with its errors and certificates), at its probes. off: the largest
difference of means, in gold sds; sd: median ratio of sds; W1: median 1-Wasserstein distance, in gold sds; in 95 %:
share of gold's draws in the method's central 95 % intervals; SW2: sliced 2-Wasserstein distance of all coordinates
jointly, floor: that of as many draws of gold itself; s: seconds, compiling included, on two cores that had other work
as well. Defaults, but for the options named in docs/make_table.py; seed 0. "agrees": median sd ratio between .8 and
1.25 and no mean more than .5 gold sds off.
"""


def methods_of(model: str) -> dict[str, dict[str, Any]]:
    """The rows of a model's block: {label: options}."""
    problem = zoo.load(model)
    left_out = set(TOO_SLOW_ON_NETWORKS) if model in NETWORKS else {"svi dropout"}
    left_out |= {"exact"} if problem.exact is None else set()
    left_out |= {"svi full_rank", "svi low_rank"} if problem.tensor.shape[1] == 0 else set()  # one coordinate
    more = ON_NETWORKS if model in NETWORKS else {}
    return {label: {**options, **more.get(label, {})} for label, options in METHODS.items() if label not in left_out}


def row(problem: zoo.Problem, gold: Any, label: str, options: dict[str, Any], engine: str = "auto") -> dict[str, Any]:
    """One row: what `zoo.compare` measures, rounded; {"none": why} where there is nothing to measure."""
    method = label.split()[0]
    given: dict[str, Any] = {"engine": engine} if method not in ("exact", "map", "laplace") else {}
    try:
        fit = zoo.run(problem, method, seed=0, progress=False, **given, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        return {"none": f"refused: {str(error).split('. ')[0]}"}
    try:
        found = zoo.compare(gold, fit).frame.to_dict("records")[1]
    except NotFiniteError:
        return {"none": f"diverged; {fit.outcome.partition(':')[0]}"}
    if not math.isfinite(found["off"]):
        return {"none": f"diverged; {fit.outcome.partition(':')[0]}"}
    out = {name: None if found[name] != found[name] else float(f"{found[name]:.4g}") for name in MEASURED}
    return out | {"verdict": found["verdict"], "outcome": fit.outcome}


def block(name: str, engine: str = "auto", only: Sequence[str] = ()) -> dict[str, Any]:
    """All rows of one gold's problem, {label: row}; `only` some of them."""
    gold = open_gold(name)
    problem = zoo.load(gold.facts["model"], **gold.facts["hyper"])
    rows = {}
    for label, options in methods_of(gold.facts["model"]).items():
        if not only or label in only:
            rows[label] = row(problem, gold, label, options, engine)
            print(f"{name:22}{label:16}{rows[label]}", flush=True)
    return rows


def text(numbers: dict[str, Any]) -> str:
    """The page of these numbers."""
    parts = [INTRODUCTION]
    for name in sorted(numbers):
        parts.append(f"## {name}\n\n{HEAD}\n" + "\n".join(_line(*item) for item in numbers[name].items()) + "\n")
    return "\n".join(parts)


def matrix(numbers: dict[str, Any]) -> str:
    """README's table: a row a method, a column a model, off and in brackets the ratio of sds."""
    names = sorted(numbers)
    lines = ["| " + " | ".join(["method", *(f"`{name}`" for name in names)]) + " |", "|---" * (len(names) + 1) + "|"]
    for label in METHODS:
        cells = [_pair(numbers[name].get(label)) for name in names]
        if any(cell for cell in cells):
            lines.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(lines) + "\n"


def _pair(found: dict[str, Any] | None) -> str:
    if found is None or "none" in found:
        return "" if found is None or found["none"].startswith("refused") else "diverged"
    off, ratio = (f"{value:.2f}" if value < LARGE else f"{value:.0e}" for value in (found["off"], found["sd_ratio"]))
    return f"{off} ({ratio}){'' if found['outcome'] == 'ok' else ' *'}"


def with_table(readme: str, numbers: dict[str, Any]) -> str:
    """README with these numbers between its marks."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + matrix(numbers) + END + rest.split(END)[1]


def _line(label: str, found: dict[str, Any]) -> str:
    if "none" in found:
        return f"| {label} |" + " |" * 9 + f" {found['none']} |"
    cells = [_short(found[name], 100 if name == "in95" else 1) for name in MEASURED]
    verdict = found["verdict"] if found["outcome"] == "ok" else f"{found['verdict']}; {found['outcome'].split(':')[0]}"
    return f"| {label} | {' | '.join(cells)} | {verdict} |"


def _short(value: float | None, times: int) -> str:
    if value is None:
        return "-"
    value *= times
    return f"{value:.0e}" if value >= LARGE else f"{value:.0f}" if value >= 100 or times > 1 else f"{value:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="golds, see `zoo gold`; none: all")
    parser.add_argument("--methods", default="", help=f"of {', '.join(METHODS)}; none: all")
    parser.add_argument("--page", action="store_true", help="run nothing")
    args = parser.parse_args()
    numbers = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    if not args.page:
        for name in args.names or sorted(path.stem for path in folder().glob("*.json")):
            only = args.methods.split(",") if args.methods else []
            kept = numbers.get(name, {}) if only else {}
            numbers[name] = dict(sorted({**kept, **block(name, only=only)}.items()))  # as they are read back
            NUMBERS.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(text(numbers))
    README.write_text(with_table(README.read_text(), numbers))


if __name__ == "__main__":
    main()
