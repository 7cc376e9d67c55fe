"""Scores on predictions whose right scores are known; each check has a twin that must fail it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from torch import Tensor

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.__main__ import main
from zoo.report.calibration import covered, ece, interval_error, pit, reliability
from zoo.report.decisions import decide, mean_cost
from zoo.report.held_out import held_out
from zoo.report.rejection import auroc, rejection_curve
from zoo.report.scores import brier, crps, log_likelihood

LEVELS = (np.arange(4000) + 0.5) / 4000


def normal_crps(mean: Any, sd: Any, y: Any) -> np.ndarray:
    """sd (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z = (y - mean) / sd: Gneiting, Raftery 2007, eq. 5."""
    z = (np.asarray(y) - mean) / sd
    return np.asarray(sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)))


# -- CRPS, Brier, log likelihood ------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (3.0, 0.2), (1e6, 5.0)])
def test_crps_of_a_normal(mean: float, sd: float) -> None:
    """By its quantiles as draws; the twin leaves the spread of the draws out."""
    draws, y = mean + sd * stats.norm.ppf(LEVELS)[:, None], mean + sd * np.array([0.0, 0.7, -3.0])
    right = normal_crps(mean, sd, y)
    np.testing.assert_allclose(crps(np.repeat(draws, 3, axis=1), y), right, rtol=3e-3)
    assert (np.abs(draws - y).mean(0) > 1.1 * right).all()


def test_crps_does_not_depend_on_the_number_of_draws() -> None:
    """Means over 4,000 rows of 3 draws within 4 errors of the closed form; the twin pairs draws with themselves."""
    draws = np.random.default_rng(0).standard_normal((3, 4000))
    found, right = crps(draws, np.full(4000, 0.5)), normal_crps(0, 1, 0.5)
    error = found.std() / np.sqrt(4000)
    assert abs(found.mean() - right) < 4 * error
    own = np.abs(draws[:, None] - draws[None]).mean((0, 1)) / 2
    assert abs((np.abs(draws - 0.5).mean(0) - own).mean() - right) > 10 * error
    assert crps([[2.0]], [5.0]) == 3.0


def test_crps_is_least_for_the_right_prediction() -> None:
    y = np.random.default_rng(0).standard_normal(2000)
    quantiles = stats.norm.ppf(LEVELS[::8])[:, None]
    found = {sd: crps(np.repeat(sd * quantiles, 2000, axis=1), y).mean() for sd in (0.5, 1.0, 2.0)}
    assert found[1.0] < min(found[0.5], found[2.0])
    assert found[1.0] == pytest.approx(1 / np.sqrt(np.pi), rel=0.03)


def test_brier_of_known_probabilities() -> None:
    """Two classes: (p_1 - y)^2, as scikit-learn's; three: summed over classes."""
    p1, y = np.array([0.9, 0.2, 0.5]), np.array([1, 1, 0])
    two = np.stack([1 - p1, p1], 1)
    np.testing.assert_allclose(brier(two, y), [0.01, 0.64, 0.25])
    assert brier(two, y).mean() == pytest.approx(metrics.brier_score_loss(y, p1))
    np.testing.assert_allclose(brier([[0.5, 0.3, 0.2]], [1]), [0.25 + 0.49 + 0.04])
    assert brier(two, 1 - y).mean() != pytest.approx(0.3)  # the twin takes the other class for the right one


def test_log_likelihood_of_a_standardised_target_is_in_its_own_units() -> None:
    """y is standardised by an sd of 10: minus log 10, and not for the twin whose info says nothing of it."""
    plain = cases.line_fit(kind="iid")
    scaled = dataclasses.replace(plain, problem=cases.line_problem(y_loc=50.0, y_scale=10.0))
    found, right = zoo.scores(scaled), zoo.scores(plain)
    assert found["log_lik"] == pytest.approx(right["log_lik"] - np.log(10), abs=1e-5)
    for name in ("rmse", "crps", "rmse@50%"):
        assert found[name] == pytest.approx(10 * right[name], rel=1e-4)
    for name in ("in50", "in95", "interval_error"):
        assert found[name] == pytest.approx(right[name], abs=1e-3)


def test_log_likelihood_of_what_no_draw_can_give() -> None:
    terms = np.array([[[-np.inf, 0.0], [-np.inf, -1.0]]])
    assert log_likelihood(terms) == -np.inf
    assert log_likelihood(terms[:, :, 1:]) == pytest.approx(np.log((1 + np.exp(-1)) / 2))
    assert log_likelihood(np.full((1, 3, 1), -2000.0)) == pytest.approx(-2000.0)  # exp underflows


# -- calibration ----------------------------------------------------------------------------------------------


def test_ece_at_the_edges() -> None:
    """100 predictions at confidence 1, half of them right: .5. Bins that end at b / B hold b / B."""
    sure = np.tile([0.0, 1.0], (100, 1))
    y = np.arange(100) % 2
    assert ece(sure, y) == 0.5
    assert ece(sure, np.ones(100)) == 0.0
    found = reliability(sure + 1e-16, y)
    assert (found.confidence.tolist(), found.accuracy.tolist(), found.rows.tolist()) == ([1.0], [0.5], [100])
    # The twin of half-open bins [b, b + 1) loses the confidence of 1.
    edges = np.linspace(0, 1, 16)
    assert sum(((sure.max(1) >= low) & (sure.max(1) < high)).sum() for low, high in itertools.pairwise(edges)) == 0
    thirds = np.array([[0.6, 0.4], [0.8, 0.2]])
    assert reliability(thirds, [0, 0], bins=5).rows.tolist() == [1, 1]
    assert reliability([[0.5, 0.5]] * 4, [0, 0, 1, 1], bins=2).rows.tolist() == [4]


def test_ece_of_calibrated_and_of_sharpened_probabilities() -> None:
    """20,000 rows of known probabilities: below .02; the twin's logits are three times as large."""
    rng = np.random.default_rng(0)
    p1 = rng.uniform(0.02, 0.98, 20_000)
    y = rng.uniform(size=20_000) < p1
    sharp = p1**3 / (p1**3 + (1 - p1) ** 3)
    assert ece(np.stack([1 - p1, p1], 1), y) < 0.02
    assert ece(np.stack([1 - sharp, sharp], 1), y) > 0.1


def test_intervals_of_a_calibrated_normal_and_of_its_twin() -> None:
    """y ~ N(0, 1): N(0, 1) covers what it says, N(0, .5^2) covers P(|z| < .5 z_level)."""
    draws = stats.norm.ppf(LEVELS)[:, None]
    y = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    right, narrow = pit(np.repeat(draws, 1000, axis=1), y), pit(np.repeat(0.5 * draws, 1000, axis=1), y)
    for level in (0.5, 0.8, 0.95):
        assert covered(right, level) == pytest.approx(level, abs=0.002)
        z = 0.5 * stats.norm.ppf((1 + level) / 2)
        assert covered(narrow, level) == pytest.approx(2 * stats.norm.cdf(z) - 1, abs=0.004)
    assert interval_error(right) < 0.003
    assert interval_error(narrow) > 0.15


def test_pit_is_uniform_and_counts_ties_half() -> None:
    """y and its draws N(0, 1): chi-square of 10 bins at alpha = 1e-3; the twin's draws are shifted."""
    rng = np.random.default_rng(0)
    draws, y = rng.standard_normal((300, 2000)), rng.standard_normal(2000)
    for shift, uniform in ((0.0, True), (0.3, False)):
        counts = np.histogram(pit(draws + shift, y), 10, (0, 1))[0]
        assert (stats.chisquare(counts).pvalue > 1e-3) == uniform
    np.testing.assert_allclose(pit([[0.0], [1.0], [1.0], [2.0]], [1.0]), [0.5])


# -- rejection, out of distribution, decisions ----------------------------------------------------------------


def test_rejection_curve_by_hand() -> None:
    errors, uncertainty = [4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.8]
    np.testing.assert_allclose(rejection_curve(errors, uncertainty, [1.0, 0.75, 0.5, 0.25]), [2, 4 / 3, 0.5, 0])
    np.testing.assert_allclose(rejection_curve(errors, [1.0] * 4, [1.0, 0.5, 0.25]), [2, 2, 2])  # no order: flat
    np.testing.assert_allclose(rejection_curve([0, 1, 1], [0.0, 1.0, 1.0], [2 / 3]), [0.5])
    # Twin: the most uncertain kept.
    assert rejection_curve(errors, -np.array(uncertainty), [0.5])[0] == 3.5


def test_rejection_of_what_is_uncertain_helps_and_of_chance_does_not() -> None:
    """y ~ N(0, s^2), s ~ U(0, 1), mean squared error E s^2 = 1/3; of the half of least s 1/12."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=40_000)
    errors = (s * rng.standard_normal(40_000)) ** 2
    whole, half = rejection_curve(errors, s, [1.0, 0.5])
    assert whole == pytest.approx(1 / 3, rel=0.04)
    assert half == pytest.approx(1 / 12, rel=0.04)
    assert rejection_curve(errors, rng.uniform(size=40_000), [0.5])[0] == pytest.approx(1 / 3, rel=0.06)


def test_auroc_of_two_normals() -> None:
    """P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt(2)); ties are half; the twin has the two the wrong way round."""
    inside = stats.norm.ppf(LEVELS)
    right = stats.norm.cdf(1 / np.sqrt(2))
    assert auroc(inside, inside + 1) == pytest.approx(right, abs=1e-3)
    assert auroc(inside + 1, inside) == pytest.approx(1 - right, abs=1e-3)
    assert auroc(np.zeros(5), np.zeros(7)) == 0.5
    assert auroc([0.0, 1.0], [1.0, 2.0]) == (0.5 + 3) / 4


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=4).filter(lambda v: sum(v) == 20 or sum(v) > 0), st.data())
def test_reject_exactly_when_the_largest_probability_is_below_one_minus_the_cost(parts: list[int], data: Any) -> None:
    """Also where they are equal but for rounding: probabilities n / N, cost c / N."""
    total = sum(parts)
    cost = data.draw(st.integers(0, total))
    action = decide([[part / total for part in parts]], reject=cost / total)[0]
    assert (action == -1) == (max(parts) < total - cost)
    assert action in (-1, int(np.argmax(parts)))


def test_of_equal_actions_the_first_whichever_way_they_round() -> None:
    """(1, 12, 1, 12) / 26: the sums of the other three round apart by 1e-16, and classes 1 and 3 are equal."""
    p = np.array([[1, 12, 1, 12]]) / 26
    others = [sum(q for j, q in enumerate(p[0]) if j != a) for a in range(4)]
    assert others.index(min(others)) == 3  # the twin: the least by rounding, summed from left to right
    assert decide(p)[0] == 1


def test_bayes_actions_and_costs() -> None:
    """Bad credit taken costs 5, good credit refused 1: refuse from P(bad) = 1/6; the twin, 0/1 costs, from 1/2."""
    costs = [[0, 1], [5, 0]]  # rows: good, bad; columns: grant, refuse
    bad = np.array([0.1, 0.16, 0.17, 0.4, 0.6])
    p = np.stack([1 - bad, bad], 1)
    assert decide(p, costs).tolist() == [0, 0, 1, 1, 1]
    assert decide(p).tolist() == [0, 0, 0, 0, 1]
    y = np.array([0, 1, 0, 1, 1])
    assert mean_cost(decide(p, costs), y, costs) == pytest.approx((0 + 5 + 1 + 0 + 0) / 5)
    # Expected costs of the Bayes actions: .5 .8 .83 .6 .4; dearer than .55 are rejected.
    assert decide(p, costs, reject=0.55).tolist() == [0, -1, -1, -1, 1]
    assert mean_cost([0, -1, 1], [0, 1, 1], reject=0.2) == pytest.approx(0.2 / 3)
    # A third action that is no class: ask.
    assert decide(p, [[0, 1, 0.3], [5, 0, 0.3]]).tolist() == [2, 2, 2, 2, 2]
    refused(lambda: decide(bad), r"p must be \(rows, classes\), got \(5,\)")
    refused(lambda: decide(p, [[0, 1]]), r"costs must be \(2 classes, actions\), got \(1, 2\)")
    refused(lambda: mean_cost([0, -1], [0, 1]), "needs reject, the cost of the 1 rejected rows")


def test_the_bayes_action_costs_least_on_average() -> None:
    """20,000 rows whose classes come from the stated probabilities; every other rule costs more."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 20_000)
    y = (rng.uniform(size=(20_000, 1)) > p.cumsum(1)).sum(1)
    costs = np.array([[0, 1, 4], [2, 0, 1], [6, 1, 0.0]])
    best = mean_cost(decide(p, costs, reject=0.6), y, costs, reject=0.6)
    assert best < mean_cost(decide(p, costs), y, costs)
    assert best < mean_cost(decide(p, reject=0.6), y, costs, reject=0.6)
    expected = np.minimum((p @ costs).min(1), 0.6).mean()
    assert best == pytest.approx(expected, abs=0.02)


# -- scores of fits -------------------------------------------------------------------------------------------


def exact_line(noise: float = 0.6, m: int = 400) -> zoo.Posterior:
    """The exact posterior of a line, and test rows made by that line."""
    g = cases.generator()
    x, test = torch.randn(40, 1, generator=g).double(), torch.randn(m, 1, generator=g).double()
    y, y_test = (v[:, 0] + 0.6 * torch.randn(len(v), generator=g).double() for v in (x, test))
    problem = zoo.load("linear_regression", zoo.Data(x, y, test, y_test), noise=noise)
    return zoo.run(problem, "exact", draws=2000)


def test_scores_of_a_line_are_those_of_its_exact_predictive() -> None:
    """N(mean, sd^2) in closed form, within 1 %; intervals within 1.5 %."""
    fit = exact_line()
    data = fit.problem.data
    assert isinstance(data, zoo.Data)
    assert fit.exact is not None
    predictive = fit.exact.predictive(data.x_test)
    mean, sd, y = (v.numpy() for v in (predictive.mean, predictive.stddev, data.y_test))
    found = zoo.scores(fit)
    assert (found.on, found.rows) == ("test", 400)
    assert found["rmse"] == pytest.approx(np.sqrt(((mean - y) ** 2).mean()), rel=0.01)
    assert found["log_lik"] == pytest.approx(stats.norm.logpdf(y, mean, sd).mean(), rel=0.01)
    assert found["crps"] == pytest.approx(normal_crps(mean, sd, y).mean(), rel=0.01)
    u = stats.norm.cdf(y, mean, sd)
    for level in (50, 80, 95):
        assert found[f"in{level}"] == pytest.approx(covered(u, level / 100), abs=0.015)
    errors = dict(zip(found.frame["score"], found.frame["se"], strict=True))
    assert errors["log_lik"] == pytest.approx(stats.norm.logpdf(y, mean, sd).std(ddof=1) / 20, rel=0.03)
    assert errors["rmse"] == pytest.approx(((mean - y) ** 2).std(ddof=1) / 20 / (2 * found["rmse"]), rel=0.03)
    assert found["rmse@50%"] == pytest.approx(np.sqrt(rejection_curve((mean - y) ** 2, sd, [0.5])[0]), rel=0.02)
    assert found["interval_error"] < 0.05
    assert zoo.scores(exact_line(noise=0.2))["interval_error"] > 0.2  # the twin: too sure by a factor of three


def test_a_few_points_are_scored_by_their_mixture() -> None:
    """One point estimate: N(f, noise^2); draws of y are made often enough."""
    fit = exact_line()
    w, b = torch.full((1, 1, 1), 1.0).double(), torch.zeros(1, 1).double()
    point = dataclasses.replace(fit, kind="members", draws={"w": w, "b": b}, stats={}, exact=None)
    data = fit.problem.data
    assert isinstance(data, zoo.Data)
    assert data.x_test is not None
    assert data.y_test is not None
    mean = data.x_test[:, 0].numpy()
    found = zoo.scores(point)
    assert found["crps"] == pytest.approx(normal_crps(mean, 0.6, data.y_test.numpy()).mean(), rel=0.01)
    assert found["rmse@50%"] == pytest.approx(found["rmse"])  # equally certain of all: a flat curve


def classifier() -> zoo.Posterior:
    g = cases.generator()
    x, y = torch.randn(30, 2, generator=g), torch.randint(3, (30,), generator=g)
    problem = zoo.Problem("mine", cases.classes, zoo.Data(x, y, x[:20] + 0.1, y[:20]))
    return zoo.Posterior(problem, "nuts", "markov", {"w": torch.randn(2, 100, 2, 3, generator=g)})


def test_scores_of_classes() -> None:
    fit = classifier()
    rows, found = held_out(fit), zoo.scores(fit)
    data = fit.problem.data
    assert isinstance(data, zoo.Data)
    p = fit.predict(data.x_test)["mean"].mean((0, 1)).double().numpy()
    assert data.y_test is not None
    y = data.y_test.numpy()
    np.testing.assert_allclose(rows.p, p, atol=1e-6)
    assert found["accuracy"] == (p.argmax(1) == y).mean()
    assert found["log_lik"] == pytest.approx(
        -metrics.log_loss(y, p / p.sum(1, keepdims=True), labels=[0, 1, 2]), rel=1e-5
    )
    assert found["brier"] == pytest.approx(brier(p, y).mean())
    assert found["ece"] == pytest.approx(ece(p, y))
    assert found.calibration["rows"].sum() == 20
    assert found.rejection.columns.tolist() == ["kept", "accuracy"]
    assert found.rejection["accuracy"][0] == pytest.approx(found["accuracy"])
    one = zoo.Problem("mine", cases.signs, zoo.Data(data.x, (data.y == 0).float()))  # type: ignore[union-attr]
    two = zoo.scores(zoo.Posterior(one, "nuts", "markov", {"w": fit.draws["w"][..., 0]}))
    assert two.on == "training"
    assert "No rows are held out" in str(two)


def test_one_hot_labels_are_labels() -> None:
    def hot(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.Normal(x.new_zeros(2, 3), 1.0).to_event(2))
        f = pyro.deterministic("f", x @ w)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.OneHotCategorical(logits=f), obs=y)

    fit, data = classifier(), classifier().problem.data
    assert isinstance(data, zoo.Data)
    assert data.y is not None
    labels = torch.nn.functional.one_hot(data.y, 3).float()
    problem = zoo.Problem("mine", hot, zoo.Data(data.x, labels))
    plain = zoo.Problem("mine", cases.classes, zoo.Data(data.x, data.y))
    found, right = (zoo.scores(dataclasses.replace(fit, problem=p)) for p in (problem, plain))
    np.testing.assert_allclose(found.frame["value"], right.frame["value"], rtol=1e-5)


def test_counts_are_scored_by_their_draws() -> None:
    """y ~ Poisson(3), predicted as such: P(y) by its table, mean and coverage as they are; ties count half."""

    def counts(x: Tensor, y: Tensor | None = None) -> None:
        rate = pyro.sample("rate", dist.LogNormal(x.new_zeros(()), 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Poisson(rate.expand(x.shape[0])), obs=y)

    y = torch.poisson(torch.full((300,), 3.0), generator=cases.generator())
    problem = zoo.Problem("counts", counts, zoo.Data(torch.empty(300, 0), y))
    found = zoo.scores(zoo.Posterior(problem, "exact", "iid", {"rate": torch.full((1, 2000), 3.0)}))
    assert found["log_lik"] == pytest.approx(stats.poisson.logpmf(y, 3).mean(), rel=1e-4)
    assert found["rmse"] == pytest.approx(np.sqrt(((y.numpy() - 3) ** 2).mean()), rel=0.01)
    below = np.arange(30)
    by_hand = ((stats.poisson.cdf(below, 3) - (y.numpy()[:, None] <= below)) ** 2).sum(1).mean()
    assert found["crps"] == pytest.approx(by_hand, rel=0.03)
    assert found["in80"] == pytest.approx(0.8, abs=0.12)


def test_other_inputs_are_told_apart() -> None:
    """Far from the data f of a line varies more, and a classifier is surer: by entropy it is fooled."""
    line, far = exact_line(), torch.full((50, 1), 6.0)
    found = zoo.scores(line, ood=far)
    assert found["ood_auroc"] == 1.0
    assert "variance of f" in str(found)
    data = line.problem.data
    assert isinstance(data, zoo.Data)
    assert zoo.scores(line, ood=data.x_test)["ood_auroc"] == 0.5
    assert zoo.scores(line, ood=zoo.Data(far))["ood_auroc"] == 1.0
    w = torch.tensor([[3.0, -3.0, 0.0], [0.0, 0.0, 0.0]]).expand(1, 5, 2, 3)
    sure = dataclasses.replace(classifier(), draws={"w": w}, kind="iid")
    assert zoo.scores(sure, ood=torch.full((50, 2), 100.0))["ood_auroc"] < 0.1
    assert "larger entropy" in str(zoo.scores(sure, ood=torch.zeros(5, 2)))


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.uniform(10, 20, rows)
    return pd.DataFrame({"size": size, "price": 100 + 30 * size + 20 * rng.standard_normal(rows)})


def test_rows_that_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table in original units, and as Data in the fit's: the same numbers; other units are refused."""
    problem = zoo.load("linear_regression", table(60, 0), target="price", noise=0.3)
    fit, more = zoo.run(problem, "exact", draws=500), table(40, 1)
    found = zoo.scores(fit, more)
    assert (found.on, found.rows) == ("given", 40)
    assert found["rmse"] == pytest.approx(20, rel=0.3)
    assert "in units of price" in str(found)
    info = problem.data.info  # type: ignore[union-attr]
    x = (torch.tensor(more["size"].to_numpy())[:, None] - info["x_loc"][0]) / info["x_scale"][0]
    y = (torch.tensor(more["price"].to_numpy()) - info["y_loc"]) / info["y_scale"]
    same = zoo.scores(fit, zoo.Data(x, y, info={"y_loc": info["y_loc"]}))
    np.testing.assert_allclose(same.frame["value"], found.frame["value"], rtol=1e-4)
    refused(lambda: zoo.scores(fit, zoo.Data(x, y, info={"y_scale": 1.0})), "data has another y_scale than the fit's")
    refused(lambda: zoo.scores(fit, zoo.Data(x)), "data must have targets, got y=None")
    refused(lambda: zoo.scores(fit, 3), "data must be a zoo.Data or a table, got int", error=TypeError)

    path, csv = str(fit.save(tmp_path / "fit.nc")), tmp_path / "more.csv"
    more.to_csv(csv, index=False)
    assert main(["score", path, "--data", str(csv), "--ood", str(csv)]) == 0
    printed = capsys.readouterr().out
    assert "linear_regression, exact: 40 given rows" in printed
    assert "ood_auroc        0.500" in printed
    assert main(["score", path, path, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["on"] for line in lines] == ["test", "test"]
    assert json.loads(lines[0])["scores"]["rmse"] == pytest.approx(zoo.scores(fit)["rmse"], rel=1e-5)
    assert main(["score", str(tmp_path / "nowhere.nc")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_what_cannot_be_scored_is_refused() -> None:
    refused(lambda: zoo.scores("fit.nc"), "scores takes posteriors, got str", error=TypeError)
    refused(lambda: zoo.scores(cases.two_sites_fit()), "this one is on a dict")
    blind = zoo.Problem("my line", cases.line, zoo.Data(torch.randn(5, 2)))
    fit = dataclasses.replace(cases.line_fit(), problem=blind)
    refused(lambda: zoo.scores(fit), "the fit's data have no y")
    with pytest.raises(KeyError, match="no score 'mse'; there are rmse, log_lik"):
        zoo.scores(cases.line_fit())["mse"]


def test_printed_and_as_json() -> None:
    found = zoo.scores(dataclasses.replace(cases.line_fit(), outcome="stopped after 250 draws"))
    text = str(found)
    assert text.splitlines()[0] == "my line, nuts: 5 test rows; se: standard error over rows"
    assert "The fit is not ok: stopped" in text
    assert max(map(len, text.splitlines())) <= 110
    assert "nan" not in text
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["scores"]["rmse"] == found["rmse"]
    assert again["se"]["interval_error"] is None
    assert again["calibration"]["level"][9] == 0.5
    assert len(again["rejection"]["rmse"]) == 20


def test_a_fit_from_a_file_without_its_model_is_scored(tmp_path: Path) -> None:
    for fit in (cases.line_fit(), classifier()):
        found, right = zoo.scores(zoo.open(fit.save(tmp_path / "fit.nc"))), zoo.scores(fit)
        np.testing.assert_allclose(found.frame["value"], right.frame["value"], rtol=1e-4, atol=2e-3)


def test_weights_count_and_nothing_global_is_touched() -> None:
    """All the weight on one draw: its scores; the twin without weights has others."""
    fit = cases.line_fit(kind="iid", shape=(1, 50), sd=1.0)
    one = {n: v[:, 7:8] for n, v in fit.draws.items()}
    weights = torch.zeros(1, 50)
    weights[0, 7] = 1.0
    state = torch.random.get_rng_state()
    found, right, twin = (
        zoo.scores(f)
        for f in (
            dataclasses.replace(fit, weights=weights, stats={}),
            dataclasses.replace(fit, draws=one, stats={}),
            dataclasses.replace(fit, stats={}),
        )
    )
    assert torch.equal(state, torch.random.get_rng_state())
    for name in ("rmse", "log_lik"):
        assert found[name] == pytest.approx(right[name], rel=1e-5)
        assert abs(found[name] - twin[name]) > 0.01
    assert found["crps"] == pytest.approx(right["crps"], rel=0.03)
