"""`freeze` and `thaw`: nested values with tensors in them as one JSON-able value and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

Arrays = dict[str, Any]
MARKS = ("__array__", "__tuple__", "__dtype__")


def freeze(value: Any, strict: bool = True) -> tuple[Any, Arrays]:
    """A JSON-able form of a value, with the arrays that its tensors are.

    A NamedTuple becomes a dict of its fields, a set a sorted list; whoever thaws knows what they were.

    Args:
        value: Numbers, strings, None, lists, tuples, NamedTuples, sets, dicts with names as keys, tensors, arrays
            and dtypes, in each other.
        strict: Refuse other things; else keep their text.

    Raises:
        TypeError: For what neither JSON nor an array can hold.
    """
    arrays: Arrays = {}
    return _frozen(value, arrays, strict), arrays


def _frozen(value: Any, arrays: Arrays, strict: bool) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.dtype):
        return {"__dtype__": str(value).removeprefix("torch.")}
    if isinstance(value, (Tensor, np.ndarray)):
        return _array(value, arrays)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping) and all(isinstance(key, str) and key not in MARKS for key in value):
        return {key: _frozen(item, arrays, strict) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [
            _frozen(item, arrays, strict) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)
        ]
        return {"__tuple__": items} if isinstance(value, tuple) else items
    if not strict:
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be written to a file")


def _array(value: Any, arrays: Arrays) -> dict[str, str]:
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    if array.dtype.hasobject:
        raise TypeError("an array of objects cannot be written to a file")
    key = f"a{len(arrays)}"
    arrays[key] = np.ascontiguousarray(array).reshape(array.shape)
    return {"__array__": key}


def thaw(value: Any, arrays: Mapping[str, Any], device: Any = "cpu") -> Any:
    """The inverse of `freeze`: arrays come back as tensors on `device`."""
    if isinstance(value, list):
        return [thaw(item, arrays, device) for item in value]
    if not isinstance(value, dict):
        return value
    if "__array__" in value:
        return torch.from_numpy(np.array(arrays[value["__array__"]])).to(device)
    if "__tuple__" in value:
        return tuple(thaw(item, arrays, device) for item in value["__tuple__"])
    if "__dtype__" in value:
        return getattr(torch, value["__dtype__"])
    return {key: thaw(item, arrays, device) for key, item in value.items()}
