"""Pictures of approximations beside gold, of chains on their way, and of leave-one-out places: by their numbers."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from scipy import stats

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.report.arviz import arviz
from zoo.report.gold import find_gold
from zoo.report.kinds import acceptance, convergence, loo_pit
from zoo.report.uniformity import ecdf_band

az = arviz()
ZERO = az.__version__.startswith("0.")


def panels(fits: Any, kind: str, **options: Any) -> list[Axes]:
    return list(zoo.plot(fits, kind, **options).axes)  # type: ignore[union-attr]


def line_data(n: int = 30, noise: float = 1.0) -> zoo.Data:
    g = cases.generator(2)
    x = torch.linspace(-1, 1, n)[:, None]
    return zoo.Data(x, x[:, 0] + noise * torch.randn(n, generator=g), torch.linspace(-2, 2, 9)[:, None])


def exact_line(draws: int = 4000, noise: float = 1.0) -> zoo.Posterior:
    return zoo.run(zoo.load("linear_regression", line_data(), noise=noise), "exact", draws=draws)


# -- leave-one-out places ----------------------------------------------------------------------------------


def refitted_places(data: zoo.Data, noise: float) -> np.ndarray:
    """P(y < y_i | the other rows), in closed form, by one refit a row."""
    out = []
    for i in range(len(data.x)):
        others = torch.arange(len(data.x)) != i
        answer = zoo.linear_regression.exact(zoo.Data(data.x[others], data.y[others]), noise=noise)
        found = answer.predictive(data.x[i : i + 1])
        out.append(stats.norm.cdf(float(data.y[i]), float(found.mean), float(found.stddev)))
    return np.asarray(out)


def test_places_are_those_of_refits() -> None:
    """Within 6 of a place's Monte Carlo errors of 4,000 draws (less than .003 each); the twin saw the row."""
    data = line_data(8)
    fit = zoo.run(zoo.load("linear_regression", data, noise=1.0), "exact", draws=4000)
    right = refitted_places(data, 1.0)
    assert np.abs(loo_pit.pit(fit) - right).max() < 0.018
    predicted = fit.predict()
    seen = stats.norm.cdf(data.y, predicted["mean"], predicted["var"].sqrt()).mean(axis=(0, 1))
    assert np.abs(seen - right).max() > 0.05


def test_places_are_those_of_arviz() -> None:
    """ArviZ draws y, this integrates it: 5 binomial errors of 4,000 draws apart at most."""
    fit = dataclasses.replace(exact_line(), kind="markov", method="nuts")
    with cases.silence():
        tree = fit.to_arviz()
        theirs = az.loo_pit(tree, y="y", y_hat="y") if ZERO else az.loo_pit(tree, var_names="y")["y"].to_numpy()
    mine = loo_pit.pit(fit)
    assert (np.abs(mine - theirs) < 5 * np.sqrt(mine * (1 - mine) / 4000) + 1e-3).all()


def test_places_of_draws_of_y_are_those_of_its_distribution() -> None:
    fit, normal = exact_line(), loo_pit.layout
    right = loo_pit.pit(fit)
    try:
        loo_pit.layout = lambda found: normal(found)._replace(family="StudentT")  # type: ignore[assignment]
        drawn = loo_pit.pit(fit)
    finally:
        loo_pit.layout = normal  # type: ignore[assignment]
    assert (np.abs(drawn - right) < 5 * np.sqrt(right * (1 - right) / 4000) + 1e-3).all()
    assert not np.array_equal(drawn, right)


def test_the_curve_is_the_share_minus_the_place() -> None:
    fit = exact_line(1000)
    (axes,) = panels(fit, "loo_pit")
    across, up = axes.lines[1].get_data()
    assert np.allclose(up, loo_pit.share_below(loo_pit.pit(fit), np.asarray(across)) - across)
    band = axes.collections[0].get_paths()[0].vertices
    low, high = (counts / 30 for counts in ecdf_band(30, len(across), 0.05))
    assert band[:, 1].max() == pytest.approx((high - across).max())
    assert band[:, 1].min() == pytest.approx((low - across).min())


# -- gold beside an approximation --------------------------------------------------------------------------


def pair(d: int, sd: float = 0.1) -> list[zoo.Posterior]:
    problem = cases.line_problem(d=d)
    return [
        cases.line_fit(problem),
        cases.line_fit(problem, method="svi", kind="iid", sd=sd, seed=1),
    ]


@pytest.mark.parametrize("d", [1, 3])
def test_beside_says_how_wide_an_approximation_is(d: int) -> None:
    """f = x w with sds of w .2 and .1: half as wide at every x; 1,000 draws each, 5 errors of a ratio of sds."""
    (axes,) = panels(pair(d), "beside")
    found = re.fullmatch(r"svi: sd (\d\.\d\d) of gold's", axes.get_title())
    assert found is not None
    assert abs(float(found[1]) - 0.5) < 5 * 0.5 * (2 / 2000) ** 0.5 + 0.005
    (twin,) = panels(pair(d, 0.2), "beside")
    assert "sd 0.5" not in twin.get_title()


def test_beside_draws_quantiles_of_f() -> None:
    gold, fit = pair(1)
    (axes,) = panels([gold, fit], "beside")
    mean = next(line for line in axes.lines if line.get_label().startswith("the fit"))
    x = torch.tensor(np.asarray(mean.get_xdata()), dtype=torch.float32)[:, None]
    f = fit.predict(x)["f"].reshape(-1, len(x)).double().numpy()
    assert np.allclose(mean.get_ydata(), f.mean(0), atol=1e-5)
    edges = [line.get_ydata() for line in axes.lines if line.get_label().startswith("_")]
    for drawn, level in zip(edges, (0.025, 0.25, 0.75, 0.975), strict=True):
        assert np.allclose(drawn, np.quantile(f, level, axis=0), atol=1e-5)
    grey = axes.collections[0].get_paths()[0].vertices[:, 1]
    g = gold.predict(x)["f"].reshape(-1, len(x)).double().numpy()
    assert grey.max() == pytest.approx(np.quantile(g, 0.975, axis=0).max(), abs=1e-5)


@pytest.mark.parametrize("name", ["linear_regression", "logistic_regression", "softmax_regression"])
def test_one_fit_is_drawn_beside_the_gold_file(name: str) -> None:
    fit = zoo.run(name, "laplace", draws=300)
    (axes,) = panels(fit, "beside")
    ratio = float(axes.get_title().split()[2])
    assert (0.8 < ratio < 1.25) or name == "softmax_regression"
    (named,) = panels([fit, fit], "beside", gold=name)[:1]
    assert named.get_title() == "laplace: sd " + axes.get_title().split()[2] + " of gold's"


def test_a_fit_without_its_model_is_drawn_too(tmp_path: Any) -> None:
    for d in (1, 3):
        gold, fit = (zoo.open(one.save(tmp_path / "fit.nc")) for one in pair(d))
        assert "svi: sd 0." in panels([gold, fit], "beside")[0].get_title()


# -- convergence in draws ----------------------------------------------------------------------------------


def known(sd: float = 0.2, mean: float = 1.0) -> convergence.Right:
    """The right answer of `line_fit` with three inputs: f = x w, w ~ N(mean, sd), noise ~ |N(1, .02)|."""
    x = cases.line_problem(d=3).data.x_test.double().numpy()  # type: ignore[union-attr]
    labels = [*(f"f[{i}]" for i in range(len(x))), "noise"]
    sds = np.asarray([*(sd * np.linalg.norm(x, axis=1)), 0.02])
    return convergence.Right(labels, np.asarray([*(mean * x.sum(1)), 1.0]), sds, np.zeros(len(labels)))


def test_a_right_method_follows_its_error_and_a_biased_one_does_not() -> None:
    """off^2 / error^2 is a mean of squares of 4 independent normals: below 5.2 with chance 1 - 3e-4 at the end."""
    problem = cases.line_problem(d=3)
    counts, off, error = convergence.curves(cases.line_fit(problem, kind="iid"), known())
    assert counts[-1] == 1000
    assert (off[-1] / error[-1]) ** 2 < 5.2
    assert np.allclose(error * np.sqrt(counts), error[-1] * np.sqrt(1000))
    _, biased, its = convergence.curves(cases.line_fit(problem, kind="iid", mean=1.2), known())  # the twin
    assert (biased[-1] / its[-1]) ** 2 > 100
    assert biased[-1] == pytest.approx(biased[len(biased) // 2], rel=0.3)


def test_points_have_no_error_to_explain() -> None:
    gold = cases.line_fit(cases.line_problem(d=3))
    point = cases.line_fit(gold.problem, (1, 1), seed=1, method="map", kind="members")
    words = [t.get_text() for t in panels([gold, point], "convergence")[0].get_legend().get_texts()]
    assert "Monte Carlo error" not in words
    both = panels([gold, point, cases.line_fit(gold.problem, seed=2, method="hmc")], "convergence")[0]
    assert [t.get_text() for t in both.get_legend().get_texts()][-1] == "Monte Carlo error"


def test_the_distance_is_that_of_the_first_draws() -> None:
    fit = cases.line_fit(cases.line_problem(d=3))
    counts, off, _ = convergence.curves(fit, known())
    n, right = int(counts[7]) // 4, known()
    first = dataclasses.replace(fit, draws={name: value[:, :n] for name, value in fit.draws.items()})
    x = fit.problem.data.x_test  # type: ignore[union-attr]
    mean = np.append(first.predict(x)["f"].double().mean((0, 1)).numpy(), float(first.draws["noise"].double().mean()))
    use = right.sd > 0  # f is constant at the first test row
    assert off[7] == pytest.approx(np.sqrt((((mean - right.mean)[use] / right.sd[use]) ** 2).mean()), rel=1e-5)


def test_convergence_to_a_gold_file_and_of_points() -> None:
    fit = zoo.run("linear_regression", "exact", draws=500)
    (axes,) = panels(fit, "convergence")
    assert "exact: " in axes.lines[0].get_label()
    assert float(np.asarray(axes.lines[0].get_ydata())[-1]) < 0.2
    points = zoo.run("linear_regression", "map", restarts=2)
    (axes,) = panels([fit, points], "convergence")
    assert axes.lines[0].get_label().startswith("map: ")
    assert "errors" not in axes.lines[0].get_label()


def test_weighted_draws_count_by_their_weight() -> None:
    fit = cases.line_fit(cases.line_problem(d=3), kind="iid")
    weights = torch.zeros(fit.shape)
    weights[:, :100] = 1
    _, off, _ = convergence.curves(dataclasses.replace(fit, weights=weights), known())
    cut = dataclasses.replace(fit, draws={name: value[:, :100] for name, value in fit.draws.items()})
    assert off[-1] == pytest.approx(convergence.curves(cut, known())[1][-1], rel=1e-6)


# -- chains on their way -----------------------------------------------------------------------------------


def kept(fit: zoo.Posterior, count: int = 30) -> zoo.Posterior:
    """The fit with a warm-up of its own."""
    draws = {name: value[:, :count] + 5 for name, value in fit.draws.items()}
    return dataclasses.replace(fit, warmup={"draws": draws, "stats": {"accept": torch.full((4, count), 0.25)}})


def test_paths_are_the_first_draws_or_the_warm_up() -> None:
    fit = cases.line_fit()
    for one, shift in ((fit, 0), (kept(fit), 5)):
        (axes,) = panels(one, "paths", site="w", steps=20)
        ways = [line for line in axes.lines if str(line.get_label()).startswith("chain")]
        assert len(ways) == 4
        for chain, way in enumerate(ways):
            assert np.allclose(np.stack(way.get_data(), 1), fit.draws["w"][chain, :20] + shift)
    assert axes.get_title() == "nuts: warm-up, 20 steps"


def test_acceptance_is_averaged_along_the_run() -> None:
    fit = kept(cases.line_fit())
    fit = dataclasses.replace(fit, settings={"options": {"target_accept": 0.9}})
    (axes,) = panels(fit, "acceptance")
    lines = {str(line.get_label()): line for line in axes.lines}
    assert np.asarray(lines["target"].get_ydata())[0] == 0.9
    x, y = (np.asarray(part) for part in lines["chain 1"].get_data())
    every = np.concatenate([np.full(30, 0.25), fit.stats["accept"][1].double()])
    assert x[0] == 3.5 - 30
    assert np.allclose(y, every.reshape(-1, 7).mean(1))
    assert axes.get_title() == f"nuts: mean {float(fit.stats['accept'].mean()):.3f}"


def test_the_target_is_the_kernels_own_unless_the_step_was_given() -> None:
    fit = cases.line_fit()
    assert acceptance.target(fit) == 0.8
    assert acceptance.target(dataclasses.replace(fit, settings={"options": {"step_size": 0.1}})) is None
    assert acceptance.target(dataclasses.replace(fit, method="by hand")) is None


def test_maps_are_draws_and_their_average() -> None:
    x = torch.randn(20, 2, generator=cases.generator())
    problem = zoo.Problem("signs", cases.signs, zoo.Data(x, (x.sum(1) > 0).float()))
    w = torch.tensor([[3.0, 0.0], [0.0, 3.0]])[None]
    fit = zoo.Posterior(problem, "nuts", "markov", {"w": w})
    shown = panels(fit, "maps", draws=2)
    first, second, average = (np.asarray(axes.collections[0].get_array()) for axes in shown[:3])
    assert np.allclose(average, (first + second) / 2, atol=1e-6)
    assert not np.allclose(first, second, atol=0.1)
    assert [axes.get_title() for axes in shown[:3]] == ["nuts: draw 1", "nuts: draw 2", "nuts: average of 2"]


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, fits, said",
    [
        ("beside", lambda: cases.line_fit(), "beside needs a reference: give it first"),
        ("beside", lambda: zoo.run("coin_flip", "exact", draws=50), r"beside needs x of shape \(n, d\)"),
        ("convergence", lambda: cases.line_fit(), "convergence needs a reference"),
        ("loo_pit", lambda: zoo.run("logistic_regression", "laplace", draws=50), "Try kind 'calibration'"),
        ("loo_pit", lambda: zoo.run("linear_regression", "map"), "loo needs draws of a density"),
        ("paths", lambda: cases.line_fit(method="svi", kind="iid"), "paths needs chains, got svi"),
        ("paths", lambda: cases.line_fit(cases.line_problem(d=1), shape=(2, 9)), None),
        ("acceptance", lambda: zoo.run("linear_regression", "map"), "acceptance needs a sampler"),
        ("maps", lambda: cases.line_fit(cases.line_problem(d=1)), r"maps needs x of shape \(n, 2\)"),
        ("maps", lambda: [cases.line_fit()] * 2, "maps draws one fit, got 2"),
    ],
)
def test_what_cannot_be_drawn_is_said(kind: str, fits: Any, said: str | None) -> None:
    made = fits()
    if said is None:
        assert panels(made, kind)
    else:
        refused(lambda: zoo.plot(made, kind), said)


def test_gold_of_other_data_is_refused() -> None:
    gold = find_gold(zoo.load("linear_regression"))
    refused(lambda: zoo.plot(exact_line(50), "beside", gold=gold), "is of other data")
    refused(lambda: zoo.plot(exact_line(50), "convergence", gold="nothing"), "there is no gold 'nothing'")
