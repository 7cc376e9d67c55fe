"""How far two sets of draws are apart, coordinate by coordinate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.core.diagnostics import constant, mcse_mean, mcse_weighted_mean, weighted_mean

Array = NDArray[np.float64]
LEVELS = (50, 80, 95)


class Marginal(NamedTuple):
    """Draws of k coordinates, summarised.

    Args:
        mean, sd: (k,).
        mcse: Monte Carlo error of the mean (k,); NaN where draws are members.
        ess: How many independent draws tell the mean as well (k,).
        sorted: The draws (k, S), equally weighted, in order.
        constant: Whether all draws are equal (k,).
    """

    mean: Array
    sd: Array
    mcse: Array
    ess: Array
    sorted: Array
    constant: NDArray[np.bool_]


def marginal(draws: NDArray[np.floating], weights: Array | None, kind: str) -> Marginal:
    """Summarises draws.

    Args:
        draws: (chain, draw, k).
        weights: (chain, draw) or None.
        kind: "markov" (Monte Carlo errors from autocorrelations), "iid" (sd / sqrt(S)) or "members" (none).
    """
    values = np.asarray(draws, dtype=np.float64)
    count = values.shape[0] * values.shape[1]
    fixed = constant(draws)
    mean = weighted_mean(values, weights)
    spread = weighted_mean((values - mean) ** 2, weights)
    correction = count / (count - 1) if weights is None and count > 1 else 1.0
    sd = np.where(fixed, 0.0, np.sqrt(spread * correction))
    mcse = _mcse(values, sd, weights, kind)
    if kind != "members":
        mcse = np.where(fixed, 0.0, mcse)
    ess = np.full(len(mean), float(count))
    known = (mcse > 0) & np.isfinite(mcse)
    ess[known] = (sd[known] / mcse[known]) ** 2
    flat = equally_weighted(values, weights)
    return Marginal(mean, sd, mcse, ess, np.sort(np.ascontiguousarray(flat.T), axis=1), fixed)


def _mcse(values: Array, sd: Array, weights: Array | None, kind: str) -> Array:
    if kind == "members":
        return np.full(values.shape[2], np.nan)
    if weights is not None:
        return mcse_weighted_mean(values, weights, kind)
    if kind == "markov":
        return mcse_mean(values)
    return sd / np.sqrt(values.shape[0] * values.shape[1])


def equally_weighted(draws: Array, weights: Array | None) -> Array:
    """(S, k) draws of equal weight, by systematic resampling at the quantiles (i + 1/2) / S; no randomness.

    Args:
        draws: (chain, draw, k).
        weights: (chain, draw) or None.
    """
    flat = draws.reshape(-1, draws.shape[2])
    if weights is None:
        return flat
    share = np.cumsum(np.asarray(weights, dtype=np.float64).reshape(-1))
    places = (np.arange(len(flat)) + 0.5) / len(flat) * share[-1]
    return flat[np.minimum(np.searchsorted(share, places), len(flat) - 1)]


def wasserstein(a: Array, b: Array, order: int = 1) -> Array:
    """Wasserstein distance of an order r: (integral over u of |F_a^-1(u) - F_b^-1(u)|^r)^(1 / r), exactly.

    Args:
        a: Sorted draws (k, S).
        b: Sorted draws (k, T).
        order: r, 1 or more.

    Returns:
        Distances (k,), in the draws' units.
    """
    if a.shape[1] == b.shape[1]:
        return np.asarray((np.abs(a - b) ** order).mean(axis=1) ** (1 / order))
    # Quantile functions are steps; between neighbouring steps of either both are flat.
    edges = np.union1d(np.arange(1, a.shape[1] + 1) / a.shape[1], np.arange(1, b.shape[1] + 1) / b.shape[1])
    widths = np.diff(edges, prepend=0.0)
    middles = edges - widths / 2
    at_a = np.minimum((middles * a.shape[1]).astype(int), a.shape[1] - 1)
    at_b = np.minimum((middles * b.shape[1]).astype(int), b.shape[1] - 1)
    total = np.zeros(len(a))
    for start in range(0, len(edges), 4096):  # bounds the memory when S and T have no common divisor
        part = slice(start, start + 4096)
        total += np.abs(a[:, at_a[part]] - b[:, at_b[part]]) ** order @ widths[part]
    return np.asarray(total ** (1 / order))


def wasserstein_floor(draws: Array, ess_a: Array, ess_b: Array) -> Array:
    """Expected 1-Wasserstein distance of two independent samples of the same distribution.

    sqrt(2 / pi) sqrt(1 / n + 1 / m) integral of sqrt(F (1 - F)): the difference of the two distribution
    functions is a Brownian bridge, whose mean absolute value at F is sqrt(2 / pi) sqrt(F (1 - F)).

    Args:
        draws: Sorted draws (k, S) of the distribution.
        ess_a: Effective size n of one sample (k,).
        ess_b: Effective size m of the other (k,).

    Source: del Barrio, Gine, Matran (1999), Central limit theorems for the Wasserstein distance.
    """
    count = draws.shape[1]
    level = np.arange(1, count) / count
    integral = np.diff(draws, axis=1) @ np.sqrt(level * (1 - level))
    return np.asarray(np.sqrt(2 / np.pi) * np.sqrt(1 / ess_a + 1 / ess_b) * integral)


def coverage(gold: Array, other: Array, level: float) -> Array:
    """Share of gold's draws inside the central `level` interval of the other's.

    Args:
        gold: Sorted draws (k, S).
        other: Sorted draws (k, T).
        level: In (0, 1).

    Returns:
        Shares (k,); `level` for equal distributions, less for an over-confident approximation.
    """
    low, high = (_quantile(other, at) for at in ((1 - level) / 2, (1 + level) / 2))
    return np.asarray(((gold >= low[:, None]) & (gold <= high[:, None])).mean(axis=1))


def _quantile(draws: Array, level: float) -> Array:
    """numpy's quantile of sorted draws (k, S), which need no sorting again: (k,)."""
    place = level * (draws.shape[1] - 1)
    low = int(place)
    high = min(low + 1, draws.shape[1] - 1)
    return np.asarray(draws[:, low] + (place - low) * (draws[:, high] - draws[:, low]))


def distances(gold: Marginal, other: Marginal) -> dict[str, Array]:
    """Every distance of an approximation from gold, (k,) each, lengths in gold's sds.

    Where gold is constant the approximation must be the same constant: then it is at distance 0, else at
    infinity.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(gold.mcse**2 + other.mcse**2)
        out = {
            "off": (other.mean - gold.mean) / gold.sd,
            "z": (other.mean - gold.mean) / error,
            "sd_ratio": other.sd / gold.sd,
            "w1": wasserstein(gold.sorted, other.sorted) / gold.sd,
            "w1_floor": wasserstein_floor(gold.sorted, gold.ess, other.ess) / gold.sd,
        }
    for level in LEVELS:
        out[f"in{level}"] = coverage(gold.sorted, other.sorted, level / 100)
    return _with_constants(out, gold, other)


def _with_constants(out: dict[str, Array], gold: Marginal, other: Marginal) -> dict[str, Array]:
    fixed = gold.constant
    near = np.abs(other.mean - gold.mean) <= 1e-5 * np.maximum(1.0, np.abs(gold.mean))
    same = near & other.constant
    apart = np.where(same, 0.0, np.inf)
    constants = {
        "off": np.where(near, 0.0, np.inf),
        "z": np.where(near, 0.0, np.inf),
        "sd_ratio": np.where(other.constant, 1.0, np.inf),
        "w1": apart,
        "w1_floor": np.zeros(len(fixed)),
        **{f"in{level}": same.astype(np.float64) for level in LEVELS},
    }
    return {name: np.where(fixed, constants[name], value) for name, value in out.items()}
