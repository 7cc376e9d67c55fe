"""The ELBO of fitted guides on all data, from fresh draws: what `svi` reports and chooses the best restart by.

ELBO(q) ~ (1 / S) sum_s [log p(y, theta_s) - log q(theta_s)],  theta_s ~ q,    standard error sd / sqrt(S)

S is 20,000, fewer for large problems. Several restarts share them, 2,000 at least for each, and the best of them by
that gets all 20,000: sixteen restarts would otherwise take longer to measure than to fit.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .step_source import Fit

PARTICLES, LEAST = 20_000, 2_000
CHUNK_NUMBERS = 500_000
LOCAL_WORK = 5_000_000_000


class Estimate(NamedTuple):
    """ELBO of the best restart and its standard error, of each restart, and which is the best."""

    elbo: float
    error: float
    each: list[float]
    best: int


def estimate(fit: Fit, params: Tensor, seed: int) -> Estimate:
    """Of every restart's parameters (restart, size)."""
    most = particles(fit)
    first = most if len(params) == 1 else min(most, max(LEAST, most // len(params)))
    found = [_of(fit, flat, r, seed, first) for r, flat in enumerate(params)]
    best = max(range(len(found)), key=lambda r: (found[r][0] == found[r][0], found[r][0]))  # NaN is never the best
    if first < most:
        found[best] = _of(fit, params[best], best, seed, most)
    return Estimate(*found[best], [elbo for elbo, _ in found], best)


def particles(fit: Fit) -> int:
    """How many draws a problem of this size gets.

    Where rows have latents of their own each particle is an average over rows; of images a few must do.
    """
    if fit.engine == "loop":
        return 500
    rows, size = rows_of(fit), fit.layout.size
    most = min(PARTICLES, max(200, PARTICLES * 5000 // (rows + size)))
    if fit.noise_for(None) > rows or rows > len(fit.problem.tensor):
        return min(most, 200, max(10, LOCAL_WORK // (rows * size)))
    return most


def rows_of(fit: Fit) -> int:
    """How many rows the data have; images have one a pixel, since each layer computes something at every one."""
    x = fit.problem.tensor
    return len(x) * (x.shape[2:].numel() if x.dim() > 3 else 1)


def chunk(fit: Fit) -> int:
    """Draws at once: bounded memory whatever the size of data and guide."""
    return max(1, CHUNK_NUMBERS // (rows_of(fit) + fit.layout.size + 1))


def _of(fit: Fit, flat: Tensor, restart: int, seed: int, count: int) -> tuple[float, float]:
    noise = fit.noise(seed, restart, 0, (count,), "elbo")
    parts = [fit.estimate(flat, part).elbo for part in noise.split(chunk(fit))]
    total = sum(float(part.sum()) for part in parts) / count
    spread = sum(float((part - total).square().sum()) for part in parts) / max(1, count - 1)
    return total, (spread / count) ** 0.5
