"""Outlined histograms of sites, all fits on the same axes: for models without inputs, and any --site.

Source: Yandex, "What is probability? Two coin flips".
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from zoo.core.posterior import Posterior

from ..canvas import labels, legend, panels
from ..histograms import outlines
from ..picked import Picks, axis_name, equal, picked

MOST = 9


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """A panel a number of the site.

    Args:
        fits: Fits with the same sites.
        on: An Axes (one number then) or None.
        site: Sites; None: those of the model, or f at a few inputs for a network.
        output: Which target or class f is of.
    """
    picks = [picked(fit, site, output, MOST) for fit in fits]
    first = _scalars(picks[0]) if site is None and on is not None else picks[0]
    shown = panels(on, len(first), (7.0, 5.0))
    for axes, label in zip(shown, first, strict=True):
        values = [equal(fit, found[label].values) for fit, found in zip(fits, picks, strict=True) if label in found]
        outlines(axes, values, labels(fits))
        axes.set_xlabel(axis_name(fits[0], label, first[label]))
        axes.set_ylabel("density")
    legend(shown[0])
    return shown


def _scalars(picks: Picks) -> Picks:
    """One number, for one Axes."""
    return dict(list(picks.items())[:1])
