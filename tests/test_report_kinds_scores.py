"""Pictures of scores, by the numbers that are drawn: calibration and rejection."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from scipy import stats

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.report.kinds.calibration import _interval

KINDS = ("calibration", "rejection")


def panel(fits: Any, kind: str) -> Axes:
    (axes,) = zoo.plot(fits, kind).axes  # type: ignore[union-attr]
    return axes


def curve(axes: Axes, label: str) -> Any:
    return next(line for line in axes.lines if line.get_label() == label)


def line_fit(method: str = "nuts", noise: float = 0.5, rows: int = 200, seed: int = 0) -> zoo.Posterior:
    """y = x + N(0, .5) at test rows; draws w ~ N(1, .1^2), and the noise that the model is told."""
    g = cases.generator(5)
    x = torch.randn(20 + rows, 1, generator=g)
    y = x[:, 0] + 0.5 * torch.randn(len(x), generator=g)
    data = zoo.Data(x[:20], y[:20], x[20:], y[20:], info={"y_name": "height (cm)"})
    problem = zoo.Problem("my line", cases.line, data, hyper={"sd": noise})
    g = cases.generator(seed)
    draws = {"w": 1 + 0.1 * torch.randn(2, 200, 1, generator=g), "noise": torch.ones(2, 200)}
    return zoo.Posterior(problem, method, "markov", draws)


def classifier(method: str = "nuts", times: float = 1.0) -> zoo.Posterior:
    g = cases.generator()
    x = 2 * torch.randn(400, 2, generator=g)
    w = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    y = torch.distributions.Categorical(logits=x @ w).probs.multinomial(1, generator=g)[:, 0]
    problem = zoo.Problem("mine", cases.classes, zoo.Data(x[:30], y[:30], x[30:], y[30:]))
    draws = times * w + 0.1 * torch.randn(2, 50, 2, 3, generator=g)
    return zoo.Posterior(problem, method, "markov", {"w": draws})


def test_calibration_draws_coverage_of_intervals() -> None:
    """Right noise: inside the grey; half of it (the twin): P(|z| < z_level / 2), below the grey."""
    right, narrow = line_fit(), line_fit("svi", noise=0.25)
    axes = panel([right, narrow], "calibration")
    level = curve(axes, "nuts").get_xdata()
    np.testing.assert_allclose(level, np.arange(5, 100, 5))
    (band,) = axes.collections
    low, high = (stats.binom.ppf(at, 200, level / 100) / 2 for at in (0.025, 0.975))
    edges = band.get_paths()[0].vertices
    assert set(np.round([*low, *high], 6)) <= set(np.round(edges[:, 1], 6))
    inside = {
        name: (lambda y: ((low <= y) & (y <= high)).mean())(curve(axes, name).get_ydata()) for name in ("nuts", "svi")
    }
    assert inside["nuts"] > 0.8
    assert inside["svi"] < 0.2
    np.testing.assert_allclose(curve(axes, "nuts").get_ydata(), 100 * zoo.scores(right).calibration["covered"])
    expected = 200 * stats.norm.cdf(0.5 * stats.norm.ppf(0.5 + level / 200)) - 100
    np.testing.assert_allclose(curve(axes, "svi").get_ydata(), expected, atol=12)
    np.testing.assert_allclose(curve(axes, "calibrated").get_xdata(), curve(axes, "calibrated").get_ydata())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("central interval (%)", "rows inside it (%)")
    assert axes.get_title() == "calibration, 200 test rows"


def test_calibration_of_classes_draws_bins_with_their_errors() -> None:
    """The right probabilities are inside the bars; those of three times the logits (the twin) below the diagonal."""
    fits = [classifier(), classifier("map", times=3.0)]
    axes = panel(fits, "calibration")
    for fit, lines in zip(fits, axes.collections, strict=True):
        found, drawn = zoo.scores(fit).calibration, curve(axes, fit.method)
        np.testing.assert_allclose(drawn.get_xdata(), 100 * found["confidence"])
        np.testing.assert_allclose(drawn.get_ydata(), 100 * found["accuracy"])
        ends = np.array([segment[:, 1] for segment in lines.get_segments()])  # type: ignore[attr-defined]
        np.testing.assert_allclose(ends.T, _interval(found["accuracy"], found["rows"]))
        across = drawn.get_xdata()
        inside = ((ends[:, 0] <= across) & (across <= ends[:, 1])).mean()
        assert (inside > 0.8) == (fit.method == "nuts")
    assert {curve(axes, m).get_marker() for m in ("nuts", "map")} == {"o", "s"}
    assert axes.get_xlabel() == "stated: largest probability (%)"


def test_the_bars_are_wilsons() -> None:
    """As scipy's interval of a binomial share; the twin, share +- 1.96 sd, has no width at 0 and 1."""
    for hits, rows in ((0, 5), (3, 10), (10, 10)):
        right = stats.binomtest(hits, rows).proportion_ci(method="wilson")
        np.testing.assert_allclose(
            _interval([hits / rows], [rows]), 100 * np.array([[right.low], [right.high]]), atol=1e-9
        )


def test_rejection_draws_the_rest_of_the_error() -> None:
    fit = line_fit()
    axes = panel([fit, line_fit("svi", seed=1)], "rejection")
    found, drawn = zoo.scores(fit).rejection, curve(axes, "nuts")
    np.testing.assert_allclose(drawn.get_xdata(), 100 * (1 - found["kept"]))
    np.testing.assert_allclose(drawn.get_ydata(), found["rmse"])
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(dotted[0].get_ydata(), found["rmse"][0])
    assert "left out by chance" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert axes.get_ylabel() == "RMSE of the rest (height (cm))"
    assert axes.get_ylim()[0] == 0
    classes = panel(classifier(), "rejection")
    wrong = curve(classes, "nuts").get_ydata()
    np.testing.assert_allclose(wrong, 100 * (1 - zoo.scores(classifier()).rejection["accuracy"]))
    assert wrong[10] < 0.7 * wrong[0]  # half of the rows left out
    assert classes.get_ylabel() == "wrong classes among the rest (%)"


@pytest.mark.parametrize("kind", KINDS)
def test_fits_are_told_apart_without_colour(kind: str) -> None:
    for make in (line_fit, classifier):
        axes = panel([make(name) for name in "abc"], kind)
        found = {f"{curve(axes, n).get_linestyle()} {curve(axes, n)._dash_pattern}" for n in "abc"}
        assert len(found) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_scores_is_refused(kind: str) -> None:
    refused(lambda: zoo.plot(cases.two_sites_fit(), kind), "data in a dict")
    blind = zoo.Problem("my line", cases.line, zoo.Data(torch.randn(5, 2)))
    refused(lambda: zoo.plot(dataclasses.replace(cases.line_fit(), problem=blind), kind), "a score needs targets")
    problem = cases.line_fit().problem
    data = zoo.Data(problem.data.x, torch.ones(12))  # type: ignore[union-attr]
    line, signs = (zoo.Problem("mine", model, data) for model in (cases.line, cases.signs))
    pair = [dataclasses.replace(cases.line_fit(), problem=p, stats={}) for p in (line, signs)]
    refused(lambda: zoo.plot(pair, kind), "Draw them apart")


def test_files_are_written_on_ones_own_axes_too(tmp_path: Path) -> None:
    """Letters that do not fit warn, and a warning is an error here."""
    from matplotlib.figure import Figure

    for kind in KINDS:
        for fit in (line_fit(rows=30), classifier()):
            assert zoo.plot(fit, kind, tmp_path / f"{kind}.png").stat().st_size > 10_000  # type: ignore[union-attr]
        axes = Figure().subplots()
        zoo.plot(line_fit(rows=30), kind, axes)
        assert axes.lines
    opened = zoo.open(line_fit(rows=30).save(tmp_path / "fit.nc"))
    drawn = [curve(panel(f, "rejection"), "nuts").get_ydata() for f in (opened, line_fit(rows=30))]
    np.testing.assert_allclose(*drawn, rtol=1e-5)
