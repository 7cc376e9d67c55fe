"""What a hyperparameter may be, said in one line; only Python's own values are looked at.

A tensor, traced or batched by vmap, is let through: to branch on its value would break the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor


def positive(name: str, value: Any) -> None:
    """ValueError for a number that is not positive and finite, and for what is no number."""
    if isinstance(value, Tensor):
        return
    try:
        size = float(value) if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) else math.nan
    except OverflowError:  # a whole number of 400 digits
        size = math.inf
    if not 0 < size < math.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}. Set {name}=0.5, say.")


def check_seed(seed: Any) -> int:
    """The seed as an int; ValueError for what is no whole number that torch's generators take."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}. Set seed=0, say.")
    return int(seed)


def _counts(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value > 0)


def whole(name: str, value: Any) -> int:
    """The value as an int; ValueError for what is no positive whole number."""
    if not _counts(value):
        raise ValueError(f"{name} must be a positive whole number, got {value!r}. Set {name}=2, say.")
    return int(value)


def widths(name: str, value: Any) -> tuple[int, ...]:
    """Layers' widths from one number or a sequence of them; () is no hidden layer.

    Raises:
        ValueError: For anything but positive whole numbers.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (whole(name, value),)
    if not all(map(_counts, value)):
        raise ValueError(f"{name} must hold positive whole numbers, got {value!r}. Set {name}=(50, 50), say.")
    return tuple(int(v) for v in value)


def switch(name: str, value: Any) -> None:
    """ValueError for anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}. Set {name}=True or {name}=False.")
