"""Targets in the form the models expect: 0/1 for two classes, numbers in the dtype of x for regression."""

from __future__ import annotations

import dataclasses
import logging

import torch
from torch import Tensor

from zoo.core.problem import Data

log = logging.getLogger("zoo")


def binary(data: Data) -> Data:
    """The same data with labels 0/1 in the dtype of x; -1/+1 (as Thome writes them) is mapped, and said.

        0/1 stays;  y -> (y + 1) / 2 for -1/+1

    Args:
        data: y and y_test (n,) of any dtype, or None.

    Raises:
        ValueError: For any other coding, naming it.
    """
    found = sorted({v for y in (data.y, data.y_test) if y is not None for v in _values(y)})
    signed = -1.0 in found
    if not set(found) <= ({-1.0, 1.0} if signed else {0.0, 1.0}):
        shown = ", ".join(f"{v:g}" for v in found[:5]) + (", ..." if len(found) > 5 else "")
        coded = all(v == round(v) for v in found)
        advice = "Recode them: y = (y == positive class)." if coded else "Load a table with classify=True."
        raise ValueError(f"labels must be 0/1 or -1/+1, got {len(found)} different values: {shown}. {advice}")
    if signed:
        log.info("labels -1/+1 are read as 0/1")

    def recoded(y: Tensor | None) -> Tensor | None:
        return None if y is None else ((y.to(data.x) + 1) / 2 if signed else y.to(data.x))

    return dataclasses.replace(data, y=recoded(data.y), y_test=recoded(data.y_test))


def real(data: Data) -> Data:
    """The same data with y and y_test in the dtype of x.

    Raises:
        ValueError: For class labels, whose codes are no measurements.
    """
    if classes := data.info.get("classes"):
        raise ValueError(
            f"a regression needs a measured target, got the classes {', '.join(map(str, classes[:5]))}. "
            "Use logistic_regression, or name another target column."
        )
    y, y_test = (None if y is None else y.to(data.x) for y in (data.y, data.y_test))
    return dataclasses.replace(data, y=y, y_test=y_test)


def _values(y: Tensor) -> list[float]:
    if y.dim() != 1:
        raise ValueError(
            f"labels must be (n,), one class a row, got {tuple(y.shape)}. One-hot rows: take y.argmax(-1)."
        )
    return [float(v) for v in torch.unique(y.to(torch.float64))]
