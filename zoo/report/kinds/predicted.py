"""Predicted against observed y with 50 and 95 % intervals, a panel a fit: for any number of inputs.

Classifiers: the probability of the class, rows in order of it, filled where the class was observed.
At most 200 rows, evenly spread in the order of the horizontal axis.

Source: Pineiro, Perelman, Guerschman, Paruelo (2008), How to evaluate models: observed vs. predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior

from ..bands import Band, classes, interval, names, observed
from ..canvas import colour, labels, legend, marker, panels
from ..inputs import common_data

POINTS = 200


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0) -> list[Axes]:
    """A panel a fit, on the test rows (the training rows where there are none).

    Args:
        fits: Fits of the same data.
        on: An Axes or None.
        output: Which target or class.
    """
    data = common_data(fits)
    test = data.x_test is not None and data.y_test is not None
    y = data.y_test if test else data.y
    if y is None:
        raise ValueError(f"'{fits[0].problem.name}' has no targets to compare predictions with. Give y.")
    shown = panels(on, len(fits), (6.0, 5.5), sharey=True)
    rows = "test" if test else "training"
    for i, (axes, fit, label) in enumerate(zip(shown, fits, labels(fits), strict=True)):
        found = interval(fit, data.x_test if test else None, output)
        panel = _class_panel if classes(fit) else _value_panel
        panel(axes, found, observed(fit, y, output), names(fit, output)[1], i)
        axes.set_title(f"{label}, {rows} rows:\nmean, 50 and 95 %")
        if i and not isinstance(on, Axes):
            axes.set_ylabel("")
    return shown


def _shown(order: NDArray[Any]) -> NDArray[Any]:
    return order[np.unique(np.linspace(0, len(order) - 1, min(len(order), POINTS)).round().astype(int))]


def _intervals(axes: Axes, across: NDArray[Any], found: Band, rows: NDArray[Any], place: int) -> None:
    for (low, high), width in zip((found.outer, found.inner), (1.0, 3.5), strict=True):
        axes.vlines(across, low[rows], high[rows], color=colour(place), linewidth=width, alpha=0.6)


def _value_panel(axes: Axes, found: Band, y: NDArray[Any], name: str, place: int) -> None:
    rows = _shown(np.argsort(y, kind="stable"))
    _intervals(axes, y[rows], found, rows, place)
    axes.plot(y[rows], found.mean[rows], marker(place), color=colour(place), mec="black", markersize=5)
    axes.axline((float(y.mean()), float(y.mean())), slope=1, color="black", linestyle="--", linewidth=1.5)
    axes.set_xlabel(f"observed {name}")
    axes.set_ylabel(f"predicted {name}")


def _class_panel(axes: Axes, found: Band, y: NDArray[Any], name: str, place: int) -> None:
    rows = _shown(np.argsort(found.mean, kind="stable"))
    across = np.arange(len(rows))
    _intervals(axes, across, found, rows, place)
    for value, fill, label in ((1, colour(place), "observed"), (0, "white", "not observed")):
        here = y[rows] == value
        style: dict[str, Any] = {"color": colour(place), "mfc": fill, "mec": "black", "markersize": 6}
        axes.plot(across[here], found.mean[rows][here], marker(place), label=label, **style)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("rows, in order of the probability")
    axes.set_ylabel(name)
    legend(axes)
