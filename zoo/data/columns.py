"""Columns of a table: read from a CSV file, checked, and turned into numbers or classes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


class Table(NamedTuple):
    """Named columns of equal length: float64 where every cell is a number (missing: NaN), else text."""

    columns: dict[str, np.ndarray]
    source: str

    @property
    def names(self) -> list[str]:
        """The columns' names, in the file's order."""
        return list(self.columns)

    def numbers(self, names: list[str]) -> np.ndarray:
        """Columns (n, len(names)) in float64; ValueError for text and for missing or infinite values."""
        for name in names:
            if self.columns[name].dtype == object:
                text = next(cell for cell in self.columns[name] if _number(cell) is None)
                raise ValueError(
                    f"{self.source}: column '{name}' holds text ({text!r}), only numbers are allowed. "
                    "Code it as numbers or drop it; a class to predict may be text: classify=True."
                )
        self.complete(names)
        length = len(next(iter(self.columns.values())))
        return np.stack([self.columns[n] for n in names], 1) if names else np.empty((length, 0))

    def complete(self, names: list[str]) -> None:
        """ValueError that counts the missing and infinite values of these columns, if there are any."""
        bad = {name: _missing(self.columns[name]) for name in names}
        if total := sum(bad.values()):
            where = ", ".join(f"'{name}' ({count})" for name, count in bad.items() if count)
            raise ValueError(
                f"{self.source} has {total} missing or infinite values, in columns {where}. "
                "Drop those rows or fill them in first."
            )


def _missing(column: np.ndarray) -> int:
    if column.dtype == object:
        return sum(cell.lower() in MISSING for cell in column)
    return int((~np.isfinite(column)).sum())


def _number(cell: str) -> float | None:
    """The cell as a number, NaN where it is missing, None where it is text."""
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def read(path: Path) -> Table:
    """A CSV file whose first line names the columns; commas, semicolons, tabs or bars between them.

    Raises:
        ValueError: For an empty file, a first line of numbers, a name used twice, a line of another length; for
            a file that is not UTF-8, or that csv can't read.
    """
    lines = _lines(path)
    if not lines:
        raise ValueError(f"{path} is empty. Its first line must name the columns, separated by commas.")
    names = [cell.strip() for cell in lines[0][1]]
    _check_names(names, path)
    for number, row in lines[1:]:
        if len(row) != len(names):
            raise ValueError(
                f"{path}: line {number} has {len(row)} fields, the header {len(names)}. "
                "Give every line one field a column, quoted where the text holds the delimiter."
            )
    cells = [[row[i].strip() for _, row in lines[1:]] for i in range(len(names))]
    return Table({name: _column(column) for name, column in zip(names, cells, strict=True)}, str(path))


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The lines that are not blank, each with its number, cut into cells."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise ValueError(f"{path} is not UTF-8 text ({byte}). Save it as 'CSV UTF-8' and load it again.") from None
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    try:
        rows = [*csv.reader(text.splitlines(), delimiter=delimiter)]
    except csv.Error as error:
        raise ValueError(
            f"{path} can't be read as CSV: {error}. Check its quotes: one that is never closed swallows the rest."
        ) from None
    return [(i, row) for i, row in enumerate(rows, 1) if any(row)]


def _check_names(names: list[str], path: Path) -> None:
    if any(_number(name) is not None for name in names):
        raise ValueError(f"{path}: the first line must hold column names, got {', '.join(names[:5])}. Add a header.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: column '{twice[0]}' stands twice in the header. Rename one.")


def _column(cells: list[str]) -> np.ndarray:
    numbers = [_number(cell) for cell in cells]
    if any(number is None for number in numbers):
        return np.array(cells, dtype=object)
    return np.array(numbers, dtype=np.float64)


def classes(table: Table, target: str) -> tuple[np.ndarray, list[str]]:
    """Codes 0 ... k - 1 (n,) int64 of a class column, and the k classes in the order of their codes.

    0/1 and -1/+1 are two classes even where only one of them occurs, so that two heads are not two zeros.

    Raises:
        ValueError: For missing values, one class, and a column of measurements.
    """
    table.complete([target])
    column = table.columns[target]
    found = sorted(set(column.tolist()))
    for pair in ([0.0, 1.0], [-1.0, 1.0]):
        if set(found) <= set(pair):
            found = pair
    where = f"{table.source}: target '{target}'"
    if len(found) < 2:
        raise ValueError(f"{where} needs at least 2 classes, got only {found}. Add rows of another class.")
    text = column.dtype == object
    measured = not text and not np.equal(column, np.round(column)).all()
    # A year or a score is whole too; few rows a class give it away.
    if measured or len(found) > max(2, len(column) // (2 if text else 5)):
        raise ValueError(
            f"{where} has {len(found)} different values in {len(column)} rows, too many (or too uneven) for "
            "classes. Use a regression model (classify=False), or name another target."
        )
    code = {value: i for i, value in enumerate(found)}
    names = [value if isinstance(value, str) else f"{value:g}" for value in found]
    return np.array([code[value] for value in column.tolist()], dtype=np.int64), names
