"""Stated against seen: shares of y in central intervals; of classes, how often a stated confidence is right.

Fits on the diagonal are calibrated, below it they are too sure. Grey: where 95 % of calibrated fits would be on as
many rows. Classes: bars are 95 % intervals of the share of right rows in a bin.

Source: Kuleshov, Fenner, Ermon 2018 (measurements); Guo, Pleiss, Sun, Weinberger 2017 (classes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from zoo.core.posterior import Posterior

from ..canvas import labels, legend, line, marker, panels
from ..held_out import Rows, held_out
from ..inputs import common_data
from ..scored import calibrated

Array = NDArray[np.float64]
INSIDE = (0.025, 0.975)


def draw(fits: Sequence[Posterior], on: Axes | None) -> list[Axes]:
    """One panel for all fits, on the test rows (the training rows where there are none).

    Args:
        fits: Fits of the same data.
        on: An Axes or None.
    """
    common_data(fits)
    (axes,) = panels(on, 1, (6.5, 6.0))
    rows = [held_out(fit) for fit in fits]
    if len({found.p is None for found in rows}) > 1:
        raise ValueError("calibration of classes and of measurements share no axes. Draw them apart.")
    axes.plot([0, 100], [0, 100], color="black", linestyle="--", linewidth=1.5, label="calibrated")
    paint = _measured if rows[0].p is None else _classes
    for i, (found, label) in enumerate(zip(rows, labels(fits), strict=True)):
        paint(axes, found, label, i)
    axes.set(xlim=(-2, 102), ylim=(-2, 102))
    axes.set_title(f"calibration, {len(rows[0].y)} {rows[0].on} rows")
    legend(axes, loc="upper left")
    return [axes]


def _measured(axes: Axes, rows: Rows, label: str, place: int) -> None:
    found = calibrated(rows)
    level = found["level"].to_numpy()
    if place == 0:
        low, high = _chance(level, len(rows.y))
        axes.fill_between(100 * level, low, high, color="0.85", linewidth=0, zorder=0)
    axes.plot(100 * level, 100 * found["covered"].to_numpy(), label=label, linewidth=2.5, **line(place))
    axes.set_xlabel("central interval (%)")
    axes.set_ylabel("rows inside it (%)")


def _chance(level: Array, rows: int) -> tuple[Array, Array]:
    """2.5 and 97.5 % quantiles of the share of so many rows that are inside, if each is with chance `level`; in %."""
    low, high = (100 * stats.binom.ppf(at, rows, level) / rows for at in INSIDE)
    return low, high


def _classes(axes: Axes, rows: Rows, label: str, place: int) -> None:
    found = calibrated(rows)
    across, up = (100 * found[name].to_numpy() for name in ("confidence", "accuracy"))
    low, high = _interval(found["accuracy"], found["rows"])
    style = line(place)
    axes.vlines(across, low, high, color=style["color"], linewidth=1.2)
    axes.plot(across, up, label=label, linewidth=2, markersize=7, mec="black", **{**style, "marker": marker(place)})
    axes.set_xlabel("stated: largest probability (%)")
    axes.set_ylabel("seen: rows that are right (%)")


def _interval(share: ArrayLike, rows: ArrayLike) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share of so many rows, in %."""
    share, rows = np.asarray(share, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    z = float(stats.norm.ppf(INSIDE[1]))
    middle = share + z**2 / (2 * rows)
    half = z * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    return 100 * (middle - half) / (1 + z**2 / rows), 100 * (middle + half) / (1 + z**2 / rows)
