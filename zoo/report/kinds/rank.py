"""Rank histograms of the chains: flat where they mix.

For networks: outputs at a few inputs, else the parameters; others by --site.

Source: Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), Rank-normalization, folding, and localization.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from zoo.core.posterior import Posterior

from ..canvas import chain_name, edge, labels, legend_above, panels
from ..picked import Pick, picked
from .trace import judged

MOST = 6
BINS = 20


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None, output: int = 0
) -> list[Axes]:
    """A row a number, a column a fit: how many draws of each chain fall in each twentieth of all ranks.

    Args:
        fits: Fits of two chains or more.
        on: An Axes (one fit and one number then) or None.
        site: Sites; None: see `zoo.report.picked`.
        output: Which target or class f is of.
    """
    for fit in fits:
        if fit.shape[0] < 2 or fit.shape[1] < 2:
            raise ValueError(
                f"rank compares chains of several draws, got {fit.shape[0]} x {fit.shape[1]} of {fit.method}. "
                "Run with chains=4."
            )
    picks = [picked(fit, site, output, MOST) for fit in fits]
    rows = list(picks[0])
    columns = min(3, len(rows)) if len(fits) == 1 else len(fits)
    shown = panels(on, len(rows) * len(fits), (6.2, 4.2), columns)
    names = labels(fits)
    for r, label in enumerate(rows):
        for c, (fit, found) in enumerate(zip(fits, picks, strict=True)):
            axes = shown[r * len(fits) + c]
            if label in found:
                _histograms(axes, found[label])
                axes.set_title(f"{names[c]}: {label}{judged(fit, found[label])}".replace(", R-hat", "\nR-hat"))
            axes.set(xlabel="rank among all draws", ylabel="draws of a chain")
    legend_above(shown, on)
    return shown


def _histograms(axes: Axes, pick: Pick) -> None:
    chains, draws = pick.values.shape
    ranks = stats.rankdata(pick.values.ravel(), method="average").reshape(chains, draws)
    bins = min(BINS, draws)
    cuts = np.linspace(0.5, chains * draws + 0.5, bins + 1)
    # What chance alone does: 95 % of the bars of perfectly mixed chains are between the two lines.
    low, high = stats.binom.ppf((0.025, 0.975), draws, 1 / bins)
    axes.axhspan(low, high, color="#dddddd", zorder=0, label="95 % by chance")
    axes.axhline(draws / bins, color="black", linewidth=1, linestyle=":")
    for c, chain in enumerate(ranks):
        counts, label = np.histogram(chain, cuts)[0], chain_name(c, chains)
        axes.stairs(counts, cuts, baseline=None, linewidth=2, label=label, **edge(c))
    axes.set_ylim(bottom=0)
