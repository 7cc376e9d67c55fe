"""Predictive check: y drawn anew at the training inputs against the y that was observed.

A prior fit makes it a prior predictive check. The p-values are P(statistic of drawn y >= that of observed y);
near 0 or 1 the model misses that statistic.

Source: Gelman, Carlin, Stern, Dunson, Vehtari, Rubin (2013), Bayesian data analysis, chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from zoo.core.posterior import Posterior

from ..canvas import colour, labels, legend_above, panels
from ..histograms import edges
from ..replicated import Replicated, replicated

BINS = 25
LEVELS = (0.025, 0.5, 0.975)
Array = NDArray[np.float64]


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """A panel a fit and observed site.

    Args:
        fits: Fits of the same data.
        on: An Axes (one fit and one site then) or None.
        site: Observed sites; None: all.
        output: Which target, where y is (n, k).
    """
    names = labels(fits)
    every = [(name, found) for fit, name in zip(fits, names, strict=True) for found in replicated(fit, site, output)]
    shown = panels(on, len(every), (7.2, 5.2), sharey=len(every) == len(fits))
    for axes, (name, found) in zip(shown, every, strict=True):
        if found.labels:
            _counts(axes, found)
        else:
            # Fits of one site have common bins, so that their panels can be compared.
            same = [other for _, other in every if other.name == found.name]
            ends = [np.quantile(other.drawn, (0.001, 0.999)) for other in same]
            _histogram(axes, found, edges([found.observed, *ends], BINS))
        axes.set_xlabel(found.name)
        axes.set_title(name if found.labels else f"{name}\n{p_values(found)}")
        axes.set_ylabel("rows")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(shown, on)
    return shown


def p_values(found: Replicated) -> str:
    """P(T(drawn) >= T(observed)) for mean, sd, smallest and largest, ties counted half."""
    said = []
    for word, statistic in (("mean", np.mean), ("sd", np.std), ("min", np.min), ("max", np.max)):
        drawn, seen = statistic(found.drawn, axis=1), statistic(found.observed)
        said.append(f"{word} {float((drawn > seen).mean() + 0.5 * (drawn == seen).mean()):.2f}")
    return "p-values " + ", ".join(said)


def _histogram(axes: Axes, found: Replicated, cuts: Array) -> None:
    counts = np.asarray([np.histogram(row, cuts)[0] for row in found.drawn])
    low, middle, high = np.quantile(counts, LEVELS, axis=0)
    axes.stairs(high, cuts, baseline=low, fill=True, color=colour(0), alpha=0.3, label="drawn: central 95 %")
    axes.stairs(middle, cuts, color=colour(0), linewidth=2, linestyle="--", label="drawn: median")
    axes.stairs(np.histogram(found.observed, cuts)[0], cuts, color="black", linewidth=3, label="observed")


def _counts(axes: Axes, found: Replicated) -> None:
    values = np.arange(len(found.labels))
    counts = np.asarray([[(row == v).sum() for v in values] for row in found.drawn])
    seen = [(found.observed == v).sum() for v in values]
    low, middle, high = np.quantile(counts, LEVELS, axis=0)
    axes.bar(values, seen, width=0.6, facecolor="#cccccc", edgecolor="black", label="observed")
    style: dict[str, Any] = {"color": colour(0), "linestyle": "none", "capsize": 8, "linewidth": 2.5, "markersize": 9}
    axes.errorbar(values, middle, (middle - low, high - middle), marker="o", label="drawn: median, 95 %", **style)
    axes.set_xticks(values, found.labels)
