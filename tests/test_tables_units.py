"""Original units: predictions, targets and likelihoods of a standardised y, undone once and in one place."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.core import units
from zoo.report import groups, scores

PLAIN = cases.line_problem()
SCALED = cases.line_problem(y_loc=50.0, y_scale=10.0)


def of(problem: zoo.Problem, **changes) -> zoo.Posterior:
    return cases.line_fit(problem, (2, 20), **changes)


def test_predictions_leave_in_original_units() -> None:
    """y = 50 + 10 z: mean and f move, variances grow by 100, the weights stay."""
    plain, scaled = of(PLAIN), of(SCALED)
    before, after = plain.predict(), scaled.predict()
    for name in ("y", "mean", "f"):
        torch.testing.assert_close(after[name], 50 + 10 * before[name])
    torch.testing.assert_close(after["var"], 100 * before["var"])
    assert torch.equal(plain.draws["w"], scaled.draws["w"])
    inputs = torch.ones(3, 2)
    torch.testing.assert_close(scaled.predict(inputs)["mean"], 50 + 10 * plain.predict(inputs)["mean"])


def test_log_likelihood_is_less_by_log_10_and_its_twin_is_not() -> None:
    plain, scaled = of(PLAIN), of(SCALED)
    torch.testing.assert_close(scaled.log_likelihood(), plain.log_likelihood() - math.log(10))
    with pytest.raises(AssertionError):  # the twin: a density of the standardised y
        torch.testing.assert_close(scaled.log_likelihood(), plain.log_likelihood())
    data = PLAIN.data
    new = [fit.log_likelihood(data.x_test, data.y_test) for fit in (scaled, plain)]
    torch.testing.assert_close(new[0], new[1] - math.log(10))


def test_densities_in_original_units_integrate_to_one() -> None:
    fit = of(SCALED)
    grid = torch.linspace(-12, 12, 4001)  # of the standardised y: 240 wide in the original one
    terms = fit.log_likelihood(torch.ones(4001, 2), grid).exp().double()
    mass = torch.trapezoid(terms, 50 + 10 * grid.double(), dim=-1)
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-4, atol=0)


def test_several_targets_have_a_unit_each() -> None:
    info = {"y_loc": [1.0, -2.0, 0.0], "y_scale": [2.0, 5.0, 10.0]}
    x, y = torch.randn(8, 2), torch.randn(8, 3)
    pair = [zoo.load("linear_regression", zoo.Data(x, y, info=i), outputs=3) for i in ({}, info)]
    plain, scaled = (zoo.run(p, "exact", draws=30) for p in pair)
    want = plain.predict()["mean"] * torch.tensor(info["y_scale"]) + torch.tensor(info["y_loc"])
    torch.testing.assert_close(scaled.predict()["mean"], want)
    torch.testing.assert_close(scaled.log_likelihood(), plain.log_likelihood() - math.log(100))


def test_terms_of_single_targets_lose_their_own_log_scale() -> None:
    """No to_event: a term for each target."""
    own = units.Units(torch.zeros(2).double(), torch.tensor([2.0, 5.0]).double(), True)
    got = units.log_densities(own, torch.zeros(1, 1, 4, 2), torch.Size((4, 2)))
    torch.testing.assert_close(got, -torch.tensor([2.0, 5.0]).log().expand(1, 1, 4, 2))


def test_an_offset_of_1e8_survives_and_its_float32_twin_does_not() -> None:
    info = {"y_loc": 1e8, "y_scale": 1.0}
    plain, far = of(PLAIN), of(cases.line_problem(**info))
    want = plain.predict()["mean"].double()
    got = far.predict()["mean"]
    assert got.dtype == torch.float64
    torch.testing.assert_close(got - 1e8, want, rtol=0, atol=1e-6)
    twin = (plain.predict()["mean"] + 1e8).double() - 1e8
    with pytest.raises(AssertionError):
        torch.testing.assert_close(twin, want, rtol=0, atol=1e-6)
    assert far.predict()["y"].dtype == far.predict()["var"].dtype == torch.float64
    near = of(cases.line_problem(y_loc=999.0, y_scale=1.0))
    assert near.predict()["mean"].dtype == torch.float32


def test_classes_and_counts_are_left_alone() -> None:
    info = {"y_loc": 3.0, "y_scale": 2.0}
    x, y = torch.randn(9, 2), (torch.arange(9) % 2).float()
    fits = [zoo.run(zoo.load("logistic_regression", zoo.Data(x, y, info=i)), "laplace", draws=20) for i in ({}, info)]
    for name in ("f", "mean", "y"):
        assert torch.equal(fits[0].predict()[name], fits[1].predict()[name])
    assert torch.equal(fits[0].log_likelihood(), fits[1].log_likelihood())
    assert units.of(zoo.Data(x, y, info=info), "Poisson") is None
    assert units.of(zoo.Data(x, y, info=info), "Binomial") is None
    assert units.of(zoo.Data(x, y), "Normal") is None
    assert units.of({"y": y}, "Normal") is None


def _lifetimes(x, y=None):
    rate = pyro.sample("rate", dist.Gamma(x.new_tensor(2.0), 1.0))
    pyro.deterministic("f", rate.log().expand(x.shape[0]))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Exponential(rate), obs=y)


def test_a_log_rate_is_not_in_the_units_of_y() -> None:
    x, y = torch.zeros(6, 1), torch.rand(6)
    fits = []
    for info in ({}, {"y_scale": 60.0}):
        problem = zoo.Problem("lifetimes", _lifetimes, zoo.Data(x, y, info=info))
        fits.append(zoo.run(problem, "laplace", draws=10))
    before, after = (fit.predict() for fit in fits)
    torch.testing.assert_close(after["mean"], 60 * before["mean"])
    assert torch.equal(after["f"], before["f"])
    torch.testing.assert_close(fits[1].log_likelihood(), fits[0].log_likelihood() - math.log(60))


def test_reports_do_not_convert_a_second_time() -> None:
    """Scores, ArviZ's groups and observed values agree: all in original units."""
    fit = of(SCALED)
    data, out = fit.problem.data, groups.fit_groups(fit) | groups.predicted_groups(fit, log_likelihood=True)
    np.testing.assert_allclose(out["observed_data"]["y"], 50 + 10 * data.y, rtol=1e-6)
    np.testing.assert_allclose(out["predictions_constant_data"]["y_test"], 50 + 10 * data.y_test, rtol=1e-6)
    np.testing.assert_allclose(out["posterior_predictive"]["y"], fit.predict()["y"])
    np.testing.assert_allclose(out["log_likelihood"]["y"], fit.log_likelihood())
    predicted = fit.predict(data.x_test)
    error = predicted["mean"].mean((0, 1)) - (50 + 10 * data.y_test)
    assert scores.headline(fit, predicted)["rmse"] == pytest.approx(float(error.square().mean().sqrt()), rel=1e-5)


def test_a_file_without_the_model_answers_in_original_units(tmp_path) -> None:
    fit = of(SCALED)
    opened = zoo.open(fit.save(tmp_path / "fit.nc"))
    assert torch.equal(opened.predict()["mean"], fit.predict()["mean"])
    torch.testing.assert_close(opened.log_likelihood(), fit.log_likelihood())
    np.testing.assert_allclose(groups.fit_groups(opened)["observed_data"]["y"], 50 + 10 * fit.problem.data.y, rtol=1e-6)
    rows = [zoo.compare(one).frame.iloc[0] for one in (fit, opened)]
    assert rows[0]["rmse"] == pytest.approx(rows[1]["rmse"])
    assert rows[0]["log_lik"] == pytest.approx(rows[1]["log_lik"])


@pytest.mark.parametrize(
    ("info", "pattern"),
    [({"y_scale": 0.0}, "positive.*0"), ({"y_scale": -1.0}, "positive"), ({"y_loc": "far"}, r"y_loc.*'far'")],
)
def test_units_that_mean_nothing(info, pattern) -> None:
    fit = dataclasses.replace(of(PLAIN), problem=cases.line_problem(**info))
    refused(fit.predict, pattern)


numbers = st.floats(-1e12, 1e12, allow_nan=False)
scales = st.floats(1e-12, 1e12)


@settings(max_examples=100, deadline=None)
@given(loc=numbers, scale=scales, z=st.floats(-5, 5))
def test_there_and_back(loc: float, scale: float, z: float) -> None:
    """(y - loc) / scale of the restored y is z, to the digits that y's own size leaves."""
    own = units.Units(*torch.tensor([loc, scale], dtype=torch.float64), True)
    y = float(units.targets(own, torch.tensor(z, dtype=torch.float64)))
    assert (y - loc) / scale == pytest.approx(z, abs=1e-14 + 4e-16 * (abs(loc) / scale + 5))
