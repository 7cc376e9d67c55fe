"""Targets in the form the models expect: 0/1 for two classes, 0 ... k - 1 for more, numbers for regression."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

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
    found = _found(data)
    signed = -1.0 in found
    if not set(found) <= ({-1.0, 1.0} if signed else {0.0, 1.0}):
        names = [str(name) for name in data.info.get("classes") or ()]
        if len(names) > 2:
            raise ValueError(
                f"this model tells two classes apart, got the {len(names)} classes {', '.join(names[:5])}"
                f"{', ...' if len(names) > 5 else ''}. Use softmax_regression, or a target of two classes."
            )
        coded = all(v == round(v) for v in found)
        advice = "Recode them: y = (y == positive class)." if coded else "Load a table with classify=True."
        raise ValueError(f"labels must be 0/1 or -1/+1, got {_shown(found)}. {advice}")
    if signed:
        log.info("labels -1/+1 are read as 0/1")

    def recoded(y: Tensor | None) -> Tensor | None:
        return None if y is None else ((y.to(data.x) + 1) / 2 if signed else y.to(data.x))

    return dataclasses.replace(data, y=recoded(data.y), y_test=recoded(data.y_test))


def whole_numbers(data: Data, dims: int = 1) -> Data:
    """The same data with labels 0 ... k - 1 in int64; -1/+1 is read as 0/1, and said.

    Args:
        data: y and y_test (n,) of any dtype, or None.
        dims: Axes of y: 1, or 3 for a label a pixel, (n, height, width); those are never -1/+1.

    Raises:
        ValueError: For numbers that are no such codes, or past the classes that info names.
    """
    found = _found(data, dims)
    if -1.0 in found and dims == 1:
        data, found = binary(data), [0.0, 1.0]
    coded = all(v == round(v) and v >= 0 for v in found)
    named = len(data.info.get("classes") or ()) or math.inf
    if not coded or (found and found[-1] >= named):
        advice = (
            "Recode them: torch.unique(y, return_inverse=True)[1]." if len(found) < 50 else "Use a regression model."
        )
        raise ValueError(f"labels must be whole numbers 0 ... k - 1, got {_shown(found)}. {advice}")
    y, y_test = (None if y is None else y.to(torch.int64) for y in (data.y, data.y_test))
    return dataclasses.replace(data, y=y, y_test=y_test)


def with_classes(data: Data, hyper: dict[str, Any], dims: int = 1) -> dict[str, Any]:
    """The hyperparameters with `classes` in them: as many as info["classes"] names, else the largest label + 1.

    Args:
        data: With labels 0 ... k - 1; without labels and names the model's own default stays.
        hyper: Hyperparameters; classes given there may be more than were seen.
        dims: As for `whole_numbers`.

    Raises:
        ValueError: If fewer classes are given than the data hold, and for codes beyond the number of rows.
    """
    found = _found(data, dims)
    seen = len(data.info.get("classes") or ()) or (max(2, int(found[-1]) + 1) if found else 0)
    given = hyper.get("classes")
    if given is None and found and not data.info.get("classes") and seen > max(2, len(data.x)) and dims == 1:
        raise ValueError(
            f"labels must be codes 0 ... k - 1, got {_shown(found)}, in {len(data.x)} rows. "
            f"Recode them, or set classes={seen} if there are so many."
        )
    if isinstance(given, int) and 0 < given < seen:
        raise ValueError(f"classes must be at least the {seen} of the data, got {given}. Leave classes out.")
    return {"classes": seen, **hyper} if seen else hyper


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


def _found(data: Data, dims: int = 1) -> list[float]:
    """The different labels of y and y_test, in order."""
    return sorted({v for y in (data.y, data.y_test) if y is not None for v in _values(y, dims)})


def _shown(found: list[float]) -> str:
    shown = ", ".join(f"{v:g}" for v in found[:5]) + (", ..." if len(found) > 5 else "")
    return f"{len(found)} different values: {shown}"


def _values(y: Tensor, dims: int) -> list[float]:
    if y.dim() != dims:
        form = "(n,), one class a row" if dims == 1 else "(n, height, width), one class a pixel"
        raise ValueError(
            f"labels must be {form}, got {tuple(y.shape)}. One-hot {'rows' if dims == 1 else 'pixels'}: take "
            "y.argmax(-1)."
        )
    return [float(v) for v in torch.unique(y.to(torch.float64))]
