"""`zoo run NAME -m METHOD`: one method on one model, its table, and the fit as a file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli import catalogue
from zoo.cli.messages import messages
from zoo.cli.values import hyperparameters, options
from zoo.core.paths import target_file
from zoo.core.words import nearest

if TYPE_CHECKING:
    from zoo.core.posterior import Posterior
    from zoo.core.problem import Problem

HELP = "one method on one model; prints a table, writes the fit"
TABLE = ("target", "classify", "missing", "ignore", "test", "decimal", "split")
UNITS = "f and predictions are in the units of {0}; weights, noise and the log evidence are of standardised columns"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the method, the data and the options of each."""
    parser.add_argument("name", metavar="NAME", help="a model of `zoo list`")
    parser.add_argument("-m", "--method", required=True, help="a method of `zoo list`")
    _table_arguments(parser)
    pairs: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
    parser.add_argument("--set", **pairs, help="a hyperparameter (zoo show MODEL)")
    parser.add_argument("--opt", **pairs, help="an option of the method (zoo show METHOD)")
    parser.add_argument("--seed", type=int, default=0, help="of the data or their split, and of the method")
    parser.add_argument("-o", "--output", metavar="FIT.nc", help="write the fit to this file")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="keep the run there; the same command, or zoo resume, goes on"
    )


def _table_arguments(parser: argparse.ArgumentParser) -> None:
    """What `zoo.data.tables.load` takes; None where it is not given."""
    add = parser.add_argument
    what = "a CSV, TSV or Parquet file, a set's name (zoo list --data), or images: a folder, .npy, .npz or idx file"
    add("--data", metavar="FILE", help=what)
    add("--target", metavar="COLUMN", nargs="+", help="the column of --data to predict, or several; default: the last")
    add("--classify", action="store_true", help="the target is a class, whatever the model")
    add("--missing", choices=("refuse", "drop"), help="drop: leave out rows without a value; default: refuse them")
    add("--ignore", metavar="COLUMN", nargs="+", help="columns of --data to leave out")
    add("--test", metavar="SHARE", type=float, help="share of the rows held out; default: 0.2")
    add("--decimal", choices=(".", ","), help="what stands before the decimals in the file; default: a point")
    add("--split", metavar="K", type=int, help="which published split of a uci/ set; default: 0")


def _table_options(args: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    # 0 rows to test and split 0 are choices too.
    given = {n: value for n in TABLE if (value := getattr(args, n)) is not None and value is not False}
    if len(given.get("target", ())) == 1:
        given["target"] = given["target"][0]
    return given


def _check(args: argparse.Namespace) -> None:
    """What can be said without loading torch is said at once."""
    if args.name not in catalogue.models():
        raise ValueError(nearest(args.name, catalogue.models(), "model"))
    if args.method not in catalogue.methods():
        raise ValueError(nearest(args.method, catalogue.methods(), "method"))
    if args.data is None and (given := list(_table_options(args))):
        raise ValueError(f"--{given[0]} says how to read --data, but no --data was given. Give both or neither.")
    check_output(args.output)


def check_output(output: str | None, name: str = "fit.nc") -> None:
    """Raises ValueError for what can't be written, before anything is computed; `name`: such a file's, for advice."""
    if output is None:
        return
    if not os.path.isdir(Path(output).absolute().parent):
        raise ValueError(f"-o must be in an existing folder, got {output!r}. Make the folder first.")
    target_file(Path(output), name)


def _problem(args: argparse.Namespace) -> Problem:
    import importlib

    import zoo

    hyper = hyperparameters(args.set)
    if args.data is None:
        return zoo.load(args.name, seed=args.seed, **hyper)
    from zoo.data import tables
    from zoo.data.files import is_images
    from zoo.infer.sources import is_class

    table = _table_options(args)
    if is_images(args.data):
        if other := next((name for name in table if name != "test"), None):
            raise ValueError(f"--{other} says how to read a table, but {args.data} holds images. Leave it out.")
        return zoo.load(args.name, args.data, args.seed, **table, **hyper)
    table["classify"] = table.get("classify") or is_class(importlib.import_module(f"zoo.{args.name}"), hyper)
    return zoo.load(args.name, tables.load(args.data, seed=args.seed, **table), **hyper)


def _units(posterior: Posterior) -> str:
    """What units and classes are, where the data are a table's."""
    info = getattr(posterior.problem.data, "info", {})
    if "columns" not in info:
        return ""
    name = info["y_name"] if isinstance(info["y_name"], str) else ", ".join(info["y_name"])
    if "y_scale" in info:
        return "\n".join([UNITS.format(name), *_known_noise(posterior.problem, name)])
    said = ["weights are per standardised column"] if info["x_scale"] and posterior.problem.name != "coin_flip" else []
    if len(info["classes"]) == 2:
        said.append(f"y = 1 stands for {name} = {info['classes'][1]}")
    return ", ".join(said)


def _known_noise(problem: Problem, target: str) -> list[str]:
    """A line for a noise that is a number: of generated data it is known, of a table it is a guess."""
    import inspect

    parameters = inspect.signature(problem.model).parameters
    noise = problem.hyper.get("noise", parameters["noise"].default if "noise" in parameters else None)
    if noise is None:
        return []
    return [f"noise is taken as known, {noise:g} sds of {target}: --set noise=None learns it"]


def main(args: argparse.Namespace) -> int:
    """Runs, prints, saves; returns the exit code: 1 where the outcome is not ok."""
    _check(args)
    method: dict[str, Any] = {"seed": args.seed, **options(args.opt, "--opt")}
    if args.checkpoint is not None:
        method["checkpoint"] = args.checkpoint
    import zoo

    with messages():
        return told(zoo.run(_problem(args), args.method, **method), args.output)


def told(posterior: Posterior, output: str | None) -> int:
    """Writes a fit if that is asked for, and prints it; the exit code."""
    from zoo.cli.summary import summary

    # Before a word is printed: a pipe that closes, or a table too large to compute, must not lose the run.
    saved = None if output is None else posterior.save(output)
    print(summary(posterior))
    if said := _units(posterior):
        print(said)
    if saved is not None:
        print(f"saved {saved}")
    return 0 if posterior.ok else 1
