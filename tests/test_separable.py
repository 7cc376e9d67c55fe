"""Maximum likelihood, MAP and averaging: the smallest logistic regression, separable data, searches that run away.

x = -1, 1; y = 0, 1; w ~ N(0, 1), no bias.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

import zoo
from tests.small_models import location
from tests.statistics import quadrature
from zoo.core.handlers import pyro_state
from zoo.core.trial import log_joint
from zoo.infer.modes import find_modes

F64 = torch.float64
SIGNS, LABELS = torch.tensor([[-1.0], [1.0]], dtype=F64), torch.tensor([0.0, 1.0], dtype=F64)
NO_MAXIMUM = "the likelihood has no maximum: weights grow without bound (separable data)"
# Quadrature, Newton's method and the formulas in the tests below: Ambrogioni, "Point estimates"; Yandex, "MAP".
RIGHT = {
    "map": 0.6748316143,
    "log_joint": -1.9698526784,
    "laplace_sd": 0.8312770916,
    "laplace_log_evidence": -1.2357062413,
    "log_evidence": -1.2262898683,
    "mean": 0.7042799208,
    "sd": 0.8465647894,
}
# p(y = 1 | x): the mode plugged in, averaged over the posterior, over Laplace's Gaussian, and two formulas for that.
PREDICTIVE = {
    2.0: {"plug-in": 0.7940745648, "exact": 0.7204790512, "laplace": 0.7144076093, "kappa": 0.7180072931,
          "phi": 0.7209522812},
    100.0: {"plug-in": 1.0, "exact": 0.7979490784, "laplace": 0.7914916700, "kappa": 0.7850274634},
}  # fmt: skip


def two_points(**hyper) -> zoo.Problem:
    return zoo.load("logistic_regression", zoo.Data(SIGNS, LABELS), bias=False, **hyper)


def test_map_and_laplace_of_two_points():
    mode = zoo.run(two_points(), "map")
    assert mode.ok
    assert mode.draws["w"].flatten().tolist() == pytest.approx([RIGHT["map"]] * 4, abs=1e-6)
    assert mode.settings["log_joint"] == pytest.approx([RIGHT["log_joint"]] * 4, abs=1e-9)
    fit = zoo.run(two_points(), "laplace", draws=1)
    assert fit.settings["log_evidence"] == pytest.approx(RIGHT["laplace_log_evidence"], abs=1e-9)
    curvature = 1 + 2 * special.expit(RIGHT["map"]) * special.expit(-RIGHT["map"])
    assert curvature**-0.5 == pytest.approx(RIGHT["laplace_sd"], abs=1e-9)


def test_the_exact_answer_by_quadrature():
    problem = two_points()

    def log_f(w):
        with pyro_state(validate=False):
            return torch.func.vmap(lambda v: log_joint(problem, {"w": v}))(torch.tensor(w)).numpy()

    found = quadrature(log_f, [(-12.0, 12.0)], nodes=400)
    assert found.log_z == pytest.approx(RIGHT["log_evidence"], abs=1e-9)
    mean = float(found.mean(lambda w: w[:, 0]))
    assert mean == pytest.approx(RIGHT["mean"], abs=1e-9)
    assert float(found.mean(lambda w: (w[:, 0] - mean) ** 2)) ** 0.5 == pytest.approx(RIGHT["sd"], abs=1e-9)
    assert float(found.mean(lambda w: special.expit(2 * w[:, 0]))) == pytest.approx(PREDICTIVE[2.0]["exact"], abs=1e-9)
    w = np.linspace(-12, 12, 100_001)  # a step at 0, so a fine grid; the density by hand
    mass = np.exp(stats.norm.logpdf(w) + 2 * special.log_expit(w))
    p = (mass * special.expit(100 * w)).sum() / mass.sum()
    assert p == pytest.approx(PREDICTIVE[100.0]["exact"], abs=1e-8)


@pytest.mark.parametrize("x", PREDICTIVE)
def test_plug_in_and_averaged_predictions(x):
    """The zoo's within rounding or 4 standard errors; the plug-in, as twin, is far from the average."""
    right, new = PREDICTIVE[x], torch.tensor([[x]], dtype=F64)
    plug_in = float(zoo.run(two_points(), "map", restarts=1).predict(new)["mean"])
    assert plug_in == pytest.approx(right["plug-in"], abs=1e-6)
    p = zoo.run(two_points(), "laplace", draws=20_000, seed=0).predict(new)["mean"].flatten()
    error = float(p.std()) / len(p) ** 0.5
    assert abs(float(p.mean()) - right["laplace"]) < 4 * error
    assert abs(plug_in - right["laplace"]) > 10 * error
    m, v = RIGHT["map"] * x, (RIGHT["laplace_sd"] * x) ** 2
    assert special.expit(m / math.sqrt(1 + math.pi * v / 8)) == pytest.approx(right["kappa"], abs=1e-8)
    if "phi" in right:
        assert stats.norm.cdf(m / math.sqrt(8 / math.pi + v)) == pytest.approx(right["phi"], abs=1e-8)


@pytest.mark.slow
def test_nuts_averages():
    """p(y = 1 | x = 2) and the mean within z standard errors of eight chains, alpha 1e-4; the mode fails."""
    fit = zoo.run(two_points(), "nuts", chains=8, draws=2000, warmup=300, seed=0)
    z = stats.t.isf(0.5e-4 / 2, 7)
    p = fit.predict(torch.tensor([[2.0]], dtype=F64))["mean"][..., 0].mean(1)
    error = float(p.std()) / 8**0.5
    assert abs(float(p.mean()) - PREDICTIVE[2.0]["exact"]) < z * error
    assert abs(PREDICTIVE[2.0]["plug-in"] - PREDICTIVE[2.0]["exact"]) > z * error
    w = fit.draws["w"].mean((1, 2))
    assert abs(float(w.mean()) - RIGHT["mean"]) < z * float(w.std()) / 8**0.5


# -- separable data under a flat prior ------------------------------------------------------------------------

GENERATOR = torch.Generator().manual_seed(0)
PLANE = torch.randn(40, 2, generator=GENERATOR, dtype=F64)
SIDE = (PLANE[:, 0] + 0.5 * PLANE[:, 1] > 0).long()
THREE = (PLANE @ torch.tensor([[1.0, -0.5, -0.5], [0.0, 0.9, -0.9]], dtype=F64)).argmax(1)
SEPARABLE = {
    "two points": lambda **h: two_points(**h),
    "plane": lambda **h: zoo.load("logistic_regression", zoo.Data(PLANE, SIDE), **h),
    "one class only": lambda **h: zoo.load("logistic_regression", zoo.Data(PLANE, torch.ones(40)), **h),
    "softmax": lambda **h: zoo.load("softmax_regression", zoo.Data(PLANE, THREE), **h),
    "network": lambda **h: zoo.load("bnn_classification", zoo.Data(PLANE, SIDE), hidden=5, **h),
}


@pytest.mark.parametrize("case", SEPARABLE)
def test_separable_data_have_no_maximum_likelihood(case):
    """Named, soon and with weights of modest size; a Normal prior holds them."""
    fit = zoo.run(SEPARABLE[case](prior="uniform"), "map")
    assert fit.outcome.startswith(NO_MAXIMUM)
    assert "4 of 4 restarts" in fit.outcome
    assert all(float(value.abs().max()) < 1e5 for value in fit.draws.values())
    assert zoo.run(SEPARABLE[case](), "map").ok


@pytest.mark.parametrize("options", [{"lr": 0.5}, {"lr": 1.0}], ids=str)
def test_separable_data_are_named_by_other_optimisers(options):
    fit = zoo.run(two_points(prior="uniform"), "map", optimiser="adam", optimiser_options=options)
    assert fit.outcome.startswith(NO_MAXIMUM)


def test_data_that_overlap_have_a_maximum_under_a_flat_prior():
    """And it is scikit-learn's without a penalty."""
    y = SIDE.clone()
    y[:6] = 1 - y[:6]
    fit = zoo.run(zoo.load("logistic_regression", zoo.Data(PLANE, y), prior="uniform"), "map")
    assert fit.ok, fit.outcome
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(PLANE.numpy(), y.numpy())
    assert fit.draws["w"][0, 0].numpy() == pytest.approx(theirs.coef_[0], abs=1e-5)


def iterations(problem: zoo.Problem, jacobian: bool = False) -> tuple[int, str]:
    found = find_modes(problem, jacobian=jacobian, restarts=4, seed=0, stop=lambda: "", show=lambda done, text: None)
    return found.iterations, "; ".join(sorted(set(found.trouble.values())))


def test_a_network_that_runs_away_is_stopped_on_the_way():
    """Eight points, thirty-one weights without a prior and a free noise: the fit goes through every point."""
    taken, why = iterations(zoo.load("bnn_regression", n=8, hidden=10, prior="uniform"))
    assert "noise -> " in why
    assert taken < 2500


@pytest.mark.parametrize("where", [1e3, 1e6, 1e9])
def test_far_modes_are_no_runaways(where):
    taken, why = iterations(location([where, 1.001 * where], "normal", 1e2 * where, noise=1e-3 * where))
    assert not why
    assert taken < 200


def test_a_wide_prior_on_separable_data_has_a_mode():
    assert zoo.run(two_points(prior_scale=100.0), "map").ok
