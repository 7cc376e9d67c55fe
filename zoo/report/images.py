"""Images as arrays on one sheet: rows of pixels become pictures, and pictures a mosaic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

Array = NDArray[np.float64]
GAP = 1


def pictures(data: Data, y: Tensor | None, x: Tensor | None = None) -> Array:
    """Rows of pixels as pictures (m, height, width); pixels that are in neither x nor y are NaN.

    Args:
        data: Its info says how: image_shape [height, width] of y; or, where x holds some of the pixels and y the
            others, pixels_of {"shape": [height, width], "x": [places in the flat image], "y": [...]}.
        y: (m, pixels), or None to show x alone.
        x: (m, c), used where it holds pixels.

    Raises:
        ValueError: For images that are not square and of no stated shape.
    """
    parts = data.info.get("pixels_of")
    if parts is None:
        if y is None:
            raise ValueError("x holds no pixels of the images: info has no 'pixels_of'. Show y.")
        return _array(y).reshape(-1, *_shape(data, y.shape[-1]))
    rows = len(y) if y is not None else len(x)  # type: ignore[arg-type]
    whole = np.full((rows, math.prod(parts["shape"])), np.nan)
    for name, values in (("x", x), ("y", y)):
        if values is not None:
            whole[:, parts[name]] = _array(values)
    return whole.reshape(-1, *parts["shape"])


def _array(values: Tensor) -> Array:
    return to_numpy(values).astype(np.float64)


def _shape(data: Data, pixels: int) -> tuple[int, int]:
    shape = data.info.get("image_shape")
    side = math.isqrt(pixels)
    if shape is None and side * side != pixels:
        raise ValueError(
            f"images have {pixels} pixels, no square. Say their shape: info={{'image_shape': [height, width]}}."
        )
    height, width = (side, side) if shape is None else shape[-2:]
    return int(height), int(width)


def mosaic(rows: list[Array]) -> Array:
    """Rows of pictures (k, height, width) on one sheet, with gaps of a pixel that are NaN."""
    lines = [
        np.concatenate([np.pad(one, ((0, GAP), (0, GAP)), constant_values=np.nan) for one in row], 1) for row in rows
    ]
    return np.concatenate(lines, 0)[:-GAP, :-GAP]


def show(axes: Axes, rows: list[Array], limits: tuple[float, float] = (0.0, 1.0), **ticks: Any) -> None:
    """A mosaic on an Axes: black is low, white is high, gaps and unknown pixels are grey-blue.

    Args:
        axes: Where.
        rows: Pictures (k, height, width), a row each.
        limits: Values of black and white.
        **ticks: `up`: a label for each row, or ""; `across`: for each column.
    """
    sheet = mosaic(rows)
    height, width = rows[0].shape[1] + GAP, rows[0].shape[2] + GAP
    axes.set_facecolor("#9db4c8")
    axes.imshow(sheet, cmap="gray", vmin=limits[0], vmax=limits[1], interpolation="nearest", aspect="equal")
    for name, step, start in (("up", height, rows[0].shape[1]), ("across", width, rows[0].shape[2])):
        labels = ticks.get(name) or []
        places = {i * step + (start - 1) / 2: label for i, label in enumerate(labels) if label}
        (axes.set_yticks if name == "up" else axes.set_xticks)(list(places), list(places.values()))


def limits(*images: Array) -> tuple[float, float]:
    """Values of black and white: 0 and 1, or the images' own range where they leave it."""
    low, high = min(float(np.nanmin(i)) for i in images), max(float(np.nanmax(i)) for i in images)
    return (0.0, 1.0) if low >= -1e-6 and high <= 1 + 1e-6 else (low, high)
