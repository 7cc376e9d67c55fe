"""Makes docs/lectures.md, the index from slides to code, out of the `Source:` lines of docstrings.

    python docs/make_lectures.py            writes the file
    python docs/make_lectures.py --check    exit code 1 where the file is not what it would write

A line reads `Source: Thome, "Bayesian linear regression"; Bishop 2006, eq. 3.50.`: lectures with the slide's
title, papers with author and year, a semicolon between. It may run on over several lines.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "lectures.md"
LECTURES = {
    "Gal": "Gal & Ghahramani, *Modern Deep Learning through Bayesian Eyes* (poster)",
    "Thome": "Thome, *Bayesian Deep Learning* (Sorbonne)",
    "Ambrogioni": "Ambrogioni, *Bayesian deep learning* I and II",
    "Leal-Taixe": "Leal-Taixe, *Bayesian Deep Learning* (TUM)",
    "Yandex": "Yandex and HSE, *Deep learning*, episode 12, *Bayesian methods in deep learning*",
}
# folder: (what a file there is, the command that shows it)
FOLDERS = {
    "zoo": ("model", "zoo run {name} -m {method}"),
    "zoo/infer/methods": ("method", "zoo run {model} -m {name}"),
    "zoo/infer/kernels": ("method", "zoo run {model} -m {name}"),
    "guides": ("guide", "zoo run bnn_regression -m svi --opt guide={name}"),
    "zoo/report/kinds": ("picture", "zoo plot FIT.nc --kind {name}"),
    "zoo/report/animate/samplers": ("page", "zoo animate {name}"),
    "examples": ("example", "python examples/{name}.py"),
}
_LECTURE = re.compile(rf'({"|".join(LECTURES)})( I| II)?,? "(.+)"(.*)')
_PAPER = re.compile(r"[A-Z].*\b(19|20)\d\d\b")
HEADER = """<!-- Made by `python docs/make_lectures.py` from `Source:` lines in docstrings. Do not edit. -->

# From the slides to the code

Which file shows what a slide says, and the command that runs it. What a slide misprints stands in
[errata.md](errata.md).
"""


@dataclass(frozen=True)
class Entry:
    """One source of one file: a slide (lecture, title) or a paper (lecture "")."""

    lecture: str
    title: str
    path: Path

    @property
    def cells(self) -> str:
        """Where it is and how to run it, as the last two cells of a table."""
        folder = self.path.parent.relative_to(ROOT).as_posix()
        kind, command = FOLDERS[folder]
        name = self.path.stem
        code = self.path.read_text(encoding="utf-8")
        command = command.format(
            name=name,
            method="exact" if "\ndef exact(" in code else "svi" if "\ndef guide(" in code else "nuts",
            model="linear_regression" if name == "exact" else "bnn_regression",
        )
        return f"{kind} [`{name}`](../{folder}/{name}.py) | `{command}`"


def files() -> list[Path]:
    """The files whose sources are listed: of the guides' folder those with a guide of their name."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("[!_]*.py"))]
    return [p for p in found if p.parent.name != "guides" or f"\ndef {p.stem}(" in p.read_text(encoding="utf-8")]


def sources(path: Path) -> list[str]:
    """The sources named in the docstrings of a file, one string each."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    nodes = [tree, *(n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef))]
    found = []
    for node in nodes:
        for block in re.findall(r"^Source:(.*?)(?=\n\s*\n|\Z)", ast.get_docstring(node) or "", re.M | re.S):
            found += [part.strip() for part in " ".join(block.split()).rstrip(".").split(";")]
    return found


def entries(path: Path) -> Iterator[Entry]:
    """The sources of a file, taken apart.

    Raises:
        ValueError: If one names neither a lecture with a slide nor a paper with its year.
    """
    for source in sources(path):
        if slide := _LECTURE.fullmatch(source):
            lecture, part, title, rest = slide.groups()
            yield Entry(lecture, f"{part.strip() + ': ' if part else ''}{title}{rest}", path)
        elif _PAPER.match(source) and not re.match(rf"({'|'.join(LECTURES)})\b[^\d]*$", source):
            yield Entry("", source, path)
        else:
            raise ValueError(
                f"{path.relative_to(ROOT)}: a Source must be a lecture ({', '.join(LECTURES)}) with its "
                f'slide\'s title in "quotes", or a paper with author and year; got {source!r}.'
            )


def _table(title: str, first: str, rows: list[Entry]) -> str:
    lines = [f"\n## {title}\n", f"| {first} | where | command |", "|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row.title, str(row.path))):
        escaped = row.title.replace("|", "\\|")
        lines.append(f"| {escaped} | {row.cells} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """The whole page."""
    rows = list(dict.fromkeys(entry for path in files() for entry in entries(path)))
    tables = [HEADER]
    for lecture, title in LECTURES.items():
        own = [row for row in rows if row.lecture == lecture]
        tables += [_table(title, "slide", own)] if own else []
    return "".join([*tables, _table("Papers and books", "source", [row for row in rows if not row.lecture])])


def main() -> int:
    """Writes the page, or with --check compares it; returns the exit code."""
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text()
        print("docs/lectures.md is up to date" if same else "docs/lectures.md is stale: python docs/make_lectures.py")
        return 0 if same else 1
    TARGET.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
