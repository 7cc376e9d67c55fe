"""What an option of a guide may be, said in one line when the guide is made and not when it first runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def positive(name: str, value: Any, advice: str) -> None:
    """ValueError for a number that is not positive and finite, and for what is no number."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    number = isinstance(plain, (int, float)) and not isinstance(plain, bool)
    if not number or not 0 < plain < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}. {advice}")


def names(what: str, value: Any) -> tuple[str, ...]:
    """Names of sites as a tuple, also from a single one; ValueError for anything else."""
    each = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(name, str) for name in each):
        raise ValueError(f"{what} must be names of latent sites, got {value!r}. For example {what}=('w1',).")
    return each


def start(init: Any, otherwise: Any) -> Any:
    """Where a guide starts: `init`, or `otherwise` for None; ValueError for what is no function."""
    if init is not None and not callable(init):
        raise ValueError(f"init must be a function site -> value, got {init!r}. Try Pyro's init_to_median.")
    return otherwise if init is None else init
