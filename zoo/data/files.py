"""Tables from outside: CSV and TSV files, Parquet files, pandas DataFrames, dicts of columns."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .bundled import BUNDLED
from .columns import Table, number, parsed
from .spelled import POINTS
from .uci import SETS

LONGEST = 200
PARQUET = {".parquet", ".pq"}
ARRAYS = {".npy", ".npz"}  # of images
OTHER = {".xls", ".xlsx", ".ods", ".feather", ".arrow", ".pkl", ".json", ".gz", ".zip"}


def is_frame(value: Any) -> bool:
    """Whether this is a pandas DataFrame; pandas is not imported for the question."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def is_table(value: Any) -> bool:
    """Whether this names or holds a table: a path, a DataFrame or a dict of columns."""
    return isinstance(value, (str, os.PathLike, dict)) or is_frame(value)


def is_images(value: Any) -> bool:
    """Whether this is the path of images: a folder, a numpy file or an idx file. A data set's name is none."""
    if not isinstance(value, (str, os.PathLike)) or str(value) in {*BUNDLED, *(f"uci/{name}" for name in SETS)}:
        return False
    path = Path(value)
    return path.suffix.lower() in ARRAYS or "ubyte" in path.name or os.path.isdir(path)


def read(source: Any, *, decimal: str = ".", text: Collection[str] = ()) -> Table:
    """A table.

    Args:
        source: The path of a file (.parquet and .pq: Parquet; else text whose first line names the columns, with
            commas, semicolons, tabs or bars between them), a pandas DataFrame, or {name: column}.
        decimal: "." or ",", what stands before the decimals in a text file.
        text: Columns to leave as text, also where every cell is a number.

    Raises:
        ValueError: In one line, for what can't be read: see `tests/test_tables_files.py` for the list.
    """
    if decimal not in (".", ","):
        raise ValueError(f"decimal must be '.' or ',', got {decimal!r}.")
    if isinstance(source, dict):
        return _from_dict(source, text)
    if is_frame(source):
        return _from_frame(source, "the DataFrame", text)
    path = Path(source)
    if path.suffix.lower() in PARQUET:
        return _from_frame(_parquet(path), str(path), text)
    if path.suffix.lower() in OTHER:
        raise ValueError(f"{path} is no text table. Save it as CSV or Parquet, or give the DataFrame itself as data.")
    return _from_text(path, decimal, text)


def _from_text(path: Path, decimal: str, text: Collection[str]) -> Table:
    lines = _lines(path, decimal)
    if not lines:
        raise ValueError(f"{path} is empty. Its first line must name the columns, separated by commas.")
    names = [cell.strip() for cell in lines[0][1]]
    if any(_is_number(name) for name in names):
        raise ValueError(
            f"{path}: the first line must hold column names, got {', '.join(names[:5])}. Add a header, or "
            "rename columns that are numbers."
        )
    for line, row in lines[1:]:
        if len(row) != len(names):
            raise ValueError(
                f"{path}: line {line} has {len(row)} fields, the header {len(names)}. Give every line one field a "
                "column, quoted where the text holds the delimiter; with decimal commas separate by semicolons."
            )
    cells = {i: [row[i].strip() for _, row in lines[1:]] for i in range(len(names))}
    _check_names(names, {i: column for i, column in cells.items() if not names[i]}, str(path))
    if decimal == ",":
        for i, name in enumerate(names):
            _check_points(cells[i], [line for line, _ in lines[1:]], f"{path}: column '{name}'")
    columns = {name: _column(cells[i], decimal, name in text) for i, name in enumerate(names)}
    return Table(columns, str(path), [line for line, _ in lines[1:]])


def _is_number(name: str) -> bool:
    """Whether a column's name is a number; Na (sodium) and inf are names like others."""
    value = number(name) if name else None
    return value is not None and math.isfinite(value)


def _check_points(cells: list[str], lines: list[int], where: str) -> None:
    """ValueError for points in numbers whose decimals are commas: 1.234 would be read as little more than 1."""
    pointed = [i for i, cell in enumerate(cells) if "." in cell]
    if pointed and all(number(cell.replace(",", ".", 1)) is not None or POINTS.fullmatch(cell) for cell in cells):
        raise ValueError(
            f"{where} holds points (line {lines[pointed[0]]}: {cells[pointed[0]]!r}) though decimals are commas "
            "(decimal=','). Write it without points between thousands, or read it with decimal='.'."
        )


def _column(cells: list[str], decimal: str, text: bool) -> np.ndarray:
    return np.array(cells, dtype=object) if text else parsed(cells, decimal)


def _lines(path: Path, decimal: str) -> list[tuple[int, list[str]]]:
    """The lines that are not blank, each with its number, cut into cells."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise ValueError(f"{path} is not UTF-8 text ({byte}). Save it as 'CSV UTF-8' and load it again.") from None
    if "\0" in text:
        raise ValueError(f"{path} is no text (it holds zero bytes). Save the table as 'CSV UTF-8' and load it again.")
    header = text.lstrip("\n").partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(";\t|" if decimal == "," else ",;\t|", key=header.count)
    try:
        # Lines as they stand: a quoted cell may hold a line break.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(
            f"{path} can't be read as CSV: {error}. Check its quotes: one that is never closed swallows the rest."
        ) from None
    return [(line, row) for line, row in rows if any(cell.strip() for cell in row)]


def _check_names(names: list[str], unnamed: Mapping[int, Any], source: str) -> None:
    """ValueError for a name used twice, and for columns without one; `unnamed` holds the latter's cells."""
    for place, cells in unnamed.items():
        counts = parsed([str(cell) for cell in cells])
        index = place == 0 and counts.dtype != object and len(counts) and (np.diff(counts) == 1).all()
        if index and counts[0] in (0, 1):
            raise ValueError(
                f"{source}: the first column has no name and counts the rows: the index of a DataFrame. "
                "Write the file with index=False: frame.to_csv(path, index=False)."
            )
        raise ValueError(f"{source}: column {place + 1} has no name. Name it in the first line, or remove it.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{source}: column '{twice[0]}' stands twice in the header. Rename one.")


def _parquet(path: Path) -> Any:
    try:
        import pandas as pd

        return pd.read_parquet(path)
    except ImportError as error:
        package = "pyarrow" if (error.name or "pyarrow") not in ("pandas",) else "pandas"
        raise ValueError(f"reading {path} needs the package {package}. Install it: pip install {package}.") from None
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise _unreadable(path, error) from None
    except Exception as error:  # the reader's own errors have no common base
        words = " ".join(str(error).split())[:200].rstrip(".")
        raise ValueError(f"{path} can't be read as Parquet ({words}). Write it again: frame.to_parquet.") from None


def _unreadable(path: Path, error: OSError) -> ValueError:
    shown = str(path) if len(str(path)) < LONGEST else f"{str(path)[:LONGEST]}..."
    reason = (error.strerror or str(error)).lower()
    return ValueError(f"{shown} can't be read: {reason}. Give the path of a CSV, TSV or Parquet file.")


def _from_frame(frame: Any, source: str, text: Collection[str]) -> Table:
    names = [str(name) for name in frame.columns]
    index = {i: frame.iloc[:, i] for i, name in enumerate(names) if name.startswith("Unnamed: ") or not name.strip()}
    _check_names(names, index, source)
    return Table({name: _series(frame.iloc[:, i], name in text) for i, name in enumerate(names)}, source)


def _series(series: Any, text: bool) -> np.ndarray:
    """A column of a DataFrame: numbers as float64, truth values and everything else as text."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf" and not text:
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    gone = series.isna().tolist()
    cells = ["" if lost else _cell(value) for value, lost in zip(series.tolist(), gone, strict=True)]
    return np.array(cells, dtype=object) if text or kind in "bM" else parsed(cells)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.17g}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value).strip()


def _from_dict(source: dict[Any, Any], text: Collection[str]) -> Table:
    columns = {}
    if not source:
        raise ValueError("a dict of columns needs at least one, got none. Give {name: values, one a row}.")
    for name, values in source.items():
        try:
            array = np.atleast_1d(np.asarray(values))
            shown = f"shape {array.shape}"
        except (ValueError, TypeError):  # lists of lists of unequal length
            array, shown = np.empty((0, 0)), "lists of unequal length"
        if array.ndim != 1:
            raise ValueError(f"column '{name}' must be a list of values, one a row, got {shown}. Give each a column.")
        plain = array.dtype.kind in "iuf" and name not in text
        cells = ["" if value is None or value != value else _cell(value) for value in array.tolist()]
        as_text = name in text or array.dtype.kind == "b"
        columns[str(name)] = array.astype(np.float64) if plain else _column(cells, ".", as_text)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"a dict of columns needs columns of equal length, got {lengths}. Give each one value a row.")
    return Table(columns, "the dict of columns")
