"""Data, predictive mean, central 50 and 95 % intervals of y over one input.

For classes: of the probability of the class, over the posterior's draws.

Source: Thome, "Bayesian linear regression: predictive distribution"; Gal, "Modern deep learning through Bayesian eyes".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior

from ..bands import Band, interval, names
from ..canvas import colour, labels, legend, line, panels
from ..inputs import Array, common_data, grid, x_name
from ..points import data_points


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0) -> list[Axes]:
    """One panel, all fits in it; two at most are filled, more are drawn as lines.

    Args:
        fits: Fits of the same data with x (n, 1).
        on: An Axes or None.
        output: Which target or class.
    """
    data = common_data(fits)
    if data.x.dim() != 2 or data.x.shape[1] != 1:
        other = {0: "density", 2: "surface"}.get(data.x.shape[1] if data.x.dim() == 2 else -1, "predicted")
        raise ValueError(f"band needs x of shape (n, 1), got {tuple(data.x.shape)}. Try kind '{other}'.")
    (axes,) = panels(on, 1, (9.0, 6.0))
    data_points(axes, fits[0], output)
    for i, (fit, label) in enumerate(zip(fits, labels(fits), strict=True)):
        places = grid(fit)
        _band(axes, places.axis, interval(fit, places.x, output), places.order, label, i, filled=len(fits) <= 2)
    axes.set_xlabel(x_name(data, 0))
    axes.set_ylabel(names(fits[0], output)[1])
    axes.set_title("mean, central 50 % and 95 % intervals")
    legend(axes)
    return [axes]


def _band(axes: Axes, x: Array, found: Band, order: NDArray[np.int64], label: str, place: int, *, filled: bool) -> None:
    axes.plot(x, found.mean[order], linewidth=3, label=label, zorder=3, **line(place))
    for (low, high), alpha, width in zip((found.outer, found.inner), (0.15, 0.3), (1.3, 2.0), strict=True):
        if filled:
            hatch = "///" if place else None
            axes.fill_between(
                x, low[order], high[order], color=colour(place), alpha=alpha, linewidth=0, hatch=hatch
            )  # fmt: skip
        for edge in (low, high):
            axes.plot(x, edge[order], linewidth=width, zorder=2, **line(place))
