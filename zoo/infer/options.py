"""Checks of the options that several methods share: what they are, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Whole numbers and the least of each; positive numbers. None means the method's own choice.
COUNTS = {
    "draws": 1,
    "chains": 1,
    "restarts": 1,
    "steps": 1,
    "thin": 1,
    "particles": 1,
    "batch_size": 1,
    "warmup": 0,
    "rows": 0,
}
POSITIVE = ("lr", "step_size", "max_seconds", "target_accept")


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for a shared option of the wrong kind or size; others are the methods' own business."""
    for name, least in COUNTS.items():
        value = options.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}.")
    for name in POSITIVE:
        value = options.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0 or not math.isfinite(value):
            raise ValueError(f"{name} must be a positive number, got {value!r}. Leave it out for the usual value.")
    check_seed(options.get("seed", 0))


def check_seed(seed: Any) -> None:
    """Raises ValueError unless the seed is a whole number that torch's generators take."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}.")
