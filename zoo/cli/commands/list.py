"""`zoo list`: the models, methods and guides, one a line, and the data sets that have a name."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli import catalogue
from zoo.data import uci
from zoo.data.bundled import BUNDLED

HELP = "the models, methods and guides, one a line"
WIDTH = 110


def arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to list the data sets instead."""
    parser.add_argument("--data", action="store_true", help="the data sets that have a name, one a line")


def _section(title: str, files: dict[str, Path]) -> str:
    width = max((len(name) for name in files), default=0)
    lines = [f"  {name:{width}}  {catalogue.read(path).summary}" for name, path in files.items()]
    return "\n".join([title, *(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in lines)])


def _sets() -> dict[str, str]:
    """{name: what it is} of the data sets."""
    found = {}
    for name, (targets, is_class) in BUNDLED.items():
        kind = "class" if is_class else f"measured: {', '.join(targets)}"
        found[name] = f"{kind} (comes with scikit-learn)"
    for name, entry in uci.SETS.items():
        rows, columns = entry.shape
        what = "class" if entry.classify else f"measured: {entry.columns.split()[-1]}"
        found[f"uci/{name}"] = f"{what}; {rows} x {columns - 1}, {entry.splits} splits (read from $ZOO_DATA)"
    return found


def main(args: argparse.Namespace) -> int:
    """Prints the lists; returns the exit code."""
    sets = _sets()
    if args.data:
        print("data sets (zoo run MODEL -m METHOD --data NAME; or the path of any table, or of images)")
        print("\n".join(f"  {name:{max(map(len, sets))}}  {what}" for name, what in sets.items()))
        return 0
    print(_section("models (zoo show NAME)", catalogue.models()))
    print(_section("\nmethods (zoo run MODEL -m METHOD)", catalogue.methods()))
    print(_section("\nguides (zoo run MODEL -m svi --opt guide=GUIDE)", catalogue.guides()))
    print(f"\ndata sets (zoo list --data), or any table or images of yours: {', '.join(BUNDLED)}, uci/...")
    return 0
