"""`zoo show NAME`: what a model, a method, a guide, the priors or a kind of picture says of itself, and its options."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from zoo.cli import catalogue, meanings
from zoo.core.words import nearest

HELP = "the docstring and the options of a model, method, guide or kind of picture"
WIDTH = 110
PRIORS = {"priors": catalogue.ROOT / "core" / "priors.py"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    parser.add_argument(
        "name", metavar="NAME", help="a model, method or guide of `zoo list`, a kind of `zoo plot --help`, or priors"
    )


def _table(title: str, options: dict[str, str], means: dict[str, str] | None = None) -> list[str]:
    """A line an option, its default and, where its function says it, what it means."""
    width = max((len(name) for name in options), default=0)
    lines = []
    for name, default in options.items():
        lines.append(f"  {name:{width}}  {default or '(required)'}")
        indent = " " * (width + 6)
        lines += textwrap.wrap((means or {}).get(name, ""), WIDTH, initial_indent=indent, subsequent_indent=indent)
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
        *(["", "priors and their options: zoo show priors"] if "prior" in hyper else []),
        *_table("options of its own data (--set name=value)", data),
        "",
        *(f"{name}: {'yes, ' + what if name in entry.names else 'no'}" for name, what in has.items()),
    ]


def _method(path: Path) -> list[str]:
    return _table("options (--opt name=value)", *catalogue.method_options(path))


def _function(entry: catalogue.Entry, name: str, title: str, hidden: tuple[str, ...]) -> list[str]:
    """What the function says beyond its file, and its options."""
    doc = entry.docs[name]
    own = {k: v for k, v in entry.functions[name].items() if k not in hidden}
    return ["", meanings.story(doc), *_table(title, own, meanings.arguments(doc))]


def _said(kind: str, path: Path, entry: catalogue.Entry) -> list[str]:
    if kind == "model":
        return _model(entry)
    if kind == "method":
        return _method(path)
    if kind == "guide":
        return _function(entry, entry.name, 'options (--opt guide_options="{...}")', ("model",))
    if kind == "picture":
        return _function(entry, "draw", "options (--opt name=value; --site, --output)", ("fits", "on"))
    text = 'options (--set prior_options="{...}"): ' + meanings.arguments(entry.docs["weights"])["options"]
    return ["", *textwrap.wrap(text, WIDTH)]


def main(args: argparse.Namespace) -> int:
    """Prints what the file says; returns the exit code."""
    # A name may be a method and a picture ("prior"), too: all that it names are shown.
    places = {
        "model": catalogue.models(),
        "method": catalogue.methods(),
        "guide": catalogue.guides(),
        "picture": catalogue.kinds(),
        "": PRIORS,
    }
    found = [(kind, files[args.name]) for kind, files in places.items() if args.name in files]
    if not found:
        raise ValueError(nearest(args.name, {name for files in places.values() for name in files}, "name"))
    for i, (kind, path) in enumerate(found):
        entry = catalogue.read(path)
        print("\n" * (i > 0) + f"{kind} {entry.name}".lstrip() + f"\n\n{entry.doc.strip()}")
        print("\n".join(_said(kind, path, entry)))
    return 0
