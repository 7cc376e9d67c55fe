"""`zoo report FIT.nc ... -o report.html`: saved fits on one page: verdict, tables, pictures, how to make them again."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

HELP = "a page on saved fits: verdict, tables, pictures, how to make them again"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The fits and the page."""
    first = "fits of the same data; the first, or the word gold, is what the others are measured against"
    parser.add_argument("fits", metavar="FIT.nc", nargs="+", help=first)
    parser.add_argument("-o", "--to", metavar="OUT.html", default="report.html", help="the page (report.html)")


def main(args: argparse.Namespace) -> int:
    """Writes the page and says where; returns the exit code."""
    gold, files = args.fits[0] == "gold", args.fits[args.fits[0] == "gold" :]
    if not files:
        raise ValueError("zoo report gold needs a fit to measure. Add one: zoo report gold FIT.nc.")
    if missing := next((path for path in files if not os.path.isfile(path)), None):
        raise ValueError(f"there is no file {missing}. zoo report reads what zoo run -o wrote.")
    import zoo

    first = [zoo.find_gold(zoo.open(files[0]).problem)] if gold else []
    path = zoo.write_report([*first, *files], args.to)
    print(f"saved {path} ({Path(path).stat().st_size / 1e6:.1f} MB; open it in a browser, no network needed)")
    return 0
