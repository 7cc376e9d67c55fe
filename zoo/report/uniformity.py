"""Whether whole numbers from 0 to L are uniform: two tests with exact false-alarm rates, and their joint level.

With n ranks, z_i = i / (L + 1) and c_i = #{ranks < i}, which is Binomial(n, z_i) if ranks are uniform,
    ecdf          g = min_i 2 min(P(B_i <= c_i), P(B_i >= c_i)),    B_i ~ Binomial(n, z_i)
                  p = P(g of uniform ranks <= g)
    chi-square    X = sum_b (o_b - e_b)^2 / e_b over some n / 5 bins of neighbouring ranks
                  p = (1 + #{X of simulated ranks >= X}) / (1 + simulations)
The probability that all c_i stay inside given limits is exact: counts of n uniform ranks are Poisson(n / (L + 1))
numbers with their sum given as n, so one convolution a rank, with what left the limits set to 0, gives it.

Source: Saeilynoja, Buerkner & Vehtari 2022, "Graphical test for discrete uniformity"; Holm 1979.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

LEAST_EXPECTED = 5
SIMULATIONS = 20_000
CHUNK = 2**22  # numbers simulated at once
EQUAL = 1 + 1e-9  # chances closer than this are the same chance, rounded otherwise


def counts_below(ranks: ArrayLike, most: int) -> Counts:
    """c_i = #{ranks < i} for i = 1 ... L, (L,) of ranks (n,) between 0 and L = `most`."""
    return np.asarray(np.cumsum(np.bincount(np.asarray(ranks), minlength=most + 1))[:-1])


@functools.lru_cache(maxsize=8)
def _tails(n: int, most: int) -> Array:
    """2 min(P(B_i <= c), P(B_i >= c)) for i = 1 ... L and c = 0 ... n: (L, n + 1)."""
    z, c = np.arange(1, most + 1)[:, None] / (most + 1), np.arange(n + 1)[None]
    return np.asarray(np.minimum(1.0, 2 * np.minimum(stats.binom.cdf(c, n, z), stats.binom.sf(c - 1, n, z))))


def inside_probability(inside: ArrayLike, n: int) -> float:
    """P(every c_i is one of its allowed values), exactly.

    Args:
        inside: (L, n + 1): whether c_i may be c.
        n: How many uniform ranks.
    """
    allowed = np.asarray(inside, dtype=bool)
    cells = len(allowed) + 1
    step = stats.poisson.pmf(np.arange(n + 1), n / cells)
    chance = np.eye(1, n + 1)[0]
    for may in [*allowed, np.ones(n + 1, dtype=bool)]:
        chance = np.convolve(chance, step)[: n + 1] * may
    return float(min(1.0, chance[n] / stats.poisson.pmf(n, n)))


def _chance_of(g: float, n: int, most: int) -> float:
    return 1 - inside_probability(_tails(n, most) > g * EQUAL, n)


def ecdf_p(ranks: ArrayLike, most: int) -> float:
    """The chance of an ECDF at least as far out, at its furthest rank, if ranks were uniform; exact.

    Args:
        ranks: (n,) whole numbers from 0 to L.
        most: L.
    """
    n = len(np.asarray(ranks))
    g = _tails(n, most)[np.arange(most), counts_below(ranks, most)].min()
    return max(_chance_of(float(g), n, most), 1e-15)


def ecdf_band(n: int, most: int, alpha: float) -> tuple[Counts, Counts]:
    """Limits that the counts c_i of n uniform ranks leave, anywhere, with a chance of at most alpha: low and high (L,).

    The widest such chance that the counts, being whole numbers, allow; `ecdf_p` <= alpha where, and only where, a
    count lies outside.

    Args:
        n: How many ranks.
        most: L.
        alpha: The chance that uniform ranks leave the band.
    """
    tails = _tails(n, most)
    levels = np.unique(tails)
    low, high = 0, len(levels)
    while low < high:  # how many of the levels have a chance of at most alpha
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _chance_of(levels[middle], n, most) <= alpha else (low, middle)
    inside = tails > (levels[low - 1] * EQUAL if low else 0.0)
    return inside.argmax(1), n - inside[:, ::-1].argmax(1)


def _bins(n: int, most: int) -> Counts:
    """How many ranks each bin holds: at least 2 bins, n / 5 at most."""
    bins = min(most + 1, max(2, n // LEAST_EXPECTED))
    cuts = np.linspace(0, most + 1, bins + 1).round().astype(np.int64)
    return cuts[1:] - cuts[:-1]


@functools.lru_cache(maxsize=8)
def _simulated(n: int, most: int, count: int) -> Array:
    """Chi-square statistics of `count` sets of n uniform ranks, in order."""
    share, found, rng = _bins(n, most) / (most + 1), [], np.random.default_rng(0)
    for start in range(0, count, step := max(1, CHUNK // len(share))):
        found.append(_statistic(rng.multinomial(n, share, size=min(step, count - start)), n * share))
    return np.sort(np.concatenate(found))


def _statistic(seen: NDArray[np.int64], expected: Array) -> Array:
    return np.asarray(((seen - expected) ** 2 / expected).sum(-1))


def chi_square(ranks: ArrayLike, most: int, simulations: int = SIMULATIONS) -> tuple[float, float]:
    """X and its p by simulation: right for any n, where the law of the table is not, to 1 / sqrt(simulations p).

    Args:
        ranks: (n,) whole numbers from 0 to L.
        most: L.
        simulations: Sets of uniform ranks; p is no smaller than 1 / (1 + simulations).
    """
    ranks = np.asarray(ranks)
    size = _bins(len(ranks), most)
    place = np.repeat(np.arange(len(size)), size)[ranks]
    seen = np.bincount(place, minlength=len(size))
    x = float(_statistic(seen, len(ranks) * size / (most + 1)))
    null = _simulated(len(ranks), most, simulations)
    above = len(null) - int(np.searchsorted(null, x / EQUAL))
    return x, (1 + above) / (1 + len(null))


def least_p(n: int, most: int, simulations: int = SIMULATIONS) -> float:
    """The smallest p that n ranks can have: by chi-square all in the smallest bin, by the ECDF all at one end.

    Args:
        n: How many ranks.
        most: L.
        simulations: As for `chi_square`.
    """
    size = _bins(n, most)
    one_bin = np.full(n, (np.cumsum(size) - size)[size.argmin()])
    return min(chi_square(one_bin, most, simulations)[1], ecdf_p(np.zeros(n, dtype=np.int64), most))


def holm(p: ArrayLike) -> Array:
    """p-values of a whole family: the i-th smallest of m becomes max_{j <= i} min(1, (m - j + 1) p_j).

    One of them is at most alpha with a chance of at most alpha if all hypotheses hold, however they depend.

    Args:
        p: Any shape; all together are one family.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    p = np.asarray(p, dtype=np.float64)
    order = p.ravel().argsort()
    raised = np.minimum(1.0, np.maximum.accumulate(p.ravel()[order] * np.arange(p.size, 0, -1)))
    out = np.empty(p.size)
    out[order] = raised
    return out.reshape(p.shape)
