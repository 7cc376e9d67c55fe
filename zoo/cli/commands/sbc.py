"""`zoo sbc NAME -m METHOD`: simulation-based calibration, whether a method is right on data of the model's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from zoo.cli import catalogue
from zoo.cli.commands.run import check_output
from zoo.cli.messages import messages
from zoo.cli.values import hyperparameters, options
from zoo.core.words import nearest

HELP = "is a method right on data simulated from a model? ranks, tests, a picture"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the method, how many data sets, the options of each."""
    pairs: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    add = parser.add_argument
    add("name", metavar="NAME", help="a model of `zoo list`, at the inputs of its own data")
    add("-m", "--method", required=True, help="a method of `zoo list` that draws")
    add("--set", **pairs, help="a hyperparameter (zoo show MODEL)")
    add("--opt", **pairs, help="an option of the method (zoo show METHOD)")
    add("--data-sets", type=int, default=100, metavar="N", help="how many to simulate; default: 100")
    add("--draws", type=int, default=63, metavar="L", help="draws that each truth is ranked among; default: 63")
    add("--alpha", type=float, default=0.01, help="the chance that a right method fails; default: 0.01")
    add("--seed", type=int, default=0, help="of the inputs, the data sets and the fits")
    add("-o", "--output", metavar="PICTURE", help="draw the ranks to this file (.png, .pdf, .svg)")


def main(args: argparse.Namespace) -> int:
    """Prints the table, draws the picture; returns the exit code: 0 where the method passes, else 1.

    1 is for a method that fails, too few data sets to tell, fits none of which is ok, and a run that was cut short or
    has draws that are not finite; 2, as for every command, for a wrong name or value.
    """
    for given, known, kind in ((args.name, catalogue.models(), "model"), (args.method, catalogue.methods(), "method")):
        if given not in known:
            raise ValueError(nearest(given, known, kind))
    check_output(args.output, "ranks.png")
    import zoo
    from zoo.report.canvas import file_format

    if args.output is not None:
        file_format(Path(args.output))
    problem = zoo.load(args.name, seed=args.seed, **hyperparameters(args.set))
    with messages():
        found = zoo.sbc(
            problem, args.method, data_sets=args.data_sets, draws=args.draws, alpha=args.alpha, seed=args.seed,
            **options(args.opt, "--opt"),
        )  # fmt: skip
    print(found)
    if args.output is not None:
        print(f"saved {found.plot(args.output)}")
    return 0 if found.passed and found.ok else 1
