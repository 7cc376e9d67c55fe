"""`zoo bench NAME`: runs one of the benchmarks that come with the sources; without a name lists them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from zoo.cli import catalogue
from zoo.core.words import nearest

HELP = "run a benchmark of the sources, or list those there are"
FOLDER = catalogue.ROOT.parent / "benchmarks"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The benchmark and its own options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a benchmark; none: list them")
    parser.add_argument("options", metavar="...", nargs=argparse.REMAINDER, help="its options; --help lists them")


def benchmarks() -> dict[str, Path]:
    """{name: file} of the scripts that can be run; files without a `main` serve the others."""
    files = sorted(FOLDER.glob("*.py"))
    return {path.stem: path for path in files if "main" in catalogue.read(path).docs}


def main(args: argparse.Namespace) -> int:
    """Runs it in a process of its own; returns its exit code."""
    found = benchmarks()
    if not found:
        raise ValueError(
            f"benchmarks come with the sources and not with the installed package: there is no {FOLDER}. "
            "Clone the repository and run `python -m zoo bench` in it."
        )
    if args.name is None:
        width = max(map(len, found))
        print("benchmarks (zoo bench NAME [options]; zoo bench NAME --help)")
        print("\n".join(f"  {name:{width}}  {catalogue.read(path).summary}" for name, path in found.items()))
        return 0
    if args.name not in found:
        raise ValueError(nearest(args.name, found, "benchmark"))
    return subprocess.run([sys.executable, str(found[args.name]), *args.options], check=False).returncode
