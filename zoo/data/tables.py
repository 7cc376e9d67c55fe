"""Tables as data: scikit-learn's bundled sets by name, or any CSV file with a header."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.core.problem import Data
from zoo.core.words import nearest

from .columns import Table, classes, read

log = logging.getLogger("zoo")
Info = dict[str, Any]

# name: (what the target is called, whether it is a class)
BUNDLED = {
    "diabetes": ("progression", False),
    "breast_cancer": ("class", True),
    "iris": ("class", True),
    "wine": ("class", True),
    "digits": ("class", True),
}


def load(
    name_or_path: str | os.PathLike[str],
    target: str | None = None,
    *,
    classify: bool = False,
    test: float = 0.2,
    seed: int = 0,
) -> Data:
    """A table, split by `seed` and standardised.

        x -> (x - mean) / sd,  y likewise unless it is a class;  mean and population sd of the train rows

    Computed in float64, returned in float32. A class becomes 0 ... k - 1 in the order of `info["classes"]`.

    Args:
        name_or_path: diabetes, breast_cancer, iris, wine, digits; or a CSV file whose first line names its
            columns, all of them numbers (the target may be text if it is a class).
        target: The column to predict; None: the last one.
        classify: The target is a class. A bundled set knows this of its own target.
        test: Share of the rows held out, 0 <= test < 1.
        seed: Of the split.

    Returns:
        `Data` whose info holds x_names, y_name, classes, source, and what undoes the standardising: x_loc,
        x_scale (lists), y_loc, y_scale.

    Raises:
        ValueError: In one line, for what cannot be used: missing or infinite values, text, numbers beyond
            float32, a constant column (a bundled set's constant columns are left out instead, and said), fewer
            than 2 rows.
    """
    table, bundled = _table(name_or_path)
    target = table.names[-1] if target is None else target
    if target not in table.names:
        raise ValueError(f"{table.source}: {nearest(target, table.names, 'column')}")
    if bundled and target == BUNDLED[str(name_or_path)][0]:
        classify = classify or BUNDLED[str(name_or_path)][1]
    names = [name for name in table.names if name != target]
    train, held_out = _split(len(table.columns[target]), test, seed, table.source)
    x, info = _inputs(table, names, train, drop=bundled)
    y, y_info = _labels(table, target) if classify else _measurements(table, target, train)
    info |= {"y_name": target, "source": table.source, **y_info}
    if len(held_out) == 0:
        return Data(x[train], y[train], info=info)
    return Data(x[train], y[train], x[held_out], y[held_out], info=info)


def _table(name_or_path: str | os.PathLike[str]) -> tuple[Table, bool]:
    """The table, and whether it is a bundled one."""
    if str(name_or_path) in BUNDLED:
        return _bundled(str(name_or_path)), True
    path = Path(name_or_path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}, and {nearest(str(path), BUNDLED, 'bundled set')}")
    return read(path), False


def _bundled(name: str) -> Table:
    from sklearn import datasets

    options = {"scaled": False} if name == "diabetes" else {}
    bunch = getattr(datasets, f"load_{name}")(**options)
    columns = {str(n): bunch.data[:, i].astype(np.float64) for i, n in enumerate(bunch.feature_names)}
    target, is_class = BUNDLED[name]
    named = is_class and name != "digits"  # a digit's name is its number
    columns[target] = bunch.target_names[bunch.target].astype(object) if named else bunch.target.astype(np.float64)
    return Table(columns, f"scikit-learn {name}")


def _split(n: int, test: float, seed: int, source: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Row numbers to train on and to hold out."""
    if n < 2:
        raise ValueError(f"{source} needs at least 2 rows, got {n}. Add rows.")
    if not 0 <= test < 1 or n - round(test * n) < 2:
        raise ValueError(f"test must be a share that leaves at least 2 of the {n} rows to train on, got {test}.")
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    kept = n - round(test * n)
    return order[:kept], order[kept:]


def constant(x: np.ndarray) -> np.ndarray:
    """Which columns of x (n, p) are constant: sd <= 1e-12 |mean|.

    Not sd == 0: rounding leaves an sd of about 1e-16 of the mean, which dividing would blow up to 1. A column
    of 1e8 +- 1 is no constant.
    """
    loc, scale = _moments(_near_one(x)[0])
    return scale <= 1e-12 * np.abs(loc)


def _near_one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of x (n, p) times the powers of two that bring them below 1, and the exponents taken out (p,)."""
    exponent = np.frexp(np.abs(x).max(0))[1]
    return np.ldexp(x, -exponent), exponent


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population sd of each column of x (n, p)."""
    return x.mean(0), x.std(0)


def _standardised(table: Table, names: list[str], x: np.ndarray, train: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(x - loc) / scale of all rows in float32, and loc and scale of the train rows (p,) in float64.

    Powers of two change no digit; without them the squares of 1e200 overflow and those of 1e-200 vanish.
    """
    near, exponent = _near_one(x[train.numpy()])
    loc, scale = (np.ldexp(moment, exponent) for moment in _moments(near))
    with np.errstate(all="ignore"):  # what does not fit is refused by name
        z = ((x - loc) / scale).astype(np.float32)
    limits = np.finfo(np.float32)
    fits = np.isfinite(z).all(0) & (limits.tiny <= scale) & (scale <= limits.max) & (np.abs(loc) <= limits.max)
    if not fits.all():
        which = ", ".join(f"'{name}'" for name, fit in zip(names, fits, strict=True) if not fit)
        raise ValueError(
            f"{table.source}: column {which} holds numbers too large or too small for float32 (1e-38 to 3e38). "
            "Give it in another unit, or correct its outliers."
        )
    return torch.from_numpy(z), torch.from_numpy(loc), torch.from_numpy(scale)


def _inputs(table: Table, names: list[str], train: torch.Tensor, *, drop: bool) -> tuple[torch.Tensor, Info]:
    """Standardised inputs of all rows, (n, p), and what undoes it."""
    x = table.numbers(names)
    flat = constant(x[train.numpy()])
    gone = [name for name, is_flat in zip(names, flat, strict=True) if is_flat]
    if gone and not drop:
        raise ValueError(_constant(table, gone, len(train)))
    if gone:
        log.info("%s: %d columns are constant and left out: %s", table.source, len(gone), ", ".join(gone))
    x, names = x[:, ~flat], [name for name in names if name not in gone]
    z, loc, scale = _standardised(table, names, x, train)
    return z, {"x_names": names, "x_loc": loc.tolist(), "x_scale": scale.tolist(), "x_dropped": gone}


def _measurements(table: Table, target: str, train: torch.Tensor) -> tuple[torch.Tensor, Info]:
    """Standardised targets of all rows, (n,), and what undoes it."""
    y = table.numbers([target])
    if constant(y[train.numpy()]).any():
        raise ValueError(_constant(table, [target], len(train)))
    z, loc, scale = _standardised(table, [target], y, train)
    return z[:, 0], {"y_loc": float(loc[0]), "y_scale": float(scale[0])}


def _labels(table: Table, target: str) -> tuple[torch.Tensor, Info]:
    codes, names = classes(table, target)
    return torch.from_numpy(codes), {"classes": names}


def _constant(table: Table, names: list[str], rows: int) -> str:
    which = ", ".join(f"'{name}'" for name in names)
    return (
        f"{table.source}: column {which} is constant in the {rows} training rows and cannot be standardised. "
        "Drop it, or choose another seed or a smaller test if it varies elsewhere."
    )
