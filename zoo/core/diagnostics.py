"""R-hat, effective sample sizes and Monte Carlo errors of many quantities at once.

The definitions are ArviZ's (rank-normalised split R-hat, Geyer's initial monotone sequence), and a test holds
the two equal; ArviZ computes one scalar at a time, which for 1,000 points takes many seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .effective import LEAST_DRAWS, effective
from .ranks import Sorted, from_median, quantile, scores, sort_rows

Array = NDArray[np.float64]

# Numbers worked on together: bounds the memory of the Fourier transforms, and keeps them near the processor.
BLOCK = 2**18
TAILS = (0.05, 0.95)


def constant(draws: ArrayLike) -> NDArray[np.bool_]:
    """Whether a quantity is the same in every draw, up to the rounding of its dtype; what is not finite is not.

    Args:
        draws: (chain, draw, ...).

    Returns:
        Booleans (...).
    """
    draws = np.asarray(draws)
    eps = np.finfo(draws.dtype).eps if draws.dtype.kind == "f" else 0.0
    low, high = draws.min(axis=(0, 1)), draws.max(axis=(0, 1))
    size = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        spread = high.astype(np.float64) - low.astype(np.float64)
    return np.asarray(np.isfinite(size) & (spread <= 16 * eps * size))


def rhat(draws: ArrayLike) -> Array:
    """Rank-normalised split R-hat: sqrt((B / W + n - 1) / n) of the normal scores of the ranks.

    The larger of that of the draws and of that of their distances from the median. One chain is judged by its
    two halves. A constant quantity has R-hat 1; fewer than 4 draws a chain give NaN.

    Args:
        draws: (chain, draw, ...).

    Returns:
        R-hat (...).

    Source: Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), Rank-normalization, folding, localization.
    """
    return _blockwise(lambda block: _rank_rhat(*_ranked(block)), draws, if_constant=1.0)


class Mixing(NamedTuple):
    """R-hat, bulk and tail ESS (...) of the same draws."""

    rhat: Array
    bulk: Array
    tail: Array


def mixing(draws: ArrayLike) -> Mixing:
    """What `rhat` and `ess` give of draws (chain, draw, ...), by one sort for all three."""

    def one(block: Array) -> Array:
        ordered, normal = _ranked(block)
        return np.stack([_rank_rhat(ordered, normal), effective(normal), _ess_tail(block, ordered)])

    draws = np.asarray(draws)
    count = float(np.prod(draws.shape[:2]))
    return Mixing(*_blockwise(one, draws, if_constant=(1.0, count, count)))


def ess(draws: ArrayLike, kind: str = "bulk") -> Array:
    """Effective sample size S / tau: draws over 1 + 2 sum of their autocorrelations.

    Kinds: of the normal scores ("bulk"), the smaller of those of the 5 and 95 % quantiles ("tail"), of the
    draws ("mean"), of their squared distances from the mean ("sd"). A constant quantity has as many effective
    draws as draws; fewer than 4 draws a chain give NaN.

    Args:
        draws: (chain, draw, ...).
        kind: "bulk", "tail", "mean" or "sd".

    Returns:
        Effective sample sizes (...).

    Source: Vehtari and others (2021); Geyer (1992) for where the autocorrelations are cut.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {sorted(KINDS)}, got {kind!r}.")
    draws = np.asarray(draws)
    return _blockwise(KINDS[kind], draws, if_constant=float(draws.shape[0] * draws.shape[1]))


def kish(weights: ArrayLike) -> float:
    """Share of draws that is left where some weigh more than others: (sum w)^2 / (S sum w^2), 1 for equal weights.

    Source: Kish 1965, Survey Sampling.
    """
    share = np.asarray(weights, dtype=np.float64)
    return float(share.sum() ** 2 / (share.size * (share**2).sum()))


def mcse_mean(draws: ArrayLike) -> Array:
    """Monte Carlo standard error of the mean: sd / sqrt(ESS), (...) of draws (chain, draw, ...)."""

    def one(block: Array) -> Array:
        return block.std(axis=(1, 2), ddof=1) / np.sqrt(_ess_mean(block))

    return _blockwise(one, draws, if_constant=0.0)


def mcse_sd(draws: ArrayLike) -> Array:
    """Monte Carlo standard error of the sd: sd(d^2) / (2 sd sqrt(ESS of d^2)), d the distance from the mean.

    Args:
        draws: (chain, draw, ...).

    Returns:
        Errors (...); 0 for a constant quantity.

    Source: the delta method (Kenney and Keeping 1951), as ArviZ and Stan's posterior package.
    """

    def one(block: Array) -> Array:
        square = _squares(block)
        variance = square.mean(axis=(1, 2))
        return np.sqrt(square.var(axis=(1, 2)) / _ess_mean(square) / variance) / 2

    return _blockwise(one, draws, if_constant=0.0)


def mcse_quantile(draws: ArrayLike, level: float) -> Array:
    """Monte Carlo standard error of a quantile: half the width of its interval of 68 %, between order statistics.

    With n the ESS of the indicator of lying below the quantile, the share below it is Beta(n p + 1, n (1 - p) + 1);
    that law's 16 and 84 % points, as quantiles of the draws, are the interval's ends.

    Args:
        draws: (chain, draw, ...).
        level: p in (0, 1).

    Returns:
        Errors (...); 0 for a constant quantity.

    Source: Vehtari and others (2021), section 4.
    """

    def one(block: Array) -> Array:
        flat = block.reshape(len(block), -1)
        size = _ess_below(block, np.quantile(flat, level, axis=1))
        low, high = (stats.beta.ppf(tail, size * level + 1, size * (1 - level) + 1) for tail in (0.158655, 0.841345))
        ends = [np.quantile(column, pair) for column, *pair in zip(flat, low, high, strict=True)]
        return np.diff(ends, axis=1)[:, 0] / 2

    return _blockwise(one, draws, if_constant=0.0)


def bfmi(energy: ArrayLike) -> Array:
    """E-BFMI of each chain: sum (E_n - E_(n-1))^2 / sum (E_n - mean E)^2; 1 for an energy that never changes.

    Args:
        energy: (chain, draw).

    Returns:
        (chain,). Near 2 for independent energies; below .3 momenta are drawn anew too slowly for the tails.

    Source: Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte Carlo.
    """
    energy = np.asarray(energy, dtype=np.float64)
    spread = ((energy - energy.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    steps = (np.diff(energy, axis=1) ** 2).sum(axis=1)
    return np.asarray(np.divide(steps, spread, where=spread > 0, out=np.ones_like(spread)))


def weighted_mean(draws: ArrayLike, weights: ArrayLike | None) -> Array:
    """sum w d / sum w, (...) of draws (chain, draw, ...); weights (chain, draw) or None."""
    draws = np.asarray(draws, dtype=np.float64)
    if weights is None:
        return np.asarray(draws.mean(axis=(0, 1)))
    weights = np.asarray(weights, dtype=np.float64)
    return np.asarray(np.tensordot(weights / weights.sum(), draws, axes=2))


def mcse_weighted_mean(draws: ArrayLike, weights: ArrayLike, kind: str) -> Array:
    """Monte Carlo standard error of sum w d / sum w: of the mean of the influence w (d - mean) / mean(w).

    Args:
        draws: (chain, draw, ...).
        weights: (chain, draw).
        kind: "markov" (autocorrelated draws) or "iid".

    Returns:
        Errors (...).

    Source: the delta method for a ratio of means.
    """
    draws = np.asarray(draws, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    relative = (weights / weights.mean()).reshape(*weights.shape, *[1] * (draws.ndim - 2))
    influence = relative * (draws - weighted_mean(draws, weights))
    if kind == "markov":
        return mcse_mean(influence)
    return np.asarray(influence.std(axis=(0, 1)) / np.sqrt(weights.size))


def _blockwise(function: Callable[[Array], Array], draws: ArrayLike, if_constant: ArrayLike) -> Array:
    """`function` over blocks (k, chain, draw) of draws (chain, draw, ...); a draw that is not finite gives NaN.

    Args:
        function: (k, chain, draw) -> (*m, k).
        draws: (chain, draw, ...).
        if_constant: What a constant quantity gets, of shape m; the result is (*m, ...).
    """
    draws = np.asarray(draws)
    if draws.ndim < 2:
        raise ValueError(f"draws must be (chain, draw, ...), got {draws.shape}. One chain: draws[None].")
    flat, instead = draws.reshape(*draws.shape[:2], -1), np.asarray(if_constant)
    out = np.full((*instead.shape, flat.shape[2]), np.nan)
    fixed = constant(flat)
    out[..., fixed] = instead[..., None]
    if draws.shape[1] >= LEAST_DRAWS:
        varies = np.flatnonzero(~fixed & np.isfinite(flat).all(axis=(0, 1)))
        size = max(1, BLOCK // (flat.shape[0] * flat.shape[1]))
        for start in range(0, len(varies), size):
            columns = varies[start : start + size]
            block = np.ascontiguousarray(np.moveaxis(flat[:, :, columns], 2, 0), dtype=np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                out[..., columns] = function(block)
    return out.reshape((*instead.shape, *draws.shape[2:]))


def _split(block: Array) -> Array:
    """Every chain as its first and its last half: (k, 2 chain, draw // 2)."""
    half = block.shape[2] // 2
    return np.concatenate([block[:, :, :half], block[:, :, -half:]], axis=1)


def _ranked(block: Array) -> tuple[Sorted, Array]:
    """The halves' draws in order, and the normal scores of their ranks over all chains (k, 2 chain, draw // 2)."""
    halves = _split(block)
    ordered = sort_rows(halves.reshape(len(halves), -1))
    return ordered, scores(ordered).reshape(halves.shape)


def _rank_rhat(ordered: Sorted, normal: Array) -> Array:
    folded = scores(from_median(ordered)).reshape(normal.shape)
    return np.maximum(_plain_rhat(normal), _plain_rhat(folded))


def _plain_rhat(block: Array) -> Array:
    draws = block.shape[2]
    between = draws * block.mean(axis=2).var(axis=1, ddof=1)
    within = block.var(axis=2, ddof=1).mean(axis=1)
    # Chains that stand still at different places: infinite; a folded quantity that is constant everywhere: 1.
    ratio = np.where(within > 0, between / within, np.where(between > 0, np.inf, 1.0))
    return np.asarray(np.sqrt((ratio + draws - 1) / draws))


def _ess_bulk(block: Array) -> Array:
    return effective(_ranked(block)[1])


def _ess_tail(block: Array, ordered: Sorted | None = None) -> Array:
    """`ordered`: the halves' draws, where that is known; of an odd number of draws they are not all of them."""
    if ordered is None or block.shape[2] % 2:
        values = np.quantile(block.reshape(len(block), -1), TAILS, axis=1)
    else:
        values = np.stack([quantile(ordered, level) for level in TAILS])
    return np.minimum(*(_ess_below(block, value) for value in values))


def _ess_below(block: Array, value: Array) -> Array:
    """ESS of the indicator of lying at or below a value (k,)."""
    return _ess_mean((block <= value[:, None, None]).astype(np.float64))


def _ess_mean(block: Array) -> Array:
    return effective(_split(block))


def _squares(block: Array) -> Array:
    return (block - block.mean(axis=(1, 2), keepdims=True)) ** 2


def _ess_sd(block: Array) -> Array:
    return _ess_mean(_squares(block))


KINDS = {"bulk": _ess_bulk, "tail": _ess_tail, "mean": _ess_mean, "sd": _ess_sd}
