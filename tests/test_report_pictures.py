"""Pictures: the numbers behind them against closed forms; files that are images; nothing global changes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy import stats

import zoo
from tests import report_cases as cases
from zoo.report import bands, pictures


@pytest.fixture(autouse=True)
def nothing_global_changes() -> Iterator[None]:
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before


def one_input(**info: object) -> zoo.Problem:
    return cases.line_problem(d=1, **info)


def exact_line(count: int = 2000) -> zoo.Posterior:
    """w ~ N(1, .2), noise = 1, so that y at x is N(x, .04 x^2 + .25)."""
    fit = cases.line_fit(one_input(), (1, count), kind="iid")
    w = torch.as_tensor(1 + 0.2 * stats.norm.ppf((np.arange(count) + 0.5) / count), dtype=torch.float32)
    draws = {
        "w": w[None, torch.randperm(count, generator=cases.generator()), None],
        "noise": torch.ones(1, count),
    }
    return zoo.Posterior(fit.problem, "exact", "iid", draws)


def test_intervals_are_those_of_the_predictive_distribution() -> None:
    """Against the Normal's quantiles, within 5 %; the twin leaves the noise out and fails."""
    x = torch.tensor([[0.0], [1.0], [3.0]])
    found = bands.interval(exact_line(), x)
    sd = np.sqrt(0.04 * x[:, 0].numpy() ** 2 + 0.25)
    np.testing.assert_allclose(found.mean, x[:, 0], atol=1e-3)
    for (low, high), z in ((found.outer, 1.959964), (found.inner, 0.674490)):
        np.testing.assert_allclose((high - low) / (2 * z), sd, rtol=0.05)
    twin = 0.2 * x[:, 0].numpy()
    assert (np.abs((found.outer[1] - found.outer[0]) / (2 * 1.959964) / np.maximum(twin, 1e-9) - 1) > 0.05).all()


def test_a_few_members_still_have_an_interval() -> None:
    fit = cases.line_fit(one_input(), (1, 1), method="map", kind="members", sd=0.0)
    fit.draws["noise"][:] = 1.0
    found = bands.interval(fit, torch.tensor([[1.0]]))
    assert found.outer[1] - found.outer[0] == pytest.approx(2 * 1.96 * 0.5, rel=0.05)


def test_original_units() -> None:
    fit = cases.line_fit(one_input(y_loc=100.0, y_scale=10.0))
    plain = cases.line_fit(one_input())
    x = torch.tensor([[1.0], [2.0]])
    np.testing.assert_allclose(bands.interval(fit, x).mean, 100 + 10 * bands.interval(plain, x).mean, rtol=1e-5)
    assert bands.observed(fit, torch.tensor([0.5])).tolist() == [105.0]


def test_a_file_is_an_image(tmp_path: Path) -> None:
    fits = [cases.line_fit(one_input(x_names=["age (years)"], y_name="height (cm)")) for _ in range(3)]
    for count in (1, 2, 3):
        path = pictures.band(fits[:count], tmp_path / f"{count}.png")
        image = imread(path)
        assert image.shape[0] > 300
        assert image.std() > 0.05
    (tmp_path / "a.pdf").unlink(missing_ok=True)
    assert pictures.picture(fits[0], to=tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match="png"):
        pictures.band(fits, tmp_path / "a.nc")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.png", "2.png", "3.png", "a.pdf"]


def test_fits_can_be_told_apart_without_colour() -> None:
    fits = [cases.line_fit(one_input(x_names=["age (years)"], y_name="height (cm)"), seed=i) for i in range(3)]
    axes = pictures.band(fits)
    assert isinstance(axes, Axes)
    means = [line for line in axes.lines if line.get_linewidth() > 2]
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in means}) == 3  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "data",
        "test data",
        "nuts",
        "nuts 2",
        "nuts 3",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age (years)", "height (cm)")


def test_drawn_on_given_axes() -> None:
    axes = Figure().subplots()
    assert pictures.band(cases.line_fit(one_input()), axes) is axes
    assert pictures.predicted_against_observed(cases.line_fit(), axes) is axes
    with pytest.raises(ValueError, match="one fit"):
        pictures.predicted_against_observed([cases.line_fit(), cases.line_fit()], axes)


def test_picture_picks(tmp_path: Path) -> None:
    several = pictures.picture(cases.line_fit(), cases.line_fit(seed=1))
    assert len(several.figure.axes) == 2  # type: ignore[union-attr]
    assert several.get_xlabel() == "observed y"  # type: ignore[union-attr]
    one = pictures.picture(cases.line_fit(one_input()))
    assert one.get_xlabel() == "x"  # type: ignore[union-attr]
    coin = zoo.run(zoo.load("coin_flip"), "exact", draws=50)
    assert "no inputs" in pictures.picture(coin).get_xlabel()  # type: ignore[union-attr]


def test_classes() -> None:
    g = cases.generator()
    for d, model, y, shape in (
        (1, cases.signs, torch.tensor([0.0, 1.0] * 5), (1,)),
        (2, cases.signs, torch.tensor([0.0, 1.0] * 5), (2,)),
        (1, cases.classes, torch.tensor([0, 1, 2, 0, 1] * 2), (1, 3)),
        (2, cases.classes, torch.tensor([0, 1, 2, 0, 1] * 2), (2, 3)),
    ):
        data = zoo.Data(torch.randn(10, d, generator=g), y, info={"y_name": "kind", "classes": ["a", "b", "c"]})
        problem = zoo.Problem("mine", model, data)
        fit = zoo.Posterior(problem, "nuts", "markov", {"w": torch.randn(2, 50, *shape, generator=g)})
        axes = pictures.picture(fit, output=1)
        assert "P(kind = b)" in axes.get_ylabel()  # type: ignore[union-attr]
        found = bands.interval(fit, None, 1)
        assert (found.outer[0] >= 0).all()
        assert (found.outer[1] <= 1).all()
    with pytest.raises(ValueError, match=r"output must be in 0 \.\.\. 2"):
        pictures.picture(fit, output=3)


def test_a_fit_without_its_model_is_drawn(tmp_path: Path) -> None:
    opened = zoo.open(cases.line_fit(one_input()).save(tmp_path / "fit.nc"))
    x, found = bands.curve(opened)
    assert (np.diff(x) >= 0).all()
    assert found.mean.shape == x.shape
    pictures.picture(opened, to=tmp_path / "a.png")


def test_what_cant_be_drawn() -> None:
    with pytest.raises(ValueError, match=r"\(n, 1\)"):
        pictures.band(cases.line_fit())
    with pytest.raises(ValueError, match="at least one"):
        pictures.band([])
    with pytest.raises(ValueError, match="different data"):
        pictures.picture(cases.line_fit(), cases.line_fit(cases.line_problem(n=13)))
    problem = zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS))
    with pytest.raises(ValueError, match="dict"):
        pictures.picture(zoo.Posterior(problem, "nuts", "markov", {"mu": torch.zeros(1, 2)}))


def test_no_window_and_no_pyplot() -> None:
    """pyplot picks a backend and keeps figures for the whole process."""
    assert "import matplotlib.pyplot" not in inspect.getsource(pictures)
    assert type(pictures.picture(cases.line_fit()).figure.canvas).__name__ == "FigureCanvasAgg"  # type: ignore[union-attr]
