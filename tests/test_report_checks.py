"""Predictive checks against conjugate closed forms; a wrong model is caught and a right one is not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from tests.small_models import location
from tests.statistics import z_for
from zoo.report.arviz import arviz, to_arviz
from zoo.report.predictive_checks import PredictiveCheck

az = arviz()
ZERO = az.__version__.startswith("0.")
F64 = torch.float64
ALPHA = 1e-3
DRAWS = 20_000


def conjugate(y: list[float], *, prior: bool = False, spread: float = 1.0) -> zoo.Posterior:
    """Independent draws of theta in y ~ N(theta, 1), theta ~ N(0, 1); `spread` makes a wrong q of it."""
    problem, n = location(y, "normal", 1.0), len(y)
    mean, sd = (0.0, 1.0) if prior else (sum(y) / (n + 1), spread / math.sqrt(n + 1))
    theta = mean + sd * torch.randn(1, DRAWS, generator=cases.generator(), dtype=F64)
    return zoo.Posterior(problem, "prior" if prior else "nuts", "iid", {"theta": theta})


def regression(noise: torch.Tensor, **info: float) -> zoo.Posterior:
    """A line with the given noise, fitted with a Gaussian of the noise's own sd."""
    x = torch.linspace(-1, 1, len(noise), dtype=F64)[:, None]
    data = zoo.Data(x, x[:, 0] + noise, info=info)
    return zoo.run(zoo.load("linear_regression", data, noise=float(noise.std())), "exact", draws=500)


def test_large_units_keep_four_digits() -> None:
    """Prices of about 123,456 and of 4.5e8: each column of the table has four digits or more."""
    facts = {"site": "y", "statistic": "mean", "observed": 123456.0, "low": 4.567e8, "median": 0.00123449}
    frame = pd.DataFrame([facts | {"high": 12.3449, "tail": 0.5, "extreme": False}])
    row = str(PredictiveCheck(frame, 100, "posterior")).splitlines()[1].split()
    assert row == ["y", "mean", "123456", "4.567e8", "0.001234", "12.34", "0.50"]


@pytest.mark.parametrize("prior", [False, True])
def test_tail_of_the_mean_is_the_closed_form(prior: bool) -> None:
    """mean y_rep ~ N(m, s^2 + 1 / n), m and s of theta; alpha = 1e-3; the twin's theta is three times too wide."""
    y = [1.2, 0.4, 0.9, 1.5, 2.9]
    n, total = len(y), sum(y)
    m, s2 = (0.0, 1.0) if prior else (total / (n + 1), 1 / (n + 1))
    tail = stats.norm.sf(total / n, m, math.sqrt(s2 + 1 / n))
    error = z_for(ALPHA, 1) * math.sqrt(tail * (1 - tail) / DRAWS)
    row = zoo.check_predictive(conjugate(y, prior=prior), "mean").frame.iloc[0]
    assert row["tail"] == pytest.approx(tail, abs=error)
    assert row["observed"] == pytest.approx(total / n)
    quantiles = stats.norm.ppf([0.025, 0.5, 0.975], m, math.sqrt(s2 + 1 / n))
    np.testing.assert_allclose([row["low"], row["median"], row["high"]], quantiles, atol=0.05)
    if not prior:
        twin = zoo.check_predictive(conjugate(y, spread=3.0), "mean").frame.iloc[0]
        assert abs(twin["tail"] - tail) > error


@pytest.mark.slow
def test_a_right_model_is_not_extreme_and_a_wrong_one_is() -> None:
    """40 data sets: the Gaussian model of Gaussian noise, and of Student's t with two degrees of freedom.

    Of a right model at most 5 % of tails are extreme (posterior checks are conservative); P(more than 7 of 40 | 5 %)
    < 1e-3. The mean alone is the check that sees nothing: the model fits it.
    """
    g = cases.generator(0)
    right = [torch.randn(60, generator=g, dtype=F64) for _ in range(40)]
    rng = np.random.default_rng(0)
    wrong = [torch.from_numpy(stats.t.rvs(2, size=60, random_state=rng)) for _ in range(40)]

    def furthest(y: np.ndarray) -> float:
        return float(np.abs(y - np.median(y)).max())

    def extreme(noises: list[torch.Tensor], statistic: Any) -> int:
        return sum(bool(zoo.check_predictive(regression(n), statistic).frame["extreme"].any()) for n in noises)

    assert extreme(right, furthest) <= 7
    assert extreme(wrong, furthest) > 20
    assert extreme(wrong, "mean") == 0


def points(y: torch.Tensor, theta: list[float], weights: list[float] | None = None) -> zoo.Posterior:
    """Points, one a restart, in y ~ N(theta, 1)."""
    share = None if weights is None else torch.tensor(weights, dtype=F64)[:, None]
    drawn = {"theta": torch.tensor(theta, dtype=F64)[:, None]}
    return zoo.Posterior(location(y.tolist(), "normal", 1.0), "map", "members", drawn, weights=share)


def test_points_make_as_many_data_sets_as_draws() -> None:
    """Four restarts at the theta that made y: 5 % of the tails are extreme, P(more than 9 of 60 | 5 %) < 1e-3.

    Where y is drawn once a restart, all four lie on one side of the observed data in an eighth of the cases at least
    (the twin): then nothing is called extreme, and that is said.
    """
    g = cases.generator(3)
    fits = [points(torch.randn(20, generator=g, dtype=F64), [0.0] * 4) for _ in range(60)]
    checks = [[zoo.check_predictive(fit, "sd", draws=draws) for fit in fits] for draws in (None, 1)]
    many, few = ([float(check.frame.iloc[0]["tail"]) for check in each] for each in checks)
    assert sum(not 0.025 <= tail <= 0.975 for tail in many) <= 9
    assert sum(not 0.025 <= tail <= 0.975 for tail in few) > 9
    assert not any(check.frame["extreme"].any() for check in checks[1])
    assert "Too few to call one extreme" in " ".join(str(checks[1][0]).split())
    assert "Too few" not in str(checks[0][0])


def test_points_are_repeated_with_their_weights() -> None:
    """Half of the weight on points far off: half of the data sets come from there; alpha = 1e-3."""
    fit = points(torch.tensor([0.0, 0.0], dtype=F64), [0.0, 50.0, 50.0, 50.0], [0.5, 0.2, 0.2, 0.1])
    found = zoo.check_predictive(fit, "mean")
    error = z_for(ALPHA, 1) * 0.5 * math.sqrt(0.25 / 100)
    assert found.draws == 400
    assert found.frame.iloc[0]["tail"] == pytest.approx(0.75, abs=error)


def test_the_printed_table_names_what_is_extreme() -> None:
    noise = torch.randn(50, generator=cases.generator(), dtype=F64)
    noise[10] = 8.0
    found = zoo.check_predictive(regression(noise))
    assert found.frame["statistic"].tolist() == ["mean", "sd", "min", "max"]
    assert found.frame["extreme"].tolist() == [False, False, False, True]
    text = str(found)
    assert "1 of 4 extreme" in text
    assert "500 data sets from the posterior predictive" in text
    assert max(map(len, text.splitlines())) <= 110
    assert str(zoo.check_predictive(conjugate([0.1, 0.2], prior=True), "sd")).count("prior predictive") == 1


def test_original_units() -> None:
    noise = torch.randn(30, generator=cases.generator(), dtype=F64)
    plain, scaled = (zoo.check_predictive(regression(noise, **info)) for info in ({}, {"y_loc": 5.0, "y_scale": 10.0}))
    for column in ("observed", "low", "median", "high"):
        np.testing.assert_allclose(scaled.frame[column][2:], 5 + 10 * plain.frame[column][2:], rtol=1e-9)
    np.testing.assert_allclose(scaled.frame["tail"], plain.frame["tail"], atol=1e-9)


def test_functions_names_and_several_targets() -> None:
    fit = conjugate([0.5, 1.0, 3.0])

    def widest(y: np.ndarray) -> float:
        return float(np.ptp(y))

    assert zoo.check_predictive(fit, widest).frame["statistic"].tolist() == ["widest"]
    assert zoo.check_predictive(fit, {"range": widest, "first": lambda y: y[0]}).frame["observed"].tolist() == [
        2.5,
        0.5,
    ]
    assert zoo.check_predictive(fit, ["median", widest]).frame["observed"].tolist() == [1.0, 2.5]
    two = zoo.run(zoo.load("linear_regression", outputs=2), "exact", draws=50)
    assert zoo.check_predictive(two, "mean").frame["statistic"].tolist() == ["mean[0]", "mean[1]"]
    assert zoo.check_predictive(fit, "mean", draws=100).draws == 100


def test_labels_counts_and_several_sites() -> None:
    """One head in two has a share; classes have one each; ties count half."""
    coin = zoo.run(zoo.load("coin_flip", n=10, heads=7), "exact", draws=DRAWS)
    row = zoo.check_predictive(coin).frame.iloc[0]
    assert (row["statistic"], row["observed"]) == ("share of 1", 0.7)
    k = np.arange(11)
    chance = stats.betabinom.pmf(k, 10, 8, 4)
    tail = chance[k > 7].sum() + chance[7] / 2
    assert row["tail"] == pytest.approx(tail, abs=z_for(ALPHA, 1) * math.sqrt(0.25 / DRAWS))
    assert abs(chance[k > 7].sum() - tail) > 0.05  # the twin: ties not counted
    frame = zoo.check_predictive(cases.two_sites_fit(), "mean").frame
    assert frame["site"].tolist() == ["count", "effect"]
    classes = zoo.check_predictive(cases.two_sites_fit()).frame
    assert classes[classes["site"] == "effect"]["statistic"].tolist() == ["share of 0", "share of 1", "share of 2"]


def test_weights_count() -> None:
    """Prior draws weighted by the likelihood: the posterior's tail, alpha = 1e-3; the twin ignores them."""
    y = [1.2, 0.4, 0.9]
    fit = conjugate(y, prior=True)
    terms = fit.log_likelihood().sum(-1)
    weighted = zoo.Posterior(fit.problem, "sgld", "iid", fit.draws, weights=terms.exp())
    tail = stats.norm.sf(sum(y) / 3, sum(y) / 4, math.sqrt(1 / 4 + 1 / 3))
    found = zoo.check_predictive(weighted, "mean").frame.iloc[0]
    assert found["tail"] == pytest.approx(tail, abs=0.02)
    assert abs(zoo.check_predictive(fit, "mean").frame.iloc[0]["tail"] - tail) > 0.1
    assert zoo.check_predictive(weighted, "mean", draws=50).draws == 50


def test_a_seed_gives_the_same_and_an_opened_fit_too(tmp_path: Path) -> None:
    fit = cases.line_fit()
    first = zoo.check_predictive(fit).frame
    assert first.equals(zoo.check_predictive(fit).frame)
    assert not first.equals(zoo.check_predictive(fit, seed=1).frame)
    opened = zoo.open(fit.save(tmp_path / "fit.nc"))
    assert np.allclose(first["tail"], zoo.check_predictive(opened).frame["tail"])


def test_arviz_plots_the_same_predictions() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tree = to_arviz(conjugate([0.5, 1.0, 3.0, -1.0]))
    with cases.silence():
        az.plot_ppc(tree, num_pp_samples=20) if ZERO else az.plot_ppc_dist(tree, num_samples=20)
    plt.close("all")


def test_refusals() -> None:
    fit = conjugate([0.5, 1.0])
    refused(lambda: zoo.check_predictive(fit, "kurtosis"), "kurtosis", "mean, sd")
    refused(lambda: zoo.check_predictive(fit, [3]), "got int", error=TypeError)
    refused(lambda: zoo.check_predictive(fit, {"log": lambda y: np.nan}), "finite", "Guard")
    blind = zoo.Problem("blind", fit.problem.model, zoo.Data(torch.empty(3, 0)))
    refused(lambda: zoo.check_predictive(zoo.run(blind, "prior", draws=5)), "without y")
