"""Draws every lecture picture into gallery/, with one page that shows them by lecture: gallery/index.html.

    python docs/gallery.py            all kinds of `zoo plot`, and the pictures of the examples (their quick forms)
    python docs/gallery.py --quick    the kinds, and the picture of one example

The kinds are drawn of the small fits in docs/gallery_kinds.py. An example is in the gallery if it takes --picture; its
docstring says whose slide it is of and what to look for. Exit code 1 where a picture could not be drawn.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from gallery_kinds import KINDS, fitted
from make_lectures import LECTURES, entries

import zoo
from zoo.report.page import write
from zoo.report.page.again import again
from zoo.report.page.tags import Html, code, joined, paragraph, tag

ROOT = Path(__file__).resolve().parents[1]
LOOK = re.compile(r"Look for:? (.*?)(?=\n\n|\Z)", re.DOTALL)
# The quickest, so that the quick form runs one too.
QUICK = ("pendulum",)
AT_ONCE = 2


class Entry(NamedTuple):
    """A picture of the gallery: its file's stem, whose slide it is of, what to look for, the command that draws it."""

    name: str
    lecture: str
    title: str
    look: str
    command: str
    example: bool


def examples() -> list[Path]:
    """The examples that draw."""
    every = sorted((ROOT / "examples").glob("[!_]*.py"))
    return [path for path in every if '"--picture"' in path.read_text(encoding="utf-8")]


def example_entry(path: Path) -> Entry:
    """What an example's docstring says of its picture.

    Raises:
        ValueError: For one that names no lecture.
    """
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    slide = next((entry for entry in entries(path) if entry.lecture), None)
    if slide is None:
        raise ValueError(f"{path.name}: the gallery is by lecture; name a slide in its Source: line.")
    found = LOOK.search(doc)
    look = " ".join(found[1].split()) if found else doc.splitlines()[0]
    command = f"python examples/{path.name} --picture {path.stem}.png"
    return Entry(f"example-{path.stem}", slide.lecture, f"{slide.title}: {doc.splitlines()[0]}", look, command, True)


def kind_entry(kind: str, *, command: str = "") -> Entry:
    """The line of a kind in the table."""
    shown = KINDS[kind]
    return Entry(kind, shown.lecture, shown.title, shown.look, command, False)


def draw_kind(kind: str, folder: Path) -> Entry:
    """Makes the fits and the picture; the commands are those that make the same ones."""
    shown = KINDS[kind]
    fits = [fitted(name) for name in shown.fits]
    zoo.plot(fits, kind, folder / f"{kind}.png", **shown.options)
    files = [f"{name.replace(' ', '-')}.nc" for name in shown.fits]
    runs = [shlex.join([*shlex.split(again(f).shell)[:-1], file]) for f, file in zip(fits, files, strict=True)]
    more = [word for key, value in shown.options.items() for word in ("--opt", f"{key}={value!r}")]
    return kind_entry(kind, command="\n".join([*runs, shlex.join(["zoo", "plot", *files, "--kind", kind, *more])]))


def draw_example(path: Path, folder: Path) -> str:
    """Runs an example's quick form in a process of its own; returns what went wrong, or ""."""
    to = folder / f"example-{path.stem}.png"
    command = [sys.executable, str(path), "--quick", "--picture", str(to)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return "" if to.is_file() else "it wrote no picture"


def index(drawn: list[Entry], folder: Path) -> str:
    """The page: a section a lecture, a figure a picture."""
    parts = []
    for lecture, said in LECTURES.items():
        own = [entry for entry in drawn if entry.lecture == lecture]
        title = tag("h2", re.sub(r"\*", "", said), id=lecture.lower())
        parts.append(joined(title, *(_figure(entry, folder) for entry in own)))
    links = tag("ul", *(tag("li", tag("a", lecture, href=f"#{lecture.lower()}")) for lecture in LECTURES))
    filled = {
        "TITLE": "The pictures of the lectures",
        "STYLE": (write.HERE / "style.css").read_text(encoding="utf-8"),
        "NAVIGATION": tag("nav", links, aria_label="lectures"),
        "BODY": "\n".join(parts),
        "FOOTER": joined(f"Drawn by zoo {zoo.__version__}: make gallery."),
    }
    return write.filled(filled)


def _figure(entry: Entry, folder: Path) -> Html:
    file = f"{entry.name}.png"
    words = [paragraph(tag("strong", entry.name.removeprefix("example-")), ". ", tag("em", entry.look))]
    if entry.example:
        words.append(paragraph("Drawn by the example's quick form; in full by:"))
    caption = tag("figcaption", *words, code(entry.command, f"the command that draws {entry.name}", wrap=True))
    if not (folder / file).is_file():
        shown = paragraph("Not drawn in the quick form.", class_="lack")
    else:
        picture = tag("img", src=file, alt=f"{entry.name}: {entry.title}. {entry.look}", loading="lazy")
        shown = tag("div", picture, class_="wide", tabindex="0", role="region", aria_label=entry.name)
    return tag("figure", tag("h3", entry.title), shown, caption)


def main() -> int:
    """Draws all, writes the index, says what took how long; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the kinds, and the picture of one example")
    parser.add_argument("--out", type=Path, default=ROOT / "gallery", metavar="FOLDER", help="where (gallery)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    begun, failed = time.perf_counter(), []
    wanted = [path for path in examples() if not args.quick or path.stem in QUICK]
    with concurrent.futures.ThreadPoolExecutor(1 if args.quick else AT_ONCE) as pool:
        running = {path: pool.submit(draw_example, path, args.out) for path in wanted}
        drawn = [draw_kind(kind, args.out) for kind in KINDS]
        print(f"{len(drawn)} kinds in {time.perf_counter() - begun:.0f} s")
        failed = [f"{path.name}: {said}" for path, work in running.items() if (said := work.result())]
    every = [*drawn, *map(example_entry, examples())]
    (args.out / "index.html").write_text(index(every, args.out), encoding="utf-8")
    for said in failed:
        print(f"not drawn: {said}", file=sys.stderr)
    print(f"{len(drawn) + len(wanted) - len(failed)} pictures in {time.perf_counter() - begun:.0f} s")
    print(f"-> {args.out / 'index.html'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
