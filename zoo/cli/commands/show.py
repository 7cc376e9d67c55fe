"""`zoo show NAME`: what a model, a method or a guide says of itself, and its options."""

from __future__ import annotations

import argparse

from zoo.cli import catalogue
from zoo.core.words import nearest

HELP = "the docstring and the options of a model, method or guide"


def arguments(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    parser.add_argument("name", metavar="NAME", help="a model, method or guide of `zoo list`")


def _table(title: str, options: dict[str, str]) -> list[str]:
    width = max((len(name) for name in options), default=0)
    lines = [f"  {name:{width}}  {default or '(required)'}" for name, default in options.items()]
    return ["", title, *(lines or ["  none"])]


def _model(entry: catalogue.Entry) -> list[str]:
    hyper = {k: v for k, v in entry.functions["model"].items() if k not in ("x", "y")}
    data = {k: v for k, v in entry.functions.get("data", {}).items() if k != "seed"}
    has = {
        "exact": "closed-form posterior: zoo run " + entry.name + " -m exact",
        "guide": "its own guide for svi",
        "prepare": "checks and translates your data",
    }
    return [
        *_table("hyperparameters (--set name=value), with defaults", hyper),
        *_table("options of its own data (--set name=value)", data),
        "",
        *(f"{name}: {'yes, ' + what if name in entry.names else 'no'}" for name, what in has.items()),
    ]


def main(args: argparse.Namespace) -> int:
    """Prints what the file says; returns the exit code."""
    models, methods, guides = catalogue.models(), catalogue.methods(), catalogue.guides()
    if args.name not in {**models, **methods, **guides}:
        raise ValueError(nearest(args.name, {**models, **methods, **guides}, "name"))
    # A name may be both a model and a method's or guide's: the model comes first, then the other.
    for kind, files in (("model", models), ("method", methods), ("guide", guides)):
        if args.name not in files:
            continue
        entry = catalogue.read(files[args.name])
        print(f"{kind} {entry.name}\n\n{entry.doc.strip()}")
        if kind == "model":
            print("\n".join(_model(entry)))
        elif kind == "method":
            print("\n".join(_table("options (--opt name=value)", catalogue.method_options(files[args.name]))))
        else:
            own = {k: v for k, v in entry.functions[entry.name].items() if k != "model"}
            print("\n".join(_table('options (--opt guide_options="{...}")', own)))
    return 0
