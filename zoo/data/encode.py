"""Columns as inputs of a model: numbers as they are, text and truth values one-hot; new rows like the old ones.

    color in {blue, green, red}  ->  color=green, color=red, each 0 or 1

The first level (in alphabetical order) has no column: its rows are 0 in all of them. So weights of the others
are differences to it, and a model with a bias is determined under a flat prior too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zoo.core.words import nearest

from .columns import Table, missing_text, number
from .spelled import DECIMAL_COMMA, THOUSANDS, dates_or_amounts


class Column(NamedTuple):
    """One column of the table: a number, or text with these levels.

    Args:
        name: Its name in the table.
        levels: In alphabetical order; None for numbers.
    """

    name: str
    levels: list[str] | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that it becomes."""
        return [self.name] if self.levels is None else [f"{self.name}={level}" for level in self.levels[1:]]


def plan(table: Table, names: list[str]) -> list[Column]:
    """How each of these columns becomes inputs.

    Raises:
        ValueError: For dates, names of rows, text among numbers, missing values.
    """
    found = [_column(table, name) for name in names]
    table.complete(names)
    return found


def _column(table: Table, name: str) -> Column:
    cells = table.columns[name]
    if cells.dtype != object:
        return Column(name)
    where = f"{table.source}: column '{name}'"
    values = [cell for cell in cells if not missing_text(cell)]
    if complaint := dates_or_amounts(name, values):
        raise ValueError(f"{where} {complaint}")
    if sum(_numeric(cell) for cell in values) >= len(values) / 2:
        table.check_numbers(name)
    levels = sorted(set(values))
    if len(levels) > max(2, len(values) / 2):
        raise ValueError(
            f"{where} has {len(levels)} different texts in {len(values)} rows: it names the rows, and is nothing to "
            f"learn from. Leave it out: ignore='{name}' (zoo run --ignore {name})."
        )
    return Column(name, levels)


def _numeric(cell: str) -> bool:
    """Whether a cell is a number, perhaps with commas in it."""
    return number(cell) is not None or bool(DECIMAL_COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell))


def encoded(table: Table, columns: list[Column]) -> np.ndarray:
    """The inputs (n, p) in float64, before standardising.

    Raises:
        ValueError: For a column that is not there, a level that is not known, missing values.
    """
    for column in columns:
        if column.name not in table.columns:
            raise ValueError(f"{table.source} lacks a column: {nearest(column.name, table.names, 'column')}")
    table.complete([column.name for column in columns])
    parts = [np.empty((table.rows, 0))]
    for name, levels in columns:
        if levels is None:
            parts.append(table.numbers([name]))
            continue
        code = {level: i for i, level in enumerate(levels)}
        cells = table.columns[name]
        if unknown := [i for i, cell in enumerate(cells) if cell not in code]:
            raise ValueError(
                f"{table.source}: column '{name}' holds {cells[unknown[0]]!r} ({table.place(unknown[0])}), which no "
                f"training row does; they hold {', '.join(levels[:8])}{', ...' if len(levels) > 8 else ''}. "
                "Use one of these, or train on rows that hold it."
            )
        parts.append(np.eye(len(levels))[[code[cell] for cell in cells], 1:])
    return np.concatenate(parts, axis=1)


def described(columns: list[Column]) -> list[dict[str, Any]]:
    """The columns for `info`: JSON-able."""
    return [{"name": name} if levels is None else {"name": name, "levels": levels} for name, levels in columns]
