"""Concrete, split 0: what mean-field, low-rank and full-rank Gaussians can reach of a known log evidence."""

from __future__ import annotations

import math

import pytest
import torch

import zoo
from tests import right_answers as right
from tests.real_data import concrete
from tests.test_acceptance_methods import assert_close_svi, assert_elbo

pytestmark = [pytest.mark.data, pytest.mark.slow]
F64 = torch.float64
FIT = {"steps": 3000, "lr": 0.02, "particles": 4, "draws": 20_000, "engine": "eager", "seed": 0}


@pytest.fixture(scope="module")
def line(zoo_data) -> zoo.Problem:
    return zoo.load("linear_regression", data=concrete(zoo_data), bias=False, noise=0.6)


@pytest.fixture(scope="module")
def full(line) -> zoo.Posterior:
    return zoo.run(line, "svi", guide="full_rank", **FIT)


def test_full_rank_reaches_the_evidence(full) -> None:
    """ELBO = log evidence -905.52472358, means and sds those of the posterior. Twin: the mean-field answer."""
    answer = right.CONCRETE
    assert full.ok, full.outcome
    w = full.draws["w"].double()
    assert_close_svi(w, answer["mean"], answer["sd"])
    assert_elbo(full, answer["log_evidence"], answer["log_evidence"])
    with pytest.raises(AssertionError):
        assert_close_svi(w, answer["mean"], [answer["mean_field_sd"]] * 9)
    with pytest.raises(AssertionError):
        assert_elbo(full, answer["mean_field_elbo"], answer["log_evidence"])


def test_low_rank_lies_strictly_between(line, full) -> None:
    """Mean-field optimum -907.53935868 < rank 3 < full rank, by 5 standard errors and .1 nat each."""
    fit = zoo.run(line, "svi", guide="low_rank", guide_options={"rank": 3}, **FIT)
    assert fit.ok, fit.outcome
    low, high, error = right.CONCRETE["mean_field_elbo"], full.settings["elbo"], fit.settings["elbo_se"]
    margin = max(0.1, 5 * math.hypot(error, full.settings["elbo_se"]))
    assert low + margin < fit.settings["elbo"] < high - margin
