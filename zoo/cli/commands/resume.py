"""`zoo resume DIR`: goes on with a run that was kept in a directory, or adds draws to it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.commands.run import check_output, told
from zoo.cli.messages import messages

if TYPE_CHECKING:
    from zoo.core.posterior import Posterior

HELP = "go on with a run that was stopped or killed, or add draws to it"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The directory, how many draws more, where to write the fit."""
    parser.add_argument("directory", metavar="DIR", help="the directory of zoo run ... --checkpoint DIR")
    parser.add_argument("--more", metavar="DRAWS", type=int, help="so many draws a chain beside those asked for so far")
    parser.add_argument("-o", "--output", metavar="FIT.nc", help="write the fit to this file")


def main(args: argparse.Namespace) -> int:
    """Goes on, prints, saves; returns the exit code: 1 where the outcome is not ok."""
    if not Path(args.directory).is_dir():
        raise ValueError(f"there is no directory {args.directory}. Begin one: zoo run NAME -m METHOD --checkpoint DIR.")
    if args.more is not None and args.more < 1:
        raise ValueError(f"--more must be at least 1, got {args.more}. Leave it out to go on to the draws asked for.")
    check_output(args.output)
    with messages():
        return told(_gone_on(Path(args.directory), args.more), args.output)


def _gone_on(directory: Path, more: int | None) -> Posterior:
    import zoo
    from zoo.infer.atomic import read_json, read_tree
    from zoo.infer.call import made_again
    from zoo.infer.checkpoint import CALL, PROBLEM

    if not (directory / CALL).exists():
        raise ValueError(
            f"{directory} holds no run: it has no {CALL}. Begin one: zoo run NAME -m METHOD --checkpoint DIR."
        )
    again, facts = read_tree(directory / PROBLEM), read_json(directory / CALL)
    if again["model"] is None:
        raise ValueError(
            f"{directory} holds a run of your own model '{again['name']}', which a file's word must not import. Make "
            f"the same call in Python: zoo.run(problem, {again['method']!r}, checkpoint={str(directory)!r}, ...)."
        )
    options: dict[str, Any] = dict(again["options"])
    if facts["draws"] is not None:
        options["draws"] = facts["draws"] + (more or 0)
    elif more is not None:
        raise ValueError(f"{again['method']} has no draws to add to. Leave --more out.")
    return zoo.run(made_again(again), again["method"], checkpoint=directory, **options)
