"""Tables as data: any CSV, TSV or Parquet file, a DataFrame, scikit-learn's bundled sets, UCI's benchmarks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.core.checks import check_seed, switch
from zoo.core.problem import Data
from zoo.core.words import nearest

from . import uci
from .bundled import BUNDLED, bundled
from .columns import Table, hollow_column, incomplete
from .files import is_frame, read
from .ready import Rows, ready

log = logging.getLogger("zoo")
UCI = "uci/"


def load(
    source: Any,
    target: str | Sequence[str] | None = None,
    *,
    classify: bool = False,
    test: float = 0.2,
    seed: int = 0,
    missing: str = "refuse",
    ignore: str | Sequence[str] = (),
    decimal: str = ".",
    split: int | None = 0,
) -> Data:
    """A table, split by `seed` and standardised.

        x -> (x - mean) / sd,  y likewise unless it is a class;  mean and population sd of the train rows

    Computed in float64, returned in float32. Columns of text and truth values become one-hot inputs named
    `color=red` (the first level has none, see `zoo.data.encode`), standardised like the others. A class becomes
    0 ... k - 1 in the order of `info["classes"]`. `Posterior.predict` takes raw rows and answers in original units.

    Args:
        source: A CSV, TSV or Parquet file; a pandas DataFrame; diabetes, linnerud, breast_cancer, iris, wine,
            digits (bundled); uci/boston, uci/concrete, uci/kin8nm, uci/protein, uci/yacht, uci/german_credit
            (see `zoo.data.uci`).
        target: The column to predict, or several to be measured; None: the last one (linnerud: its three).
        classify: The target is a class. A bundled set knows this of its own target.
        test: Share of the rows held out, 0 <= test < 1.
        seed: Of the split. UCI's sets have `split` instead.
        missing: "refuse", or "drop": rows without a value in a column that is used are left out, and counted.
        ignore: Columns to leave out.
        decimal: What stands before the decimals in a text file, "." or ",".
        split: Which of a UCI set's published splits; None: all rows train.

    Returns:
        `Data` whose info holds x_names, y_name, classes, source, what undoes the standardising (x_loc, x_scale,
        y_loc, y_scale) and what encodes new rows (columns).

    Raises:
        ValueError: In one line, for what cannot be used: missing or infinite values, dates, names of rows, text
            among numbers, numbers beyond float32, a constant column (a bundled set's constant columns are left
            out instead, and said), fewer than 2 rows.
    """
    if missing not in ("refuse", "drop"):
        raise ValueError(f"missing must be 'refuse' or 'drop', got {missing!r}. Leave it out to refuse.")
    switch("classify", classify)
    seed, target, ignore = check_seed(seed), _columns("target", target), _columns("ignore", ignore) or []
    if isinstance(source, str) and source.startswith(UCI):
        return _uci(source, split, target=target, test=test, missing=missing, ignore=ignore)
    table, is_bundled = _table(source, decimal)
    if split != 0:
        raise ValueError(
            f"split chooses one of the published splits of UCI's sets, got {split!r}; {table.source} is split by seed. "
            "Leave split out, and set seed."
        )
    targets = _targets(table, target, str(source) if is_bundled else "")
    classify = classify or (is_bundled and BUNDLED[str(source)] == (tuple(targets), True))
    table = _without(table, targets, ignore, BUNDLED[str(source)][0] if is_bundled else ())
    if missing == "drop":
        table = _complete(table)
    rows = split_rows(table.rows, test, seed, table.source)
    log.info("%s: %d rows to train on, %d held out", table.source, *map(len, rows))
    return ready(table, targets, rows, classify=classify, drop=is_bundled, decimal=decimal)


def names() -> list[str]:
    """The data sets that have a name: bundled ones, and UCI's below $ZOO_DATA."""
    return [*BUNDLED, *(UCI + name for name in uci.SETS)]


def _columns(what: str, given: Any) -> list[str] | None:
    """Columns by name: one, or several; a DataFrame's may be numbers. None: none were named."""
    if given is None:
        return None
    several = [given] if isinstance(given, (str, int)) else given
    wanted = f"{what} must be a column's name or a list of them, got {given!r}. Give {what}='name', say."
    if isinstance(several, Mapping) or not isinstance(several, Iterable) or isinstance(given, bool):
        raise ValueError(wanted)
    names = list(several)
    if not all(isinstance(name, (str, int)) for name in names):
        raise ValueError(wanted)
    if twice := sorted({str(name) for name in names if names.count(name) > 1}):
        raise ValueError(f"{what} names '{twice[0]}' twice, got {names}. Name each column once.")
    return [str(name) for name in names]


def _uci(source: str, split: int | None, **others: Any) -> Data:
    defaults: dict[str, Any] = {"target": None, "test": 0.2, "missing": "refuse", "ignore": []}
    if changed := [name for name, value in others.items() if value != defaults[name]]:
        raise ValueError(f"{source} is prepared as published and takes no {changed[0]}. Choose its split: split=0.")
    return uci.load(source.removeprefix(UCI), split)


def _table(source: Any, decimal: str) -> tuple[Table, bool]:
    """The table, and whether it is a bundled one."""
    if is_frame(source):
        return read(source), False
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a table is a file's path, a set's name or a DataFrame, got {type(source).__name__}.")
    if str(source) in BUNDLED:
        return bundled(str(source)), True
    path = Path(source)
    if not os.path.isfile(path):  # where Path.is_file raises for a name that is too long
        raise ValueError(f"there is no file {path}, and {nearest(str(path), names(), 'data set')}")
    return read(path, decimal=decimal), False


def _targets(table: Table, target: Sequence[str] | None, own: str) -> list[str]:
    """The target columns; by default a bundled set's own, else the last one."""
    if target is None:
        return list(BUNDLED[own][0]) if own else table.names[-1:]
    targets = list(target)
    if not targets:
        raise ValueError("target must name a column, got none. Leave it out for the last one.")
    for name in targets:
        if name not in table.names:
            raise ValueError(f"{table.source}: {nearest(str(name), table.names, 'column')}")
    return targets


def _without(table: Table, targets: list[str], ignore: Sequence[str], siblings: Sequence[str]) -> Table:
    """The table without the columns to ignore, and without a bundled set's other targets."""
    gone = list(ignore)
    for name in gone:
        if name not in table.names:
            raise ValueError(f"{table.source}: ignore: {nearest(str(name), table.names, 'column')}")
        if name in targets:
            raise ValueError(
                f"{table.source}: column '{name}' is the target and can't be ignored. Name another target."
            )
    gone += [name for name in siblings if name not in targets]
    return table._replace(columns={name: column for name, column in table.columns.items() if name not in gone})


def _complete(table: Table) -> Table:
    hollow = [name for name in table.names if hollow_column(table.columns[name])]
    if hollow and table.rows:
        raise ValueError(
            f"{table.source}: column '{hollow[0]}' holds no value in any of its {table.rows} rows, so that none "
            f"would be left. Leave it out: ignore='{hollow[0]}' (zoo run --ignore {hollow[0]})."
        )
    lost = incomplete(table, table.names)
    if lost.any():
        log.info("%s: %d of %d rows lack a value and are left out", table.source, int(lost.sum()), table.rows)
    return table.taking(~lost)


def split_rows(n: int, test: float, seed: int, source: str) -> tuple[Rows, Rows]:
    """Row numbers to train on and to hold out."""
    if n < 2:
        raise ValueError(f"{source} needs at least 2 rows, got {n}. Add rows.")
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 <= test < 1 or n - round(test * n) < 2:
        raise ValueError(
            f"test must be a share that leaves at least 2 of the {n} rows to train on, got {test!r}. Set test=0.2, say."
        )
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy().astype(np.int64)
    kept = n - round(test * n)
    return order[:kept], order[kept:]
