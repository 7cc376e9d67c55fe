"""`zoo compare GOLD.nc OTHER.nc ...`: how far saved fits are from the first one, or (`gold`) from the zoo's gold."""

from __future__ import annotations

import argparse

HELP = "the distance of saved fits to the first one, the gold standard"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Two files or more."""
    parser.add_argument(
        "gold", metavar="GOLD.nc", help="what to measure against, usually nuts or exact; or the word gold"
    )
    parser.add_argument("others", metavar="FIT.nc", nargs="+", help="fits of the same data")


def main(args: argparse.Namespace) -> int:
    """Prints the comparison; returns the exit code."""
    import zoo

    gold = None if args.gold == "gold" else zoo.open(args.gold)
    others = [zoo.open(path) for path in args.others]
    print(zoo.compare(gold or zoo.find_gold(others[0].problem), *others))
    return 0
