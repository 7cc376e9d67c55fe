"""`uncertainty`: entropies and variances with closed forms."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import zoo
from tests import right_answers as right
from tests.refusals import refused
from tests.small_models import location
from zoo.report.uncertainty import Uncertainty, entropies

F64 = torch.float64


def test_the_entropy_decomposition() -> None:
    """Members (.9, .05, .05) and (.2, .3, .5). Twins: total where expected is asked; the modes' ratio .5."""
    found = entropies([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]])
    assert float(found["total_entropy"]) == pytest.approx(0.9888506286626, rel=1e-12)
    assert float(found["expected_entropy"]) == pytest.approx(0.7120253527560, rel=1e-12)
    assert float(found["mutual_information"]) == pytest.approx(0.2768252759066, rel=1e-12)
    assert float(found["variation_ratio"]) == pytest.approx(0.45, rel=1e-12)


def test_weights_count_and_certainty_is_zero() -> None:
    twice = entropies([[[0.9, 0.1]], [[0.9, 0.1]], [[0.2, 0.8]]])
    weighted = entropies([[[0.9, 0.1]], [[0.2, 0.8]]], weights=[2.0, 1.0])
    for name in twice:
        np.testing.assert_allclose(twice[name], weighted[name])
    sure = entropies([[[1.0, 0.0]], [[1.0, 0.0]]])
    assert all(float(value[0]) == 0 for value in sure.values())


def test_coin_by_its_closed_form() -> None:
    """Beta(2, 2), 7 heads of 10: .651756561173 = .617463687107 + .034292874066; 1e5 draws, 5 errors."""
    coin = zoo.load("coin_flip", n=10, heads=7, a=2.0, b=2.0)
    found = zoo.uncertainty(zoo.run(coin, "exact", draws=100_000))
    assert found.total_entropy[0] == pytest.approx(0.651756561173, abs=2e-3)
    assert found.expected_entropy[0] == pytest.approx(0.617463687107, abs=2e-3)
    assert found.mutual_information[0] == pytest.approx(0.034292874066, abs=1e-3)
    assert found.variation_ratio[0] == pytest.approx(1 - 0.642857142857, abs=2e-3)
    a, b = 9, 5
    sd = math.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    assert found.epistemic[0] == pytest.approx(sd**2, rel=0.03)
    assert found.variance[0] == pytest.approx(a * b / (a + b) ** 2, rel=0.02)


def line() -> zoo.Problem:
    x = torch.linspace(0, 2, 25, dtype=F64)[:, None]
    y = torch.tensor(right.LINE_Y, dtype=F64)
    return zoo.load("linear_regression", zoo.Data(x, y), noise=0.2, prior_scale=0.5**0.5)


def test_a_line_splits_into_noise_and_lack_of_data() -> None:
    """Predictive variance at 0, 1, 2, 10 less the noise's .04; far out it is nearly all epistemic. 4e5 draws, 1 %."""
    grid = torch.tensor([[0.0], [1.0], [2.0], [10.0]], dtype=F64)
    found = zoo.uncertainty(zoo.run(line(), "exact", draws=400_000), grid)
    np.testing.assert_allclose(found.aleatoric, 0.04, rtol=1e-9)
    variance = np.array([0.0459208964, 0.0415949406, 0.0459764464, 0.3944971096])
    np.testing.assert_allclose(found.epistemic, variance - 0.04, rtol=0.012)
    assert found.total_entropy is None
    assert abs(found.variance[3] / 0.0459764464 - 1) > 1
    assert "aleatoric 0.04" in str(found)


def test_draws_are_divided_by_s_minus_one() -> None:
    theta = torch.tensor([[1.0, 3.0]], dtype=F64)
    fit = zoo.Posterior(location([0.5], "normal", 1.0), "exact", "iid", {"theta": theta})
    assert zoo.uncertainty(fit).epistemic == pytest.approx(2.0)
    weighted = dataclasses.replace(fit, weights=torch.tensor([[0.75, 0.25]], dtype=F64))
    assert zoo.uncertainty(weighted).epistemic == pytest.approx(0.75)


def test_classes_and_original_units() -> None:
    fit = zoo.run(zoo.load("softmax_regression"), "prior", draws=50)
    found = zoo.uncertainty(fit, torch.zeros(4, 2))
    assert found.total_entropy.shape == (4,)
    assert (found.mutual_information >= -1e-12).all()
    x = torch.linspace(-1, 1, 9)[:, None]
    standard = zoo.Data(x, x[:, 0], info={"y_loc": 5.0, "y_scale": 10.0})
    fit = zoo.run(zoo.load("linear_regression", standard, noise=0.3), "exact", draws=50)
    np.testing.assert_allclose(zoo.uncertainty(fit).aleatoric, 9.0, rtol=1e-5)


def test_one_draw_has_no_spread_and_one_point_has_none() -> None:
    refused(lambda: zoo.uncertainty(zoo.run(line(), "exact", draws=1)), "at least 2 draws", "got 1")
    assert (zoo.uncertainty(zoo.run(line(), "map", restarts=1)).epistemic == 0).all()
    refused(lambda: zoo.uncertainty("fit.nc"), "takes posteriors", error=TypeError)


def test_large_units_keep_four_digits() -> None:
    """Variances of dollars: 8.765e7 is not 9e7."""
    found = Uncertainty(np.full(3, 8.765e7), np.full(3, 123456.0))
    assert "aleatoric 8.765e7, epistemic 123456" in str(found)
