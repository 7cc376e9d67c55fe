"""Data of models that serve both a measured target and classes: sin(x) + x, or two half moons."""

from __future__ import annotations

from typing import Any

from zoo.core.problem import Data
from zoo.core.words import nearest

from . import labels, toy

KINDS = {"sin_x_plus_x": toy.sin_x_plus_x, "moons": toy.moons}


def generated(kind: str, seed: int, n: int) -> Data:
    """The generated set of that name.

    Raises:
        ValueError: For an unknown kind, with the nearest right one.
    """
    if kind not in KINDS:
        raise ValueError(nearest(str(kind), KINDS, "kind"))
    return KINDS[kind](seed, n)


def prepare(data: Data) -> Data:
    """Labels 0 ... k - 1 where `info` names classes, else measured targets in the dtype of x."""
    return labels.whole_numbers(data) if data.info.get("classes") else labels.real(data)


def complete(data: Data, hyper: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters with `classes` in them, as many as `info` names; 0 classes are a regression."""
    if not data.info.get("classes"):
        return hyper
    if hyper.get("classes") == 0:
        raise ValueError(f"classes=0 is a regression, the data have {len(data.info['classes'])} classes. Leave it out.")
    return labels.with_classes(data, hyper)
