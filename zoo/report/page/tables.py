"""The tables: all blocks of `compare`, and the scores of held-out rows, a column a fit."""

from __future__ import annotations

from typing import Any

from ..scored import Scores, scores
from ..table import cells, joint_cells, number
from .subject import Subject
from .tags import Html, paragraph, section, table


def compared(about: Subject) -> Html:
    """The section of distances."""
    title = "Distances to the reference"
    if about.comparison is None:
        return section(title, paragraph(f"No table: {about.missing}", class_="lack"))
    frame = about.comparison.frame
    head, rows, legend = cells(frame)
    parts = [table([*head, "verdict"], _with_verdict(rows, frame), "Each number of f and of scalars for itself")]
    parts.append(paragraph(legend, class_="legend"))
    head, rows, legend, why = joint_cells(frame)
    if rows:
        parts += [table(head, rows, "All numbers together, and the density of q"), paragraph(legend, class_="legend")]
    parts += [paragraph(why, class_="legend")] if why else []
    return section(title, *parts)


def _with_verdict(rows: list[list[str]], frame: Any) -> list[list[str]]:
    return [[*row, str(verdict)] for row, verdict in zip(rows, frame["verdict"], strict=True)]


def held_out(about: Subject) -> Html:
    """The section of scores."""
    found: dict[str, Scores] = {}
    lacks: dict[str, str] = {}
    for name, fit in zip(about.names, about.fits, strict=True):
        try:
            found[name] = scores(fit)
        except Exception as error:  # a fit that lacks something must not cost the page
            lacks[name] = " ".join(str(error).split())
    notes = [f"No scores of {name}: {why}" for name, why in lacks.items()]
    if found:
        notes += [f"{name}: {note}" for name, one in found.items() for note in one.notes]
    shown = [*_scores(found)] if found else []
    return section("Scores of held-out rows", *shown, *(paragraph(note, class_="lack") for note in notes))


def _scores(found: dict[str, Scores]) -> list[Html]:
    first = next(iter(found.values()))
    values = [
        {row.score: f"{number(row.value, 3)}{_error(row.se)}" for row in one.frame.itertuples()}
        for one in found.values()
    ]
    rows = [[row.score, *(v.get(row.score, "-") for v in values), row.what] for row in first.frame.itertuples()]
    caption = f"{first.rows} {first.on} rows, ± standard error over rows"
    return [table(["score", *found, "what it is"], rows, caption)]


def _error(se: float) -> str:
    return "" if se != se else f" ± {number(se, 3)}"
