"""Where each row lies among predictions that have not seen it: calibration of measurements without a test set.

    u_i = P(y < y_i | y without i) = sum_s w_is P(y < y_i | theta_s),   w_is: Pareto-smoothed, see `zoo.loo`

Drawn is the share of u below each place, minus that place. Grey: all of it stays inside for 95 % of calibrated fits.
A hump means predictions too high, a valley too low, an S on its back too narrow.

Source: Gelfand, Dey, Chang 1992; Säilynoja, Buerkner, Vehtari 2022.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.quantities import thin

from ..bands import classes, column, observed
from ..canvas import labels, legend, line, panels
from ..inputs import common_data
from ..loo import left_out_weights
from ..uniformity import ecdf_band

Array = NDArray[np.float64]
ROWS = 1000
PLACES = 49
OUTSIDE = 0.05


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0) -> list[Axes]:
    """One panel for all fits, on the training rows.

    Args:
        fits: Fits of the same data, with draws of a density.
        on: An Axes or None.
        output: Which target, where y is (n, k).
    """
    common_data(fits)
    found = [pit(fit, output) for fit in fits]
    (axes,) = panels(on, 1, (7.0, 5.2))
    places = np.arange(1, PLACES + 1) / (PLACES + 1)
    low, high = (counts / len(found[0]) for counts in ecdf_band(len(found[0]), PLACES, OUTSIDE))
    axes.fill_between(places, low - places, high - places, color="#d8d8d8", linewidth=0, label="95 % by chance")
    axes.axhline(0, color="black", linewidth=1.2, linestyle="--")
    for i, (u, label) in enumerate(zip(found, labels(fits), strict=True)):
        axes.plot(places, share_below(u, places) - places, linewidth=2.5, label=label, **line(i))
    axes.set(xlim=(0, 1), xlabel="place u", ylabel="share of rows below u, minus u")
    axes.set_title(f"leave-one-out predictions, {len(found[0])} training rows")
    legend(axes)
    return [axes]


def share_below(u: Array, places: Array) -> Array:
    """The share of u (n,) at or below each place (k,)."""
    return np.searchsorted(np.sort(u), places, side="right") / len(u)


def pit(fit: Posterior, output: int = 0) -> Array:
    """u of each training row (at most 1,000, evenly spread).

    Raises:
        ValueError: For classes, for fits without y or without a density.
    """
    data = common_data([fit])
    if classes(fit):
        raise ValueError("loo_pit is of measurements; the ranks of class labels say little. Try kind 'calibration'.")
    if data.y is None:
        raise ValueError(f"loo_pit needs targets, and '{fit.problem.name}' has no y. Give zoo.Data(x, y).")
    rows = thin(len(data.x), ROWS)
    weights = left_out_weights(fit, rows)  # (k, S)
    below = _below(fit, observed(fit, data.y, output), output)[:, rows].T
    return np.clip((weights * below).sum(axis=1), 0.0, 1.0)


def _below(fit: Posterior, y: Array, output: int) -> Array:
    """P(y < y_i | draw) (S, n): a Normal's own, else whether a draw of y is below, ties counted half."""
    predicted = fit.predict()
    if layout(fit).family == "Normal":
        mean, var = (column(predicted[name], output) for name in ("mean", "var"))
        return np.asarray(stats.norm.cdf(y, mean, np.sqrt(var))).reshape(-1, len(y))
    name = fit.problem.names["y"]
    drawn = column(predicted[name if name in predicted else layout(fit).observed[0]], output).reshape(-1, len(y))
    return np.asarray((drawn < y) + 0.5 * (drawn == y))
