"""Class probabilities of single inputs as bars with central 90 % intervals, fits side by side.

A long interval says that the answer is not certain, even where the mean is large.

Source: Leal-Taixe, "I am not certain about this dog".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from ..bands import classes
from ..canvas import fill, labels, legend, panels
from ..inputs import common_data, is_stored
from ..marginals import equally_weighted

Array = NDArray[np.float64]
LEVELS = (0.05, 0.95)
INPUTS = 3


class _Rows(NamedTuple):
    x: Tensor
    y: Tensor | None
    test: bool


def draw(fits: Sequence[Posterior], on: Axes | None, *, rows: int | Sequence[int] | None = None) -> list[Axes]:
    """A panel an input: bars are mean probabilities, whiskers reach from the 5 % to the 95 % quantile.

    Args:
        fits: Fits of a classifier on the same data.
        on: An Axes (one input then) or None.
        rows: Which test rows (training rows where there are none); None: the first three.
    """
    data = common_data(fits)
    if not classes(fits[0]):
        family = layout(fits[0]).family or "no distribution"
        raise ValueError(f"probabilities needs class labels as y, got {family}. Try kind 'band' or 'predicted'.")
    held = _Rows(data.x, data.y, False) if data.x_test is None else _Rows(data.x_test, data.y_test, True)
    wanted = _wanted(rows, len(held.x), 1 if on is not None or data.x.shape[1] == 0 else INPUTS)
    names = _names(fits[0])
    shown = panels(on, len(wanted), (max(4.6, 0.45 * len(names) * (len(fits) + 1)), 4.6), sharey=True)
    found = [_quantiles(fit, held, wanted) for fit in fits]
    for r, axes in enumerate(shown):
        for i, (label, (mean, low, high)) in enumerate(zip(labels(fits), found, strict=True)):
            _bars(axes, mean[r], low[r], high[r], label, i, len(fits))
        axes.set_xticks(range(len(names)), names)
        axes.set_title(_title(data, held, wanted[r], names))
        axes.set(ylim=(0, 1.02), xlabel=str(data.info.get("y_name") or "y"))
    shown[0].set_ylabel("probability (5 to 95 %)")
    legend(shown[0])
    return shown


def _wanted(rows: int | Sequence[int] | None, count: int, default: int) -> list[int]:
    wanted = list(range(min(default, count))) if rows is None else [rows] if isinstance(rows, int) else list(rows)
    if not wanted or any(not isinstance(r, int) or not 0 <= r < count for r in wanted):
        raise ValueError(f"rows must be whole numbers in 0 ... {count - 1}, got {rows!r}. For example rows=(0, 4).")
    return wanted


def _quantiles(fit: Posterior, held: _Rows, rows: list[int]) -> tuple[Array, Array, Array]:
    """Mean, 5 % and 95 % quantiles of the class probabilities, (rows, classes) each."""
    kept = is_stored(fit)
    mean = fit.predict((held.x if held.test else None) if kept else held.x[rows])["mean"]
    values = to_numpy(mean[:, :, rows] if kept else mean).astype(np.float64)
    if values.ndim > (3 if layout(fit).family == "Bernoulli" else 4):
        raise ValueError(
            f"probabilities draws one label a row, a row here has {' x '.join(map(str, values.shape[3:]))} numbers. "
            "Draw images with a class a pixel by kind 'segments', those of an autoencoder by kind 'reconstruct'."
        )
    if values.ndim == 3:
        values = np.stack([1 - values, values], axis=-1)
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    flat = equally_weighted(values.reshape(*values.shape[:2], -1), weights).reshape(-1, *values.shape[2:])
    low, high = np.quantile(flat, LEVELS, axis=0)
    return flat.mean(0), low, high


def _names(fit: Posterior) -> list[str]:
    data = fit.problem.data
    assert isinstance(data, Data)
    given = [str(name) for name in data.info.get("classes") or ()]
    if layout(fit).family == "Bernoulli":
        return given if len(given) == 2 else ["0", "1"]
    count = fit.predict(data.x_test if is_stored(fit) else data.x[:1])["mean"].shape[-1]
    return [given[i] if i < len(given) else str(i) for i in range(count)]


def _title(data: Data, held: _Rows, row: int, names: list[str]) -> str:
    if data.x.shape[1] == 0:
        return "no inputs"
    words = f"{'test' if held.test else 'training'} row {row}"
    if held.y is None:
        return words
    label = int(held.y[row].argmax() if held.y.dim() > 1 else held.y[row])
    return f"{words}: is {names[label]}"


def _bars(axes: Axes, mean: Array, low: Array, high: Array, label: str, place: int, fits: int) -> None:
    width = 0.8 / fits
    across = np.arange(len(mean)) + (place - (fits - 1) / 2) * width
    axes.bar(across, mean, width=width, label=label, **fill(place))
    # Whiskers from quantiles, which may lie on one side of the mean.
    axes.vlines(across, low, high, color="black", linewidth=2.5)
    axes.hlines(
        [*low, *high], np.tile(across, 2) - width / 4, np.tile(across, 2) + width / 4, color="black", linewidth=2.5
    )
