"""Predictive mean or class probability over two inputs as a map with the data, a panel a fit, one scale.

A point estimate's contours are parallel, the posterior's fan out where there are no data.

Source: Ambrogioni, "Bayesian logistic regression: point estimate and posterior averaging"; Thome, "moons".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from zoo.core.posterior import Posterior

from ..bands import classes, names
from ..canvas import LABEL, TICKS, labels, legend_above, panels
from ..inputs import SIDE, Array, common_data, curves, square, x_name
from ..points import map_points

DRAWS = 1000
SHOWN = ("mean", "sd")
PROBABILITIES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0, show: str = "mean") -> list[Axes]:
    """A panel a fit, all on the same colour scale.

    Args:
        fits: Fits of the same data with x (n, 2).
        on: An Axes or None.
        output: Which target or class.
        show: "mean" over the draws, or "sd": how far the draws' functions are apart (epistemic).
    """
    data = common_data(fits)
    if data.x.dim() != 2 or data.x.shape[1] != 2:
        other = {0: "density", 1: "band"}.get(data.x.shape[1] if data.x.dim() == 2 else -1, "predicted")
        raise ValueError(f"surface needs x of shape (n, 2), got {tuple(data.x.shape)}. Try kind '{other}'.")
    if show not in SHOWN:
        raise ValueError(f"show must be one of {', '.join(SHOWN)}, got {show!r}.")
    maps = [_map(fit, output, show) for fit in fits]
    shown = panels(on, len(fits), (6.3, 5.4), sharex=True, sharey=True)
    probability = classes(fits[0]) and show == "mean"
    low = 0.0 if probability else min(float(m.min()) for m in maps)
    high = 1.0 if probability else max(float(m.max()) for m in maps)
    across, up, _ = square(fits[0])
    for axes, fit, label, values in zip(shown, fits, labels(fits), maps, strict=True):
        mesh = axes.pcolormesh(across, up, values, cmap=light(), vmin=low, vmax=high, shading="gouraud")
        contours(axes, across, up, values, PROBABILITIES if probability else np.linspace(low, high, 9)[1:-1])
        map_points(axes, fit)
        axes.set(xlabel=x_name(data, 0), title=label, xlim=across[[0, -1]], ylim=up[[0, -1]])
    shown[0].set_ylabel(x_name(data, 1))
    legend_above(shown, on)
    bar = shown[0].figure.colorbar(mesh, ax=shown)
    what = "" if show == "mean" else "sd of "
    bar.set_label(what + names(fits[0], output)[1], fontsize=LABEL)
    return shown


def light() -> ListedColormap:
    """White to a middle blue: lightness falls evenly, and black lines and letters can be read on all of it."""
    return ListedColormap(colormaps["Blues"](np.linspace(0, 0.65, 256)))


def _map(fit: Posterior, output: int, show: str) -> Array:
    """(60, 60), rows upwards."""
    values = curves(fit, square(fit)[2], output, DRAWS)
    return np.asarray(values.mean(0) if show == "mean" else values.std(0)).reshape(SIDE, SIDE)


def contours(axes: Axes, across: Array, up: Array, values: Array, levels: Sequence[float] | Array) -> None:
    """Black lines with their numbers, at those levels that occur."""
    inside = [level for level in levels if values.min() < level < values.max()]
    if inside:
        drawn = axes.contour(across, up, values, levels=inside, colors="black", linewidths=1.5)
        axes.clabel(drawn, fontsize=TICKS, fmt="%.3g")
