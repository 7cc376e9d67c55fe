"""Draws two by two: what depends on what, and where a sampler diverged.

For networks: outputs at a few inputs, else the parameters; others by --site.

Source: Gabry, Simpson, Vehtari, Betancourt, Gelman (2019), Visualization in Bayesian workflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy

from ..canvas import colour, labels, legend, legend_above, marker, panels
from ..histograms import outlines
from ..picked import Pick, Picks, axis_name, equal, picked

MOST = 5
POINTS = 1000


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """Histograms on the diagonal, scatter below it; two numbers are one scatter alone. Divergences are crosses.

    Args:
        fits: Fits with the same sites.
        on: An Axes (two numbers then) or None.
        site: Sites; None: see `zoo.report.picked`.
        output: Which target or class f is of.
    """
    picks = [picked(fit, site, output, MOST) for fit in fits]
    picks = [{label: pick for label, pick in found.items() if label in picks[0]} for found in picks]
    rows = list(picks[0])
    if len(rows) < 2:
        raise ValueError(f"pair needs two numbers or more, got {', '.join(rows)}. Try kind 'density', or other sites.")
    if len(rows) == 2:
        (axes,) = panels(on, 1, (7.5, 6.5))
        _scatter(axes, fits, picks, rows[0], rows[1])
        legend(axes)
        return [axes]
    count = len(rows)
    shown = panels(on, count * count, (3.4, 3.0), count, sharex="col")
    for r, c in np.ndindex(count, count):
        axes = shown[r * count + c]
        if c > r:
            axes.remove()
            continue
        if c == r:
            values = [equal(fit, found[rows[r]].values) for fit, found in zip(fits, picks, strict=True)]
            outlines(axes, values, labels(fits), 30)
            axes.set(yticks=[], xlabel=_name(fits[0], picks[0], rows[c]))
        else:
            _scatter(axes, fits, picks, rows[c], rows[r])
        _outer_labels_only(axes, r, c, count)
    kept = [axes for i, axes in enumerate(shown) if i % count <= i // count]
    legend_above(kept, on)
    return kept


def _outer_labels_only(axes: Axes, row: int, column: int, count: int) -> None:
    if row + 1 < count:
        axes.set_xlabel("")
    if column:
        axes.set_ylabel("")


def _name(fit: Posterior, picks: Picks, label: str) -> str:
    return axis_name(fit, label, picks[label])


def _scatter(axes: Axes, fits: Sequence[Posterior], picks: list[Picks], across: str, up: str) -> None:
    for i, (fit, found, label) in enumerate(zip(fits, picks, labels(fits), strict=True)):
        x, y = _pairs(fit, found[across], found[up])
        # A few points lie on top of clouds of draws, large and with a dark edge.
        points = len(x) == 1 or fit.kind == "members"
        # Hollow markers of several fits stay readable where clouds overlap.
        style: dict[str, Any] = {"markersize": 6, "alpha": 0.5} | ({"mfc": "none"} if i else {"mec": "none"})
        if points:
            style = {"markersize": 14, "mec": "black", "mew": 2, "zorder": 4}
        axes.plot(x, y, marker(i), label=label, color=colour(i), **style)
        if "diverging" in fit.stats and (bad := to_numpy(fit.stats["diverging"]).astype(bool)).any():
            axes.plot(found[across].values[bad], found[up].values[bad], "x", color="black", mew=2, label="divergences")
    axes.set(xlabel=_name(fits[0], picks[0], across), ylabel=_name(fits[0], picks[0], up))


def _pairs(fit: Posterior, across: Pick, up: Pick) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most 1,000 draws, evenly spread and of equal weight."""
    x, y = equal(fit, across.values), equal(fit, up.values)
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return x[rows], y[rows]
