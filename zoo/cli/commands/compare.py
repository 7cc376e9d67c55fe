"""`zoo compare GOLD.nc OTHER.nc ...`: how far saved fits are from the first one."""

from __future__ import annotations

import argparse

HELP = "the distance of saved fits to the first one, the gold standard"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Two files or more."""
    parser.add_argument("gold", metavar="GOLD.nc", help="what to measure against, usually nuts or exact")
    parser.add_argument("others", metavar="FIT.nc", nargs="+", help="fits of the same data")


def main(args: argparse.Namespace) -> int:
    """Prints the comparison; returns the exit code."""
    import zoo

    gold, *others = (zoo.open(path) for path in (args.gold, *args.others))
    print(zoo.compare(gold, *others))
    return 0
