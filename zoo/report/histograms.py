"""Histograms as outlines, so that several fits can be read on the same axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from .canvas import edge, line

Array = NDArray[np.float64]
BINS = 30


def edges(values: Sequence[Array], bins: int = BINS) -> Array:
    """Equal bins over the range of all values; around a constant, one unit wide."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    # Bins narrower than the rounding of large numbers do not exist.
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return np.linspace(low - 0.5, high + 0.5, bins + 1)
    return np.linspace(low, high, bins + 1)


def outlines(axes: Axes, values: Sequence[Array], labels: Sequence[str], bins: int = BINS) -> None:
    """A density histogram a fit, common bins; a fit of one value (a point estimate) is a vertical line.

    Args:
        axes: Where to draw.
        values: Equally weighted draws (S,) of each fit.
        labels: A name a fit.
        bins: How many.
    """
    cuts = edges(values, bins)
    for i, (draws, label) in enumerate(zip(values, labels, strict=False)):
        if np.ptp(draws) <= 1e-9 * max(1e-300, float(np.abs(draws).max())):
            axes.axvline(float(draws[0]), linewidth=3, label=label, **line(i))
            continue
        heights = np.histogram(draws, cuts, density=True)[0]
        axes.stairs(heights, cuts, linewidth=2.5, label=label, **edge(i))
