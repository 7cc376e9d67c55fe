"""`zoo score FIT.nc ...`: how good saved fits' predictions of held-out rows are."""

from __future__ import annotations

import argparse
import json
import os

HELP = "scores of saved fits on held-out rows: RMSE, log likelihood, CRPS, calibration, ..."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The fits, and other rows than those held out."""
    parser.add_argument("fits", metavar="FIT.nc", nargs="+", help="fits, by zoo run -o")
    parser.add_argument("--data", metavar="FILE", help="a table of rows to score, with the target; default: test rows")
    parser.add_argument("--ood", metavar="FILE", help="a table of other inputs, to be told apart by their uncertainty")
    parser.add_argument("--json", action="store_true", help="print one line of JSON a fit")


def main(args: argparse.Namespace) -> int:
    """Prints the scores; returns the exit code."""
    for path in (*args.fits, args.data, args.ood):
        if path is not None and not os.path.isfile(path):
            raise ValueError(f"there is no file {path}. zoo score reads what zoo run -o wrote, and tables.")
    import zoo

    found = [zoo.scores(zoo.open(path), args.data, ood=args.ood) for path in args.fits]
    print("\n".join(json.dumps(scores.to_dict()) if args.json else str(scores) for scores in found))
    return 0
