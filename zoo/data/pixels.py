"""Users' own images in the form the models take: a channel axis, numbers in [0, 1]."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from torch import Tensor

from zoo.core.problem import Data

log = logging.getLogger("zoo")
HIGHEST = 255  # of a byte


def scaled(data: Data) -> Data:
    """The same data with images x (n, channels, h, w) in [0, 1] and info["image_shape"]; y stays.

        x -> x / 255    where all are whole numbers 0 ... 255 and some lie above 127: bytes, which is said

    Args:
        data: x (n, h, w), which gets a channel axis, or (n, channels, h, w); x_test alike.

    Raises:
        ValueError: For other shapes and values.
    """
    x = _with_channels(data.x, "x")
    x_test = None if data.x_test is None else _with_channels(data.x_test, "x_test")
    factor = 1 / HIGHEST if _are_bytes("x", x, x_test) else 1.0
    info = {**data.info, "image_shape": list(x.shape[2:]), "x_range": [0.0, 1.0]}
    return dataclasses.replace(data, x=x * factor, x_test=None if x_test is None else x_test * factor, info=info)


def flattened(data: Data) -> Data:
    """The same data with images as targets: y (n, pixels) in [0, 1] and info["image_shape"]; x stays.

    Args:
        data: y (n, h, w), (n, 1, h, w), or (n, pixels), which are square unless info["image_shape"] says otherwise;
            values as for `scaled`; y_test alike.

    Raises:
        ValueError: For other shapes and values.
    """
    if data.y is None:
        return data
    shape = _image_shape(data.y, data.info.get("image_shape"))
    factor = 1 / HIGHEST if _are_bytes("y", data.y, data.y_test) else 1.0
    y, y_test = data.y.to(data.x).flatten(1) * factor, None
    if data.y_test is not None:
        y_test = data.y_test.to(data.x).flatten(1) * factor
        if y_test.shape[1:] != y.shape[1:]:
            raise ValueError(
                f"y_test must hold images of {shape[0]} x {shape[1]} pixels as y, got {tuple(data.y_test.shape)}. "
                "Prepare both in the same way."
            )
    info = {**data.info, "image_shape": shape, "y_range": [0.0, 1.0]}
    return dataclasses.replace(data, y=y, y_test=y_test, info=info)


def _with_channels(x: Tensor, name: str) -> Tensor:
    if x.dim() == 3:
        return x.unsqueeze(1)
    if x.dim() != 4:
        advice = f"Give flat rows their shape back: {name}.reshape(-1, 28, 28), say." if x.dim() == 2 else ""
        raise ValueError(
            f"{name} must be images (n, h, w) or (n, channels, h, w), got {tuple(x.shape)}. {advice}".strip()
        )
    if x.shape[1] > 4 and x.shape[3] <= 4:
        raise ValueError(
            f"{name} must have its channels before height and width, got {tuple(x.shape)}. Move them: "
            f"{name}.permute(0, 3, 1, 2)."
        )
    return x


def _are_bytes(name: str, *parts: Tensor | None) -> bool:
    """Whether these are bytes; ValueError for what is neither bytes nor in [0, 1]."""
    found = [v for v in parts if v is not None and v.numel() and v.device.type != "meta"]
    if not found:
        return False
    low, high = min(float(v.min()) for v in found), max(float(v.max()) for v in found)
    if low >= 0 and high <= 1:
        return False
    whole = all(bool((v == v.round()).all()) for v in found)
    if whole and low >= 0 and HIGHEST // 2 < high <= HIGHEST:
        log.info("%s: numbers 0 ... %g are read as bytes and divided by %d", name, high, HIGHEST)
        return True
    raise ValueError(
        f"images must hold numbers in [0, 1], or 0 ... {HIGHEST} as uint8 has them, got {low:g} to {high:g} in {name}. "
        f"Scale them: ({name} - lowest) / (highest - lowest), the same for all images."
    )


def _image_shape(y: Tensor, known: Any) -> list[int]:
    """[h, w] of targets; ValueError for what is no image."""
    if y.dim() == 3:
        return list(y.shape[1:])
    if y.dim() == 4 and y.shape[1] == 1:
        return list(y.shape[2:])
    side = round(y.shape[1] ** 0.5) if y.dim() == 2 else 0
    shape = list(known or [side, side])
    if y.dim() != 2 or shape[0] * shape[1] != y.shape[1]:
        raise ValueError(
            f"y must be images (n, h, w), or flat (n, pixels), got {tuple(y.shape)}. Flat images that are not square "
            "need their shape: info={'image_shape': [h, w]}."
        )
    return shape
