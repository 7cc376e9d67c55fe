"""Each approximation on top of gold: intervals of f (or the class probability), a panel an approximation.

Grey: the reference, the first fit or a gold file (then at its probes, for one fit alone too). In the titles the median
ratio of sds: below 1 an approximation is too sure.

Source: Thome, "MC dropout: regression"; Foong, Burt, Li & Turner 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import thin
from zoo.core.tensors import to_numpy

from ..bands import LEVELS, classes, column, names
from ..canvas import colour, labels, legend_above, panels
from ..gold import Gold
from ..inputs import common_data, grid, is_stored, original, x_name
from ..marginals import equally_weighted
from ..reference import reference

Array = NDArray[np.float64]
ROWS = 40


class _Places(NamedTuple):
    """Where: inputs to predict at, the rows of the answer that are shown, and the axis (None: ordered by gold)."""

    x: Tensor
    rows: NDArray[np.int64]
    axis: Array | None


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0, gold: Gold | str | None = None) -> list[Axes]:
    """A panel an approximation; over the only input, else over 40 test rows in the order of gold's mean.

    Args:
        fits: Fits of the same data, gold first.
        on: An Axes (one approximation then) or None.
        output: Which target or class.
        gold: A gold file's name (zoo gold); None: the first fit, and for one fit alone the zoo's own gold.
    """
    data = common_data(fits)
    if data.x.dim() != 2 or data.x.shape[1] == 0:
        raise ValueError(f"beside needs x of shape (n, d), got {tuple(data.x.shape)}. Try kind 'density'.")
    found, others = reference("beside", fits, gold)
    places = _places(fits[0], data, found)
    what = _quantity(fits[0], found)
    right = _gold_draws(found, what, output) if isinstance(found, Gold) else _draws(found, places, what, output)
    order = np.argsort(right.mean(0) if places.axis is None else places.axis, kind="stable")
    across = np.arange(len(order), dtype=np.float64) if places.axis is None else places.axis[order]
    shown = panels(on, len(others), (6.2, 4.8), sharex=True, sharey=True)
    called = labels(fits)
    for axes, i in zip(shown, others, strict=True):
        mine = _draws(fits[i], places, what, output)
        _grey(axes, across, right[:, order], bars=places.axis is None)
        _coloured(axes, across, mine[:, order], called[i], max(i, 1) - 1, bars=places.axis is None)
        axes.set_title(f"{called[i]}: sd {_ratio(mine, right):.2f} of gold's")
        axes.set_xlabel(x_name(data, 0) if places.axis is not None else "rows, by gold's mean")
        if places.axis is None:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    shown[0].set_ylabel(names(fits[0], output)[1] if classes(fits[0]) else "f")
    legend_above(shown, on)
    return shown


def _places(fit: Posterior, data: Data, found: Posterior | Gold) -> _Places:
    one = data.x.shape[1] == 1
    if isinstance(found, Gold):
        x = found.probes(fit.problem.tensor)
        assert x is not None
        return _Places(x, np.arange(len(x)), original(data, x[:, 0], 0) if one else None)
    if one:
        at = grid(fit)
        return _Places(at.x, at.order, at.axis)
    x = data.x if data.x_test is None else data.x_test
    rows = thin(len(x), ROWS)
    # A fit without its model answers at all of its test inputs or at none.
    return _Places(x, rows, None) if is_stored(fit) else _Places(x[rows], np.arange(len(rows)), None)


def _quantity(fit: Posterior, found: Posterior | Gold) -> str:
    if classes(fit):
        return "mean"
    return "f" if isinstance(found, Gold) else fit.problem.names["f"]


def _draws(fit: Posterior, places: _Places, what: str, output: int) -> Array:
    """(S, m) of equal weight."""
    predicted = fit.predict(places.x)
    if what not in predicted:
        raise ValueError(f"beside draws {what}, and '{fit.problem.name}' has none: got {', '.join(predicted)}.")
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    return np.asarray(equally_weighted(column(predicted[what], output), weights)[:, places.rows])


def _gold_draws(gold: Gold, what: str, output: int) -> Array:
    values = gold.draws(what)
    values = values.reshape(len(values), len(gold.facts["data"]["probes"]), -1)
    if not 0 <= output < values.shape[2]:
        raise ValueError(f"output must be in 0 ... {values.shape[2] - 1}, got {output}.")
    return np.asarray(values[:, :, output])


def _ratio(mine: Array, right: Array) -> float:
    """Median ratio of sds where gold varies."""
    sd = right.std(0)
    return float(np.median(mine.std(0)[sd > 0] / sd[sd > 0])) if (sd > 0).any() else np.nan


def _grey(axes: Axes, across: Array, values: Array, *, bars: bool) -> None:
    ends = np.quantile(values, LEVELS, axis=0)
    parts = (
        ((ends[0], ends[3]), "#d0d0d0", "gold, central 95 %"),
        ((ends[1], ends[2]), "#909090", "gold, central 50 %"),
    )
    for (low, high), shade, label in parts:
        if bars:
            axes.vlines(across, low, high, color=shade, linewidth=7.0, label=label)
        else:
            axes.fill_between(across, low, high, color=shade, linewidth=0, label=label)
    if not bars:
        axes.plot(across, values.mean(0), color="black", linewidth=1.5, linestyle=":", label="gold, mean")


def _coloured(axes: Axes, across: Array, values: Array, name: str, place: int, *, bars: bool) -> None:
    ends = np.quantile(values, LEVELS, axis=0)
    style: dict[str, Any] = {"color": colour(place)}
    label = "the fit, alike"
    if bars:
        axes.vlines(across, ends[0], ends[3], linewidth=1.5, **style)
        axes.vlines(across, ends[1], ends[2], linewidth=3.0, **style)
        axes.plot(across, values.mean(0), "o", mec="black", markersize=5, label=label, **style)
        return
    axes.plot(across, values.mean(0), linewidth=3, label=label, **style)
    for end, line, width in zip(ends, ("-", "--", "--", "-"), (2.0, 1.5, 1.5, 2.0), strict=True):
        axes.plot(across, end, linestyle=line, linewidth=width, **style)
