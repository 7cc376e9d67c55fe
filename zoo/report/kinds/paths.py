"""The way that each chain takes through two numbers: its first draws joined, on top of all draws.

With keep_warmup=True the way begins where the chain did; without, where warm-up ended.

Source: Ambrogioni, "Hamiltonian Monte Carlo"; Ambrogioni, "II: Momentum gradient descent".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior

from ..canvas import labels, legend_above, line, marker, panels
from ..picked import Picks, axis_name, picked

CHAINS = 4
POINTS = 1000


def draw(
    fits: Sequence[Posterior],
    on: Axes | None,
    *,
    site: str | Sequence[str] | None = None,
    output: int = 0,
    steps: int = 40,
) -> list[Axes]:
    """A panel a fit, the same two numbers in all.

    Args:
        fits: Fits of samplers with the same sites.
        on: An Axes (one fit then) or None.
        site: Sites; None: see `zoo.report.picked`. The first and the last of their numbers are drawn.
        output: Which target or class f is of.
        steps: How many draws are joined.
    """
    for fit in fits:
        if fit.kind != "markov":
            raise ValueError(f"paths needs chains, got {fit.method}, whose draws have no order. Try kind 'pair'.")
    shown = panels(on, len(fits), (6.2, 5.6), sharex=True, sharey=True)
    for axes, fit, label in zip(shown, fits, labels(fits), strict=True):
        every = picked(fit, site, output, 2)
        if len(every) < 2:
            raise ValueError(f"paths needs two numbers, got {', '.join(every)}. Try kind 'trace', or other sites.")
        across, up = list(every)
        begin = _begin(fit, site, output)
        _cloud(axes, every[across].values, every[up].values)
        for chain in range(min(CHAINS, fit.shape[0])):
            x, y = (np.asarray(begin[name].values[chain, :steps]) for name in (across, up))
            axes.plot(x, y, linewidth=1.6, markersize=4, **{**line(chain), "marker": "."}, label=f"chain {chain}")
            axes.plot(x[:1], y[:1], marker(chain), color="white", mec="black", markersize=10, mew=2, zorder=4)
        axes.set(xlabel=axis_name(fit, across, every[across]), ylabel=axis_name(fit, up, every[up]))
        axes.set_title(f"{label}: {'warm-up' if fit.warmup else 'first draws'}, {min(steps, x.size)} steps")
    legend_above(shown, on)
    return shown


def _begin(fit: Posterior, site: str | Sequence[str] | None, output: int) -> Picks:
    """The same numbers of the warm-up, where it was kept."""
    kept = (fit.warmup or {}).get("draws")
    return picked(fit if kept is None else dataclasses.replace(fit, draws=kept, warmup=None), site, output, 2)


def _cloud(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    rows = np.unique(np.linspace(0, x.size - 1, min(x.size, POINTS)).round().astype(int))
    axes.plot(x.ravel()[rows], y.ravel()[rows], ".", color="#b0b0b0", markersize=5, zorder=0, label="all draws")
