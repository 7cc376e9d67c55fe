"""Draws in order, a line a chain, with R-hat and effective draws.

For networks: outputs at a few inputs, else the parameters; others by --site.

Source: Gelman, Carlin, Stern, Dunson, Vehtari, Rubin (2013), Bayesian data analysis, chapter 11.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from zoo.core import diagnostics
from zoo.core.posterior import Posterior

from ..canvas import chain_name, labels, legend_above, line, panels
from ..picked import Pick, axis_name, picked

MOST = 6


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """A row a number, a column a fit; R-hat and effective draws in the titles where draws are a Markov chain's.

    Args:
        fits: Fits with the same sites.
        on: An Axes (one fit and one number then) or None.
        site: Sites; None: see `zoo.report.picked`.
        output: Which target or class f is of.
    """
    for fit in fits:
        if fit.shape[1] < 2:
            raise ValueError(
                f"trace needs 2 draws a chain or more, got {fit.shape[1]} of {fit.method}. Try kind 'forest'."
            )
    picks = [picked(fit, site, output, MOST) for fit in fits]
    rows = list(picks[0])
    shown = panels(
        on, len(rows) * len(fits), (9.0, 2.9) if len(fits) == 1 else (6.5, 2.9), len(fits), sharex="col", sharey="row"
    )
    names = labels(fits)
    for r, label in enumerate(rows):
        for c, (fit, found) in enumerate(zip(fits, picks, strict=True)):
            axes = shown[r * len(fits) + c]
            if label in found:
                _lines(axes, found[label])
                axes.set_title(f"{names[c]}: {label}{judged(fit, found[label])}")
                axes.set_ylabel(axis_name(fit, label, found[label]))
            if r + 1 == len(rows):
                axes.set_xlabel("draw")
    if fits[0].shape[0] > 1:
        legend_above(shown, on)
    return shown


def _lines(axes: Axes, pick: Pick) -> None:
    for c, chain in enumerate(pick.values):
        label = chain_name(c, len(pick.values))
        axes.plot(np.arange(len(chain)), chain, linewidth=1.0, alpha=0.85, label=label, **line(c))


def judged(fit: Posterior, pick: Pick) -> str:
    """R-hat and effective draws of one number, for a Markov chain's draws."""
    if fit.kind != "markov":
        return ""
    return f", R-hat {float(diagnostics.rhat(pick.values)):.3f}, ESS {float(diagnostics.ess(pick.values)):.0f}"
