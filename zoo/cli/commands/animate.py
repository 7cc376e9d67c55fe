"""`zoo animate mh hmc --target banana -o sampler.html`: samplers at work, on one page without any network."""

from __future__ import annotations

import argparse
from pathlib import Path

from zoo.cli import catalogue

HELP = "a page on which samplers are watched at work"
FOLDER = catalogue.ROOT / "report" / "animate"


def names(folder: str) -> str:
    """The files of "samplers" or "targets"; nothing is imported."""
    return ", ".join(sorted(path.stem for path in (FOLDER / folder).glob("[!_]*.py")))


def arguments(parser: argparse.ArgumentParser) -> None:
    """The samplers, the targets, where to write."""
    parser.add_argument("samplers", metavar="SAMPLER", nargs="*", help=f"{names('samplers')} (mh mala hmc nuts)")
    targets = f"{names('targets')}; may be repeated, or a,b (all)"
    parser.add_argument("-t", "--target", metavar="NAME", action="append", help=targets)
    parser.add_argument("--draws", type=int, default=250, metavar="N", help="iterations of each chain (250)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all chains (0)")
    parser.add_argument("-o", "--to", metavar="OUT.html", default="sampler.html", help="the page (sampler.html)")


def main(args: argparse.Namespace) -> int:
    """Writes the page and says where and how large it is; returns the exit code."""
    import zoo

    more = {"samplers": args.samplers} if args.samplers else {}
    path = zoo.animate(target=args.target, to=args.to, draws=args.draws, seed=args.seed, **more)
    print(f"saved {path} ({Path(path).stat().st_size / 1e6:.1f} MB; open it in a browser, no network needed)")
    return 0
