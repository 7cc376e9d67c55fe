"""Standardising: (x - mean) / sd in float64, returned in float32, with what undoes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def constant(x: Array) -> NDArray[np.bool_]:
    """Which columns of x (n, p) are constant: sd <= 1e-12 |mean|.

    Not sd == 0: rounding leaves an sd of about 1e-16 of the mean, which dividing would blow up to 1. A column
    of 1e8 +- 1 is no constant.
    """
    near = _near_one(x)[0]
    return np.asarray(near.std(0) <= 1e-12 * np.abs(near.mean(0)))


def _near_one(x: Array) -> tuple[Array, NDArray[np.int32]]:
    """Columns of x (n, p) times the powers of two that bring them below 1, and the exponents taken out (p,)."""
    exponent = np.frexp(np.abs(x).max(0))[1]
    return np.ldexp(x, -exponent), exponent


def standardised(x: Array, train: NDArray[np.int64], names: list[str], source: str) -> tuple[NDArray[np.float32], ...]:
    """(x - loc) / scale of all rows in float32, and loc and scale of the train rows (p,) in float64.

    Powers of two change no digit; without them the squares of 1e200 overflow and those of 1e-200 vanish.

    Args:
        x: (n, p).
        train: Row numbers whose mean and population sd are taken.
        names: Of the p columns.
        source: What to call the table.

    Raises:
        ValueError: For numbers that float32 can't hold, by the column's name.
    """
    near, exponent = _near_one(x[train])
    loc, scale = (np.ldexp(moment, exponent) for moment in (near.mean(0), near.std(0)))
    with np.errstate(all="ignore"):  # what does not fit is refused by name
        z = ((x - loc) / scale).astype(np.float32)
    limits = np.finfo(np.float32)
    fits = np.isfinite(z).all(0) & (limits.tiny <= scale) & (scale <= limits.max) & (np.abs(loc) <= limits.max)
    if not fits.all():
        which = ", ".join(f"'{name}'" for name, fit in zip(names, fits, strict=True) if not fit)
        raise ValueError(
            f"{source}: column {which} holds numbers too large or too small for float32 (1e-38 to 3e38). "
            "Give it in another unit, or correct its outliers."
        )
    return z, loc, scale


def refuse_constant(names: list[str], rows: int, source: str) -> None:
    """ValueError that names the constant columns."""
    which = ", ".join(f"'{name}'" for name in names)
    raise ValueError(
        f"{source}: column {which} is constant, to 12 digits, in the {rows} training rows and cannot be standardised. "
        "Drop it, or choose another seed or a smaller test if it varies elsewhere."
    )
