"""The command line: `python -m zoo`, and `zoo` once installed."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import zoo
from zoo.cli import commands
from zoo.core.no_result import NoResult
from zoo.core.words import nearest

EPILOG = "exit codes: 0 ok; 1 not ok, or no result; 2 a wrong name or value; 130 stopped at once (a second Ctrl-C)"


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line: argparse offers no switch for it."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. Try: {self.prog} --help")


def _commands() -> dict[str, Any]:
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    return {name: importlib.import_module(f"zoo.cli.commands.{name}") for name in names}


def _parser(known: dict[str, Any], asked: str | None) -> _Parser:
    """The parser of all commands; only the one that is asked for says what it takes, which may mean reading files."""
    parser = _Parser("zoo", description="The Bayesian deep learning zoo.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"zoo {zoo.__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in known.items():
        command = subparsers.add_parser(name, help=module.HELP, description=module.__doc__)
        if name == asked:
            module.arguments(command)
    return parser


def _dispatch(argv: Sequence[str]) -> int:
    known = _commands()
    first = next((word for word in argv if not word.startswith("-")), None)
    if first is not None and first not in known:
        raise ValueError(nearest(first, known, "command"))
    args = _parser(known, first).parse_args(argv)
    code: int = known[args.command].main(args)
    sys.stdout.flush()
    return code


def _in_one_line(error: Exception) -> str:
    """What an error says; one that may be a fault of the zoo's own comes with its type and how to find out."""
    text = " ".join(str(error).split())
    if type(error) in (ValueError, NoResult) or (isinstance(error, OSError) and text):
        return text
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{named} (zoo --traceback ... shows where)"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words after `zoo`; None: those of this process.

    Returns:
        The exit code: 0 ok, 1 the run's outcome is not ok or it has no result, 2 a wrong name or value, 130 stopped
        at once, by a second Ctrl-C or one outside of a run.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(argv)
    except BrokenPipeError:
        # `zoo list | head -1`: nobody reads on; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("zoo: stopped", file=sys.stderr)
        return 130
    except Exception as error:  # whatever it is, the shell gets one line
        if "--traceback" in argv:
            raise
        print(f"zoo: {_in_one_line(error)}", file=sys.stderr)
        return 1 if isinstance(error, NoResult) else 2


if __name__ == "__main__":
    sys.exit(main())
