"""Our NUTS and stock pyro.infer.mcmc NUTS are the same within Monte Carlo error, wherever stock can finish."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

import zoo
from zoo.core.diagnostics import ess, mcse_mean, mcse_sd, rhat

ALPHA = 1e-4
MODELS = {
    "coin_flip": {"n": 10, "heads": 7},
    "linear_regression": {"n": 15, "noise": None},
    "logistic_regression": {"n": 30},
    "softmax_regression": {"n": 12},
    "bnn_regression": {"n": 5, "hidden": 2, "noise": 0.5},
    "bnn_classification": {"n": 6, "hidden": 2},
}
TWINS = ("linear_regression", "bnn_regression", "bnn_classification")
LENGTH = {"warmup": 150, "draws": 500}  # stock takes 2 ms a gradient: half a minute for so many


@functools.cache
def _problem(name: str) -> zoo.Problem:
    return zoo.load(name, **MODELS[name])


@functools.cache
def _stock(name: str) -> np.ndarray:
    return _numbers(zoo.run(_problem(name), "nuts", engine="pyro", chains=2, seed=1, **LENGTH))


def _numbers(fit: zoo.Posterior) -> np.ndarray:
    """Every latent coordinate (of networks, whose units permute: f at every row) and the unconstrained log density.

    Returns:
        (chain, draw, number).
    """
    values = [fit.predict()["f"]] if fit.problem.name.startswith("bnn") else fit.draws.values()
    draws = [v.double().reshape(*fit.shape, -1) for v in values]
    return np.concatenate([v.numpy() for v in (*draws, fit.stats["lp"].double()[..., None])], axis=2)


def _smallest_p(one: np.ndarray, two: np.ndarray) -> float:
    """Bonferroni-corrected p of equal means and equal sds, in combined Monte Carlo errors."""
    scores = []
    for centre, error in ((lambda v: v.mean((0, 1)), mcse_mean), (lambda v: v.std((0, 1)), mcse_sd)):
        scores.append((centre(one) - centre(two)) / np.hypot(error(one), error(two)))
    worst = np.abs(np.concatenate(scores))
    return float(2 * stats.norm.sf(worst.max()) * len(worst))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_stock_and_ours_agree_and_the_twin_does_not(name: str) -> None:
    """The twin is a Gaussian at the mode. Both in one test: stock's minutes are spent once, in one process."""
    ours = _numbers(zoo.run(_problem(name), "nuts", chains=4, warmup=500, draws=2000, seed=2))
    for draws, least in ((ours, 1500), (_stock(name), 300)):
        assert rhat(draws).max() < 1.05
        assert ess(draws).min() > least
    assert _smallest_p(ours, _stock(name)) > ALPHA
    if name in TWINS:  # told apart by what the model is about alone: by the log density a Gaussian easily is
        laplace = _numbers(zoo.run(_problem(name), "laplace", draws=8000, seed=3)).reshape(4, 2000, -1)
        assert _smallest_p(laplace[..., :-1], _stock(name)[..., :-1]) < ALPHA
