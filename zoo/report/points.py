"""Observations as markers: filled for training rows, hollow for test rows, one marker a class on a map."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from torch import Tensor

from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from .bands import classes, observed
from .canvas import marker
from .inputs import original

# More markers hide what they are drawn on.
MOST = 2000


def data_points(axes: Axes, fit: Posterior, output: int = 0, place: int = 0) -> None:
    """Observations over one column of x, in original units; for classes 1 where the class was seen, else 0."""
    data = fit.problem.data
    assert isinstance(data, Data)
    pairs = [(data.x, data.y, "black", "data"), (data.x_test, data.y_test, "white", "test data")]
    for x, y, face, label in pairs:
        if x is None or y is None:
            continue
        rows = slice(None, None, -(-len(x) // MOST))
        across, up = original(data, x[rows, place], place), observed(fit, y[rows], output)
        size = 6 if len(across) <= 200 else 4
        style: dict[str, Any] = {"color": "black", "mfc": face, "markersize": size, "linestyle": "none"}
        axes.plot(across, up, marker="o", label=label, zorder=4 if face == "black" else 3.5, **style)


def map_points(axes: Axes, fit: Posterior) -> None:
    """Training rows on a map of two columns: a marker a class; for measurements, dots."""
    data = fit.problem.data
    assert isinstance(data, Data)
    across, up = (original(data, data.x[:, j], j) for j in (0, 1))
    if data.y is None or not classes(fit):
        axes.plot(across, up, "o", color="black", mec="white", markersize=6, label="data", zorder=4)
        return
    y = _label(fit, data.y)
    names = data.info.get("classes") or []
    for i, value in enumerate(np.unique(y)):
        name = names[int(value)] if int(value) < len(names) else f"{value:g}"
        face = ("white", "black", "#888888")[i % 3]
        style: dict[str, Any] = {
            "color": face,
            "mec": "white" if face == "black" else "black",
            "linestyle": "none",
            "markersize": 7,
        }
        here = y == value
        y_name = data.info.get("y_name") or "y"
        axes.plot(across[here], up[here], marker=marker(i), label=f"{y_name} = {name}", zorder=4, **style)


def _label(fit: Posterior, y: Tensor) -> np.ndarray:
    values = to_numpy(y)
    one_hot = layout(fit).family == "OneHotCategorical" and values.ndim > 1
    return np.asarray(values.argmax(1) if one_hot else values.reshape(len(values), -1)[:, 0])
