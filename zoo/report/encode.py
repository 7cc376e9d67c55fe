"""Hyperparameters and settings as JSON and back: tuples, arrays, tensors and dtypes survive, code does not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    )
}


def dtype_name(value: Tensor) -> str:
    """A dtype's plain name, such as "float32"."""
    return str(value.dtype).removeprefix("torch.")


def encode(value: Any, where: str, *, strict: bool = True) -> Any:
    """A JSON-able form of numbers, strings, None, lists, tuples, dicts, arrays, tensors and dtypes.

    Args:
        value: What to encode.
        where: Its name, for the error.
        strict: Refuse other things; else keep their text, for settings that are only read by people.

    Raises:
        TypeError: For a function or another object that JSON can't hold.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: encode(v, f"{where}[{key!r}]", strict=strict) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [encode(v, f"{where}[{i}]", strict=strict) for i, v in enumerate(value)]
        return items if isinstance(value, list) else {"__tuple__": items}
    if isinstance(value, Tensor):
        numbers = value.detach().cpu().tolist()
        return {"__tensor__": numbers, "dtype": dtype_name(value), "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "fiub":
        return {"__array__": value.tolist(), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, torch.dtype):
        return {"__dtype__": str(value).removeprefix("torch.")}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if not strict:
        return str(value)
    raise TypeError(
        f"{where} is a {type(value).__name__}; files hold numbers, strings, tuples, lists, dicts, arrays, tensors. "
        "Name it by a string and look it up inside the model."
    )


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "__tuple__" in value:
        return tuple(decode(v) for v in value["__tuple__"])
    if "__tensor__" in value:
        return torch.tensor(value["__tensor__"], dtype=DTYPES[value["dtype"]]).reshape(value["shape"])
    if "__array__" in value:
        return np.array(value["__array__"], dtype=value["dtype"]).reshape(value["shape"])
    if "__dtype__" in value:
        return DTYPES[value["__dtype__"]]
    return {key: decode(v) for key, v in value.items()}


def to_json(value: Any) -> str:
    """One line of JSON; NaN and infinity as Python writes them."""
    return json.dumps(value, sort_keys=True)
