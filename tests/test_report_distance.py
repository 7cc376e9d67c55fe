"""Distances and scores on pairs with closed forms; each check has a twin that must fail it."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from tests.small_models import two_weights
from zoo.core.quantities import quantities, thin
from zoo.report import marginals, scores
from zoo.report.differences import difference
from zoo.report.marginals import marginal
from zoo.report.table import number

S = 20_000


def normal(mean: float = 0.0, sd: float = 1.0, count: int = S) -> np.ndarray:
    """The quantiles (i + 1/2) / S of a Normal, as draws (1, S, 1): no Monte Carlo error."""
    return (mean + sd * stats.norm.ppf((np.arange(count) + 0.5) / count))[None, :, None]


def folded(m: float, s: float) -> float:
    """E |m + s Z|: the 1-Wasserstein distance of N(0, 1) and N(m, (1 + s)^2)."""
    s = abs(s)
    if s == 0:
        return abs(m)
    return float(s * np.sqrt(2 / np.pi) * np.exp(-(m**2) / (2 * s**2)) + m * (1 - 2 * stats.norm.cdf(-m / s)))


@pytest.mark.parametrize(("m", "s"), [(0.0, 1.0), (0.5, 1.0), (0.0, 0.5), (-0.8, 2.0), (1.0, 0.3)])
def test_two_normals(m: float, s: float) -> None:
    gold = marginal(3 + 10 * normal(), None, "iid")
    found = marginals.distances(gold, marginal(3 + 10 * normal(m, s), None, "iid"))
    np.testing.assert_allclose(found["off"], m, atol=1e-3)
    np.testing.assert_allclose(found["sd_ratio"], s, rtol=1e-3)
    np.testing.assert_allclose(found["w1"], folded(m, s - 1), rtol=2e-3, atol=1e-9)
    z = stats.norm.ppf([0.75, 0.9, 0.975])
    right = stats.norm.cdf(m + z * s) - stats.norm.cdf(m - z * s)
    np.testing.assert_allclose([found[f"in{level}"][0] for level in (50, 80, 95)], right, atol=1e-3)


def test_twins_of_ratio_and_coverage_fail() -> None:
    """The approximation's draws inside gold's intervals: over-confidence would look like good coverage."""
    gold, narrow = marginal(normal(), None, "iid"), marginal(normal(0.0, 0.5), None, "iid")
    right = 2 * stats.norm.cdf(0.5 * stats.norm.ppf(0.975)) - 1
    assert marginals.coverage(gold.sorted, narrow.sorted, 0.95)[0] == pytest.approx(right, abs=1e-3)
    assert marginals.coverage(narrow.sorted, gold.sorted, 0.95)[0] > 0.99
    assert marginals.distances(narrow, gold)["sd_ratio"][0] == pytest.approx(2.0, rel=1e-3)


def test_wasserstein_floor_is_what_two_samples_give() -> None:
    """300 pairs of samples of 400 and 100: mean distance within 5 % of the floor; a twin forgets one."""
    rng = np.random.default_rng(0)
    a, b = (np.sort(rng.normal(size=(300, n)), axis=1) for n in (400, 100))
    seen = marginals.wasserstein(a, b).mean()
    size = np.full(1, 400.0), np.full(1, 100.0)
    floor = marginals.wasserstein_floor(normal()[0].T, *size)[0]
    assert floor == pytest.approx(seen, rel=0.05)
    assert marginals.wasserstein_floor(normal()[0].T, size[0], size[0])[0] < 0.8 * seen


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.floats(-3, 3), st.integers(0, 10**6))
def test_wasserstein_of_any_sizes_is_scipys(n: int, m: int, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.sort(rng.normal(size=(2, n)), axis=1), np.sort(rng.normal(shift, 2, size=(2, m)), axis=1)
    found = marginals.wasserstein(a, b)
    right = [stats.wasserstein_distance(a[i], b[i]) for i in range(2)]
    np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, marginals.wasserstein(b, a), atol=1e-12)
    np.testing.assert_allclose(marginals.wasserstein(a, a + shift), abs(shift), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 12)),
    st.tuples(st.integers(1, 3), st.integers(1, 12)),
    st.integers(1, 4),
    st.sampled_from(["markov", "iid", "members"]),
    st.booleans(),
)
def test_shapes(a: tuple[int, int], b: tuple[int, int], k: int, kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 1.5, size=b) if weighted else None
    gold, other = (
        marginal(rng.normal(size=(*a, k)), None, "iid"),
        marginal(rng.normal(size=(*b, k)), weights, kind),
    )
    found = marginals.distances(gold, other)
    assert all(value.shape == (k,) for value in found.values())
    for name in ("w1", "sd_ratio", "in50", "in95"):
        assert not np.isnan(found[name]).any()
        assert (found[name] >= 0).all()
    if kind == "members" and a != (1, 1):  # one draw of gold is a constant
        assert np.isnan(found["z"]).all()


def autoregressive(phi: float, k: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 500, k))
    x[:, 0] /= np.sqrt(1 - phi**2)
    for t in range(1, 500):
        x[:, t] += phi * x[:, t - 1]
    return x


def test_z_is_a_standard_normal_and_its_twin_is_not() -> None:
    """400 coordinates of equal means: sd of z within 15 % of 1 and none above the limit at alpha = 1e-3.

    The twin takes autocorrelated draws for independent ones.
    """
    gold, other = (autoregressive(0.8, 400, seed) for seed in (0, 1))
    limit = stats.norm.isf(1e-3 / 400 / 2)
    z = marginals.distances(marginal(gold, None, "markov"), marginal(other, None, "markov"))["z"]
    assert z.std() == pytest.approx(1.0, abs=0.15)
    assert np.abs(z).max() < limit
    twin = marginals.distances(marginal(gold, None, "iid"), marginal(other, None, "iid"))["z"]
    assert twin.std() > 2
    assert np.abs(twin).max() > limit


def test_weighted_draws() -> None:
    """Quantiles of N(0, 1) weighted to N(.5, 1); the twin ignores the weights."""
    draws, weights = normal(), np.exp(0.5 * normal()[:, :, 0])
    target = marginal(normal(0.5), None, "iid")
    found = marginals.distances(target, marginal(draws, weights, "iid"))
    assert found["off"][0] == pytest.approx(0, abs=2e-3)
    assert found["sd_ratio"][0] == pytest.approx(1, abs=2e-3)
    assert found["w1"][0] < 5e-3
    assert found["in95"][0] == pytest.approx(0.95, abs=2e-3)
    assert marginals.distances(target, marginal(draws, None, "iid"))["w1"][0] == pytest.approx(0.5, abs=1e-3)


def test_constants_are_at_distance_zero_or_infinity() -> None:
    zero, one = np.zeros((2, 50, 1)), np.ones((2, 50, 1))
    noisy = np.random.default_rng(0).normal(size=(2, 50, 1))
    gold = marginal(zero, None, "markov")
    same = marginals.distances(gold, marginal(zero, None, "iid"))
    right = {"off": 0, "z": 0, "sd_ratio": 1, "w1": 0, "w1_floor": 0, "in50": 1, "in80": 1, "in95": 1}
    assert {name: float(value[0]) for name, value in same.items()} == right
    for other in (one, noisy):
        found = marginals.distances(gold, marginal(other, None, "iid"))
        assert np.isinf(found["w1"][0])
        assert not any(np.isnan(value).any() for value in found.values())


def test_four_thousand_draws_at_a_thousand_points_take_less_than_two_seconds() -> None:
    rng = np.random.default_rng(0)
    gold, other = rng.normal(size=(4, 1000, 1000)), rng.normal(size=(1, 4000, 1000))
    start = time.process_time()
    marginals.distances(marginal(gold, None, "markov"), marginal(other, None, "iid"))
    assert time.process_time() - start < 2.0


def test_log_likelihood_averages_probabilities_and_its_twins_fail() -> None:
    """y ~ N(theta, 1), theta ~ N(0, 1): log p(y) is that of N(0, 2); y = 3."""
    theta = normal()[0, :, 0]
    terms = stats.norm.logpdf(3.0, theta, 1.0)[None, :, None]
    right = stats.norm.logpdf(3.0, 0, np.sqrt(2))
    assert scores.log_likelihood(terms) == pytest.approx(right, abs=1e-3)
    assert terms.mean() < right - 1  # the twin: averaged in log space
    weights = np.exp(theta - 0.5)[None]  # theta ~ N(1, 1)
    assert scores.log_likelihood(terms, weights) == pytest.approx(stats.norm.logpdf(3, 1, np.sqrt(2)), abs=1e-3)


def test_rmse() -> None:
    mean, y = np.array([0.0, 1.0]), np.array([3.0, -3.0])
    assert scores.rmse(mean, y) == pytest.approx(np.sqrt((9 + 16) / 2))
    assert scores.rmse(mean[:, None] * [1, 1], y[:, None] * [1, 1]) == pytest.approx(np.sqrt((9 + 16) / 2))


def test_accuracy() -> None:
    assert scores.accuracy([0.9, 0.4, 0.6], [1, 0, 0]) == pytest.approx(2 / 3)
    assert scores.accuracy([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], [1, 2]) == 0.5


def test_scores_of_a_posterior_are_those_of_its_data() -> None:
    plain = cases.line_fit(kind="iid")
    scaled = dataclasses.replace(plain, problem=cases.line_problem(y_loc=50.0, y_scale=10.0))
    rows = [zoo.compare(fit).frame.iloc[0] for fit in (plain, scaled)]
    assert rows[0]["scored_on"] == "test"
    assert rows[1]["rmse"] == pytest.approx(10 * rows[0]["rmse"], rel=1e-4)
    assert rows[1]["log_lik"] == pytest.approx(rows[0]["log_lik"] - np.log(10), abs=1e-5)
    data = plain.problem.data
    untested = zoo.Problem("my line", cases.line, zoo.Data(data.x, data.y), hyper={"sd": 0.5})
    assert zoo.compare(dataclasses.replace(plain, problem=untested)).frame.loc[0, "scored_on"] == "train"


def fits(**changes: Any) -> tuple[zoo.Posterior, zoo.Posterior]:
    return cases.line_fit(), cases.line_fit(method="svi", kind="iid", seed=1, **changes)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "agrees"),
        ({"sd": 0.1}, "over-confident"),
        ({"sd": 0.3}, "under-confident"),
        ({"mean": 1.3}, "wrong"),
        ({"mean": 1.3, "sd": 0.1}, "over-confident, wrong"),
    ],
)
def test_verdicts(changes: dict[str, float], verdict: str) -> None:
    found = zoo.compare(*fits(**changes))
    assert found.frame["verdict"].tolist() == ["gold", verdict]
    (said,) = found.sentences
    assert said.startswith("svi: ")
    assert all(word in said for word in verdict.split(", "))


def test_frame_and_table() -> None:
    gold, fast = fits(sd=0.1)
    one = cases.line_fit(shape=(4, 1), method="map", kind="members", sd=0.0)
    found = zoo.compare(gold, fast, one, gold)
    assert found.frame["method"].tolist() == ["nuts", "svi", "map", "nuts 2"]
    assert set(found.sites["quantity"]) == {"f", "noise"}
    assert len(found.sites) == 3 * 6
    row = found.frame.iloc[0]
    assert row["min_ess"] > 500
    assert row["ess_per_s"] == pytest.approx(row["min_ess"] / 2)
    assert 0.99 < row["rhat_f"] < 1.02
    assert 0.99 < row["rhat_w"] < 1.02
    assert np.isnan(found.frame.loc[2, "z"])
    assert found.frame.loc[2, "sd_ratio"] < 0.1
    assert found.frame.loc[3, "w1"] == 0
    text = str(found)
    assert max(map(len, text.splitlines())) <= 110
    assert "nan" not in text
    assert "Constant in gold: f[0]" in text
    assert text.splitlines()[0].split()[:3] == ["method", "draws", "off"]


def test_function_space_and_weight_space_rhat_differ() -> None:
    """Two chains in mirrored modes of a two-weight net: f agrees, weights do not; f(0) = 0 is constant."""
    g = cases.generator()
    w1 = 0.9 + 0.1 * torch.randn(2, 500, generator=g, dtype=torch.float64)
    w2 = 1.1 + 0.1 * torch.randn(2, 500, generator=g, dtype=torch.float64)
    sign = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    fit = zoo.Posterior(two_weights(), "nuts", "markov", {"w1": sign * w1, "w2": sign * w2})
    found = zoo.compare(fit, fit)
    row = found.frame.iloc[0]
    assert row["rhat_f"] < 1.02 < 1.5 < row["rhat_w"]
    assert set(found.sites["quantity"]) == {"f"}  # weights are not identifiable
    constant = found.sites[found.sites["constant"]]
    assert constant["coordinate"].tolist() == ["f[4]"]
    assert not found.sites.drop(columns=["method", "quantity", "coordinate"]).isna().to_numpy().any()
    assert "agrees" in found.sentences[0]


def test_classifiers_are_compared_on_probabilities_too() -> None:
    g = cases.generator()
    x = torch.randn(10, 2, generator=g)
    for model, y, shape in (
        (cases.classes, torch.randint(3, (10,), generator=g), (2, 3)),
        (cases.signs, torch.randint(2, (10,), generator=g).float(), (2,)),
    ):
        problem = zoo.Problem("mine", model, zoo.Data(x, y))
        fit = zoo.Posterior(problem, "nuts", "markov", {"w": torch.randn(2, 100, *shape, generator=g)})
        found = zoo.compare(fit, fit)
        assert set(found.sites["quantity"]) == {"f", "mean"}
        assert 0 <= found.frame.loc[0, "accuracy"] <= 1
        assert np.isnan(found.frame.loc[0, "rmse"])
        assert "acc." in str(found)


def test_identifiable_sites_are_the_problems() -> None:
    problem = zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS))
    g = cases.generator()
    draws = {
        "mu": torch.randn(2, 50, generator=g),
        "tau": torch.rand(2, 50, generator=g) + 0.5,
        "eta": torch.randn(2, 50, 8, generator=g),
    }
    fit = zoo.Posterior(problem, "nuts", "markov", draws)
    assert set(zoo.compare(fit, fit).sites["quantity"]) == {"mu", "tau", "eta"}
    named = dataclasses.replace(fit, problem=dataclasses.replace(problem, compare=("mu",)))
    assert set(zoo.compare(named, named).sites["quantity"]) == {"mu", "tau"}


def test_point_estimates_do_not_count_as_over_confident() -> None:
    gold = cases.line_fit()
    fast = cases.line_fit(method="svi", kind="iid", seed=1, settings={"point": ["noise"]})
    fast.draws["noise"][:] = 1.0
    found = zoo.compare(gold, fast)
    assert found.frame.loc[1, "verdict"] == "agrees"
    assert "Point estimates: noise." in found.sentences[0]


def test_other_data_and_other_things_are_refused() -> None:
    gold = cases.line_fit()
    with pytest.raises(ValueError, match="other data"):
        zoo.compare(gold, cases.line_fit(cases.line_problem(n=13)))
    with pytest.raises(TypeError, match="got str"):
        zoo.compare(gold, "fit.nc")  # type: ignore[arg-type]
    known = zoo.load("linear_regression", gold.problem.data, noise=0.5)
    draws = {"w": gold.draws["w"], "b": gold.draws["noise"]}
    w_only, f_only = (
        dataclasses.replace(gold, draws=draws, problem=dataclasses.replace(known, compare=(name,))) for name in "wf"
    )
    with pytest.raises(ValueError, match="nothing to compare"):
        zoo.compare(w_only, f_only)


def test_the_same_data_in_another_dtype_are_the_same() -> None:
    double = cases.line_fit(cases.line_problem().to(dtype=torch.float64), seed=1)
    assert zoo.compare(cases.line_fit(), double).frame["verdict"].tolist() == ["gold", "agrees"]


def test_a_gold_that_is_not_one_is_said() -> None:
    gold, fast = fits()
    bad = dataclasses.replace(gold, outcome="interrupted after 250 draws")
    assert "gold (nuts) is not ok: interrupted" in str(zoo.compare(bad, fast))
    short = cases.line_fit(shape=(2, 50))
    poor = zoo.compare(short, fast)
    assert "effective draws" in str(poor)
    assert poor.frame["verdict"].tolist() == ["gold", "not judged"]
    (said,) = poor.sentences
    assert said.startswith("No fit is judged, as gold is not good enough to be one: gold has ")
    apart = dataclasses.replace(gold, draws={n: v.clone() for n, v in gold.draws.items()})
    apart.draws["w"][0] += 3
    assert "chains disagree" in str(zoo.compare(apart, fast))
    assert not zoo.compare(gold, fast).notes
    wrong = cases.line_fit(method="svi", kind="iid", seed=1, sd=0.1, mean=1.3, outcome="not converged: raise steps")
    judged = str(zoo.compare(bad, wrong))
    assert "over-confident" not in judged
    assert "wrong" not in judged
    assert "svi: Not ok: not converged" in judged
    assert zoo.compare(gold, wrong).frame.loc[1, "verdict"] == "over-confident, wrong"
    stuck = dataclasses.replace(fast, outcome="not converged: raise steps or lower lr")
    assert "Not ok: not converged" in zoo.compare(gold, stuck).sentences[0]


def test_thousands_of_coordinates_are_thinned_evenly() -> None:
    assert thin(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert thin(1001, 11).tolist() == list(range(0, 1001, 100))
    fit = cases.line_fit(shape=(1, 2))
    found = quantities(fit, {"f": torch.zeros(1, 2, 1500, 3)})
    assert found["f"].values.shape == (1, 2, 2000)
    assert found["f"].labels[-1] == "f[1499, 2]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "-"),
        (float("inf"), "inf"),
        (0.0, "0.00"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1234"),
        (2.5e6, "2e6"),
        (0.001, "1e-3"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_another_prior_or_model_is_said_below_the_table() -> None:
    """Compared it may be, but the distance is no error of the method; a default that is spelled out is the same."""
    data = cases.line_problem().data
    gold, spelled, wide = (
        zoo.run(zoo.load("linear_regression", data, **hyper), "exact", draws=500)
        for hyper in ({}, {"noise": 0.6, "prior_scale": 1}, {"prior_scale": 3.0})
    )
    assert not zoo.compare(gold, spelled).notes
    (note,) = zoo.compare(gold, spelled, wide).notes
    assert note.startswith("exact 3 has prior_scale=3.0 (gold: 1.0)")
    assert note in str(zoo.compare(gold, spelled, wide)).replace("\n  ", " ")
    assert zoo.compare(gold, gold, wide).frame.loc[1, "verdict"] == "agrees"
    far = dataclasses.replace(wide, draws={name: value + 9 for name, value in wide.draws.items()})
    found = zoo.compare(gold, far)
    assert found.frame["verdict"].tolist() == ["gold", "not judged"]
    assert found.sentences[0].startswith("exact 2: not judged, being another posterior than gold's (")
    assert "wrong" in zoo.compare(gold, dataclasses.replace(far, problem=gold.problem)).frame.loc[1, "verdict"]

    def mine(x: Any, y: Any = None, **options: Any) -> None:
        wide.problem.model(x, y, **options)

    other = dataclasses.replace(wide, problem=dataclasses.replace(wide.problem, name="mine", model=mine))
    (note,) = zoo.compare(gold, other).notes
    assert "model mine, gold of linear_regression" in note


def test_tensor_and_tuple_hyperparameters_are_compared_by_value() -> None:
    fit = cases.line_fit()
    versions = [
        dataclasses.replace(fit, problem=dataclasses.replace(fit.problem, hyper={"sd": sd}))
        for sd in (0.5, torch.tensor(0.5), torch.tensor(0.25))
    ]
    assert not zoo.compare(versions[0], versions[1]).notes
    assert "sd=0.25 (gold: 0.5)" in zoo.compare(versions[0], versions[2]).notes[0]


def test_an_opened_fit_is_of_the_same_model(tmp_path: Path) -> None:
    """A file knows no defaults of a user's model: what only one side can tell is not called a difference."""
    fit = cases.line_fit()
    plain = dataclasses.replace(fit, problem=dataclasses.replace(fit.problem, hyper={}))
    opened = zoo.open(plain.save(tmp_path / "fit.nc"))
    assert not zoo.compare(fit, opened).notes
    assert not zoo.compare(opened, opened).notes


def test_missing_scores_have_a_reason() -> None:
    fit = cases.two_sites_fit(shape=(2, 500))
    found = zoo.compare(fit, fit)
    assert any("dict" in note and "loglik" in note for note in found.notes)
    assert "agrees" in found.sentences[0]
    assert np.isnan(found.frame["rmse"]).all()
    assert not zoo.compare(*fits()).notes


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_draws_that_are_not_finite_are_refused_by_name(value: float, tmp_path: Path) -> None:
    """In compare on either side, scores and report. Twin: the same fit without that draw."""
    gold, good = fits()
    bad = dataclasses.replace(good, draws={name: v.clone() for name, v in good.draws.items()})
    bad.draws["w"][0, 3] = value
    said = r"svi: f\[\d\] is not finite in 1 of 1000 draws .*Leave that row out of the inputs, or run"
    for call in (
        lambda: zoo.compare(gold, bad),
        lambda: zoo.compare(bad, gold),
        lambda: zoo.scores(bad),
        lambda: zoo.write_report([gold, bad], tmp_path / "page.html"),
        lambda: zoo.write_report(bad, tmp_path / "page.html"),
    ):
        refused(call, said)
    assert zoo.compare(gold, good).frame["verdict"].tolist() == ["gold", "agrees"]
    assert np.isfinite(zoo.scores(good)["rmse"])


def test_k_hat_of_equal_ratios_is_explained() -> None:
    """Twin: no word of it where no fit has it."""
    exact = zoo.run("linear_regression", "exact", draws=500)
    assert "k-hat -inf: p/q is the same at all draws" in " ".join(str(zoo.compare(exact, exact)).split())
    assert "-inf" not in str(zoo.compare(*fits()))


def test_hyperparameters_of_q_alone_make_no_other_posterior() -> None:
    """mc_dropout's rate, and gaussian_dropout, which has the same model. Twin: another length scale."""
    options = {"steps": 30, "draws": 20, "engine": "eager", "seed": 0}
    fits = [
        zoo.run(zoo.load(name, hidden=3, n=20, **hyper), "svi", **options)
        for name, hyper in (
            ("mc_dropout", {}),
            ("mc_dropout", {"p": 0.3}),
            ("gaussian_dropout", {}),
            ("mc_dropout", {"length_scale": 3.0}),
        )
    ]
    said = [difference("it", fit, fits[0]) for fit in fits]
    assert said[:3] == ["", "", ""]
    assert "length_scale=3.0" in said[3]
