"""Cells that stand for numbers and are not written as such: dates, times, truth values, percent, money, commas."""

from __future__ import annotations

import re
from collections.abc import Sequence

DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})"
    r"|\d{1,2}[. -]*[A-Za-z]{3,9}\.?[ ,-]*\d{4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4})([ T]\d{1,2}:\d{2}.*)?"
)
TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
POINTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
SIGNED = re.compile(r"[$€£¥]\s*[+-]?\d[\d.,' ]*|[+-]?\d[\d.,' ]*\s*[%€$£¥]")
TRUTH = {"true", "false"}


def dates_or_amounts(name: str, cells: Sequence[str], *, target: bool = False) -> str:
    """What is wrong with a column whose cells stand for numbers, and what to do; "" for other text.

    Args:
        name: The column's.
        cells: Those that hold something.
        target: Whether it is to be predicted, as a number.
    """
    instead = "name another target" if target else f"leave the column out: ignore='{name}' (zoo run --ignore {name})"
    if kind := _mostly(DATE, cells, "dates") or _mostly(TIME, cells, "times"):
        unit = "days since the first, the month" if kind.startswith("dates") else "minutes since midnight"
        return f"holds {kind}. Make numbers of them ({unit}), or {instead}."
    if kind := _mostly(SIGNED, cells, "numbers with a sign at them"):
        return f"holds {kind}. Write the numbers alone and say the unit in the column's name, or {instead}."
    if target and cells and {cell.lower() for cell in cells} <= TRUTH:
        return f"holds truth values ({cells[0]!r}). Code them as 0 and 1, or predict them as a class: classify=True."
    return ""


def commas(cells: Sequence[str], place: str) -> str:
    """What is wrong with a column whose cells that are no numbers would be so without their commas; "" for others.

    Args:
        cells: Those that are no numbers.
        place: Where the first of them stands.
    """
    where = f"({place}: {cells[0]!r})"
    if all(THOUSANDS.fullmatch(cell) for cell in cells):
        return (
            f"is written with commas {where}: between thousands, or before decimals? Write it without commas between "
            "thousands; decimal commas are read with decimal=',' (zoo run --decimal ,), columns between semicolons."
        )
    if all(DECIMAL_COMMA.fullmatch(cell) for cell in cells):
        return (
            f"is written with decimal commas {where}. Read it with decimal=',' (zoo run --decimal ,), its columns "
            "separated by semicolons or tabs."
        )
    return ""


def _mostly(pattern: re.Pattern[str], cells: Sequence[str], kind: str) -> str:
    """The kind with an example, if more than half of the cells match."""
    found = [cell for cell in cells if pattern.fullmatch(cell)]
    return f"{kind} ({found[0]!r})" if 2 * len(found) > len(cells) else ""
