"""Fits of equal numbers whose y is in other units: the hash of the data does not see it, and no length agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.core import units
from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from .gold import Gold

# y_loc and y_scale of the same table, worked out in float32 and in float64, differ by rounding.
ROUNDING = 1e-5


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the tables of `compare` have them: a number after those that occur again."""
    return tuple(f"{n} {names[: i + 1].count(n)}" if n in names[:i] else n for i, n in enumerate(names))


def y_units(problem_data: Any, family: str) -> list[Any]:
    """[y_loc, y_scale] as plain numbers or lists; [0, 1] where predictions are left as they are.

    Args:
        problem_data: The problem's data.
        family: Of y's distribution.
    """
    found = units.of(problem_data, family)
    return [0.0, 1.0] if found is None else [to_numpy(value).tolist() for value in (found.loc, found.scale)]


def units_apart(fits: Sequence[Posterior], gold: Gold | None = None, names: Sequence[str] = ()) -> str:
    """What to say where y of two of the fits, or of a fit and gold, is in other units; "" where all agree.

    Args:
        fits: Fits of data of equal numbers.
        gold: A gold file; one without word of its units agrees with all.
        names: What the fits are called; their methods where not given.
    """
    known = [(name, _of(fit)) for name, fit in zip(names or numbered([f.method for f in fits]), fits, strict=True)]
    if gold is not None and "y_units" in gold.facts["data"]:
        known.insert(0, ("gold", gold.facts["data"]["y_units"]))
    for name, own in known[1:]:
        first, right = known[0]
        if not _agree(own, right):
            return (
                f"y of {first} has y_loc {_text(right[0])} and y_scale {_text(right[1])}, y of {name} has y_loc "
                f"{_text(own[0])} and y_scale {_text(own[1])}: equal numbers in other units, so no length agrees. "
                "Run both on one problem, with one info."
            )
    return ""


def _of(fit: Posterior) -> list[Any]:
    data = fit.problem.data
    if not isinstance(data, Data) or not {"y_loc", "y_scale"} & set(data.info):
        return [0.0, 1.0]  # without a trace of the model
    return y_units(data, layout(fit).family)


def _agree(a: list[Any], b: list[Any]) -> bool:
    arrays: list[NDArray[np.float64]] = [np.asarray(value, dtype=np.float64) for value in (*a, *b)]
    try:
        loc, scale, other_loc, other_scale = np.broadcast_arrays(*arrays)
    except ValueError:
        return False
    near = np.abs(loc - other_loc) <= ROUNDING * np.minimum(scale, other_scale) + 1e-6 * np.abs(loc)
    return bool(near.all() and np.allclose(scale, other_scale, rtol=ROUNDING, atol=0.0))


def _text(value: Any) -> str:
    return str([float(f"{v:.6g}") for v in value]) if isinstance(value, list) else f"{value:.6g}"
