"""How far two samples of points are apart, all coordinates at once.

Sliced 2-Wasserstein and energy distances are 0 for equal distributions only; so is the maximum mean discrepancy,
and a permutation test says whether it could be chance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .marginals import wasserstein

Array = NDArray[np.float64]

DIRECTIONS = 200
PERMUTATIONS = 999


def sliced_wasserstein2(a: Array, b: Array, directions: int = DIRECTIONS, seed: int = 0) -> float:
    """Sliced 2-Wasserstein distance SW2: of projections on random directions u of unit length, squared and averaged.

        SW2^2 = E_u W2^2(u a, u b) = |mean a - mean b|^2 / k + E_u W2^2(u (a - mean a), u (b - mean b))

    The first part is exact; the second is a mean over directions. For N(m, s^2 I) and N(0, t^2 I) in k dimensions
    it is |m|^2 / k + (s - t)^2: as long as the typical coordinate's distance, whatever k.

    Args:
        a: Points (n, k) of equal weight.
        b: Points (m, k) of equal weight.
        directions: How many; one is enough, and exact, for k = 1.
        seed: For the directions.

    Returns:
        The distance, in the points' units.

    Source: Bonneel, Rabin, Peyre, Pfister 2015; Nadjahi, Durmus, Jacob, Badeau, Simsekli 2021 (the two parts).
    """
    k = a.shape[1]
    u = np.random.default_rng(seed).standard_normal((k, 1 if k == 1 else directions))
    u /= np.linalg.norm(u, axis=0)
    shift = a.mean(0) - b.mean(0)
    one, other = (np.sort(((points - points.mean(0)) @ u).T, axis=1) for points in (a, b))
    return float(np.sqrt((shift**2).mean() + (wasserstein(one, other, order=2) ** 2).mean()))


class Pairs(NamedTuple):
    """Euclidean distances between all points of two samples.

    Args:
        distance: (n + m, n + m), the first sample's points first.
        first: n.
        whole: Whether the second sample is no sample, but all that its distribution consists of (the members of
            an ensemble): then a point is paired with itself too.
    """

    distance: Array
    first: int
    whole: bool = False

    def blocks(self, values: Array) -> tuple[float, float, float]:
        """Means of values (n + m, n + m) over pairs: within the first, within the second, between them."""
        n, m = self.first, len(values) - self.first
        one, other = values[:n, :n], values[n:, n:]
        within = other.mean() if self.whole else (other.sum() - np.trace(other)) / (m * (m - 1)) if m > 1 else np.nan
        first = (one.sum() - np.trace(one)) / (n * (n - 1)) if n > 1 else np.nan
        return float(first), float(within), float(values[:n, n:].mean())


def pairs(a: Array, b: Array, *, whole: bool = False) -> Pairs:
    """`Pairs` of points (n, k) and (m, k); see there for `whole`."""
    both = np.concatenate([a, b])
    both = both - both.mean(0)  # |x|^2 + |y|^2 - 2 x y loses fewer digits near 0, and is ten times as fast as x - y
    product = both @ both.T
    square = product.diagonal()
    distance = np.sqrt(np.maximum(square[:, None] + square - 2 * product, 0.0))
    np.fill_diagonal(distance, 0.0)
    return Pairs(distance, len(a), whole)


def energy_distance(found: Pairs) -> float:
    """Energy distance: sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|), norms Euclidean.

    Means are over different points (unbiased under the root); an estimate below 0 counts as 0.

    Args:
        found: Pairs of draws.

    Returns:
        The distance, in the square root of the points' units.

    Source: Szekely, Rizzo 2013, Energy statistics.
    """
    first, second, between = found.blocks(found.distance)
    return _root(2 * between - first - second)


def median_distance(found: Pairs) -> float:
    """The median distance between different points of both samples: the kernel's width where none is given.

    Source: Gretton, Borgwardt, Rasch, Schoelkopf, Smola 2012, section 8.
    """
    return float(np.median(found.distance[np.triu_indices(len(found.distance), 1)]))


def mmd(found: Pairs, width: float | None = None) -> float:
    """Maximum mean discrepancy: sqrt(E k(X, X') + E k(Y, Y') - 2 E k(X, Y)), k(x, y) = exp(-|x - y|^2 / (2 width^2)).

    Means are over different points (unbiased under the root); an estimate below 0 counts as 0.

    Args:
        found: Pairs of draws.
        width: Of the kernel, in the points' units; None: `median_distance`.

    Returns:
        A number from 0 to sqrt(2).

    Source: Gretton, Borgwardt, Rasch, Schoelkopf, Smola 2012.
    """
    first, second, between = found.blocks(_kernel(found, width))
    return _root(first + second - 2 * between)


def mmd_p(found: Pairs, width: float | None = None, permutations: int = PERMUTATIONS, seed: int = 0) -> float:
    """The chance of an MMD at least as large if both samples were of one distribution: a permutation test.

        p = (1 + #{MMD^2 of permuted labels >= MMD^2}) / (1 + permutations)

    Right for independent draws: thin a Markov chain to its effective size first.

    Args:
        found: Pairs of draws.
        width: As for `mmd`.
        permutations: How many.
        seed: For the permutations.

    Returns:
        p; NaN where one sample has less than two points or is no sample.

    Source: Gretton, Borgwardt, Rasch, Schoelkopf, Smola 2012, section 4; Phipson, Smyth 2010 (the ones).
    """
    n, m = found.first, len(found.distance) - found.first
    if found.whole or n < 2 or m < 2:
        return np.nan
    kernel = _kernel(found, width)
    np.fill_diagonal(kernel, 0.0)
    rng = np.random.default_rng(seed)
    labels = np.zeros((permutations + 1, n + m))
    labels[:, :n] = 1.0
    labels[1:] = rng.permuted(labels[1:], axis=1)
    # With z = 1 in the first sample: z K z, z K 1 and 1 K 1 give the sums of all three blocks.
    within, row = np.einsum("pi,pi->p", labels @ kernel, labels), labels @ kernel.sum(0)
    between, other = row - within, kernel.sum() - 2 * row + within
    found_at = within / (n * (n - 1)) + other / (m * (m - 1)) - 2 * between / (n * m)
    # What is equal but for rounding counts as at least as large.
    return float((found_at >= found_at[0] - 1e-12).sum() / (permutations + 1))


def _kernel(found: Pairs, width: float | None) -> Array:
    width = median_distance(found) if width is None else width
    # Points that are all the same: any width gives the same answer.
    return np.asarray(np.exp(-0.5 * (found.distance / (width or 1.0)) ** 2))


def _root(square: float) -> float:
    return float(np.sqrt(max(square, 0.0))) if square == square else np.nan
