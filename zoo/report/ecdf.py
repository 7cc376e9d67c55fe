"""How far an empirical distribution of uniform numbers may stray: a band that holds all of it at once.

    band at u: [Q(g / 2), Q(1 - g / 2)] / n of Binomial(n, u),  g such that 95 % of uniform samples stay inside at all u

Source: Säilynoja, Buerkner, Vehtari 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
TIMES = 2000


def share_below(u: Array, places: Array) -> Array:
    """The share of u (n,) at or below each place (k,)."""
    return np.searchsorted(np.sort(u), places, side="right") / len(u)


def uniform_band(count: int, places: Array, level: float = 0.95, seed: int = 0) -> tuple[Array, Array]:
    """(low, high) (k,) between which the share of `count` uniform numbers below every place is, with chance `level`.

    Args:
        count: How many numbers.
        places: In (0, 1), rising (k,).
        level: The chance that all k shares are inside, by 2,000 simulated samples.
        seed: Of the simulation.
    """
    generator = np.random.default_rng(seed)
    cells = np.diff(places, prepend=0.0, append=1.0)
    below = generator.multinomial(count, cells, size=TIMES)[:, :-1].cumsum(axis=1)
    # The least two-sided tail of each sample: how far out it goes anywhere.
    tail = 2 * np.minimum(stats.binom.cdf(below, count, places), stats.binom.sf(below - 1, count, places)).min(axis=1)
    edge = float(np.quantile(tail, 1 - level))
    low, high = (stats.binom.ppf(at, count, places) / count for at in (edge / 2, 1 - edge / 2))
    return np.asarray(low), np.asarray(high)
