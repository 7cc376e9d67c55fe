"""How the tests judge draws: against exact numbers, within Monte Carlo error, at a stated false-alarm rate.

`alpha` is the chance that a right sampler fails one call; it is shared out over all the call's comparisons
(Bonferroni). Every check here has a test with a case that must fail (tests/test_statistics.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

MIN_ESS = 1500.0  # below it a perfect sampler often shows R-hat > 1.01
MAX_RHAT = 1.01


class Summary(NamedTuple):
    """One number a coordinate: mean, sd, bulk and squared ESS, R-hat, Monte Carlo errors of mean and sd."""

    mean: np.ndarray
    sd: np.ndarray
    ess: np.ndarray
    ess_sd: np.ndarray
    rhat: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray


def summarise(draws: Any) -> Summary:
    """ArviZ's diagnostics of draws (chain, draw, ...), one number a coordinate (flattened)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next generation at import
        import arviz as az

    values = np.asarray(draws, dtype=np.float64)
    flat = values.reshape(*values.shape[:2], -1)
    assert np.isfinite(flat).all(), f"{int((~np.isfinite(flat)).sum())} draws are not finite"

    def each(function: Callable[..., Any], **options: Any) -> np.ndarray:
        columns = [np.ascontiguousarray(flat[:, :, i]) for i in range(flat.shape[2])]
        return np.array([float(function(column, **options)) for column in columns])

    return Summary(
        mean=flat.mean((0, 1)),
        sd=flat.std((0, 1), ddof=1),
        ess=each(az.ess, method="bulk"),
        ess_sd=each(az.ess, method="sd"),
        rhat=each(az.rhat),
        mcse_mean=each(az.mcse, method="mean"),
        mcse_sd=each(az.mcse, method="sd"),
    )


def z_for(alpha: float, comparisons: int) -> float:
    """The two-sided normal quantile at alpha / comparisons."""
    return float(stats.norm.isf(alpha / comparisons / 2))


def _within(what: str, got: np.ndarray, right: Any, error: np.ndarray, z: float) -> None:
    right = np.asarray(right, dtype=np.float64).reshape(-1)
    assert right.shape == got.shape, f"{what}: {got.shape[0]} coordinates, right answer has {right.shape[0]}"
    score = np.abs(got - right) / np.maximum(error, 1e-300)
    worst = int(score.argmax())
    assert score[worst] <= z, (
        f"{what} of coordinate {worst}: got {got[worst]:.8g}, right {right[worst]:.8g}, "
        f"{score[worst]:.1f} Monte Carlo errors apart (allowed {z:.1f})"
    )


def assert_close_mcmc(
    draws: Any, mean: Any, sd: Any = None, *, alpha: float = 1e-4, se: float = 0.0, min_ess: float = MIN_ESS
) -> None:
    """Checks Markov draws (chain, draw, ...) against the exact means and sds.

    First asks for min ESS >= `min_ess` (bulk) and R-hat < 1.01; then |mean - exact| <= z sqrt(MCSE^2 + se^2)
    and |sd - exact| <= z MCSE(sd), z for `alpha` over all comparisons.

    Args:
        draws: (chain, draw, ...), at least two chains.
        mean: Exact means (...).
        sd: Exact sds (...), or None.
        alpha: Chance that a right sampler fails.
        se: Standard error of the right answer itself.
        min_ess: Smallest effective sample size that may be judged.
    """
    seen = summarise(draws)
    assert seen.ess.min() >= min_ess, f"too few draws to judge: min ESS {seen.ess.min():.0f} < {min_ess:.0f}"
    assert seen.rhat.max() < MAX_RHAT, f"R-hat {seen.rhat.max():.4f} >= {MAX_RHAT}"
    z = z_for(alpha, seen.mean.size * (1 if sd is None else 2))
    _within("mean", seen.mean, mean, np.hypot(seen.mcse_mean, se), z)
    if sd is not None:
        _within("sd", seen.sd, sd, np.hypot(seen.mcse_sd, se), z)


def assert_close_iid(draws: Any, mean: Any, sd: Any = None, *, alpha: float = 1e-4) -> None:
    """Checks independent draws (chain, draw, ...) against the exact means and sds.

    Errors: sd / sqrt(S) for the mean; sqrt((m4 - m2^2) / S) / (2 sd) for the sd (delta method).
    """
    values = np.asarray(draws, dtype=np.float64)
    flat = values.reshape(values.shape[0] * values.shape[1], -1)
    count = flat.shape[0]
    assert count >= 1000, f"too few draws to judge: {count} < 1000"
    centred = flat - flat.mean(0)
    m2, m4 = (centred**2).mean(0), (centred**4).mean(0)
    z = z_for(alpha, flat.shape[1] * (1 if sd is None else 2))
    _within("mean", flat.mean(0), mean, np.sqrt(m2 / count), z)
    if sd is not None:
        _within("sd", np.sqrt(m2), sd, np.sqrt((m4 - m2**2) / count) / (2 * np.sqrt(m2)), z)


class Quadrature(NamedTuple):
    """log of the integral of exp(log_f), and an expectation under the normalised density."""

    log_z: float
    points: np.ndarray
    weights: np.ndarray

    def mean(self, g: Callable[..., Any]) -> np.ndarray:
        """E g(point), with g over points (m, d) giving (m, ...)."""
        return np.tensordot(self.weights, np.asarray(g(self.points)), axes=1)


def quadrature(log_f: Callable[[np.ndarray], Any], box: list[tuple[float, float]], nodes: int = 400) -> Quadrature:
    """Gauss-Legendre quadrature of exp(log_f) over a box, nodes an axis.

    Args:
        log_f: Points (m, d) -> log density (m,), not normalised.
        box: One (low, high) an axis; what lies outside must not matter.
        nodes: Points an axis.
    """
    base, mass = np.polynomial.legendre.leggauss(nodes)
    axes = [(low + (high - low) * (base + 1) / 2) for low, high in box]
    scaled = [mass * (high - low) / 2 for low, high in box]
    points = np.stack([grid.reshape(-1) for grid in np.meshgrid(*axes, indexing="ij")], -1)
    log_mass = sum(np.log(grid.reshape(-1)) for grid in np.meshgrid(*scaled, indexing="ij"))
    log_terms = np.asarray(log_f(points), dtype=np.float64).reshape(-1) + log_mass
    top = log_terms.max()
    total = np.exp(log_terms - top).sum()
    return Quadrature(float(top + np.log(total)), points, np.exp(log_terms - top) / total)
