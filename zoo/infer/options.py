"""Checks of the options that several methods share: what they are, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.core.checks import check_seed

# Whole numbers and the least of each; positive numbers; switches. None means the method's own choice.
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
POSITIVE = ("lr", "step_size", "max_seconds", "target_accept", "temperature")
SWITCHES = ("progress", "keep_warmup", "centre")


def plain_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the methods want them, checked.

    numpy's numbers become Python's, as they come out of loops over arrays; None stands for an option's default.

    Args:
        options: What was given, known names only.
        defaults: {name: default} of the method.

    Raises:
        ValueError: For a shared option of the wrong kind or size; others are the methods' own business.
    """
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    given = {name: value for name, value in plain.items() if value is not None or name == "seed"}
    check_options(given)
    numbers = {name: float(given[name]) for name in POSITIVE if name in given}
    return {name: defaults[name] for name in plain if name not in given and name in defaults} | given | numbers


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for a shared option of the wrong kind or size; others are the methods' own business."""
    for name, least in COUNTS.items():
        value = options.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}.{_advice(value)}")
    for name in POSITIVE:
        value = options.get(name)
        if value is not None and not _positive(value):
            raise ValueError(f"{name} must be a positive number, got {value!r}. Leave it out for the usual value.")
    for name in SWITCHES:
        value = options.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}. Leave it out for the usual choice.")
    check_seed(options.get("seed", 0))


def _advice(value: Any) -> str:
    """What to do about a number in the wrong wrapping."""
    if isinstance(value, str) and value.strip().isdigit():
        return f" Give the number itself: {int(value)}."
    return " Leave it out for the usual value."


def _positive(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:  # a whole number of 400 digits
        return False
