"""Effective sample size of blocks of chains, by Fourier transforms and Geyer's initial monotone sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Array = NDArray[np.float64]
LEAST_DRAWS = 4


def effective(block: Array) -> Array:
    """Chains x draws / tau, tau = -1 + 2 sum of the autocorrelations up to Geyer's cut; (k,) of (k, chain, draw).

    Source: Geyer (1992), Practical Markov chain Monte Carlo.
    """
    columns, chains, draws = block.shape
    if draws < LEAST_DRAWS:
        return np.full(columns, float(chains * draws))
    mean = block.mean(axis=2)
    covariance = autocovariance(block - mean[:, :, None])
    within = covariance[:, :1] * draws / (draws - 1.0)
    total = covariance[:, 0] + (mean.var(axis=1, ddof=1) if chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / total[:, None]
    rho[:, 0] = 1.0
    last_pair = max(0, (draws - 3) // 2 if draws % 2 else draws // 2 - 2)
    pairs = rho[:, 0 : 2 * last_pair + 2 : 2] + rho[:, 1 : 2 * last_pair + 2 : 2]
    # The first pair that is not positive ends the sum; only half of its first term counts, if positive.
    ends = pairs <= 0
    cut = np.where(ends.any(axis=1), ends.argmax(axis=1), last_pair)
    monotone = np.minimum.accumulate(pairs, axis=1)
    inside = np.arange(pairs.shape[1]) < cut[:, None]
    row = np.arange(columns)
    edge = rho[row, 2 * cut]
    edge = np.where((edge > 0) | (pairs[row, cut] >= 0), edge, 0.0)
    tau = -1.0 + 2.0 * np.where(inside, monotone, 0.0).sum(axis=1) + edge
    out = chains * draws / np.maximum(tau, 1 / np.log10(chains * draws))
    # An indicator may never change (many ties at the quantile): nothing to correlate.
    return np.where(total > 0, out, float(chains * draws))


def autocovariance(centred: Array) -> Array:
    """Mean over chains of the autocovariances at lags 0 .. n - 1, (k, n) of (k, chain, n), by one Fourier transform."""
    _, chains, draws = centred.shape
    size = fft.next_fast_len(2 * draws, real=True)
    spectrum = fft.rfft(centred, size, axis=2)
    # Sums of squares over chains, without an array of the squares.
    power = sum(np.einsum("kcf,kcf->kf", part, part) for part in (spectrum.real, spectrum.imag))
    return np.asarray(fft.irfft(power, size, axis=1)[:, :draws] / (chains * draws))
