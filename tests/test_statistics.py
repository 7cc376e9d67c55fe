"""The checks that judge samplers, judged: each passes on a right sampler and fails on a broken one."""

from __future__ import annotations

import numpy as np
import pytest

from tests import right_answers as right
from tests.statistics import assert_close_iid, assert_close_mcmc, quadrature, z_for


def _ar1(rho: float, draws: int, chains: int = 4, seed: int = 0) -> np.ndarray:
    """Stationary N(0, 1) chains (chain, draw) with autocorrelation rho."""
    rng = np.random.default_rng(seed)
    out = np.empty((chains, draws))
    out[:, 0] = rng.normal(size=chains)
    for i in range(1, draws):
        out[:, i] = rho * out[:, i - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return out


def test_a_right_chain_passes() -> None:
    assert_close_mcmc(_ar1(0.5, 2500), 0.0, 1.0)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda: _ar1(0.5, 2500) + 0.12, "mean"),
        (lambda: _ar1(0.5, 2500) * 1.08, "sd"),
        (lambda: _ar1(0.98, 2500), "min ESS"),
        (lambda: _ar1(0.0, 2500) + np.array([0.0, 0.0, 0.0, 0.4])[:, None], "min ESS|R-hat"),
        (lambda: np.where(np.arange(2500) == 7, np.nan, _ar1(0.5, 2500)), "not finite"),
    ],
    ids=["shifted", "stretched", "sticky", "one chain elsewhere", "nan"],
)
def test_broken_chains_fail(broken, why) -> None:
    with pytest.raises(AssertionError, match=why):
        assert_close_mcmc(broken(), 0.0, 1.0)


def test_rhat_is_asked_of_many_draws_too() -> None:
    apart = _ar1(0.0, 20000) + np.array([0.0, 0.0, 0.0, 0.5])[:, None]
    with pytest.raises(AssertionError, match="R-hat"):
        assert_close_mcmc(apart, 0.125, 1.0, min_ess=1)


def test_one_coordinate_of_many_is_enough_to_fail() -> None:
    many = np.random.default_rng(1).normal(size=(4, 1000, 20))
    assert_close_mcmc(many, np.zeros(20), np.ones(20))
    many[:, :, 13] += 0.15
    with pytest.raises(AssertionError, match="coordinate 13"):
        assert_close_mcmc(many, np.zeros(20), np.ones(20))


def test_iid_draws() -> None:
    good = np.random.default_rng(2).normal(size=(1, 20000, 3))
    assert_close_iid(good, np.zeros(3), np.ones(3))
    with pytest.raises(AssertionError, match="mean"):
        assert_close_iid(good + 0.05, np.zeros(3), np.ones(3))
    with pytest.raises(AssertionError, match="sd"):
        assert_close_iid(good * 1.05, np.zeros(3), np.ones(3))


def test_a_wrong_number_of_coordinates_is_no_pass_by_broadcasting() -> None:
    with pytest.raises(AssertionError, match="coordinates"):
        assert_close_iid(np.random.default_rng(3).normal(size=(1, 2000, 3)), 0.0)


def test_z_shares_alpha_over_the_comparisons() -> None:
    assert z_for(1e-4, 1) == pytest.approx(3.890592, abs=1e-6)
    assert z_for(1e-4, 50) > z_for(1e-4, 1)


def _location(prior):
    y = np.array(right.LOCATION_Y)

    def log_f(points):
        likelihood = (-0.5 * (y - points) ** 2 - 0.5 * np.log(2 * np.pi)).sum(1)
        return likelihood + prior(points[:, 0])

    return log_f


def test_quadrature_reproduces_closed_forms_and_tells_priors_apart() -> None:
    def normal(t):
        return -0.5 * t**2 - 0.5 * np.log(2 * np.pi)

    def laplace(t):
        return -np.abs(t) / 0.5 - np.log(2 * 0.5)

    z = quadrature(_location(normal), [(-6.0, 6.0)])
    assert z.log_z == pytest.approx(right.LOCATION_NORMAL["log_evidence"], abs=1e-10)
    assert z.mean(lambda p: p[:, 0]) == pytest.approx(right.LOCATION_NORMAL["mean"], abs=1e-10)
    # A kink halves the order of convergence: split the axis there.
    parts = [quadrature(_location(laplace), [box]) for box in ((-6.0, 0.0), (0.0, 6.0))]
    log_z = np.logaddexp(parts[0].log_z, parts[1].log_z)
    assert log_z == pytest.approx(right.LOCATION_LAPLACE["log_evidence"], abs=1e-9)
    assert abs(log_z - right.LOCATION_NORMAL["log_evidence"]) > 0.04


def test_quadrature_of_the_two_weight_network() -> None:
    """w2 given w1 is Gaussian, so one axis is enough: a grid over both loses the thin ridge w1 w2 = const."""
    x, y = np.array(right.TWO_WEIGHTS_X), np.array(right.TWO_WEIGHTS_Y)

    def given_w1(points):
        t = np.tanh(points * x)  # (m, 9)
        precision = (t**2).sum(1) / 0.09 + 1 / 2.25
        return (t @ y) / 0.09 / precision, precision

    def log_f(points):
        mean, precision = given_w1(points)
        fit = 0.5 * mean**2 * precision - 0.5 * (y**2).sum() / 0.09 - 9 * np.log(0.3 * np.sqrt(2 * np.pi))
        prior = -0.5 * (points[:, 0] / 1.5) ** 2 - np.log(1.5 * np.sqrt(2 * np.pi))
        return fit - np.log(1.5) - 0.5 * np.log(precision) + prior

    z = quadrature(log_f, [(0.0, 12.0)], nodes=800)  # the other half is its mirror image
    answers = right.TWO_WEIGHTS
    assert z.log_z + np.log(2) == pytest.approx(answers["log_evidence"], abs=1e-7)
    assert z.mean(np.abs)[0] == pytest.approx(answers["abs_mean"][0], abs=1e-7)
    product = z.mean(lambda p: p[:, 0] * given_w1(p)[0])
    assert product == pytest.approx(answers["product_mean"], abs=1e-7)
    for at, mean, sd in zip(answers["f_at"], answers["f_mean"], answers["f_sd"], strict=True):
        first = z.mean(lambda p, at=at: given_w1(p)[0] * np.tanh(at * p[:, 0]))
        second = z.mean(lambda p, at=at: (given_w1(p)[0] ** 2 + 1 / given_w1(p)[1]) * np.tanh(at * p[:, 0]) ** 2)
        assert first == pytest.approx(mean, abs=1e-7)
        assert np.sqrt(second - first**2) == pytest.approx(sd, abs=1e-6)
