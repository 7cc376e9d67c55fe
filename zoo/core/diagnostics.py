"""R-hat, effective sample sizes and Monte Carlo errors of many quantities at once.

The definitions are ArviZ's (rank-normalised split R-hat, Geyer's initial monotone sequence), and a test holds
the two equal; ArviZ computes one scalar at a time, which for 1,000 points takes many seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special, stats

Array = NDArray[np.float64]

# Columns worked on together: bounds the memory of the Fourier transforms.
BLOCK = 256
LEAST_DRAWS = 4


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

    def one(block: Array) -> Array:
        block = _split(block)
        folded = np.abs(block - np.median(block, axis=(0, 1)))
        return np.maximum(_plain_rhat(_scores(block)), _plain_rhat(_scores(folded)))

    return _blockwise(one, draws, if_constant=1.0)


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
        return block.std(axis=(0, 1), ddof=1) / np.sqrt(_ess_mean(block))

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
        square = (block - block.mean(axis=(0, 1))) ** 2
        variance = square.mean(axis=(0, 1))
        return np.sqrt(square.var(axis=(0, 1)) / _ess_mean(square) / variance) / 2

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
        flat = block.reshape(-1, block.shape[2])
        size = _ess_indicator(block <= np.quantile(flat, level, axis=0))
        low, high = (stats.beta.ppf(tail, size * level + 1, size * (1 - level) + 1) for tail in (0.158655, 0.841345))
        ends = [np.quantile(column, pair) for column, *pair in zip(flat.T, low, high, strict=True)]
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


def _blockwise(function: Callable[[Array], Array], draws: ArrayLike, if_constant: float) -> Array:
    """`function` over blocks of columns of (chain, draw, ...); constants get that, a draw that is not finite NaN."""
    draws = np.asarray(draws)
    if draws.ndim < 2:
        raise ValueError(f"draws must be (chain, draw, ...), got {draws.shape}. One chain: draws[None].")
    flat = draws.reshape(*draws.shape[:2], -1)
    out = np.full(flat.shape[2], np.nan)
    fixed = constant(flat)
    out[fixed] = if_constant
    if draws.shape[1] >= LEAST_DRAWS:
        varies = np.flatnonzero(~fixed & np.isfinite(flat).all(axis=(0, 1)))
        for start in range(0, len(varies), BLOCK):
            columns = varies[start : start + BLOCK]
            with np.errstate(divide="ignore", invalid="ignore"):
                out[columns] = function(flat[:, :, columns].astype(np.float64))
    return out.reshape(draws.shape[2:])


def _split(block: Array) -> Array:
    """Every chain as its first and its last half: (2 chain, draw // 2, k)."""
    half = block.shape[1] // 2
    return np.concatenate([block[:, :half], block[:, -half:]])


def _scores(block: Array) -> Array:
    """Normal scores of the ranks over all chains: Phi^-1((rank - 3/8) / (S + 1/4))."""
    flat = block.reshape(-1, block.shape[2])
    ranks = stats.rankdata(flat, axis=0)
    return np.asarray(special.ndtri((ranks - 0.375) / (len(flat) + 0.25))).reshape(block.shape)


def _plain_rhat(block: Array) -> Array:
    draws = block.shape[1]
    between = draws * block.mean(axis=1).var(axis=0, ddof=1)
    within = block.var(axis=1, ddof=1).mean(axis=0)
    # Chains that stand still at different places: infinite; a folded quantity that is constant everywhere: 1.
    ratio = np.where(within > 0, between / within, np.where(between > 0, np.inf, 1.0))
    return np.asarray(np.sqrt((ratio + draws - 1) / draws))


def _ess_bulk(block: Array) -> Array:
    return _ess(_scores(_split(block)))


def _ess_tail(block: Array) -> Array:
    low, high = np.quantile(block.reshape(-1, block.shape[2]), (0.05, 0.95), axis=0)
    return np.minimum(_ess_indicator(block <= low), _ess_indicator(block <= high))


def _ess_indicator(block: NDArray[np.bool_]) -> Array:
    return _ess(_split(block.astype(np.float64)))


def _ess_mean(block: Array) -> Array:
    return _ess(_split(block))


def _ess_sd(block: Array) -> Array:
    return _ess(_split((block - block.mean(axis=(0, 1))) ** 2))


KINDS = {"bulk": _ess_bulk, "tail": _ess_tail, "mean": _ess_mean, "sd": _ess_sd}


def _ess(block: Array) -> Array:
    """Chains x draws / tau, tau = -1 + 2 sum of the autocorrelations up to Geyer's cut; (k,) of (c, n, k)."""
    chains, draws, _ = block.shape
    if draws < LEAST_DRAWS:
        return np.full(block.shape[2], float(chains * draws))
    covariance = _autocovariance(block)
    within = covariance[0] * draws / (draws - 1.0)
    total = covariance[0] + (block.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    last_pair = max(0, (draws - 3) // 2 if draws % 2 else draws // 2 - 2)
    pairs = rho[0 : 2 * last_pair + 2 : 2] + rho[1 : 2 * last_pair + 2 : 2]
    # The first pair that is not positive ends the sum; only half of its first term counts, if positive.
    ends = pairs <= 0
    cut = np.where(ends.any(axis=0), ends.argmax(axis=0), last_pair)
    monotone = np.minimum.accumulate(pairs, axis=0)
    inside = np.arange(len(pairs))[:, None] < cut
    column = np.arange(rho.shape[1])
    edge = rho[2 * cut, column]
    edge = np.where((edge > 0) | (pairs[cut, column] >= 0), edge, 0.0)
    tau = -1.0 + 2.0 * np.where(inside, monotone, 0.0).sum(axis=0) + edge
    out = chains * draws / np.maximum(tau, 1 / np.log10(chains * draws))
    # An indicator may never change (many ties at the quantile): nothing to correlate.
    return np.where(total > 0, out, float(chains * draws))


def _autocovariance(block: Array) -> Array:
    """Mean over chains of the autocovariances at lags 0 .. n - 1, (n, k), by one Fourier transform."""
    draws = block.shape[1]
    size = fft.next_fast_len(2 * draws, real=True)
    spectrum = fft.rfft(block - block.mean(axis=1, keepdims=True), size, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    return np.asarray(fft.irfft(power, size, axis=0)[:draws] / draws)
