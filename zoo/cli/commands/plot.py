"""`zoo plot FIT.nc ... --kind K`: a picture of one saved fit or several."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from zoo.cli import catalogue
from zoo.cli.commands.run import check_output
from zoo.cli.values import options
from zoo.core.words import nearest

HELP = "a picture of saved fits; --help lists the kinds"


def kinds() -> dict[str, str]:
    """{kind: what it shows}, from the files' docstrings; nothing is imported."""
    return {name: catalogue.read(path).doc.splitlines()[0].rstrip(".") for name, path in catalogue.kinds().items()}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The fits, the kind, and what the kind asks for."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    known = kinds()
    width = max(map(len, known))
    parser.epilog = "kinds:\n" + "\n".join(f"  {name:{width}}  {what}" for name, what in known.items())
    parser.add_argument("fits", metavar="FIT.nc", nargs="+", help="fits of the same data")
    parser.add_argument("-k", "--kind", help="see below; without it, what fits the data")
    parser.add_argument("-o", "--to", metavar="OUT.png", help="the picture's file; default: FIT-KIND.png, here")
    parser.add_argument("--site", metavar="NAME", action="append", help="draw this site; may be repeated")
    parser.add_argument("--output", type=int, metavar="I", help="which target or class (0)")
    parser.add_argument(
        "--opt", metavar="NAME=VALUE", action="append", default=[], help="an option of the kind (zoo show KIND)"
    )


def _check(args: argparse.Namespace) -> None:
    """What can be said without loading torch is said at once."""
    known = kinds()
    if args.kind is not None and args.kind not in known:
        described = "; ".join(f"{name}: {what}" for name, what in known.items())
        raise ValueError(f"{nearest(args.kind, known, 'kind').partition(' Known:')[0]} Kinds are: {described}.")
    if missing := next((path for path in args.fits if not os.path.isfile(path)), None):
        raise ValueError(f"there is no file {missing}. zoo plot reads what zoo run -o wrote.")
    check_output(args.to, "picture.png")


def main(args: argparse.Namespace) -> int:
    """Draws, saves, and says where; returns the exit code."""
    _check(args)
    more = options(args.opt, "--opt")
    import zoo

    fits = [zoo.open(path) for path in args.fits]
    name = f"{Path(args.fits[0]).stem}-{args.kind or 'picture'}.png"
    print(f"saved {zoo.plot(fits, args.kind, args.to or name, site=args.site, output=args.output, **more)}")
    return 0
