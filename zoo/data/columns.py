"""Columns of a table: numbers where every cell is one, text elsewhere; what is missing; which are classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .spelled import DECIMAL_COMMA, commas, dates_or_amounts

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


class Table(NamedTuple):
    """Named columns of equal length: float64 where every cell is a number (missing: NaN), else text.

    Args:
        columns: {name: (n,)}, text as an array of objects.
        source: What to call the table in messages.
        lines: The line of each row in its file; () for tables in memory.
    """

    columns: dict[str, np.ndarray]
    source: str
    lines: Sequence[int] = ()

    @property
    def names(self) -> list[str]:
        """The columns' names, in the file's order."""
        return list(self.columns)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """Where a row is found: its line in the file, or its number from 0."""
        return f"line {self.lines[row]}" if len(self.lines) else f"row {row}"

    def taking(self, rows: np.ndarray) -> Table:
        """The table's rows where `rows` (n,) is true."""
        lines = [line for line, kept in zip(self.lines, rows, strict=True) if kept] if len(self.lines) else ()
        return Table({name: column[rows] for name, column in self.columns.items()}, self.source, lines)

    def numbers(self, names: list[str], *, target: bool = False) -> np.ndarray:
        """Columns (n, len(names)) in float64; ValueError for text and for missing or infinite values."""
        for name in names:
            self.check_numbers(name, target=target)
        self.complete(names)
        return np.stack([self.columns[n] for n in names], 1) if names else np.empty((self.rows, 0))

    def check_numbers(self, name: str, *, target: bool = False) -> None:
        """ValueError that names a cell of text, if the column holds any; `target`: it is to be predicted."""
        column = self.columns[name]
        if column.dtype != object:
            return
        bad = [i for i, cell in enumerate(column) if number(cell) is None]
        where = f"{self.source}: column '{name}'"
        present = [cell for cell in column if not missing_text(cell)]
        if complaint := dates_or_amounts(name, present, target=target):
            raise ValueError(f"{where} {complaint}")
        if not bad:
            return
        if complaint := commas([column[i] for i in bad], self.place(bad[0])):
            raise ValueError(f"{where} {complaint}")
        few = "Correct them" if len(bad) < len(column) / 2 else "Code it as numbers or drop it"
        more = "; a class to predict may be text: classify=True" if target else ""
        raise ValueError(
            f"{where} holds text in {len(bad)} of {len(column)} rows ({self.place(bad[0])}: {column[bad[0]]!r}), only "
            f"numbers are allowed. {few}{more}."
        )

    def complete(self, names: list[str]) -> None:
        """ValueError that counts the missing and infinite values of these columns, if there are any."""
        bad = {name: int(missing(self.columns[name]).sum()) for name in names}
        if total := sum(bad.values()):
            rows = int(incomplete(self, names).sum())
            where = ", ".join(f"'{name}' ({count})" for name, count in bad.items() if count)
            if hollow := [name for name in names if hollow_column(self.columns[name])]:
                raise ValueError(
                    f"{self.source}: column '{hollow[0]}' holds no value in any of its {self.rows} rows. Leave it out: "
                    f"ignore='{hollow[0]}' (zoo run --ignore {hollow[0]}); a target must have values."
                )
            raise ValueError(
                f"{self.source} has {total} missing or infinite values, in columns {where}. Fill them in, or drop "
                f"the {rows} of {self.rows} rows that hold them: missing='drop' (zoo run --missing drop)."
            )


def missing(column: np.ndarray) -> np.ndarray:
    """Which cells of a column (n,) are missing or infinite."""
    if column.dtype == object:
        return np.array([cell.lower() in MISSING for cell in column], dtype=bool)
    return ~np.isfinite(column)


def hollow_column(column: np.ndarray) -> bool:
    """Whether no cell of a column (n,) holds anything; infinity is something."""
    gone = missing(column) if column.dtype == object else np.isnan(column)
    return bool(gone.all())


def missing_text(cell: str) -> bool:
    """Whether a cell of text stands for no value."""
    return cell.lower() in MISSING


def incomplete(table: Table, names: Iterable[str]) -> np.ndarray:
    """Which rows (n,) lack a value in one of the columns."""
    return np.logical_or.reduce([np.zeros(table.rows, dtype=bool), *(missing(table.columns[n]) for n in names)])


def number(cell: str) -> float | None:
    """The cell as a number, NaN where it is missing, None where it is text."""
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000 as a number
    except ValueError:
        return None


def parsed(cells: list[str], decimal: str = ".") -> np.ndarray:
    """A column (n,): float64 where every cell is a number, else the cells."""
    points = [c.replace(",", ".") if DECIMAL_COMMA.fullmatch(c) else c for c in cells] if decimal == "," else cells
    numbers = [number(cell) for cell in points]
    if any(value is None for value in numbers):
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
        if complaint := dates_or_amounts(target, found if text else [], target=True):
            raise ValueError(f"{where} {complaint}")
        raise ValueError(
            f"{where} has {len(found)} different values in {len(column)} rows, too many (or too uneven) for "
            "classes. Use a regression model such as linear_regression (classify=False), or name another target."
        )
    code = {value: i for i, value in enumerate(found)}
    return np.array([code[value] for value in column.tolist()], dtype=np.int64), [named(value) for value in found]


def named(value: str | float) -> str:
    """A class's name: a number in full, without needless digits."""
    return value if isinstance(value, str) else f"{int(value)}" if value == int(value) else f"{value:.17g}"
