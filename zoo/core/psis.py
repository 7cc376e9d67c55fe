"""Pareto-smoothed importance sampling: weights of draws whose largest values are made reliable, and judged.

    w_s ∝ r_s, the largest M = min(S / 5, 3 sqrt(S / r_eff)) ratios replaced by the quantiles (i - 1/2) / M of a
    generalised Pareto distribution fitted to them, none above the largest raw ratio; k-hat is its shape

The mean of r has finite variance where k < 1/2; estimates are good where k-hat < min(1 - 1 / log10 S, 0.7).

Source: Vehtari, Simpson, Gelman, Yao, Gabry 2024; Zhang, Stephens 2009.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]

# A tail of fewer ratios tells no shape.
LEAST_TAIL = 5
# The prior on the shape: so many observations of 1/2.
PRIOR_COUNT = 10


def psis(log_ratios: ArrayLike, r_eff: float = 1.0) -> tuple[Array, float]:
    """Smoothed and normalised weights of draws, and how heavy the tail of the ratios is.

    Args:
        log_ratios: log r_s (S,), up to a constant; -inf for a draw of weight 0.
        r_eff: Effective draws for each draw: 1 for independent ones.

    Returns:
        (log w (S,) with sum of w = 1, k-hat). k-hat is -inf where all ratios are equal, and inf where the tail
        has fewer than five draws.
    """
    raw = np.asarray(log_ratios, dtype=np.float64)
    raw = raw - raw.max()
    tail = int(np.ceil(min(len(raw) / 5, 3 * np.sqrt(len(raw) / r_eff))))
    if np.ptp(raw) == 0:
        return raw - np.log(len(raw)), -np.inf
    if tail < LEAST_TAIL:
        return raw - logsumexp(raw), np.inf
    order = np.argsort(raw, kind="stable")
    cut, places = np.exp(raw[order[-tail - 1]]), order[-tail:]
    excess = np.exp(raw[places]) - cut
    if excess[-1] <= 0:
        return raw - logsumexp(raw), -np.inf
    scale, k_hat = generalised_pareto(excess)
    level = (np.arange(tail) + 0.5) / tail
    smooth = cut + scale * np.expm1(-k_hat * np.log1p(-level)) / k_hat
    out = raw.copy()
    out[places] = np.minimum(np.log(smooth), 0.0)
    return out - logsumexp(out), k_hat


def generalised_pareto(excess: Array) -> tuple[float, float]:
    """(scale, k-hat) of draws over a threshold, with density (1 + k x / scale)^(-1 / k - 1) / scale.

        k(b) = mean log(1 - b x_i),  l(b) = n (log(-b / k(b)) - k(b) - 1),  b = sum_j b_j w_j,  w_j ∝ exp l(b_j)
        b_j = 1 / x_n + (1 - sqrt(m / (j - 1/2))) / (3 x_(n / 4)),  j = 1 ... m = 30 + sqrt(n)
        k = k(b),  scale = -k / b,  k-hat = (n k + 10 / 2) / (n + 10)

    Args:
        excess: In order (n,), not negative, the largest positive.

    Source: Zhang, Stephens 2009; the prior at 1/2: Vehtari et al. 2024, appendix G.
    """
    n = len(excess)
    m = 30 + int(np.sqrt(n))
    quarter = excess[int(n / 4 + 0.5) - 1]
    if quarter <= 0:  # half the tail lies on the threshold itself: ties
        quarter = excess[excess > 0][0]
    b = 1 / excess[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quarter)
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    fit = n * (np.log(-b / k) - k - 1)
    weight = np.exp(fit - logsumexp(fit))
    best = float((b * weight).sum())
    shape = float(np.log1p(-best * excess).mean())
    return -shape / best, (n * shape + PRIOR_COUNT / 2) / (n + PRIOR_COUNT)


def good_k(draws: int) -> float:
    """The largest k-hat that so many draws can bear: min(1 - 1 / log10 S, 0.7)."""
    return min(1 - 1 / float(np.log10(draws)), 0.7)
