"""`zoo run NAME -m METHOD`: one method on one model, its table, and the fit as a file."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli import catalogue
from zoo.cli.values import options
from zoo.core.words import nearest

if TYPE_CHECKING:
    from zoo.core.problem import Problem

HELP = "one method on one model; prints a table, writes the fit"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the method, the data and the options of each."""
    parser.add_argument("name", metavar="NAME", help="a model of `zoo list`")
    parser.add_argument("-m", "--method", required=True, help="a method of `zoo list`")
    parser.add_argument("--data", metavar="FILE", help="a CSV file, or a bundled set such as diabetes")
    parser.add_argument("--target", metavar="COLUMN", help="the column of --data to predict; default: the last")
    pairs: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    parser.add_argument("--set", **pairs, help="a hyperparameter (zoo show MODEL)")
    parser.add_argument("--opt", **pairs, help="an option of the method (zoo show METHOD)")
    parser.add_argument("--seed", type=int, default=0, help="of the data or their split, and of the method")
    parser.add_argument("-o", "--output", metavar="FIT.nc", help="write the fit to this file")


def _check(args: argparse.Namespace) -> None:
    """What can be said without loading torch is said at once."""
    if args.name not in catalogue.models():
        raise ValueError(nearest(args.name, catalogue.models(), "model"))
    if args.method not in catalogue.methods():
        raise ValueError(nearest(args.method, catalogue.methods(), "method"))
    if args.target is not None and args.data is None:
        raise ValueError("--target names a column of --data, but no --data was given. Give both or neither.")
    if args.output is not None and not Path(args.output).absolute().parent.is_dir():
        raise ValueError(f"-o must be in an existing folder, got {args.output!r}. Make the folder first.")


def _problem(args: argparse.Namespace) -> Problem:
    import importlib

    import zoo

    hyper = options(args.set, "--set")
    if args.data is None:
        return zoo.load(args.name, seed=args.seed, **hyper)
    from zoo.data import tables

    classify = getattr(importlib.import_module(f"zoo.{args.name}"), "CLASSIFY", False)
    data = tables.load(args.data, args.target, classify=classify, seed=args.seed)
    return zoo.load(args.name, data, **hyper)


@contextlib.contextmanager
def _messages() -> Iterator[None]:
    """What the library logs, on stderr while the command runs."""
    logger, handler = logging.getLogger("zoo"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("zoo: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def main(args: argparse.Namespace) -> int:
    """Runs, prints, saves; returns the exit code: 1 where the outcome is not ok."""
    _check(args)
    method: dict[str, Any] = {"seed": args.seed, **options(args.opt, "--opt")}
    import zoo
    from zoo.cli.summary import summary

    with _messages():
        posterior = zoo.run(_problem(args), args.method, **method)
        print(summary(posterior))
        if args.output is not None:
            print(f"saved {posterior.save(args.output)}")
    return 0 if posterior.ok else 1
