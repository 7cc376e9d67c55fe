"""Pareto-smoothed importance sampling: weights of draws whose largest values are made reliable, and judged.

    w_s ∝ r_s, the largest M = min(S / 5, 3 sqrt(S / r_eff)) ratios replaced by the quantiles (i - 1/2) / M of a
    generalised Pareto distribution fitted to them, none above the largest raw ratio; k-hat is its shape

The mean of r has finite variance where k < 1/2; estimates are good where k-hat < min(1 - 1 / log10 S, 0.7).

Source: Vehtari, Simpson, Gelman, Yao, Gabry 2024; Zhang, Stephens 2009.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# A tail of fewer ratios tells no shape.
LEAST_TAIL = 5
# The prior on the shape: so many observations of 1/2.
PRIOR_COUNT = 10


def psis(log_ratios: ArrayLike, r_eff: float = 1.0) -> tuple[Array, Any]:
    """Smoothed and normalised weights of draws, and how heavy the tail of the ratios is.

    Args:
        log_ratios: log r_s (..., S), up to a constant for each set of S draws; -inf for a draw of weight 0. Sets are
            worked at side by side, in 50 sqrt(S) times as many numbers: give many sets in parts.
        r_eff: Effective draws for each draw: 1 for independent ones.

    Returns:
        (log w (..., S) with sum of w = 1, k-hat (...), a number for one set). A draw of weight 0 keeps it. k-hat is
        -inf where all ratios are equal, and inf where the tail has fewer than five draws and where a ratio is NaN or
        inf or none is more than -inf: such sets have NaN weights.
    """
    given = np.asarray(log_ratios, dtype=np.float64)
    top = given.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, np.nan)  # one ratio that is no number spoils the set
    raw = np.atleast_2d(given - top).reshape(-1, given.shape[-1])
    draws = raw.shape[-1]
    tail = int(np.ceil(min(draws / 5, 3 * np.sqrt(draws / r_eff))))
    k_hat = np.where(np.ptp(raw, axis=-1) == 0, -np.inf, np.inf)
    if tail >= LEAST_TAIL:
        raw, k_hat = _smooth(raw, tail, k_hat)
    k_hat = np.where(np.isnan(raw).any(-1), np.inf, k_hat)
    out = (raw - np.log(np.exp(raw).sum(-1, keepdims=True))).reshape(given.shape)
    return out, k_hat.reshape(given.shape[:-1]) if given.ndim > 1 else float(k_hat[0])


def _smooth(raw: Array, tail: int, k_hat: Array) -> tuple[Array, Array]:
    """Log ratios (n, S) with their tails replaced, and k-hat (n,); where there is no tail, as they were."""
    top = np.sort(np.argpartition(raw, -tail - 1, axis=-1)[:, -tail - 1 :], axis=-1)
    values = np.take_along_axis(raw, top, -1)
    few = (values > -np.inf).sum(-1) - 1 < LEAST_TAIL
    order = np.argsort(values, axis=-1, kind="stable")
    places = np.take_along_axis(top, order, -1)[:, 1:]
    values = np.exp(np.take_along_axis(values, order, -1))
    cut, excess = values[:, :1], values[:, 1:] - values[:, :1]
    has = (excess[:, -1] > 0) & np.isposinf(k_hat) & ~few
    scale, shape = generalised_pareto(excess[has])
    level = (np.arange(tail) + 0.5) / tail
    k = shape[:, None]
    smooth = cut[has] + scale[:, None] * np.expm1(-k * np.log1p(-level)) / k
    out, k_hat = raw.copy(), np.where((excess[:, -1] > 0) & few, np.inf, -np.inf)
    rows = out[has]
    impossible = np.isneginf(np.take_along_axis(rows, places[has], -1))
    np.put_along_axis(rows, places[has], np.where(impossible, -np.inf, np.minimum(np.log(smooth), 0.0)), -1)
    out[has], k_hat[has] = rows, shape
    return out, k_hat


def generalised_pareto(excess: Array) -> tuple[Any, Any]:
    """(scale, k-hat) of draws over a threshold, with density (1 + k x / scale)^(-1 / k - 1) / scale.

        k(b) = mean log(1 - b x_i),  l(b) = n (log(-b / k(b)) - k(b) - 1),  b = sum_j b_j w_j,  w_j ∝ exp l(b_j)
        b_j = 1 / x_n + (1 - sqrt(m / (j - 1/2))) / (3 x_(n / 4)),  j = 1 ... m = 30 + sqrt(n)
        k = k(b),  scale = -k / b,  k-hat = (n k + 10 / 2) / (n + 10)

    Args:
        excess: In order along the last axis (..., n), not negative, the largest positive.

    Source: Zhang, Stephens 2009; the prior at 1/2: Vehtari et al. 2024, appendix G.
    """
    n = excess.shape[-1]
    m = 30 + int(np.sqrt(n))
    quarter = excess[..., int(n / 4 + 0.5) - 1, None]
    if (quarter <= 0).any():  # half the tail lies on the threshold itself: ties
        least = np.where(excess > 0, excess, np.inf).min(-1, keepdims=True)
        quarter = np.where(quarter > 0, quarter, least)
    b = 1 / excess[..., -1:] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quarter)
    k = np.log1p(-b[..., None] * excess[..., None, :]).mean(axis=-1)
    fit = n * (np.log(-b / k) - k - 1)
    weight = np.exp(fit - fit.max(-1, keepdims=True))
    best = (b * weight).sum(-1) / weight.sum(-1)
    shape = np.log1p(-best[..., None] * excess).mean(-1)
    return -shape / best, (n * shape + PRIOR_COUNT / 2) / (n + PRIOR_COUNT)


def good_k(draws: int) -> float:
    """The largest k-hat that so many draws can bear: min(1 - 1 / log10 S, 0.7)."""
    return min(1 - 1 / float(np.log10(draws)), 0.7)
