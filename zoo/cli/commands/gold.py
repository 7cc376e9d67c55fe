"""`zoo gold NAME`: makes a model's reference posterior with its certificates; without a name lists those there are."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from zoo.cli import catalogue
from zoo.cli.values import hyperparameters, options
from zoo.core.words import nearest

HELP = "make a model's reference posterior, or list those there are"
COVERS = (
    "Gold covers models whose unknowns are weights and scalars, a few thousand at most: the regressions and the "
    "networks of up to two hidden layers. Of lenet, autoencoder and segmentation, as of other networks of that size, "
    "it covers nothing, unless made so small that they pass (zoo show MODEL); lenet's last layer alone can be given "
    "to NUTS by zoo.lenet.features. Of vae and cvae it covers nothing: codes belong to single rows."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, its hyperparameters, the samplers, how long, where to."""
    parser.epilog = COVERS
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="a model of `zoo list`; none: list the gold there is")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter (zoo show MODEL)")
    add("--opt", action="append", default=[], metavar="NAME=VALUE", help="an option of the sampler")
    add("-m", "--method", default="nuts", help="the sampler; default: nuts")
    add("--second", default="chees", help="the sampler that must agree; default: chees")
    add("--second-opt", action="append", default=[], metavar="NAME=VALUE", help="an option of that sampler")
    add("--as", dest="called", metavar="WORD", help="the file's name; default: the model's")
    add("--seed", type=int, default=0, help="of the run; the second sampler has the next one")
    add("--seconds", type=float, default=600.0, help="refuse where a run takes longer; default: 600")
    add("--checkpoint", metavar="FOLDER", help="keep the runs there; the same command goes on with them")
    add("--stock", action="store_true", help="add the certificate of stock Pyro NUTS to the gold there is")
    add("-o", "--output", metavar="FOLDER", help="where to write; default: the zoo's own gold folder")


def main(args: argparse.Namespace) -> int:
    """Makes the gold and writes it; returns the exit code."""
    from zoo.report.gold import find_gold, folder, open_gold

    if args.name is None:
        print("\n".join(str(open_gold(path)) for path in sorted(folder().glob("*.json"))) or "no gold yet")
        return 0
    if args.name not in catalogue.models() and (folder() / f"{args.name}.json").is_file():
        made = open_gold(args.name).facts["command"]
        raise ValueError(f"{args.name!r} is the name of a gold file and not of a model. It is made again by: {made}")
    for given, known, kind in ((args.name, catalogue.models(), "model"), (args.method, catalogue.methods(), "method")):
        if given not in known:
            raise ValueError(nearest(given, known, kind))
    into = folder() if args.output is None else Path(args.output)
    if not into.is_dir():
        raise ValueError(f"-o must be an existing folder, got {str(into)!r}. Make the folder first.")
    import zoo
    from zoo.report.make_gold import add_stock, make_gold, write_gold

    problem = zoo.load(args.name, **hyperparameters(args.set))
    if args.stock:
        gold = add_stock(find_gold(problem), problem, args.seed, args.seconds)
    else:
        gold = make_gold(
            problem, name=args.called or args.name, method=args.method, options=options(args.opt, "--opt"),
            second=args.second, second_options=options(args.second_opt, "--second-opt"), seed=args.seed,
            seconds=args.seconds, command=_command(args), kept=args.checkpoint and Path(args.checkpoint),
        )  # fmt: skip
    print(gold)
    print(f"-> {write_gold(gold, into / f'{gold.name}.json')}")
    return 0


def _command(args: argparse.Namespace) -> str:
    words = ["python", "-m", "zoo", "gold", args.name, "--seed", str(args.seed)]
    words += [word for text in args.set for word in ("--set", text)]
    words += [word for text in args.opt for word in ("--opt", text)]
    words += ["-m", args.method] if args.method != "nuts" else []
    words += ["--second", args.second] if args.second != "chees" else []
    words += [word for text in args.second_opt for word in ("--second-opt", text)]
    words += ["--as", args.called] if args.called else []
    words += ["--seconds", f"{args.seconds:g}"] if args.seconds != 600 else []
    return shlex.join(words)
