"""From a table to `Data`: encoded, split and standardised with the training rows; and new rows in the same way."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.problem import Data
from zoo.core.words import nearest

from .columns import Table, classes, missing, named
from .encode import Column, described, encoded, plan
from .files import read
from .standard import constant, refuse_constant, standardised

log = logging.getLogger("zoo")
Rows = NDArray[np.int64]
Info = dict[str, Any]


def ready(
    table: Table, targets: list[str], rows: tuple[Rows, Rows], *, classify: bool, drop: bool, decimal: str = "."
) -> Data:
    """`Data` of a table: x of all columns but the targets, y of the targets.

    Args:
        table: Complete in the columns that are used.
        targets: One column, or several to be measured.
        rows: Row numbers to train on and to hold out.
        classify: The target is a class.
        drop: Leave constant columns out, and say so, where they would be refused else.
        decimal: What stood before the decimals in the table's text; new rows' files are read like it.

    Raises:
        ValueError: In one line, for columns that can't be used.
    """
    train, held_out = rows
    names = [name for name in table.names if name not in targets]
    x, info = _inputs(table, names, train, drop)
    y, y_info = _labels(table, targets) if classify else _measurements(table, targets, train)
    info |= {"y_name": targets[0] if len(targets) == 1 else targets, "source": table.source, **y_info}
    info |= {"decimal": decimal} if decimal != "." else {}
    if len(held_out) == 0:
        return Data(x[train], y[train], info=info)
    return Data(x[train], y[train], x[held_out], y[held_out], info=info)


def _inputs(table: Table, names: list[str], train: Rows, drop: bool) -> tuple[Tensor, Info]:
    """Standardised inputs of all rows, (n, p), and what undoes it."""
    columns = plan(table, names)
    _check_levels(table, columns, train)
    x = encoded(table, columns)
    labels = [label for column in columns for label in column.inputs]
    _check_distinct(labels, table.source)
    flat = constant(x[train])
    gone = [name for name, is_flat in zip(labels, flat, strict=True) if is_flat]
    if gone and not drop:
        refuse_constant(gone, len(train), table.source)
    if gone:
        log.info("%s: %d columns are constant and left out: %s", table.source, len(gone), ", ".join(gone))
        columns = [column for column in columns if column.name not in gone]
    x, labels = x[:, ~flat], [label for label in labels if label not in gone]
    z, loc, scale = standardised(x, train, labels, table.source)
    info = {"x_names": labels, "x_loc": loc.tolist(), "x_scale": scale.tolist(), "x_dropped": gone}
    return torch.from_numpy(z), info | {"columns": described(columns)}


def _check_distinct(labels: list[str], source: str) -> None:
    """ValueError for inputs of one name: a column color=red beside a column color."""
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ValueError(
            f"{source}: two columns become an input named '{twice[0]}', one of them as a level of "
            f"'{twice[0].partition('=')[0]}'. Rename one."
        )


def _check_levels(table: Table, columns: list[Column], train: Rows) -> None:
    """ValueError for a level that no training row has: nothing could be learned of it."""
    for name, levels in columns:
        if levels is None:
            continue
        if lost := sorted(set(levels) - set(table.columns[name][train])):
            raise ValueError(
                f"{table.source}: column '{name}' holds {lost[0]!r} in held-out rows only, so that nothing can be "
                "learned of it. Join rare levels, or choose another seed or a smaller test."
            )


def _measurements(table: Table, targets: list[str], train: Rows) -> tuple[Tensor, Info]:
    """Standardised targets of all rows, (n,) or (n, k), and what undoes it."""
    y = table.numbers(targets, target=True)
    flat = constant(y[train])
    if flat.any():
        refuse_constant(
            [name for name, is_flat in zip(targets, flat, strict=True) if is_flat], len(train), table.source
        )
    z, loc, scale = standardised(y, train, targets, table.source)
    if len(targets) == 1:
        return torch.from_numpy(z[:, 0]), {"y_loc": float(loc[0]), "y_scale": float(scale[0])}
    return torch.from_numpy(z), {"y_loc": loc.tolist(), "y_scale": scale.tolist()}


def _labels(table: Table, targets: list[str]) -> tuple[Tensor, Info]:
    if len(targets) > 1:
        raise ValueError(f"a class is one column, got the targets {', '.join(targets)}. Name one.")
    codes, found = classes(table, targets[0])
    return torch.from_numpy(codes), {"classes": found}


def new_inputs(data: Data, source: Any) -> Tensor:
    """x (m, p) of raw rows in original units, as the training table's rows became x.

    Args:
        data: Made of a table.
        source: A file, a DataFrame or a dict of columns; columns that the training table's inputs lack are ignored.

    Raises:
        ValueError: For data that are not of a table, missing columns, unknown levels, missing values.
    """
    x, _ = new_rows(data, source, targets=False)
    return x


def new_rows(data: Data, source: Any, *, targets: bool = True) -> tuple[Tensor, Tensor | None]:
    """x (m, p) and, where `targets`, y (m,) or (m, k) of raw rows, as the training table's."""
    info = data.info
    if "columns" not in info:
        raise ValueError(
            f"x is a table ({type(source).__name__}), but the problem's data did not come from one. Give a tensor "
            f"(m, {', '.join(map(str, data.x.shape[1:]))}), prepared as the training inputs were."
        )
    columns = [Column(spec["name"], spec.get("levels")) for spec in info["columns"]]
    names = info["y_name"] if isinstance(info["y_name"], list) else [info["y_name"]]
    text = [column.name for column in columns if column.levels is not None]
    text += [n for n in names if _text_classes(info)]
    table = read(source, decimal=info.get("decimal", "."), text=text)
    _check_complete(table, [column.name for column in columns] + (names if targets else []))
    loc, scale = (np.array(info[name], dtype=np.float64) for name in ("x_loc", "x_scale"))
    kept = [label in info["x_names"] for column in columns for label in column.inputs]
    x = torch.from_numpy((encoded(table, columns)[:, kept] - loc) / scale).to(data.x)
    return x, _new_targets(data, table, names) if targets else None


def _check_complete(table: Table, names: list[str]) -> None:
    """ValueError for new rows that lack a value, or that there are none of."""
    if table.rows == 0:
        raise ValueError(f"{table.source} must have at least one row, got none. Give the rows to predict.")
    lost = {name: int(missing(table.columns[name]).sum()) for name in names if name in table.columns}
    if total := sum(lost.values()):
        where = ", ".join(f"'{name}' ({count})" for name, count in lost.items() if count)
        raise ValueError(
            f"{table.source} has {total} missing or infinite values, in columns {where}. Fill them in, or leave those "
            "rows out."
        )


def _text_classes(info: Info) -> bool:
    """Whether classes are text, so that a column of them is not to be read as numbers."""
    return any(named_number(name) is None for name in info.get("classes", ()))


def named_number(name: str) -> float | None:
    """The number that a class's name stands for, or None."""
    try:
        return float(name)
    except ValueError:
        return None


def _new_targets(data: Data, table: Table, names: list[str]) -> Tensor:
    info, like = data.info, data.y if data.y is not None else data.x
    if lost := next((name for name in names if name not in table.columns), None):
        raise ValueError(f"{table.source} lacks the target: {nearest(lost, table.names, 'column')}")
    if known := info.get("classes"):
        table.complete(names)
        found = [named(value) for value in table.columns[names[0]].tolist()]
        if other := next((name for name in found if name not in known), None):
            raise ValueError(f"{table.source}: class {other!r} is not one of the training table's: {', '.join(known)}.")
        return torch.tensor([known.index(name) for name in found]).to(like)
    y = (table.numbers(names, target=True) - np.array(info["y_loc"])) / np.array(info["y_scale"])
    return torch.from_numpy(y[:, 0] if isinstance(info["y_loc"], float) else y).to(like)
