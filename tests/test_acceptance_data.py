"""Gold standards on real data: UCI concrete in closed form, German credit as published."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import zoo
from tests import right_answers as right
from tests.real_data import concrete, german_credit
from tests.statistics import assert_close_iid, assert_close_mcmc

pytestmark = [pytest.mark.data, pytest.mark.slow]
F64 = torch.float64


# -- concrete: every Gaussian family has a known optimum ----------------------------------------------------


@pytest.fixture(scope="module")
def line(zoo_data) -> zoo.Problem:
    return zoo.load("linear_regression", data=concrete(zoo_data), bias=False, noise=0.6)


def test_concrete_map_and_laplace(line) -> None:
    answer = right.CONCRETE
    mode = zoo.run(line, "map", seed=0).draws["w"][:, 0]
    for restart in mode:
        assert restart.numpy() == pytest.approx(np.array(answer["mean"]), rel=1e-6, abs=1e-8)
    laplace = zoo.run(line, "laplace", draws=20_000, seed=0)
    assert laplace.settings["log_evidence"] == pytest.approx(answer["log_evidence"], rel=1e-8)
    assert_close_iid(laplace.draws["w"], answer["mean"], answer["sd"])


def test_concrete_svi_is_the_mean_field_optimum(line) -> None:
    answer = right.CONCRETE
    fit = zoo.run(line, "svi", steps=4000, lr=0.01, particles=4, draws=20_000, seed=0)
    w, sd = fit.draws["w"][0], torch.full((9,), answer["mean_field_sd"], dtype=F64)
    assert ((w.mean(0) - torch.tensor(answer["mean"], dtype=F64)).abs() < 0.1 * sd).all()
    assert ((w.std(0) / sd - 1).abs() < 0.05).all()
    terms = fit.stats["lp"] - fit.stats["logq"]
    error = float(terms.std()) / terms.numel() ** 0.5
    assert float(terms.mean()) == pytest.approx(answer["mean_field_elbo"], abs=0.02 + 4 * error)
    assert float(terms.mean()) < answer["log_evidence"]


def test_concrete_svi_on_minibatches_has_the_same_optimum(line) -> None:
    """Twin: a batch not scaled by n / len(batch) has sds larger by sqrt(n / 103)."""
    answer = right.CONCRETE
    fit = zoo.run(line, "svi", steps=8000, lr=0.005, particles=2, batch_size=103, draws=20_000, seed=0)
    w, sd = fit.draws["w"][0], torch.full((9,), answer["mean_field_sd"], dtype=F64)
    assert ((w.mean(0) - torch.tensor(answer["mean"], dtype=F64)).abs() < 0.2 * sd).all()
    assert ((w.std(0) / sd - 1).abs() < 0.05).all()
    assert (927 / 103) ** 0.5 > 2  # the twin is far outside of 5 %


def test_concrete_nuts(line) -> None:
    fit = zoo.run(line, "nuts", chains=4, draws=2000, warmup=500, seed=0)
    assert_close_mcmc(fit.draws["w"], right.CONCRETE["mean"], right.CONCRETE["sd"])


# -- German credit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def credit(zoo_data) -> zoo.Problem:
    return zoo.load("logistic_regression", data=german_credit(zoo_data), bias=False)


@pytest.fixture(scope="module")
def gold(credit):
    return zoo.run(credit, "nuts", chains=4, draws=2500, warmup=500, seed=0)


@pytest.fixture(scope="module")
def mode(credit):
    return zoo.run(credit, "map", seed=0)


def test_credit_nuts_is_the_published_gold(gold) -> None:
    assert gold.ok, gold.outcome
    assert_close_mcmc(gold.draws["w"], right.CREDIT["mean"], right.CREDIT["sd"], se=right.CREDIT["se"])


def test_credit_map_and_laplace(credit, mode) -> None:
    assert float(max(mode.settings["log_joint"])) == pytest.approx(right.CREDIT["map_log_joint"], rel=1e-9)
    laplace = zoo.run(credit, "laplace", draws=2000, seed=0)
    assert laplace.settings["log_evidence"] == pytest.approx(right.CREDIT["laplace_log_evidence"], rel=1e-8)


def test_credit_map_is_told_from_the_mean(gold, mode) -> None:
    """Twin: a sampler centred at the MAP. It is up to .42 sd away from the mean and must fail."""
    mean, sd = (torch.tensor(right.CREDIT[k], dtype=F64) for k in ("mean", "sd"))
    away = (mode.draws["w"][0, 0] - mean) / sd
    assert 0.38 < float(away.abs().max()) < 0.46
    twin = gold.draws["w"] - gold.draws["w"].mean((0, 1)) + mode.draws["w"][0, 0]
    with pytest.raises(AssertionError, match="mean of coordinate"):
        assert_close_mcmc(twin, right.CREDIT["mean"], right.CREDIT["sd"], se=right.CREDIT["se"])


def test_credit_mean_field_is_over_confident(credit) -> None:
    fit = zoo.run(credit, "svi", steps=4000, lr=0.01, particles=4, draws=20_000, seed=0)
    ratio = fit.draws["w"][0].std(0) / torch.tensor(right.CREDIT["sd"], dtype=F64)
    assert float(ratio.max()) < 1.02
    assert float(ratio.median()) < 0.9
    away = (fit.draws["w"][0].mean(0) - torch.tensor(right.CREDIT["mean"], dtype=F64)).abs()
    assert float((away / torch.tensor(right.CREDIT["sd"], dtype=F64)).max()) < 0.2
