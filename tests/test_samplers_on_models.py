"""Every exact sampler gives the published or exact moments of three real posteriors, by `zoo.run` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests import right_answers as right
from tests.real_data import german_credit
from tests.small_models import two_weights
from tests.statistics import assert_close_mcmc
from tests.test_posteriordb import SBLRC, sblrc

# Draws a chain: what min ESS >= 1,500 needs (16 chains). Random-walk MH needs some 3 dim iterations a draw: it is
# asked for the two small posteriors only.
DRAWS = {"hmc": 600, "nuts": 600, "chees": 500, "mclmc": 500, "mala": 2000}
WALK: dict[str, Any] = {"warmup": 2000, "thin": 20}
THIN = {"mala": 8}  # its draws are alike: every eighth tells as much and is judged eight times as fast
OPTIONS: dict[str, Any] = {"chains": 16, "warmup": 700, "seed": 0, "progress": False}


def run(problem: zoo.Problem, method: str, **options: Any) -> zoo.Posterior:
    return zoo.run(problem, method, **(OPTIONS | {"draws": DRAWS.get(method), "thin": THIN.get(method, 1)} | options))


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("method", DRAWS)
def test_german_credit(method: str, zoo_data: Path) -> None:
    problem = zoo.load("logistic_regression", data=german_credit(zoo_data), bias=False)
    fit = run(problem, method)
    assert_close_mcmc(fit.draws["w"], right.CREDIT["mean"], right.CREDIT["sd"], se=6e-5)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("method", DRAWS)
def test_columns_of_sd_200_and_an_unknown_noise(method: str, zoo_data: Path) -> None:
    """From U(-2, 2) the chains start at log densities of -10^8, and weights have sds of .001."""
    fit = run(sblrc(zoo_data), method)
    draws = torch.cat([fit.draws["beta"], fit.draws["sigma"][..., None]], -1)
    assert_close_mcmc(draws, SBLRC["mean"], SBLRC["sd"])


@pytest.mark.data
@pytest.mark.slow
def test_a_walk_of_20_steps_a_draw_from_the_modes_on(zoo_data: Path) -> None:
    """As above by mh, which does not come in from 10^8 nats away: it starts at the modes."""
    fit = zoo.run(sblrc(zoo_data), "mh", **(OPTIONS | WALK), draws=1500, init="map")
    assert fit.ok, fit.outcome
    draws = torch.cat([fit.draws["beta"], fit.draws["sigma"][..., None]], -1)
    assert_close_mcmc(draws, SBLRC["mean"], SBLRC["sd"])


@pytest.mark.slow
@pytest.mark.parametrize("method", [*(name for name in DRAWS if name != "nuts"), "mh"])
def test_the_network_of_two_weights(method: str) -> None:
    """Chains keep their sign, so what does not depend on it is judged; small steps reach the thin ridge."""
    options = {"draws": 1500, "target_accept": 0.99}
    options = {"mala": {"draws": 16_000, "target_accept": 0.8}, "mh": WALK | {"draws": 2000}}.get(method, options)
    fit = run(two_weights(), method, **{**options, "seed": 6})
    w = torch.stack([fit.draws["w1"], fit.draws["w2"]], -1)
    assert_close_mcmc(w.abs(), right.TWO_WEIGHTS["abs_mean"], right.TWO_WEIGHTS["abs_sd"])
    assert_close_mcmc(w.prod(-1), right.TWO_WEIGHTS["product_mean"])


@pytest.mark.slow
def test_the_twin_that_samples_the_root_of_the_density_is_told_apart() -> None:
    fit = run(two_weights(), "chees", draws=1500, temperature=2.0, target_accept=0.95)
    w = torch.stack([fit.draws["w1"], fit.draws["w2"]], -1)
    with pytest.raises(AssertionError, match="Monte Carlo errors apart"):
        assert_close_mcmc(w.abs(), right.TWO_WEIGHTS["abs_mean"], right.TWO_WEIGHTS["abs_sd"])
