"""`zoo list`: the models, methods and guides, one a line."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli import catalogue

HELP = "the models, methods and guides, one a line"
WIDTH = 110


def arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def _section(title: str, files: dict[str, Path]) -> str:
    width = max((len(name) for name in files), default=0)
    lines = [f"  {name:{width}}  {catalogue.read(path).summary}" for name, path in files.items()]
    return "\n".join([title, *(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in lines)])


def main(args: argparse.Namespace) -> int:
    """Prints the lists; returns the exit code."""
    print(_section("models (zoo show NAME)", catalogue.models()))
    print(_section("\nmethods (zoo run MODEL -m METHOD)", catalogue.methods()))
    print(_section("\nguides (zoo run MODEL -m svi --opt guide=GUIDE)", catalogue.guides()))
    return 0
