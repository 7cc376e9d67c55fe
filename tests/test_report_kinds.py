"""Every kind of picture, by the numbers that are drawn: lines, bars and ends of intervals, never pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.patches import StepPatch
from matplotlib.text import Text

import zoo
from tests import report_cases as cases
from tests import right_answers as right
from tests.refusals import refused
from tests.small_models import two_weights
from zoo.core.diagnostics import bfmi
from zoo.report import bands, canvas, inputs, network, picked
from zoo.report.kinds import ppc as ppc_kind
from zoo.report.layers import layers
from zoo.report.replicated import replicated

LINE_X = torch.linspace(0, 2, 25)[:, None]
KINDS_OF_ALL = ("forest", "pair", "density", "trace", "rank", "ppc")


@pytest.fixture(autouse=True)
def nothing_global_changes() -> Iterator[None]:
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before


def panels(fits: Any, kind: str, **options: Any) -> list[Axes]:
    return list(zoo.plot(fits, kind, **options).axes)  # type: ignore[union-attr]


def made(problem: zoo.Problem, shape: tuple[int, int] = (2, 60), seed: int = 0, **options: Any) -> zoo.Posterior:
    """A fit of any problem, made without inference: draws of its prior, called nuts unless said."""
    prior = zoo.run(problem, "prior", draws=shape[1], chains=shape[0], seed=seed)
    g = cases.generator(seed)
    stats = {"lp": prior.stats["lp"], "energy": torch.randn(*shape, generator=g)}
    options = {"method": "nuts", "kind": "markov", "stats": stats} | options
    return dataclasses.replace(prior, **options)


def regression(d: int, n: int = 12, **info: Any) -> zoo.Problem:
    g = cases.generator(3)
    x = torch.randn(n, d, generator=g)
    return zoo.load("bnn_regression", zoo.Data(x, x.sum(1), x[:5], x[:5].sum(1), info=info), hidden=3)


def classified(d: int, k: int, n: int = 12) -> zoo.Problem:
    g = cases.generator(4)
    y = torch.arange(n) % k
    info = {"classes": ["cat", "dog", "owl"][:k], "y_name": "kind"}
    data = zoo.Data(torch.randn(n, d, generator=g), y.float(), info=info)
    return zoo.load("logistic_regression" if k == 2 else "softmax_regression", data)


def coin() -> zoo.Problem:
    return zoo.load("coin_flip", n=10, heads=7)


def schools(shape: tuple[int, int] = (2, 60)) -> zoo.Posterior:
    return made(zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS)), shape)


def wide_lines(axes: Axes, width: float = 3.0) -> list[Any]:
    return [line for line in axes.lines if line.get_linewidth() == width]


def stairs(axes: Axes) -> list[StepPatch]:
    return [patch for patch in axes.patches if isinstance(patch, StepPatch)]


def bars(axes: Axes) -> list[BarContainer]:
    return [c for c in axes.containers if isinstance(c, BarContainer)]


def dashes(artist: Any) -> str:
    return f"{artist.get_linestyle()} {getattr(artist, '_dash_pattern', '')}"


def tops(container: BarContainer) -> np.ndarray:
    return np.asarray([bar.get_y() + bar.get_height() for bar in container])


# -- every kind on every sort of model --------------------------------------------------------------------

MODELS = {
    "regression 1-D": (lambda: made(regression(1)), ("band", "lines", "prior", "weights", "predicted")),
    "regression 2-D": (lambda: made(regression(2)), ("surface", "lines", "prior", "weights", "predicted")),
    "regression 3-D": (lambda: made(regression(3)), ("prior", "predicted")),
    "2 classes 1-D": (lambda: made(classified(1, 2)), ("band", "prior", "weights", "probabilities", "predicted")),
    "2 classes 2-D": (lambda: made(classified(2, 2)), ("surface", "weights")),
    "3 classes 2-D": (lambda: made(classified(2, 3)), ("surface", "prior", "weights", "probabilities", "predicted")),
    "coin": (lambda: made(coin()), ("prior", "probabilities", "density", "weights")),
    "dict": (schools, ("energy", "weights")),
    "two weights": (lambda: made(two_weights()), ("band", "lines", "prior", "energy", "weights")),
}


# The kinds that serve any model are drawn for these; the slow test writes them to files as well.
SORTS = ("regression 1-D", "3 classes 2-D", "coin", "dict")


def kinds_for(name: str) -> tuple[str, ...]:
    everyones = [kind for kind in KINDS_OF_ALL if name != "coin" or kind != "pair"]
    return (*MODELS[name][1], *(everyones if name in SORTS else ()))


@pytest.mark.parametrize("name", MODELS)
def test_kinds_draw_every_sort_of_model(name: str) -> None:
    fit = MODELS[name][0]()
    for kind in kinds_for(name):
        for axes in panels(fit, kind):
            assert axes.lines or axes.patches or axes.collections, kind


@pytest.mark.parametrize("name", ["regression 1-D", "dict"])
def test_a_fit_from_a_file_is_drawn_alike(name: str, tmp_path: Path) -> None:
    fit = MODELS[name][0]()
    mine = zoo.open(fit.save(tmp_path / "fit.nc"))
    for ours, theirs in zip(panels(fit, "forest"), panels(mine, "forest"), strict=True):
        for a, b in zip(ours.collections, theirs.collections, strict=True):
            np.testing.assert_allclose(a.get_segments(), b.get_segments(), rtol=1e-6)
    (ours,), (theirs,) = panels(fit, "ppc"), panels(mine, "ppc")
    for a, b in zip(stairs(ours), stairs(theirs), strict=True):
        np.testing.assert_allclose(a.get_data().edges, b.get_data().edges, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SORTS, "regression 2-D"])
def test_every_picture_can_be_written(name: str, tmp_path: Path) -> None:
    """Layout is made when a figure is written: letters that do not fit warn, and a warning is an error here."""
    fit = MODELS[name][0]()
    for kind in kinds_for(name):
        assert zoo.plot([fit, fit], kind, tmp_path / f"{kind}.png").stat().st_size > 10_000  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["band", "density", "forest", "pair", "elbo"])
def test_several_fits_have_styles_of_their_own(kind: str) -> None:
    history = {n: torch.randn(1, 100, generator=cases.generator()) for n in ("elbo", "expected_log_likelihood", "kl")}
    problem = cases.line_problem(d=1)
    fits = [cases.line_fit(problem, (1, 100), method=m, seed=i, history=history) for i, m in enumerate("abc")]
    axes = panels(fits, kind)[0]
    artists = stairs(axes) if kind == "density" else wide_lines(axes) if kind == "band" else axes.lines
    found = {f"{dashes(a)} {a.get_marker() if hasattr(a, 'get_marker') else ''}" for a in artists}
    assert len(found) >= 3


DOLLARS = "cost_$ (per_$)"


@pytest.mark.parametrize("kind", ["band", "surface", "predicted", "forest", "density", "ppc", "pair", "probabilities"])
def test_dollars_in_names_are_no_mathematics(kind: str) -> None:
    if kind == "probabilities":
        named = classified(2, 3)
        named.data.info.update(classes=[DOLLARS, "b", "c"], y_name=DOLLARS)  # type: ignore[union-attr]
        fit = made(named)
    elif kind in ("forest", "density", "pair"):
        prior = made(two_weights())
        fit = dataclasses.replace(prior, draws={DOLLARS: torch.randn(2, 60, 2), "tax_$_$": torch.rand(2, 60)})
    else:
        names = [DOLLARS, "b_$_$"][: 2 if kind == "surface" else 1]
        fit = made(regression(len(names), x_names=names, y_name=DOLLARS))
    figure = zoo.plot(fit, kind, **({"site": [*fit.draws]} if DOLLARS in fit.draws else {}))
    figure.draw_without_rendering()  # type: ignore[union-attr]
    shown = [text for text in figure.findobj(Text) if "$" in text.get_text()]  # type: ignore[union-attr]
    assert shown
    assert not any(text.get_parse_math() for text in shown)


def test_powers_of_ten_stay_powers() -> None:
    figure = zoo.plot([made(regression(1)), made(regression(1), seed=1)], "convergence")
    figure.draw_without_rendering()  # type: ignore[union-attr]
    labels = figure.axes[0].get_xticklabels()  # type: ignore[union-attr]
    assert any("$" in text.get_text() for text in labels)
    assert all(text.get_parse_math() for text in labels)


def test_fills_are_hatched_apart() -> None:
    hatches = [canvas.fill(i)["hatch"] for i in range(5)]
    assert len(set(hatches)) == 5
    # In black and white, too: the lightness of neighbours is not all that differs.
    assert len({to_hex(canvas.colour(i)) for i in range(5)}) == 5


# -- functions ----------------------------------------------------------------------------------------------


def test_band_draws_the_predictive_mean_and_its_ends() -> None:
    fit = cases.line_fit(cases.line_problem(d=1, y_loc=100.0, y_scale=10.0, x_loc=[50.0], x_scale=[5.0]))
    axes = panels(fit, "band")[0]
    places = inputs.grid(fit)
    (mean,) = wide_lines(axes)
    expected = bands.interval(fit, places.x)
    np.testing.assert_allclose(mean.get_ydata(), expected.mean, rtol=1e-6)
    np.testing.assert_allclose(mean.get_xdata(), 50 + 5 * places.x[:, 0].numpy(), rtol=1e-6)
    outer = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 1.3]
    np.testing.assert_allclose(outer, expected.outer, rtol=1e-6)
    data = next(line for line in axes.lines if line.get_label() == "data")
    problem: Any = fit.problem
    np.testing.assert_allclose(data.get_ydata(), 100 + 10 * problem.data.y.numpy(), rtol=1e-5)
    np.testing.assert_allclose(data.get_xdata(), 50 + 5 * problem.data.x[:, 0].numpy(), rtol=1e-5)


def test_surface_draws_the_mean_on_one_scale() -> None:
    """The plug-in's map is sigmoid(w x): the broken twin of the average over draws, which is flatter."""
    problem = classified(2, 2)
    g = cases.generator()
    draws = {"w": 2 + 2 * torch.randn(1, 400, 2, generator=g), "b": torch.zeros(1, 400)}
    fit = zoo.Posterior(problem, "nuts", "markov", draws)
    plug = zoo.Posterior(problem, "map", "members", {n: v.mean(1, keepdim=True) for n, v in draws.items()})
    first, second, bar = panels([plug, fit], "surface")
    maps = [axes.collections[0].get_array().reshape(60, 60) for axes in (first, second)]
    across, up, x = inputs.square(fit)
    by_hand = (x @ draws["w"][0].T).sigmoid().mean(1).numpy().reshape(60, 60)
    np.testing.assert_allclose(maps[1], by_hand, atol=1e-5)
    assert np.abs(maps[0] - by_hand).max() > 0.05
    assert [axes.collections[0].get_clim() for axes in (first, second)] == [(0.0, 1.0)] * 2
    # Rows of the map go upwards: the probability rises with x2.
    np.testing.assert_allclose(x.reshape(60, 60, 2)[7, 0].numpy(), [across[0], up[7]], rtol=1e-5)
    assert bar.get_ylabel() == "P(kind = dog)"
    classes = {line.get_label(): line.get_marker() for line in first.lines}
    assert classes == {"kind = cat": "o", "kind = dog": "s"}


def test_surface_of_measurements_shares_ends_and_can_show_the_sd() -> None:
    problem = cases.line_problem(d=2)
    fits = [cases.line_fit(problem, mean=m, sd=s) for m, s in ((1.0, 0.2), (2.0, 0.4))]
    ends = {axes.collections[0].get_clim() for axes in panels(fits, "surface")[:2]}
    assert len(ends) == 1
    sd = panels(fits[0], "surface", show="sd")[0].collections[0].get_array().reshape(60, 60)
    x = inputs.square(fits[0])[2]
    np.testing.assert_allclose(sd.ravel(), 0.2 * x.norm(dim=1).numpy(), rtol=0.2, atol=0.02)
    refused(lambda: panels(fits, "surface", show="max"), "show must be one of mean, sd, got 'max'")


def test_surface_refuses_what_is_no_plane(tmp_path: Path) -> None:
    refused(lambda: panels(cases.line_fit(cases.line_problem(d=1)), "surface"), r"got \(12, 1\)", "Try kind 'band'")
    opened = zoo.open(cases.line_fit().save(tmp_path / "own.nc"))
    refused(lambda: panels(opened, "surface"), "files carry no code", "zoo.open")


def test_prior_draws_functions_of_the_prior() -> None:
    fit = made(regression(1), method="svi")
    axes = panels(fit, "prior", draws=12)[0]
    thin = [line for line in axes.lines if line.get_linewidth() == 1.2]
    assert len(thin) == 12
    prior = zoo.run(fit.problem, "prior", draws=2000, seed=0)
    every = prior.predict(inputs.grid(prior).x)["mean"][0].numpy()
    assert all(np.abs(every - line.get_ydata()).max(1).min() < 1e-5 for line in thin)
    own = zoo.run(fit.problem, "prior", draws=30, seed=7)
    drawn = [line.get_ydata() for line in panels(own, "prior")[0].lines if line.get_linewidth() == 1.2]
    np.testing.assert_allclose(drawn, own.predict(inputs.grid(own).x)["mean"][0], atol=1e-5)


def test_priors_of_two_widths_stand_side_by_side() -> None:
    problem = regression(1)
    wide = dataclasses.replace(problem, hyper={**problem.hyper, "hidden": 9})
    fits = [made(problem), made(problem, seed=1), made(wide)]
    titles = [axes.get_title() for axes in panels(fits, "prior")]
    assert titles == ["prior of bnn_regression\nhidden=3", "prior of bnn_regression\nhidden=9"]


def test_a_coins_prior_stands_beside_its_posterior() -> None:
    fit = zoo.run(coin(), "exact", draws=500)
    (axes,) = panels(fit, "prior")
    assert [patch.get_label() for patch in stairs(axes)] == ["prior", "exact"]
    assert axes.get_xlabel() == "theta (no inputs)"


def test_lines_after_each_number_of_rows() -> None:
    """The line of the lecture: means after 0 ... 25 rows, and the sd of f at x = 1 after them all, within 10 %.

    The twin takes 1 / (2 noise^2) for the precision: its sd is 1.4 times as large.
    """
    data = zoo.Data(LINE_X, torch.tensor(right.LINE_Y))
    problem = zoo.load("linear_regression", data, prior_scale=0.5**0.5, noise=0.2)
    fit = zoo.run(problem, "exact", draws=50)
    drawn = panels(fit, "lines")
    assert [axes.get_title() for axes in drawn] == [f"after {n} row{'s' * (n != 1)}" for n in (0, 1, 2, 5, 10, 25)]
    seen = [next((len(li.get_xdata()) for li in axes.lines if li.get_label() == "data"), 0) for axes in drawn]
    assert seen == [0, 1, 2, 5, 10, 25]
    mean = next(line for line in drawn[-1].lines if line.get_label() == "mean of f")
    x = np.asarray(mean.get_xdata())
    # 1,000 draws: 4 standard errors of the mean at the ends
    np.testing.assert_allclose(mean.get_ydata(), -0.3306692271 + 0.5317273686 * x, atol=4 * 0.1 / 1000**0.5)
    assert _sd_at_one(drawn[-1]) == pytest.approx(0.0015949**0.5, rel=0.1)
    twin = zoo.load("linear_regression", data, prior_scale=0.5**0.5, noise=0.2 * 2**0.5)
    assert _sd_at_one(panels(zoo.run(twin, "exact"), "lines")[-1]) > 1.2 * 0.0015949**0.5


def _sd_at_one(axes: Axes) -> float:
    """The grey interval's width at x = 1, in Normal sds."""
    edge = axes.collections[0].get_paths()[0].vertices
    near = edge[np.abs(edge[:, 0] - 1) < 0.01, 1]
    return float(near.max() - near.min()) / (2 * 1.959964)


def test_lines_after_the_rows_that_are_asked_for() -> None:
    fit = zoo.run("linear_regression", "exact", draws=50)
    assert panels(fit, "lines", rows=(3,))[0].get_title() == "after 3 rows"
    assert len(panels([fit, fit], "lines")) == 2
    refused(lambda: panels([fit, fit], "lines", rows=(1,)), "rows needs one fit", "got 2 fits")
    refused(lambda: panels(made(regression(1)), "lines", rows=(1,)), "exact takes rows", "linear_regression")


def test_lines_are_draws_of_the_posterior() -> None:
    fit = cases.line_fit(cases.line_problem(d=3), (1, 40))
    axes = panels(fit, "lines", draws=40, input=1)[0]
    x = inputs.grid(fit, 1).x
    drawn = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 1.2]
    np.testing.assert_allclose(drawn, (x @ fit.draws["w"][0].T).T, atol=1e-5)
    assert axes.get_xlabel() == "x2"
    refused(lambda: panels(fit, "lines", input=3), r"0 \.\.\. 2, got 3")
    refused(lambda: panels(made(coin()), "lines"), "Try kind 'density'")


def test_weighted_draws_are_weighed() -> None:
    """All weight on the second draw: the band is its line; the twin that ignores weights is half a unit off."""
    problem = cases.line_problem(d=1)
    draws = {"w": torch.tensor([[[0.0], [1.0]]]), "noise": torch.full((1, 2), 1e-3)}
    fit = zoo.Posterior(problem, "sgld", "markov", draws, weights=torch.tensor([[0.0, 1.0]]))
    (mean,) = wide_lines(panels(fit, "band")[0])
    np.testing.assert_allclose(mean.get_ydata(), mean.get_xdata(), atol=1e-5)
    thick = next(line for line in panels(fit, "lines")[0].lines if line.get_label() == "mean of f")
    np.testing.assert_allclose(thick.get_ydata(), thick.get_xdata(), atol=1e-5)


# -- class probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_are_means_with_quantiles(k: int) -> None:
    fit = made(classified(2, k), (2, 200))
    first, *_ = panels([fit, fit], "probabilities", rows=(4, 0))
    mean = fit.predict()["mean"].reshape(400, 12, -1)[:, 4].double().numpy()
    p = np.stack([1 - mean[:, 0], mean[:, 0]], 1) if k == 2 else mean
    heights = [bar.get_height() for bar in bars(first)[0]]
    np.testing.assert_allclose(heights, p.mean(0), atol=1e-6)
    assert sum(heights) == pytest.approx(1)
    ends = np.asarray([segment[:, 1] for segment in first.collections[0].get_segments()])
    np.testing.assert_allclose(ends.T, np.quantile(p, (0.05, 0.95), axis=0), atol=1e-6)
    assert [t.get_text() for t in first.get_xticklabels()] == ["cat", "dog", "owl"][:k]
    assert first.get_title() == f"training row 4: is {['cat', 'dog', 'owl'][4 % k]}"
    assert {bar.get_hatch() for container in bars(first) for bar in container} == {"", "///"}


def test_probabilities_refuse() -> None:
    refused(lambda: panels(cases.line_fit(), "probabilities"), "needs class labels", "got Normal", "band")
    refused(lambda: panels(made(classified(2, 2)), "probabilities", rows=12), r"0 \.\.\. 11, got 12")
    assert panels(made(coin()), "probabilities")[0].get_title() == "no inputs"


# -- training -----------------------------------------------------------------------------------------------


def test_elbo_draws_the_history() -> None:
    problem = zoo.load("linear_regression")
    fit = zoo.run(problem, "svi", steps=200, draws=10, restarts=2, engine="eager")
    drawn = panels(fit, "elbo")
    for axes, term in zip(drawn, ("elbo", "expected_log_likelihood", "kl"), strict=True):
        raw = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 0.5]
        np.testing.assert_allclose(raw, fit.history[term])
        thick = [line for line in axes.lines if line.get_linewidth() == 2.5]
        assert len({dashes(line) for line in thick}) == 2
        np.testing.assert_allclose(thick[0].get_ydata()[0], fit.history[term][0, :4].mean(), rtol=1e-5)
    evidence = next(line for line in drawn[0].lines if line.get_label() == "log evidence")
    known = zoo.run(problem, "exact", draws=1).settings["log_evidence"]
    assert evidence.get_ydata()[0] == pytest.approx(known)
    refused(lambda: panels(cases.line_fit(), "elbo"), r"needs a fit that climbed an ELBO", "got nuts", "trace")


def test_evidence_bars_end_at_the_log_evidence() -> None:
    """ELBO + KL is the log evidence at every moment; the twin, KL to the prior in its place, is not."""
    from zoo.infer.evidence import evidence_bar

    problem = zoo.load("linear_regression")
    fit = zoo.run(problem, "exact", draws=10)
    known = fit.settings["log_evidence"]
    (axes,) = panels(fit, "evidence", steps=40)
    elbo, kl = bars(axes)
    assert len(elbo) == 5
    np.testing.assert_allclose(tops(kl), known, atol=1e-6)
    np.testing.assert_allclose([bar.get_y() for bar in kl], tops(elbo), atol=1e-9)
    by_hand = evidence_bar(problem, steps=40)
    np.testing.assert_allclose([bar.get_height() for bar in kl], [moment.kl for moment in by_hand], atol=1e-9)
    svi = zoo.run(problem, "svi", steps=200, draws=10, engine="eager")
    twin = tops(elbo)[-1] + float(svi.history["kl"][0, -1])
    assert abs(twin - known) > 1e-2
    assert elbo.patches[0].get_hatch() != kl.patches[0].get_hatch()
    assert [float(t.get_text()) for t in axes.get_xticklabels()] == [moment.step for moment in by_hand]


def test_a_bar_that_is_far_off_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [(0, -1e5 - 3.0, 1e5), (5, -4.0, 1.0), (9, -3.1, 0.1)]
    monkeypatch.setattr("zoo.infer.evidence.evidence_bar", lambda *a, **k: [(*m, -3.0) for m in moments])
    (axes,) = panels(zoo.run(coin(), "exact", draws=10), "evidence")
    assert axes.get_ylim()[0] > -30
    said = [text.get_text() for text in axes.texts]
    assert ["(cut)" in text for text in said] == [True, False, False]


def test_evidence_refuses() -> None:
    refused(lambda: panels(made(regression(1)), "evidence"), "closed form", "got 'bnn_regression'", "elbo")
    fit = zoo.run(coin(), "exact", draws=10)
    refused(lambda: panels([fit, fit], "evidence"), "one fit, got 2")


# -- chains ---------------------------------------------------------------------------------------------------


def test_trace_draws_every_draw_of_every_chain() -> None:
    fit = cases.line_fit(cases.line_problem(d=1), (3, 50))
    w, noise = panels(fit, "trace")
    np.testing.assert_allclose([line.get_ydata() for line in w.lines], fit.draws["w"][:, :, 0])
    np.testing.assert_allclose([line.get_ydata() for line in noise.lines], fit.draws["noise"])
    assert len({dashes(line) for line in w.lines}) == 3
    assert "R-hat" in w.get_title()
    one = cases.line_fit(cases.line_problem(d=1), (1, 1), method="map", kind="members")
    refused(lambda: panels(one, "trace"), "got 1 of map", "forest")


def test_rank_counts_sum_to_the_draws() -> None:
    """Chains that agree stay inside what chance does; a chain moved by one sd leaves it."""
    fit = cases.line_fit(cases.line_problem(d=1), (4, 250))
    axes = panels(fit, "rank")[0]
    counts = np.asarray([patch.get_data().values for patch in stairs(axes)])
    np.testing.assert_allclose(counts.sum(1), 250)
    np.testing.assert_allclose(counts.sum(0), 50)
    by_hand = fit.draws["w"].ravel().argsort().argsort().reshape(4, 250)
    np.testing.assert_allclose(counts[2], np.histogram(by_hand[2], 20, (-0.5, 999.5))[0])
    assert axes.patches[0].get_label() == "95 % by chance"
    low, high = axes.patches[0].get_y(), axes.patches[0].get_y() + axes.patches[0].get_height()
    assert ((counts[3] >= low) & (counts[3] <= high)).mean() > 0.8
    fit.draws["w"][3] += 0.2
    moved = np.asarray([patch.get_data().values for patch in stairs(panels(fit, "rank")[0])])
    assert ((moved[3] >= low) & (moved[3] <= high)).mean() < 0.7
    refused(lambda: panels(cases.line_fit(shape=(1, 50)), "rank"), "got 1 x 50 of nuts", "chains=4")


@pytest.mark.parametrize("kind", ["rank", "acceptance", "trace"])
def test_many_chains_take_one_line_of_the_legend_and_differ(kind: str) -> None:
    few, many = (zoo.plot(cases.line_fit(cases.line_problem(d=1), (n, 60)), kind) for n in (4, 16))
    words = [[t.get_text() for t in figure.legends[0].get_texts() if "chain" in t.get_text()] for figure in (few, many)]  # type: ignore[union-attr]
    assert words == [[f"chain {c}" for c in range(4)], ["16 chains"]]
    axes = many.axes[0]  # type: ignore[union-attr]
    drawn = stairs(axes) if kind == "rank" else axes.lines[:16]
    styles = [(to_hex(a.get_edgecolor() if kind == "rank" else a.get_color()), dashes(a)) for a in drawn]
    marks = ["" if kind == "rank" else str(artist.get_marker()) for artist in drawn]
    assert len(set(zip(styles, marks, strict=True))) == 16


def test_forest_ends_are_quantiles() -> None:
    fits = [cases.line_fit(cases.line_problem(x_names=["age", "size"]), seed=i) for i in range(2)]
    w, noise = panels(fits, "forest")
    for place, fit in enumerate(fits):
        drawn = np.quantile(fit.draws["w"].reshape(-1, 2).double(), (0.025, 0.25, 0.5, 0.75, 0.975), axis=0)
        outer, inner = (
            np.asarray([s[:, 0] for s in c.get_segments()]) for c in w.collections[2 * place : 2 * place + 2]
        )
        np.testing.assert_allclose(outer.T, drawn[[0, 4]], rtol=1e-6)
        np.testing.assert_allclose(inner.T, drawn[[1, 3]], rtol=1e-6)
        np.testing.assert_allclose(w.lines[place].get_xdata(), drawn[2], rtol=1e-6)
    assert [t.get_text() for t in w.get_yticklabels()] == ["w[age]", "w[size]"]
    assert noise.get_xlabel() == "noise"
    assert w.lines[0].get_marker() != w.lines[1].get_marker()


def test_pair_draws_all_pairs_and_divergences() -> None:
    fit = cases.line_fit(cases.line_problem(d=1), (2, 100))
    (axes,) = panels(fit, "pair")
    np.testing.assert_allclose(axes.lines[0].get_xdata(), fit.draws["w"].ravel())
    np.testing.assert_allclose(axes.lines[0].get_ydata(), fit.draws["noise"].ravel())
    assert len(axes.lines) == 1
    fit.stats["diverging"][1, 3] = True
    bad = panels(fit, "pair")[0].lines[1]
    assert (bad.get_label(), bad.get_marker()) == ("divergences", "x")
    np.testing.assert_allclose(bad.get_xdata(), fit.draws["w"][1, 3])
    assert len(panels(cases.line_fit(), "pair")) == 6
    refused(lambda: panels(made(coin()), "pair"), "two numbers or more, got theta", "density")


def test_points_lie_on_the_clouds_of_draws() -> None:
    problem = cases.line_problem(d=1)
    points = cases.line_fit(problem, (1, 3), seed=1, method="map", kind="members")
    (axes,) = panels([points, cases.line_fit(problem, (2, 100))], "pair")
    above, cloud = axes.lines
    assert above.get_zorder() > cloud.get_zorder()
    assert above.get_markersize() > 2 * cloud.get_markersize()
    assert (above.get_markeredgecolor(), above.get_alpha()) == ("black", None)


@pytest.mark.parametrize("kind", ["prior", "lines"])
def test_functions_of_a_classifier_are_probabilities(kind: str) -> None:
    for k, word in ((2, "the probability"), (0, "f")):
        (axes,) = panels(made(classified(1, k) if k else regression(1)), kind)
        said = axes.get_legend_handles_labels()[1]
        assert {f"draws of {word}", f"mean of {word}", f"central 95 % of {word}"} <= set(said)


def test_energy_and_its_steps() -> None:
    """E-BFMI of independent energies is 2, of a slow walk near 0."""
    g = np.random.default_rng(0)
    assert bfmi(g.normal(size=(2, 4000))) == pytest.approx(2, abs=0.15)
    assert bfmi(g.normal(size=(1, 4000)).cumsum(axis=1))[0] < 0.1
    fit = cases.line_fit(shape=(2, 500))
    (axes,) = panels(fit, "energy")
    energy = fit.stats["energy"].numpy()
    heights, cuts, _ = stairs(axes)[1].get_data()
    np.testing.assert_allclose(heights, np.histogram(np.diff(energy, axis=1), cuts, density=True)[0])
    assert f"{bfmi(energy).min():.2f}" in axes.get_title()
    svi = cases.line_fit(method="svi", kind="iid", stats={"lp": torch.zeros(4, 250)})
    refused(lambda: panels(svi, "energy"), r"needs draws of a sampler with a momentum \(nuts, hmc\), got svi", "elbo")


# -- what is picked ---------------------------------------------------------------------------------------------


def test_networks_are_shown_by_their_outputs_and_weights_on_request() -> None:
    fit = made(regression(1, y_loc=100.0, y_scale=10.0, x_loc=[5.0], x_scale=[2.0], y_name="height (cm)"))
    found = picked.picked(fit, None, 0, 6)
    assert [pick.site for pick in found.values()] == ["f"] * 4 + ["noise"]
    problem: Any = fit.problem
    order = problem.data.x_test[:, 0].argsort()
    rows = order[[0, 1, 3, 4]]
    expected = fit.predict(problem.data.x_test)["f"][:, :, rows]
    np.testing.assert_allclose(np.stack([p.values for p in found.values()][:4], 2), expected, rtol=1e-4)
    assert next(iter(found)) == f"f at {5 + 2 * float(problem.data.x_test[order[0], 0]):.3g}"
    f, noise = panels(fit, "forest")
    assert (f.get_xlabel(), noise.get_xlabel()) == ("height (cm)", "noise (standardised)")
    weights = panels(fit, "trace", site="w1")
    assert [axes.get_ylabel() for axes in weights] == [f"w1[0, {i}] (standardised)" for i in range(3)]
    np.testing.assert_allclose(weights[1].lines[1].get_ydata(), fit.draws["w1"][1, :, 0, 1])
    assert len(panels(fit, "forest", site=["w1", "noise"])) == 2
    refused(lambda: panels(fit, "trace", site="w9"), "unknown site 'w9'. Did you mean", "noise")


def test_density_of_a_constant_is_a_line() -> None:
    point = cases.line_fit(cases.line_problem(d=1), (1, 1), method="map", kind="members", sd=0.0)
    drawn = panels([cases.line_fit(cases.line_problem(d=1)), point], "density", site="w")[0]
    line = next(line for line in drawn.lines if line.get_label() == "map")
    assert line.get_xdata() == pytest.approx([1.0, 1.0])
    heights, cuts, _ = stairs(drawn)[0].get_data()
    assert (heights * np.diff(cuts)).sum() == pytest.approx(1)


# -- weights ------------------------------------------------------------------------------------------------------


def test_layers_are_read_off_the_shapes() -> None:
    fit = made(regression(2))
    assert [tuple(layer) for layer in layers(fit)] == [("w1", "b1", 2, 3), ("w2", "b2", 3, 1)]
    assert layers(schools()) == []


def test_a_density_on_an_edge_integrates_to_one_and_has_the_draws_moments() -> None:
    draws = 0.7 + 0.3 * torch.randn(4000, generator=cases.generator()).double().numpy()
    curve = network.density_curve(draws, 3.0)
    step = curve.values[1] - curve.values[0]
    assert (curve.heights * step).sum() == pytest.approx(1)
    mean = (curve.values * curve.heights * step).sum()
    sd = ((curve.values - mean) ** 2 * curve.heights * step).sum() ** 0.5
    assert mean == pytest.approx(draws.mean(), abs=0.01)
    # The kernel widens a Normal's sd by sqrt(1 + n^-.4).
    assert sd == pytest.approx(draws.std() * (1 + 4000**-0.4) ** 0.5, rel=0.01)
    spike = network.density_curve(np.full(5, 1.5), 3.0)
    assert spike.values[spike.heights.argmax()] == pytest.approx(1.5, abs=step)


def test_a_small_network_is_drawn() -> None:
    """An edge and a density for each weight; the peak of a density stands where its draws are."""
    fit = made(regression(2))
    fit.draws["w1"][:] = torch.tensor([[-1.0, 0.0, 1.0], [0.5, -0.5, 1.5]]) + 0.1 * torch.randn(2, 60, 2, 3)
    (axes,) = panels(fit, "weights")
    edges = [line for line in axes.lines if line.get_color() == "#999999"]
    assert len(edges) == 2 * 3 + 3
    assert len(axes.collections) == 9 + 3 + 1
    reach = network.reach_of([fit.draws[n].reshape(120, -1)[:, i].double().numpy() for n in ("w1", "b1", "w2", "b2")
                              for i in range(fit.draws[n][0, 0].numel())])  # fmt: skip
    for edge, area, value in zip(edges[:6], axes.collections[:6], fit.draws["w1"].mean((0, 1)).ravel(), strict=True):
        path = area.get_paths()[0].vertices
        top = path[path[:, 1].argmax()]
        base = path[:, 1].min()
        (x0, x1), (y0, y1) = edge.get_data()
        middle = x0 + (base - y0) / (y1 - y0) * (x1 - x0) if y1 != y0 else path[:, 0].mean()
        assert (top[0] - middle) / network.HALF * reach == pytest.approx(float(value), abs=0.25)
    words = [text.get_text() for text in axes.texts]
    assert {"x1", "x2", "f", "layer 1: w1, b1", "layer 2: w2, b2"} <= set(words)


def test_a_network_of_learned_scales_is_drawn_by_its_weights() -> None:
    """Not by w_raw: layers, their titles and what single pictures pick are those of the formula."""
    fit = zoo.run(zoo.load("bnn_regression", hidden=3, prior_scale="learned"), "prior", draws=50)
    assert [tuple(layer) for layer in layers(fit)] == [("w1", "b1", 1, 3), ("w2", "b2", 3, 1)]
    (axes,) = panels(fit, "weights")
    assert {"layer 1: w1, b1", "layer 2: w2, b2"} <= {text.get_text() for text in axes.texts}
    line = zoo.run(zoo.load("linear_regression", prior_scale="learned"), "prior", draws=50)
    assert [axes.get_xlabel() for axes in panels(line, "weights")] == ["scale", "w[x]", "b"]
    assert not picked.is_network(zoo.run(zoo.load("softmax_regression", prior_scale="learned"), "prior", draws=5))


@pytest.mark.parametrize(("inputs", "hidden", "drawn"), [(1, 12, True), (3, 4, True), (5, 5, False)])
def test_a_network_is_drawn_where_its_edges_have_room(inputs: int, hidden: int, drawn: bool) -> None:
    data = zoo.Data(torch.randn(8, inputs, generator=cases.generator()), torch.zeros(8))
    fit = made(zoo.load("bnn_regression", data, hidden=hidden), (1, 40))
    assert (len(panels(fit, "weights")) == 1) == drawn


def test_larger_networks_and_lines_are_histograms() -> None:
    big = zoo.load("bnn_regression", hidden=20)
    fit = made(big, (1, 40))
    assert sum(layer.fan_in * layer.width for layer in layers(fit)) == 40
    drawn = panels(fit, "weights")
    assert [axes.get_title() for axes in drawn] == [
        "layer 1: w1, 1 x 20 numbers",
        "layer 1: b1, 20 numbers",
        "layer 2: w2, 20 x 1 numbers",
        "layer 2: b2, 1 number",
    ]
    heights, cuts, _ = stairs(drawn[0])[0].get_data()
    np.testing.assert_allclose(heights, np.histogram(fit.draws["w1"].numpy(), cuts, density=True)[0])
    line = cases.line_fit(cases.line_problem(x_names=["age", "size"]))
    assert [axes.get_xlabel() for axes in panels(line, "weights")] == ["w[age]", "w[size]", "noise"]
    refused(lambda: panels(line, "weights", site="v"), "unknown site 'v'", "w")


# -- predictive checks ----------------------------------------------------------------------------------------


def test_ppc_histograms_count_the_rows() -> None:
    fit = cases.line_fit(cases.line_problem(n=60, y_loc=100.0, y_scale=10.0))
    (axes,) = panels(fit, "ppc")
    band, median, seen = stairs(axes)
    problem: Any = fit.problem
    y = 100 + 10 * problem.data.y.double().numpy()
    counts, cuts, _ = seen.get_data()
    assert counts.sum() == 60
    np.testing.assert_allclose(counts, np.histogram(y, cuts)[0])
    (found,) = replicated(fit, None, 0)
    drawn = np.asarray([np.histogram(row, cuts)[0] for row in found.drawn])
    np.testing.assert_allclose([band.get_data().baseline, band.get_data().values],
                               np.quantile(drawn, (0.025, 0.975), axis=0))  # fmt: skip
    np.testing.assert_allclose(median.get_data().values, np.median(drawn, axis=0))
    assert len({dashes(seen), dashes(median)}) == 2


def test_p_values_find_a_wrong_noise() -> None:
    """With y of the model's own the sd is ordinary; drawn with a third of the noise it is not."""
    g = cases.generator(5)
    x = torch.randn(200, 1, generator=g)
    data = zoo.Data(x, x[:, 0] + 0.5 * torch.randn(200, generator=g))
    fit = cases.line_fit(zoo.Problem("mine", cases.line, data), sd=0.02)
    (right,) = replicated(fit, None, 0)
    assert 0.01 < float(ppc_kind.p_values(right).split("sd ")[1][:4]) < 0.99
    fit.draws["noise"][:] = 1 / 3
    fit.draws["w"][:] = 0.5
    (wrong,) = replicated(fit, None, 0)
    assert float(ppc_kind.p_values(wrong).split("sd ")[1][:4]) < 0.01


def test_ppc_of_classes_and_of_several_sites() -> None:
    fit = made(classified(2, 3))
    (axes,) = panels(fit, "ppc")
    assert [bar.get_height() for bar in bars(axes)[0]] == [4, 4, 4]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["cat", "dog", "owl"]
    (found,) = replicated(fit, None, 0)
    drawn = np.asarray([[(row == v).sum() for v in range(3)] for row in found.drawn])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.median(drawn, axis=0))
    (effect,) = panels(schools(), "ppc")
    assert effect.get_xlabel() == "effect"
    counts, cuts, _ = stairs(effect)[-1].get_data()
    np.testing.assert_allclose(counts, np.histogram(cases.SCHOOLS["y"], cuts)[0])
    refused(lambda: panels(schools(), "ppc", site="y"), "unknown observed site 'y'", "effect")
    blind = zoo.Problem("blind", cases.line, zoo.Data(torch.randn(5, 1)))
    refused(lambda: panels(made(blind), "ppc"), "has none", "Give y")
