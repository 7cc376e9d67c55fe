"""Medians with central 50 and 95 % intervals, fits one under the other.

For networks: outputs at a few inputs, else the parameters; others by --site.

Source: Lewis & Clarke 2001, Forest plots: trying to see the wood and the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from zoo.core.posterior import Posterior

from ..bands import names
from ..canvas import colour, labels, legend_above, marker, panels
from ..picked import Picks, axis_name, equal, picked

MOST = 30
LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """A panel a site, because sites have units of their own.

    Args:
        fits: Fits with the same sites.
        on: An Axes (one site then) or None.
        site: Sites; None: see `zoo.report.picked`.
        output: Which target or class f is of.
    """
    picks = [picked(fit, site, output, MOST) for fit in fits]
    sites = list(dict.fromkeys(pick.site for pick in picks[0].values()))
    most = max(sum(pick.site == name for pick in picks[0].values()) for name in sites)
    height = max(3.0, 1.2 + most * (0.25 + 0.3 * len(fits)))
    shown = panels(on, len(sites), (7.5 if len(sites) == 1 else 6.0, height))
    for axes, name in zip(shown, sites, strict=True):
        rows = [label for label, pick in picks[0].items() if pick.site == name]
        for i, (fit, found, label) in enumerate(zip(fits, picks, labels(fits), strict=True)):
            _intervals(axes, fit, found, rows, label, i, len(fits))
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        only = picks[0][rows[0]]
        axes.set_xlabel(names(fits[0], output)[1] if only.original else axis_name(fits[0], name, only))
    shown[0].set_title("median, central 50 % and 95 %")
    if len(fits) > 1:
        legend_above(shown, on)
    return shown


def _intervals(axes: Axes, fit: Posterior, found: Picks, rows: list[str], label: str, place: int, fits: int) -> None:
    """One fit's intervals, at its own height within each row."""
    shift = (place - (fits - 1) / 2) * 0.7 / fits
    heights = np.asarray([i + shift for i, row in enumerate(rows) if row in found])
    ends = np.asarray([np.quantile(equal(fit, found[row].values), LEVELS) for row in rows if row in found])
    if not len(ends):
        return
    axes.hlines(heights, ends[:, 0], ends[:, 4], color=colour(place), linewidth=1.8)
    axes.hlines(heights, ends[:, 1], ends[:, 3], color=colour(place), linewidth=6)
    style: dict[str, Any] = {
        "linestyle": "none",
        "color": "white",
        "mec": "black",
        "mew": 1.5,
        "markersize": 7,
        "zorder": 3,
    }
    axes.plot(ends[:, 2], heights, marker=marker(place), label=label, **style)
