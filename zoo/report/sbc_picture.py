"""The picture of a simulation-based calibration: ECDFs of ranks less the diagonal, and a rank histogram."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from zoo.core.words import nearest

from .canvas import dress, file_format, legend, line, panels, write
from .uniformity import counts_below, ecdf_band

if TYPE_CHECKING:
    from .calibrated import Calibrated

BINS = 16


def draw(found: Calibrated, to: str | Path | Axes | None, quantity: str | None) -> Figure | Path:
    """See `Calibrated.plot`."""
    quantity = str(found.table["p_holm"].idxmin()) if quantity is None else quantity
    if quantity not in found.labels:
        raise ValueError(nearest(quantity, found.labels, "quantity"))
    path = None if to is None or isinstance(to, Axes) else Path(to)
    if path is not None:
        file_format(path)
    shown = panels(to, 1) if isinstance(to, Axes) else panels(None, 2, (6.8, 5.2))
    _ecdfs(shown[0], found, quantity)
    if len(shown) > 1:
        _histogram(shown[1], found, quantity)
    for axes in shown:
        dress(axes)
    figure = shown[0].get_figure(root=True)
    assert figure is not None
    return figure if path is None else write(figure, path)


def _ecdfs(axes: Axes, found: Calibrated, quantity: str) -> None:
    """F(u) - u of every quantity; the band holds all, both tests counted, with chance 1 - alpha (Bonferroni)."""
    n, z = len(found.ranks), np.arange(1, found.draws + 1) / (found.draws + 1)
    low, high = ecdf_band(n, found.draws, found.alpha / (2 * len(found.labels)))
    axes.fill_between(z, low / n - z, high / n - z, color="#dddddd", step="mid", label=f"{1 - found.alpha:.4g} band")
    for i, label in enumerate(found.labels):
        if label != quantity:
            below = counts_below(found.ranks[:, i], found.draws) / n
            axes.plot(
                z, below - z, color="#888888", linewidth=0.8, label="the others" if label == _other(found) else None
            )
    below = counts_below(found.ranks[:, found.labels.index(quantity)], found.draws) / n
    axes.plot(z, below - z, linewidth=2.5, label=quantity, **line(0))
    axes.axhline(0, color="black", linewidth=1, linestyle=":")
    axes.set(xlabel="rank / (L + 1)", ylabel="ECDF less the diagonal", xlim=(0, 1))
    axes.set_title(f"{found.method} on {found.problem}: {found.state}")
    legend(axes)


def _other(found: Calibrated) -> str:
    """The first quantity but the worst: one line of many stands in the legend."""
    worst = str(found.table["p_holm"].idxmin())
    return next((label for label in found.labels if label != worst), "")


def _histogram(axes: Axes, found: Calibrated, quantity: str) -> None:
    """Ranks in bins of neighbours, and what 95 % of the bars of uniform ranks are between."""
    n, ranks = len(found.ranks), found.ranks[:, found.labels.index(quantity)]
    cuts = np.unique(np.linspace(0, found.draws + 1, min(BINS, found.draws + 1) + 1).round())
    share = np.diff(cuts) / (found.draws + 1)
    low, high = stats.binom.ppf(0.025, n, share), stats.binom.ppf(0.975, n, share)
    axes.stairs(high, cuts - 0.5, baseline=low, fill=True, color="#dddddd", label="95 % by chance")
    axes.stairs(n * share, cuts - 0.5, baseline=None, color="black", linewidth=1, linestyle=":")
    axes.stairs(np.histogram(ranks, cuts - 0.5)[0], cuts - 0.5, baseline=None, linewidth=2.5, **line(0))
    axes.set(xlabel=f"rank of {quantity} among {found.draws} draws", ylabel=f"of {n} data sets")
    axes.set_title("U: too narrow; a hill: too wide; a slope: shifted")
    axes.set_ylim(bottom=0)
    legend(axes, loc="lower center")
