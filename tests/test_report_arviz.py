"""ArviZ objects under both generations, and the array diagnostics against ArviZ's own."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from tests import report_cases as cases
from zoo.core import diagnostics
from zoo.report.arviz import arviz, to_arviz

az = arviz()
ZERO = az.__version__.startswith("0.")


@pytest.fixture
def no_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is warned of inside, neither by `warnings` nor by ArviZ's logger."""
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        yield
    assert not caplog.records, [record.getMessage() for record in caplog.records]


def autoregressive(chains: int, draws: int, k: int, phi: float, seed: int = 0) -> np.ndarray:
    """Chains of x_t = phi x_(t-1) + e_t."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws, k))
    for t in range(1, draws):
        noise[:, t] += phi * noise[:, t - 1]
    return noise


def arviz_says(name: str, column: np.ndarray) -> float:
    """ArviZ's own number for one scalar (chain, draw)."""
    if ZERO:
        calls: dict[str, Any] = {
            "rhat": lambda: az.rhat(column),
            "mcse_mean": lambda: az.mcse(column, method="mean"),
            "mcse_sd": lambda: az.mcse(column, method="sd"),
        }
        return float(calls.get(name, lambda: az.ess(column, method=name))())
    from arviz_stats.base import array_stats

    if name == "rhat":
        return float(array_stats.rhat(column))
    if name.startswith("mcse"):
        return float(array_stats.mcse(column, method=name.removeprefix("mcse_")))
    quantiles = {"prob": (0.05, 0.95)} if name == "tail" else {}
    return float(array_stats.ess(column, method=name, **quantiles))


def ours(name: str, draws: np.ndarray) -> np.ndarray:
    if name in ("rhat", "mcse_mean", "mcse_sd"):
        return getattr(diagnostics, name)(draws)
    return diagnostics.ess(draws, name)


@pytest.mark.parametrize("name", ["rhat", "bulk", "tail", "mean", "sd", "mcse_mean", "mcse_sd"])
@pytest.mark.parametrize(("chains", "draws"), [(4, 100), (4, 101), (3, 12), (2, 9), (1, 60)])
def test_diagnostics_are_those_of_arviz(name: str, chains: int, draws: int) -> None:
    if name == "rhat" and chains == 1:
        return  # ArviZ has no R-hat for one chain; ours is that of its halves, below
    for phi in (-0.6, 0.0, 0.95):
        block = autoregressive(chains, draws, 2, phi)
        block[:, :, 1] = block[:, :, 1].round(1)  # ties
        right = [arviz_says(name, np.ascontiguousarray(block[:, :, i])) for i in range(2)]
        np.testing.assert_allclose(ours(name, block), right, rtol=1e-9)


def test_rhat_of_one_chain_is_that_of_its_halves() -> None:
    """And a drift within the chain shows, which R-hat between whole chains could not see."""
    still, drift = autoregressive(1, 400, 1, 0.0), np.linspace(0, 5, 400)[None, :, None]
    assert diagnostics.rhat(still) < 1.02 < 1.5 < diagnostics.rhat(still + drift)


def test_constants_are_constant_not_nan() -> None:
    draws = autoregressive(4, 50, 3, 0.0).astype(np.float32)
    draws[:, :, 1] = 0.0
    draws[:, :, 2] = np.float32(0.1) * np.float32(3)
    assert diagnostics.constant(draws).tolist() == [False, True, True]
    assert diagnostics.rhat(draws)[1:].tolist() == [1.0, 1.0]
    assert diagnostics.ess(draws)[1:].tolist() == [200.0, 200.0]
    assert diagnostics.ess(draws, "tail")[1:].tolist() == [200.0, 200.0]
    assert diagnostics.mcse_mean(draws)[1:].tolist() == [0.0, 0.0]
    assert diagnostics.mcse_sd(draws)[1:].tolist() == [0.0, 0.0]


def test_a_large_offset_is_not_constant() -> None:
    draws = 1e8 + autoregressive(4, 50, 1, 0.0)
    assert not diagnostics.constant(draws).any()
    assert np.isfinite(diagnostics.rhat(draws)).all()


def test_chains_that_stand_still_apart_have_infinite_rhat() -> None:
    draws = np.repeat(np.arange(4.0)[:, None], 50, axis=1)
    assert np.isinf(diagnostics.rhat(draws))


def test_fewer_than_four_draws_have_no_diagnostics() -> None:
    assert np.isnan(diagnostics.rhat(np.random.default_rng(0).normal(size=(4, 3, 2)))).all()
    with pytest.raises(ValueError, match=r"\(chain, draw"):
        diagnostics.rhat(np.zeros(5))
    with pytest.raises(ValueError, match="bulk"):
        diagnostics.ess(np.zeros((2, 5)), "bulky")


def test_four_chains_of_a_thousand_draws_at_a_hundred_points_take_less_than_a_second() -> None:
    draws = autoregressive(4, 1000, 100, 0.5)
    start = time.process_time()
    (
        diagnostics.rhat(draws),
        diagnostics.ess(draws),
        diagnostics.ess(draws, "tail"),
        diagnostics.mcse_mean(draws),
    )
    assert time.process_time() - start < 1.0


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.lists(st.integers(0, 3), max_size=3))
def test_diagnostics_keep_the_shape(chains: int, draws: int, tail: list[int]) -> None:
    block = np.random.default_rng(0).normal(size=(chains, draws, *tail))
    for function in (diagnostics.rhat, diagnostics.ess, diagnostics.mcse_mean, diagnostics.mcse_sd):
        assert function(block).shape == tuple(tail)


def test_error_of_a_weighted_mean() -> None:
    """Importance draws of N(1, 1) from N(0, 1): 200 repetitions spread as stated, within 25 %."""
    rng = np.random.default_rng(0)
    means, errors = [], []
    for _ in range(200):
        x = rng.normal(size=(1, 500, 1))
        w = np.exp(x[:, :, 0] - 0.5)
        means.append(diagnostics.weighted_mean(x, w)[0])
        errors.append(diagnostics.mcse_weighted_mean(x, w, "iid")[0])
    assert 0.75 < np.std(means) / np.mean(errors) < 1.25
    plain = 1 / np.sqrt(500)  # the twin: sd / sqrt(S), as if all draws weighed the same
    assert np.std(means) / plain > 1.25


def test_groups_names_and_dims() -> None:
    fit = cases.line_fit(cases.line_problem(x_names=["age", "height"]))
    tree = to_arviz(fit)
    assert tree["posterior"]["w"].dims == ("chain", "draw", "feature")
    assert tree["posterior"]["feature"].values.tolist() == ["age", "height"]
    assert tree["posterior"]["noise"].dims == ("chain", "draw")
    expected = {"lp", "energy", "acceptance_rate", "tree_depth", "n_steps", "diverging", "step_size"}
    assert set(tree["sample_stats"].data_vars) == expected
    assert all(tree["sample_stats"][name].dims == ("chain", "draw") for name in expected)
    assert tree["sample_stats"]["diverging"].dtype == bool
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "data")
    assert tree["posterior_predictive"]["y"].shape == (4, 250, 12)
    assert set(tree["posterior_predictive"].data_vars) == {"f", "y"}
    assert tree["observed_data"]["y"].dims == ("data",)
    assert tree["constant_data"]["x"].dims == ("data", "feature")
    assert tree["predictions_constant_data"]["x_test"].shape == (5, 2)
    assert tree.attrs["method"] == "nuts"
    np.testing.assert_array_equal(tree["posterior"]["w"], fit.draws["w"])
    np.testing.assert_allclose(tree["log_likelihood"]["y"], fit.log_likelihood(), rtol=1e-6)


def test_an_equal_size_is_not_taken_for_a_feature_axis() -> None:
    """Two features and two hidden units: only the first axis of w1 follows the columns of x."""
    data = zoo.Data(torch.randn(6, 2), torch.randn(6), info={"x_names": ["a", "b"]})
    problem = zoo.load("bnn_regression", data, hidden=2)
    fit = zoo.run(problem, "prior", draws=10)
    dims = to_arviz(fit)["prior"]
    assert dims["w1"].dims == ("chain", "draw", "feature", "w1_dim_1")
    assert dims["b1"].dims == ("chain", "draw", "b1_dim_0")


def test_plates_of_a_users_model_name_the_axes() -> None:
    problem = zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS))
    g = cases.generator()
    draws = {
        "mu": torch.randn(2, 50, generator=g),
        "tau": torch.rand(2, 50, generator=g) + 0.5,
        "eta": torch.randn(2, 50, 8, generator=g),
    }
    tree = to_arviz(zoo.Posterior(problem, "nuts", "markov", draws))
    assert tree["posterior"]["eta"].dims == ("chain", "draw", "school")
    assert tree["log_likelihood"]["effect"].dims == ("chain", "draw", "school")
    assert tree["observed_data"]["effect"].values.tolist() == cases.SCHOOLS["y"].tolist()
    assert tree["posterior_predictive"]["effect"].shape == (2, 50, 8)
    assert not np.array_equal(tree["posterior_predictive"]["effect"][0, 0], cases.SCHOOLS["y"])


@pytest.mark.parametrize("shape", [(4, 250), (1, 1000), (1, 1001), (2, 100)])
@pytest.mark.usefixtures("no_warning")
def test_summary_and_loo_do_not_warn(shape: tuple[int, int]) -> None:
    """One chain too: it is exported as its two halves, and so has an R-hat."""
    tree = to_arviz(cases.line_fit(shape=shape, sd=0.02))
    table = az.summary(tree)
    assert len(table) == 3
    assert table["r_hat"].astype(float).notna().all()
    assert np.isfinite(float(az.loo(tree).elpd_loo if ZERO else az.loo(tree).elpd))


def test_one_chain_is_two_halves_and_says_so() -> None:
    fit = cases.line_fit(shape=(1, 101))
    tree = to_arviz(fit)
    assert "halves" in tree.attrs["folded"]
    for group, name in (("posterior", "w"), ("log_likelihood", "y"), ("sample_stats", "lp")):
        assert tree[group][name].shape[:2] == (2, 50)
    np.testing.assert_array_equal(tree["posterior"]["noise"][1], fit.draws["noise"][0, 50:100])
    assert tree["constant_data"]["x"].shape == (12, 2)
    assert "folded" not in to_arviz(cases.line_fit(shape=(2, 50))).attrs


@pytest.mark.usefixtures("no_warning")
def test_point_estimates_are_constants_outside_the_summary() -> None:
    fit = cases.line_fit(settings={"point": ["noise"]})
    fit.draws["noise"][:] = 1.0
    tree = to_arviz(fit)
    assert set(tree["posterior"].data_vars) == {"w"}
    assert tree["constant_data"]["noise"].shape == (4, 250)
    assert tree.attrs["point"] == "noise"
    assert az.summary(tree)["r_hat"].astype(float).notna().all()


@pytest.mark.usefixtures("no_warning")
@pytest.mark.parametrize("method", ["exact", "prior"])
def test_methods_of_the_zoo(method: str) -> None:
    fit = zoo.run(zoo.load("coin_flip", n=10, heads=7), method, draws=2000)
    tree = to_arviz(fit, prior=True)
    assert tree["prior"]["theta"].shape == (2, 1000) or method == "exact"
    assert "prior_predictive" in str(tree)
    if method == "exact":
        assert len(az.summary(tree)) == 1
        az.loo(tree)
    else:
        assert "log_likelihood" not in str(tree)


def test_weights_travel_and_are_said_to_be_ignored(caplog: pytest.LogCaptureFixture) -> None:
    fit = cases.line_fit(weights=torch.rand(4, 250, generator=cases.generator()))
    with caplog.at_level(logging.WARNING, logger="zoo"):
        tree = to_arviz(fit)
    assert "weights" in caplog.text
    np.testing.assert_array_equal(tree["sample_stats"]["weight"], fit.weights)


def test_without_log_likelihood() -> None:
    tree = to_arviz(cases.line_fit(shape=(2, 10)), log_likelihood=False)
    assert "posterior_predictive" in str(tree)
    assert "log_likelihood" not in str(tree)


def test_warm_up_on_request() -> None:
    """Its own groups, ArviZ's names, the axes of the draws; without the request there is none."""
    fit = cases.two_sites_fit()
    tree = to_arviz(fit, warmup=True)
    assert tree["warmup_posterior"]["rate"].shape == (2, 20, 3)
    assert tree["warmup_posterior"]["w"].dims == tree["posterior"]["w"].dims
    assert set(tree["warmup_sample_stats"].data_vars) == {"acceptance_rate", "step_size"}
    np.testing.assert_array_equal(tree["warmup_posterior"]["w"], fit.warmup["draws"]["w"])
    np.testing.assert_array_equal(tree["posterior"]["w"], fit.draws["w"])
    assert "warmup" not in " ".join(groups_of(to_arviz(fit)))
    one = to_arviz(cases.two_sites_fit(shape=(1, 100)), warmup=True)
    assert one["warmup_posterior"]["rate"].shape == (2, 10, 3)
    with pytest.raises(ValueError, match=r"keep_warmup=True\."):
        to_arviz(cases.line_fit(), warmup=True)


def groups_of(tree: Any) -> list[str]:
    return list(tree.groups()) if ZERO else list(tree.groups)


def test_warm_up_of_a_sampler() -> None:
    """Its iterations, with the sampler's statistics, beside the draws and not among them."""
    options = {"chains": 2, "warmup": 100, "draws": 50, "engine": "eager", "keep_warmup": True}
    tree = zoo.run("linear_regression", "nuts", **options).to_arviz(warmup=True)
    assert tree["warmup_posterior"]["w"].sizes["draw"] == 100
    assert tree["posterior"]["w"].sizes["draw"] == 50
    assert "diverging" in tree["warmup_sample_stats"]
    with cases.silence():
        az.summary(tree)


def test_several_observed_sites_have_a_log_likelihood_each() -> None:
    fit = cases.two_sites_fit(shape=(2, 500))
    tree = to_arviz(fit)
    assert set(tree["log_likelihood"].data_vars) == set(tree["observed_data"].data_vars) == {"count", "effect"}
    assert tree["log_likelihood"]["count"].dims == ("chain", "draw", "row")
    assert tree["log_likelihood"]["effect"].dims == ("chain", "draw", "picture")
    assert tree["observed_data"]["effect"].dtype.kind == "i"
    assert tree["constant_data"]["group"].values.tolist() == [0, 0, 1, 1, 2, 2]
    with cases.silence():
        both = [az.loo(tree, var_name=name) for name in ("count", "effect")]
    for name, found in zip(("count", "effect"), both, strict=True):
        elpd = float(found.elpd_loo if ZERO else found.elpd)
        assert elpd == pytest.approx(zoo.loo(fit, site=name).elpd, abs=0.1)


def test_what_azloo_does_not_know_is_said() -> None:
    """Draws of q say who corrects them; draws of the posterior and of the prior say nothing."""
    problem = zoo.load("linear_regression")
    said = {
        name: to_arviz(zoo.run(problem, name)).attrs.get("loo", "") for name in ("exact", "prior", "laplace", "map")
    }
    assert said["exact"] == said["prior"] == ""
    assert "zoo.loo" in said["laplace"]
    assert "points" in said["map"]
    assert "log_likelihood" not in groups_of(to_arviz(zoo.run(problem, "map")))


def test_targets_predictions_and_log_likelihood_are_in_the_same_units() -> None:
    """y_rep is beside y: the observed mean within three sds of the replicated one; the twin is standardised."""
    data = zoo.Data(torch.randn(30, 1), torch.randn(30), info={"y_loc": 50.0, "y_scale": 10.0})
    tree = to_arviz(zoo.run(zoo.load("linear_regression", data), "exact", draws=200))
    made, seen = tree["posterior_predictive"]["y"].values.mean(-1), float(tree["observed_data"]["y"].mean())
    assert abs(seen - made.mean()) < 3 * made.std()
    assert abs(float(data.y.mean()) - made.mean()) > 3 * made.std()


def test_class_axes_are_named_where_they_grow_with_the_classes() -> None:
    """Three features and three classes: no axis is taken for the other; without names classes are numbered."""
    x = torch.randn(12, 3)
    for classes, labels in ((["ant", "bee", "fly"], ["ant", "bee", "fly"]), ([], ["0", "1", "2"])):
        data = zoo.Data(x, torch.arange(12) % 3, info={"x_names": ["a", "b", "c"], "classes": classes})
        tree = to_arviz(zoo.run(zoo.load("softmax_regression", data), "prior", draws=20))
        assert tree["prior"]["w"].dims == ("chain", "draw", "feature", "class")
        assert tree["prior"]["b"].dims == ("chain", "draw", "class")
        assert tree["prior_predictive"]["f"].dims == ("chain", "draw", "data", "class")
        assert tree["prior"]["class"].values.tolist() == labels
