"""The models whose posterior is known: the method `exact` and the method `prior` against closed forms."""

from __future__ import annotations

import logging
import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch

import zoo
from tests import right_answers as right
from tests.real_data import concrete
from tests.statistics import assert_close_iid

F64 = torch.float64


def coin(n: int, heads: int, a: float = 1.0, b: float = 1.0) -> zoo.Problem:
    return zoo.load("coin_flip", n=n, heads=heads, a=a, b=b).to(dtype=F64)


def line(noise: float | None = 0.2) -> zoo.Problem:
    """The line of 25 points; its bias is the model's own b."""
    x = torch.linspace(0, 2, 25, dtype=F64)[:, None]
    data = zoo.Data(x, torch.tensor(right.LINE_Y, dtype=F64))
    return zoo.load("linear_regression", data=data, prior_scale=0.5**0.5, noise=noise)


# -- the coin -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "answer"),
    [
        (lambda: zoo.load("coin_flip").to(dtype=F64), right.TWO_HEADS_UNIFORM),
        (lambda: coin(2, 2, 2.0, 2.0), right.TWO_HEADS_BETA22),
        (lambda: coin(10, 7, 2.0, 2.0), right.COIN),
        (lambda: coin(5, 0), right.COIN_NO_HEADS),
        (lambda: coin(10, 7), right.COIN_UNIFORM),
    ],
    ids=["two heads", "two heads, Beta(2, 2)", "7 of 10, Beta(2, 2)", "0 of 5", "7 of 10"],
)
def test_coin(problem, answer) -> None:
    posterior = zoo.run(problem(), "exact", draws=20000, seed=1)
    theta = posterior.exact.posterior["theta"]
    assert float(theta.mean) == pytest.approx(answer["mean"], rel=1e-9)
    sd = answer.get("sd", float(theta.stddev))
    assert float(theta.stddev) == pytest.approx(sd, rel=1e-9)
    evidence = answer.get("log_evidence", math.log(answer["evidence"]) if "evidence" in answer else None)
    if evidence is not None:
        assert posterior.exact.log_evidence == pytest.approx(evidence, rel=1e-9)
    assert_close_iid(posterior.draws["theta"], answer["mean"], sd)
    assert posterior.kind == "iid"
    # Beta minus itself: what importance weighting would see is the same constant everywhere.
    weight = posterior.stats["lp"] - posterior.stats["logq"]
    torch.testing.assert_close(weight, torch.full_like(weight, posterior.exact.log_evidence), rtol=0, atol=1e-6)
    predictive = posterior.exact.predictive(problem().data.x)
    assert float(predictive.mean[0]) == pytest.approx(answer["mean"], rel=1e-6)


def test_twin_the_slides_bayes_rule_without_the_evidence() -> None:
    """Twin: p(theta | x) = p(x | theta) p(theta), as printed, does not integrate to one."""
    grid = torch.linspace(0, 1, 20001, dtype=F64)[1:-1]
    printed = grid**7 * (1 - grid) ** 3 * dist.Beta(torch.tensor(2.0, dtype=F64), 2.0).log_prob(grid).exp()
    theta = zoo.run(coin(10, 7, 2.0, 2.0), "exact").exact.posterior["theta"]
    assert float(torch.trapezoid(printed, grid)) == pytest.approx(math.exp(right.COIN["log_evidence"]), rel=1e-6)
    assert float(torch.trapezoid(theta.log_prob(grid).exp(), grid)) == pytest.approx(1.0, abs=1e-6)


def test_coin_interval_and_entropies() -> None:
    theta = zoo.run(coin(10, 7, 2.0, 2.0), "exact").exact.posterior["theta"]
    grid = torch.linspace(0, 1, 200_001, dtype=F64)[1:-1]
    density = theta.log_prob(grid).exp()
    for edge, mass in zip(right.COIN["interval95"], (0.025, 0.975), strict=True):
        below = torch.where(grid <= edge, density, 0.0)
        assert float(torch.trapezoid(below, grid)) == pytest.approx(mass, abs=2e-5)
    entropy = -(grid * grid.log() + (1 - grid) * (1 - grid).log())
    expected = float(torch.trapezoid(entropy * density, grid))
    mean = theta.mean
    total = float(-(mean * mean.log() + (1 - mean) * (1 - mean).log()))
    assert total == pytest.approx(right.COIN["predictive_entropy"], rel=1e-9)
    assert expected == pytest.approx(right.COIN["expected_entropy"], rel=1e-7)
    assert total - expected == pytest.approx(right.COIN["mutual_information"], rel=1e-5)


def test_evidence_is_the_mean_likelihood_over_prior_draws() -> None:
    """The marginalisation slide: 1/3 from 10^5 prior draws; one standard error is .00094."""
    prior = zoo.run(zoo.load("coin_flip"), "prior", draws=100_000, seed=0)
    theta = prior.draws["theta"].reshape(-1).double()
    assert len(theta) == 100_000
    assert float((theta**2).mean()) == pytest.approx(1 / 3, abs=4 * 0.00094)
    assert float(theta.mean()) == pytest.approx(0.5, abs=4 * 0.00092)  # the twin would be .75: y looked at


# -- the line -----------------------------------------------------------------------------------------------


def test_line() -> None:
    posterior = zoo.run(line(), "exact", draws=20000, seed=2)
    exact, answer = posterior.exact, right.LINE
    assert exact.log_evidence == pytest.approx(answer["log_evidence"], rel=1e-6)
    seen = [float(exact.posterior[s].mean.sum()) for s in ("b", "w")]
    assert seen == pytest.approx(answer["mean"], rel=1e-9)
    sds = [float(exact.posterior[s].stddev.sum()) for s in ("b", "w")]
    assert sds == pytest.approx(answer["sd"], rel=1e-8)
    assert all(abs(a / b - 1) > 0.2 for a, b in zip(sds, answer["half_precision_sd"], strict=True))  # twin
    at = torch.tensor(answer["predictive_at"], dtype=F64)[:, None]
    assert exact.predictive(at).variance.numpy() == pytest.approx(np.array(answer["predictive_variance"]), rel=1e-8)
    both = torch.cat([posterior.draws["b"][..., None], posterior.draws["w"]], -1)
    assert_close_iid(both, answer["mean"], answer["sd"])
    # w and b are drawn together: f at x = 1 is far better known than its two parts.
    assert_close_iid(both.sum(-1), sum(answer["mean"]), right.LINE_AFTER[25][1] ** 0.5)


@pytest.mark.parametrize("rows", right.LINE_AFTER)
def test_line_after_its_first_rows(rows) -> None:
    problem = line()
    mean, epistemic = right.LINE_AFTER[rows]
    exact = zoo.linear_regression.exact(problem.data, rows=rows, **problem.hyper)
    seen = [float(exact.posterior[s].mean.sum()) for s in ("b", "w")]
    assert seen == pytest.approx(mean, abs=6e-8)
    at = zoo.linear_regression.parts(problem.data, torch.ones(1, 1, dtype=F64), rows=rows, **problem.hyper)
    assert float(at["epistemic"]) == pytest.approx(epistemic, abs=6e-8)
    assert float(at["aleatoric"]) == pytest.approx(0.04, rel=1e-9)
    if rows == 0:
        assert exact.log_evidence == pytest.approx(0.0, abs=1e-12)


def test_evidences_of_growing_data_chain_up() -> None:
    """log p(y) = sum_n log p(y_n | y_1 ... y_(n-1)): each step's predictive is the next step's evidence."""
    problem, total = line(), 0.0
    for n in range(25):
        exact = zoo.linear_regression.exact(problem.data, rows=n, **problem.hyper)
        total += float(exact.predictive(problem.data.x[n : n + 1]).log_prob(problem.data.y[n]))
    assert total == pytest.approx(right.LINE["log_evidence"], abs=1e-8)


def test_an_unknown_noise_has_no_exact_answer_and_says_so() -> None:
    with pytest.raises(ValueError, match="noise") as error:
        zoo.run(line(noise=None), "exact")
    assert "\n" not in str(error.value)


def test_matrix_targets_are_separate_regressions() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 3, generator=generator, dtype=F64)
    y = torch.randn(30, 4, generator=generator, dtype=F64) + x[:, :1]
    both = zoo.run(zoo.load("linear_regression", data=zoo.Data(x, y), outputs=4), "exact", draws=5000)
    assert both.draws["w"].shape[2:] == (3, 4)
    assert both.draws["b"].shape[2:] == (4,)
    assert both.predict()["f"].shape[2:] == (30, 4)
    assert both.log_likelihood().shape[2:] == (30,)
    w = both.exact.posterior["w"].mean.reshape(3, 4)
    w_sd = both.exact.posterior["w"].stddev.reshape(3, 4)
    total = 0.0
    for k in range(4):
        one = zoo.run(zoo.load("linear_regression", data=zoo.Data(x, y[:, k])), "exact", draws=10).exact
        torch.testing.assert_close(w[:, k], one.posterior["w"].mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(w_sd[:, k], one.posterior["w"].stddev, rtol=0, atol=1e-10)
        total += one.log_evidence
    assert both.exact.log_evidence == pytest.approx(total, abs=1e-9)
    assert_close_iid(both.draws["w"], w, w_sd)


def test_two_observations_of_different_kind() -> None:
    """X = [[i, 1]], y = i, w ~ N(5, 10): the closed form that the sampler tests use too."""
    x = torch.stack([torch.arange(100, dtype=F64), torch.ones(100, dtype=F64)], 1)
    precision = x.T @ x + torch.eye(2, dtype=F64) / 100
    covariance = torch.linalg.inv(precision)
    mean = covariance @ (x.T @ torch.arange(100, dtype=F64) + 0.05)
    sd = covariance.diagonal().sqrt()
    assert mean.numpy() == pytest.approx(np.array(right.STEEP_LINE["mean"]), abs=6e-6)
    assert sd.numpy() == pytest.approx(np.array(right.STEEP_LINE["sd"]), rel=2e-3)
    assert float(covariance[0, 1] / sd.prod()) == pytest.approx(right.STEEP_LINE["correlation"], abs=2e-3)


# -- concrete -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fit(zoo_data):
    problem = zoo.load("linear_regression", data=concrete(zoo_data), bias=False, noise=0.6)
    return zoo.run(problem, "exact", draws=4000, seed=3)


@pytest.mark.data
def test_concrete_posterior_and_evidence(fit) -> None:
    answer, w = right.CONCRETE, fit.exact.posterior["w"]
    assert fit.exact.log_evidence == pytest.approx(answer["log_evidence"], rel=1e-9)
    assert w.mean.numpy() == pytest.approx(np.array(answer["mean"]), rel=1e-6, abs=1e-8)
    assert w.stddev.numpy() == pytest.approx(np.array(answer["sd"]), rel=1e-6)
    assert_close_iid(fit.draws["w"], answer["mean"], answer["sd"])
    weight = fit.stats["lp"] - fit.stats["logq"]
    torch.testing.assert_close(weight, torch.full_like(weight, answer["log_evidence"]), rtol=0, atol=1e-6)


@pytest.mark.data
def test_concrete_mean_field_optimum(fit) -> None:
    """The best product of Gaussians has precision diag(A); ELBO log Z - (sum log A_ii - log |A|) / 2."""
    precision = torch.linalg.inv(fit.exact.posterior["w"].covariance_matrix)
    sd = precision.diagonal().rsqrt()
    assert sd.numpy() == pytest.approx(np.full(9, right.CONCRETE["mean_field_sd"]), rel=1e-6)
    gap = 0.5 * (precision.diagonal().log().sum() - torch.linalg.slogdet(precision).logabsdet)
    assert fit.exact.log_evidence - float(gap) == pytest.approx(right.CONCRETE["mean_field_elbo"], rel=1e-8)


@pytest.mark.data
def test_concrete_predictions(fit) -> None:
    data, answer = fit.problem.data, right.CONCRETE
    scale = data.info["y_scale"]
    predictive = fit.exact.predictive(data.x_test)
    rmse = scale * float((predictive.mean - data.y_test).square().mean().sqrt())
    assert rmse == pytest.approx(answer["rmse"], rel=1e-6)
    score = float(predictive.log_prob(data.y_test).mean()) - math.log(scale)
    assert score == pytest.approx(answer["test_log_likelihood"], rel=1e-6)
    by_draws = torch.logsumexp(fit.log_likelihood(data.x_test, data.y_test).flatten(0, 1), 0) - math.log(4000)
    assert float(by_draws.mean()) == pytest.approx(answer["test_log_likelihood"], abs=2e-3)


@pytest.mark.data
@pytest.mark.slow
def test_concrete_leave_one_out(fit) -> None:
    import arviz as az

    data = fit.problem.data
    units = len(data.y) * math.log(data.info["y_scale"])  # the answer is that of the standardised y
    assert float(az.loo(fit.to_arviz()).elpd_loo) + units == pytest.approx(right.CONCRETE["loo"], abs=0.15)


# -- priors and labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [1, 8, 100])
def test_prior_of_a_network_at_every_width(hidden) -> None:
    x = torch.tensor(right.PRIOR_AT)[:, None]
    problem = zoo.load("bnn_regression", data=zoo.Data(x), hidden=hidden, noise=0.1)
    f = zoo.run(problem, "prior", draws=100_000, seed=4).predict()["f"].reshape(-1, 4).double()
    for i, variance in enumerate(right.PRIOR_VARIANCE):
        _close_second_moment(f[:, i], f[:, i], variance)
    _close_second_moment(f[:, 1], f[:, 2], right.PRIOR_COVARIANCE_1_2)
    square = f[:, 1].square() / f[:, 1].square().mean()
    kurtosis = square.square().mean()
    influence = square.square() - 2 * kurtosis * square  # delta method for m4 / m2^2
    error = float(influence.std()) / len(f) ** 0.5
    assert float(kurtosis - 3) == pytest.approx(right.PRIOR_EXCESS_KURTOSIS / hidden, abs=4 * error)


def _close_second_moment(a: torch.Tensor, b: torch.Tensor, right_value: float) -> None:
    product = a * b
    error = float(product.std()) / len(product) ** 0.5
    assert float(product.mean()) == pytest.approx(right_value, abs=4 * error)


def test_twin_weights_not_divided_by_the_width() -> None:
    """Twin: scaling='none' makes Var f(1) grow with the width; the check above must tell."""
    problem = zoo.load("bnn_regression", data=zoo.Data(torch.ones(1, 1)), hidden=8, noise=0.1, scaling="none")
    f = zoo.run(problem, "prior", draws=20_000, seed=4).predict()["f"].reshape(-1).double()
    with pytest.raises(AssertionError):
        _close_second_moment(f, f, right.PRIOR_VARIANCE[1])


def test_prior_looks_at_no_y_and_exports_as_a_prior() -> None:
    problem = zoo.load("linear_regression")
    other = zoo.load("linear_regression", data=zoo.Data(problem.data.x, problem.data.y + 100))
    a, b = (zoo.run(p, "prior", draws=200, seed=5) for p in (problem, other))
    assert torch.equal(a.draws["w"], b.draws["w"])
    assert float(b.predict()["y"].mean()) < 10
    tree = a.to_arviz()
    groups = {g.strip("/").split("/")[0] for g in (tree.groups() if callable(tree.groups) else tree.groups)}
    assert {"prior", "prior_predictive"} <= groups
    assert "posterior" not in groups


def test_labels_of_minus_one_are_mapped_and_said_once(caplog) -> None:
    base = zoo.load("logistic_regression").data
    signed = zoo.Data(base.x, 2 * base.y - 1, base.x_test, 2 * base.y_test - 1)
    with caplog.at_level(logging.INFO, logger="zoo"):
        problem = zoo.load("logistic_regression", data=signed)
    assert torch.equal(problem.data.y, base.y)
    assert torch.equal(problem.data.y_test, base.y_test)
    said = [r.getMessage() for r in caplog.records if "-1" in r.getMessage()]
    assert len(said) == 1
