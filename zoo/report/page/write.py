"""`write_report`: one or several fits on one page that needs no network."""

from __future__ import annotations

import logging
import platform
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zoo
from zoo.core.paths import path_of, target_file

from ..files import write_whole
from . import asked, pictures, tables, verdicts
from .again import again, outputs
from .subject import Source, Subject, subject
from .tags import Html, code, facts, joined, listed, paragraph, section, tag

log = logging.getLogger("zoo")
HERE = Path(__file__).parent
PLACE = re.compile(r"\[\[([A-Z]+)\]\]")
SECTIONS: tuple[tuple[str, Callable[[Subject], Html]], ...] = (
    ("Verdict", verdicts.verdict),
    ("Asked", asked.asked),
    ("Distances", tables.compared),
    ("Scores", tables.held_out),
    ("Pictures", pictures.drawn),
)


def write_report(fits: Source | Sequence[Source], to: str | Path = "report.html") -> Path:
    """Writes a page on fits of one data set: what was asked, the verdict, tables, pictures, how to make them again.

    Args:
        fits: A fit or several, or files of fits; the first is the reference, as in `zoo.compare`, and may be a gold
            file (zoo.find_gold). One fit alone is compared with the zoo's gold of its problem, where there is one.
        to: The page to write; it is there whole or not at all.

    Returns:
        The path.

    Raises:
        ValueError: For no fit, fits of different data, draws that are not finite (of f, say), and a path that is a
            folder or in a folder that isn't there.
        TypeError: For things that are no fits, and what is no path.
        OSError: For a page that can't be written; said before anything is drawn.
    """
    path = path_of(to, "report.html")
    target = _writable(path)
    write_whole(target, path, html(subject(fits)).encode())
    return path


def _writable(path: Path) -> Path:
    """The file that is to be written; raises before anything is drawn where it cannot be."""
    target = target_file(path, "report.html")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise type(error)(f"{path} can't be written: {error.strerror or error}. Choose another folder.") from error
    return target


def html(about: Subject) -> str:
    """The page as text."""
    parts = []
    for name, make in (*SECTIONS, ("Reproduce", reproduce)):
        begun = time.perf_counter()
        parts.append(make(about))
        log.info("report: %s in %.1f s", name.lower(), time.perf_counter() - begun)
    title = f"{about.fits[0].problem.name}: {', '.join(about.names)}"
    links = [tag("a", name, href=f"#{name.lower()}") for name in (*(n for n, _ in SECTIONS), "Reproduce")]
    parts_of = {
        "TITLE": joined(title),
        "STYLE": (HERE / "style.css").read_text(encoding="utf-8"),
        "NAVIGATION": tag("nav", listed(links), aria_label="sections"),
        "BODY": "\n".join(parts),
        "FOOTER": joined(
            f"Written by zoo {zoo.__version__} under Python {platform.python_version()}; no network needed."
        ),
    }
    return filled(parts_of)


def filled(parts: dict[str, str]) -> str:
    """The page's frame with its parts: TITLE, STYLE, NAVIGATION, BODY, FOOTER."""
    # In one pass, so that no text of a fit is taken for a place to fill.
    return PLACE.sub(lambda found: parts[found[1]], (HERE / "page.html").read_text(encoding="utf-8"))


def reproduce(about: Subject) -> Html:
    """How to make each fit again, and on what it was made."""
    parts: list[Html] = []
    written = outputs(about.fits, about.files)
    for name, fit, file, output in zip(about.names, about.fits, about.files, written, strict=True):
        calls, settings = again(fit, file, output), fit.settings
        parts += [tag("h3", name), paragraph("In Python:"), code(calls.python, f"Python call of {name}", wrap=True)]
        if calls.shell:
            parts += [paragraph("In a shell:"), code(calls.shell, f"shell command of {name}", wrap=True)]
        parts += [paragraph(note, class_="lack") for note in calls.notes]
        versions = ", ".join(f"{word} {number}" for word, number in settings.get("versions", {}).items())
        seconds = ", ".join(f"{word} {value:.2f}" for word, value in fit.seconds.items())
        pairs = [("versions", versions), ("seconds", seconds), ("hash of the data", fit.problem.hash)]
        pairs += [(word, str(settings.get(word, ""))) for word in ("seed", "dtype", "device", "threads", "engine")]
        parts.append(facts(pairs))
    return section("Reproduce", *parts)
