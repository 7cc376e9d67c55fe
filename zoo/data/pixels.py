"""Users' own images in the form the models take: a channel axis, numbers in [0, 1]."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from zoo.core.problem import Data
from zoo.core.shades import HIGHEST, divisor, extremes


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
    factor = _share("x", x, x_test)
    info = {**data.info, "image_shape": list(x.shape[2:]), "x_range": [0.0, 1.0]}
    return dataclasses.replace(data, x=x * factor, x_test=None if x_test is None else x_test * factor, info=info)


def channelled(data: Data) -> Data:
    """The same data with images x (n, channels, h, w); bytes are divided by 255, other numbers stay as they are.

    For models that take any shade, noise below 0 and above 1 too; info["x_range"] where none lies outside [0, 1].

    Args:
        data: x (n, h, w), which gets a channel axis, or (n, channels, h, w); x_test alike.

    Raises:
        ValueError: For other shapes.
    """
    x = _with_channels(data.x, "x")
    x_test = None if data.x_test is None else _with_channels(data.x_test, "x_test")
    by, ends = divisor("x", x, x_test), extremes(x, x_test)
    shares = ends is not None and ends[0] >= 0 and ends[1] <= by
    info = data.info | ({"x_range": [0.0, 1.0]} if shares else {})
    return dataclasses.replace(data, x=x / by, x_test=None if x_test is None else x_test / by, info=info)


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


def _share(name: str, *parts: Tensor | None) -> float:
    """What makes shares in [0, 1] of the numbers; ValueError for what is neither bytes nor in [0, 1]."""
    ends = extremes(*parts)
    if ends is None or (ends[0] >= 0 and ends[1] <= 1):
        return 1.0
    if (by := divisor(name, *parts)) > 1:
        return 1 / by
    low, high = ends
    raise ValueError(
        f"images must hold numbers in [0, 1], or 0 ... {HIGHEST} as uint8 has them, got {low:g} to {high:g} in {name}. "
        f"Scale them: ({name} - lowest) / (highest - lowest), the same for all images."
    )
