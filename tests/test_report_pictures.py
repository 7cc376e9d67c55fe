"""Pictures: the numbers behind them against closed forms; files that are images; nothing global changes."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy import stats

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.report import bands, canvas, inputs, pictures


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
    for count in (1, 3):
        path = zoo.plot(fits[:count], "band", tmp_path / f"{count}.png")
        image = imread(path)
        assert image.shape[0] > 300
        assert image.std() > 0.05
    assert pictures.picture(fits[0], to=tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")  # type: ignore[union-attr]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.png", "3.png", "a.pdf"]


def test_no_file_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = cases.line_fit(one_input())
    old = tmp_path / "a.png"
    old.write_bytes(b"what was there")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        refused(lambda: zoo.plot(fit, "band", old), "a.png can't be written: No space left", error=OSError)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert old.read_bytes() == b"what was there"


def test_paths_are_judged_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = cases.line_fit(one_input())
    monkeypatch.setattr(zoo.Posterior, "predict", lambda *a, **k: pytest.fail("worked"))
    refused(lambda: zoo.plot(fit, "band", tmp_path / "a.nc"), r"ends in \.nc", r"Name it a\.png")
    refused(lambda: zoo.plot(fit, "band", tmp_path / "no" / "a.png"), "there is no folder", "Make it first")
    refused(lambda: zoo.plot(fit, "band", tmp_path), "got the folder", "Add a name")


def test_no_picture_takes_the_place_of_a_device_or_a_pipe(tmp_path: Path) -> None:
    fit = cases.line_fit(one_input())
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    link = tmp_path / "link.png"
    link.symlink_to(os.devnull)
    for path in (pipe, link):
        refused(lambda path=path: zoo.plot(fit, "band", path), "a device or pipe", r"Name a file: picture\.png")
        refused(lambda path=path: canvas.write(Figure(), path), "a device or pipe")
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_fits_can_be_told_apart_without_colour() -> None:
    fits = [cases.line_fit(one_input(x_names=["age (years)"], y_name="height (cm)"), seed=i) for i in range(7)]
    figure = zoo.plot(fits, "band")
    assert isinstance(figure, Figure)
    axes = figure.axes[0]
    means = [line for line in axes.lines if line.get_linewidth() == 3]
    styles = {f"{line.get_linestyle()} {line._dash_pattern} {line.get_marker()}" for line in means}  # type: ignore[attr-defined]
    assert len(styles) == 7
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["data", "test data", "nuts", *(f"nuts {i}" for i in range(2, 8))]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age (years)", "height (cm)")


def test_fits_are_named_by_what_differs() -> None:
    line = one_input()
    fits = [cases.line_fit(line, method="svi", settings={"guide": g}) for g in ("normal", "low_rank")]
    assert canvas.labels([*fits, cases.line_fit(line)]) == ["svi normal", "svi low_rank", "nuts"]
    wide = dataclasses.replace(line, hyper={"sd": 2.0})
    assert canvas.labels([cases.line_fit(line), cases.line_fit(wide)]) == ["nuts sd=0.5", "nuts sd=2.0"]


def test_letters_can_be_read_from_the_last_row() -> None:
    for kind in ("band", "trace", "forest", "ppc"):
        for axes in zoo.plot(cases.line_fit(one_input()), kind).axes:  # type: ignore[union-attr]
            texts = [axes.xaxis.label, axes.yaxis.label, axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()]
            assert min(text.get_fontsize() for text in texts) >= 13, kind


def test_drawn_on_given_axes() -> None:
    for kind in ("band", "lines", "ppc"):
        axes = Figure().subplots()
        assert zoo.plot(cases.line_fit(one_input()), kind, axes) is axes.figure
        assert axes.lines or axes.patches
    refused(lambda: zoo.plot([cases.line_fit(), cases.line_fit()], "predicted", Figure().subplots()), "one fit")


def test_picture_picks() -> None:
    assert pictures.picture(cases.line_fit(one_input())).get_xlabel() == "x"  # type: ignore[union-attr]
    assert len(zoo.plot([cases.line_fit(), cases.line_fit(seed=1)]).axes) == 3  # type: ignore[union-attr]
    wide = cases.line_fit(cases.line_problem(d=3))
    assert pictures.picture(wide).get_xlabel() == "observed y"  # type: ignore[union-attr]
    coin = zoo.run(zoo.load("coin_flip"), "exact", draws=50)
    assert "no inputs" in pictures.picture(coin).get_xlabel()  # type: ignore[union-attr]
    assert pictures.suited(schools()) == "forest"
    assert {pictures.suited(fit) for fit in (wide, coin)} <= set(pictures.known())


def schools() -> zoo.Posterior:
    g = cases.generator()
    draws = {"mu": torch.randn(2, 50, generator=g), "tau": torch.rand(2, 50, generator=g) + 0.1}
    draws["eta"] = torch.randn(2, 50, 8, generator=g)
    return zoo.Posterior(zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS)), "nuts", "markov", draws)


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
        axes = zoo.plot(fit, "band" if d == 1 else "predicted", output=1).axes[0]  # type: ignore[union-attr]
        assert "P(kind = b)" in axes.get_ylabel()
        found = bands.interval(fit, None, 1)
        assert (found.outer[0] >= 0).all()
        assert (found.outer[1] <= 1).all()
    refused(lambda: zoo.plot(fit, "predicted", output=3), r"output must be in 0 \.\.\. 2")


def test_a_fit_without_its_model_is_drawn(tmp_path: Path) -> None:
    opened = zoo.open(cases.line_fit(one_input()).save(tmp_path / "fit.nc"))
    places = inputs.grid(opened)
    assert (np.diff(places.axis) >= 0).all()
    found = bands.interval(opened, places.x)
    pictures.picture(opened, to=tmp_path / "a.png")
    axes = zoo.plot(opened, "band").axes[0]  # type: ignore[union-attr]
    mean = next(line for line in axes.lines if line.get_linewidth() == 3)
    np.testing.assert_allclose(mean.get_ydata(), found.mean[places.order])


def test_what_cant_be_drawn() -> None:
    refused(lambda: zoo.plot(cases.line_fit(), "band"), r"\(n, 1\)", r"got \(12, 2\)", "Try kind 'surface'")
    refused(lambda: zoo.plot([], "band"), "at least one")
    refused(lambda: zoo.plot(["fit.nc"], "band"), "got str", "zoo.open", error=TypeError)  # type: ignore[list-item]
    refused(lambda: zoo.plot([cases.line_fit(), cases.line_fit(cases.line_problem(n=13))]), "different data")
    refused(lambda: zoo.plot(schools(), "band"), "dict", "ppc")


def test_unknown_kinds_and_options_say_what_there_is() -> None:
    fit = cases.line_fit()
    text = refused(lambda: zoo.plot(fit, "bnad"), "Did you mean 'band'")
    for kind, what in pictures.known().items():
        assert f"{kind}: {what}" in text
    refused(lambda: zoo.plot(fit, "predicted", rows=3), "'predicted' takes no option 'rows'", "Its options: output")
    refused(lambda: zoo.plot(fit, "energy", site="w"), "takes no option 'site'", "none")


def test_every_kind_says_what_it_is_in_one_line() -> None:
    from zoo.cli.commands import plot as command

    assert pictures.known() == command.kinds()
    for kind, what in pictures.known().items():
        assert 20 < len(what) < 120, kind
        assert inspect.signature(pictures._kind(kind).draw).parameters["on"]


def test_no_window_and_no_pyplot() -> None:
    """pyplot picks a backend and keeps figures for the whole process."""
    for path in Path(pictures.__file__).parent.rglob("*.py"):
        assert "matplotlib.pyplot" not in path.read_text(), path
        assert "rc_context" not in path.read_text(), path
    assert type(zoo.plot(cases.line_fit()).canvas).__name__ == "FigureCanvasAgg"  # type: ignore[union-attr]
