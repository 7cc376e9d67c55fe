"""Pictures of autoencoders, by what is drawn: the mosaics' numbers, the codes' places, the labels of rows."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

import zoo
from tests.refusals import refused
from zoo.core.problem import Data
from zoo.data import toy
from zoo.data.quadrants import quadrant, unknown_only
from zoo.report import codes
from zoo.report.images import mosaic, pictures
from zoo.report.pictures import suited

SVI = {"steps": 5, "draws": 3, "engine": "eager"}


def tiny(n: int = 12) -> Data:
    """Images of 4 x 6 pixels with labels."""
    y = torch.rand(n + 5, 24, generator=torch.Generator().manual_seed(0))
    info = {"image_shape": [4, 6], "labels": [i % 3 for i in range(n)], "factors": {"size": [i / n for i in range(n)]}}
    x = torch.empty(n + 5, 0)
    return Data(x[:n], y[:n], x[n:], y[n:], info=info)


def conditional(known: str) -> Data:
    data = tiny()
    if known == "quadrant":
        return quadrant(data)
    x = torch.nn.functional.one_hot(torch.arange(17) % 3, 3).float()
    info = data.info | {"x_names": ["kind=a", "kind=b", "kind=c"]}
    return dataclasses.replace(data, x=x[:12], x_test=x[12:], info=info)


@functools.cache
def fitted(name: str, latent: int = 2, known: str = "", likelihood: str = "bernoulli") -> zoo.Posterior:
    data = conditional(known) if known else tiny()
    hyper = {"hidden": 3, "latent": latent, "likelihood": likelihood, "activation": "tanh"}
    return zoo.run(zoo.load(name, data, **hyper), "svi", **SVI)


def panels(fits: Any, kind: str, **options: Any) -> list[Axes]:
    return list(zoo.plot(fits, kind, **options).axes)  # type: ignore[union-attr]


def sheet(axes: Axes) -> np.ndarray:
    return np.ma.filled(axes.images[0].get_array().astype(float), np.nan)


def words(ticks: Any) -> list[str]:
    return [label.get_text() for label in ticks]


# -- codes and images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["autoencoder", "vae"])
def test_a_code_decodes_to_what_the_model_predicts(name: str) -> None:
    fit = fitted(name)
    z = codes.encoded(fit)
    y = fit.problem.data.y
    assert tuple(z.shape) == (12, 2)
    w1, b1, w2, b2 = (fit.draws[site][0, 0] for site in ("w1", "b1", "w2", "b2"))
    right = torch.sigmoid((z @ w1 + b1).tanh() @ w2 + b2)
    assert torch.allclose(codes.decoded(fit, z), right, atol=1e-5)
    if name == "autoencoder":
        assert torch.allclose(codes.decoded(fit, z), fit.predict(y, draws=1)["mean"][0, 0], atol=1e-5)
    else:
        assert torch.equal(z, fit.encode(y)["loc"][0])


def test_a_condition_changes_the_image() -> None:
    fit = fitted("cvae", known="class")
    z, x = torch.zeros(3, 2), torch.eye(3)
    images = codes.decoded(fit, z, x)
    assert not torch.allclose(images[0], images[1], atol=1e-4)
    refused(lambda: codes.decoded(fit, z), "x is needed")


def test_codes_of_other_models_and_sizes_are_refused() -> None:
    other = zoo.run(zoo.load("linear_regression"), "exact", draws=4)
    refused(lambda: codes.has_prior(other), "no code 'z'", "vae")
    refused(lambda: codes.decoded(fitted("vae"), torch.zeros(3, 5)), r"z must be \(3, 2\)")


def test_where_codes_lie() -> None:
    loc, scale = codes.spread(fitted("vae"))
    assert (loc.tolist(), scale.tolist()) == ([0, 0], [1, 1])
    fit = fitted("autoencoder")
    loc, scale = codes.spread(fit)
    z = codes.encoded(fit)
    assert torch.allclose(loc, z.mean(0))
    assert torch.allclose(scale, z.std(0))


# -- images on a sheet --------------------------------------------------------------------------------------


def test_quadrants_are_put_together_again() -> None:
    data = tiny()
    for known in ("upper left", "lower right"):
        parts = quadrant(data, known)
        assert (parts.x.shape[1], parts.y.shape[1]) == (6, 18)
        whole = pictures(parts, parts.y, parts.x)
        assert np.allclose(whole, data.y.reshape(-1, 4, 6))
        alone = pictures(parts, None, parts.x)
        corner = alone[:, :2, :3] if known == "upper left" else alone[:, 2:, 3:]
        assert np.isfinite(corner).all()
        assert np.isnan(alone).sum() == 18 * len(alone)
    assert unknown_only(parts).x.shape == (12, 0)
    refused(lambda: quadrant(data, "uper left"), "upper left")
    refused(lambda: quadrant(toy.line()), "image_shape")


def test_images_need_a_shape_where_they_are_not_square() -> None:
    y = torch.arange(6.0)[None]
    refused(lambda: pictures(zoo.Data(torch.empty(1, 0), y), y), "image_shape")
    assert pictures(zoo.Data(torch.empty(1, 0), y, info={"image_shape": [2, 3]}), y).shape == (1, 2, 3)
    assert pictures(zoo.Data(torch.empty(1, 0), y[:, :4]), y[:, :4]).shape == (1, 2, 2)


def test_a_mosaic_keeps_rows_and_leaves_gaps() -> None:
    rows = [np.full((3, 2, 2), 1.0), np.full((3, 2, 2), 2.0)]
    found = mosaic(rows)
    assert found.shape == (5, 8)
    assert np.isnan(found[2]).all()
    assert (found[0, :2] == 1).all()
    assert (found[4, 6:] == 2).all()


# -- kinds --------------------------------------------------------------------------------------------------


def test_reconstruct_shows_a_row_a_fit() -> None:
    fits = [fitted("autoencoder"), fitted("vae")]
    (axes,) = panels(fits, "reconstruct", rows=(4, 0))
    assert words(axes.get_yticklabels()) == ["truth", "autoencoder", "vae"]
    found, y = sheet(axes), fits[1].problem.data.y_test[[4, 0]]
    assert np.allclose(found[:4, :6], y[0].reshape(4, 6))
    assert np.allclose(found[:4, 7:13], y[1].reshape(4, 6))
    for row, fit in enumerate(fits, start=1):
        right = codes.decoded(fit, codes.encoded(fit, y, y if fit.problem.name == "autoencoder" else y[:, :0]))
        assert np.allclose(found[5 * row : 5 * row + 4, :6], right[0].reshape(4, 6), atol=1e-6)
    refused(lambda: panels(fits, "reconstruct", rows=5), "rows must be whole numbers in 0 ... 4")
    flipped = zoo.Data(tiny().x, tiny().y.flip(0), info={"image_shape": [4, 6]})
    stranger = zoo.run(zoo.load("vae", flipped, hidden=3), "svi", **SVI)
    refused(lambda: panels([fits[0], stranger], "reconstruct"), "different images")


def test_reconstruct_puts_a_quadrant_back() -> None:
    fit = fitted("cvae", known="quadrant")
    (axes,) = panels(fit, "reconstruct", rows=0)
    found, data = sheet(axes), fit.problem.data
    assert np.allclose(found[2:4, :3], data.x_test[0].reshape(2, 3))
    assert np.allclose(found[7:9, :3], data.x_test[0].reshape(2, 3))
    assert not np.allclose(found[5:7, :6], found[:2, :6])


def test_latent_draws_codes_by_label_and_the_prior_of_a_vae() -> None:
    fits = [fitted("autoencoder"), fitted("vae")]
    shown = panels(fits, "latent")
    for axes, fit in zip(shown, fits, strict=True):
        drawn = np.concatenate([line.get_xydata() for line in axes.lines])
        z = codes.encoded(fit).numpy()
        assert np.allclose(np.sort(drawn, 0), np.sort(z, 0))
        assert [line.get_marker() for line in axes.lines] == ["$0$", "$1$", "$2$"]
        first = z[np.arange(12) % 3 == 0]
        assert np.allclose(axes.lines[0].get_xydata(), first)
    assert not shown[0].patches
    widths = [circle.width for circle in shown[1].patches]
    assert np.allclose(widths, [2 * 1.17741, 2 * 2.44775], atol=1e-4)  # radii of chi with 2 degrees of freedom


def test_latent_colours_by_a_factor() -> None:
    axes, bar = panels(fitted("vae"), "latent", colour="size", coordinates=(1, 0))
    points = axes.collections[0]
    assert np.allclose(points.get_array(), [i / 12 for i in range(12)])
    assert np.allclose(points.get_offsets(), codes.encoded(fitted("vae")).numpy()[:, [1, 0]])
    assert bar.get_ylabel() == "size"
    refused(lambda: panels(fitted("vae"), "latent", colour="smile"), "labels, size")
    refused(lambda: panels(fitted("vae"), "latent", coordinates=(0, 2)), "0 ... 1")
    refused(lambda: panels(fitted("vae", latent=1), "latent"), "one number")


def test_grid_lies_at_normal_quantiles() -> None:
    fit = fitted("vae")
    (axes,) = panels(fit, "grid", side=3)
    far = 2.3263478740408408  # of probability .99
    z = torch.tensor([[a, b] for b in (far, 0, -far) for a in (-far, 0, far)])
    right = codes.decoded(fit, z).reshape(3, 3, 4, 6)
    found = sheet(axes)
    assert found.shape == (14, 20)
    for i in range(3):
        for j in range(3):
            assert np.allclose(found[5 * i : 5 * i + 4, 7 * j : 7 * j + 6], right[i, j], atol=1e-5)
    assert sheet(panels(fit, "grid")[0]).shape == (20 * 5 - 1, 20 * 7 - 1)


def test_grid_of_an_autoencoder_lies_where_its_codes_are() -> None:
    fit = fitted("autoencoder")
    loc, _ = codes.spread(fit)
    found = sheet(panels(fit, "grid", side=3)[0])
    assert np.allclose(found[5:9, 7:13], codes.decoded(fit, loc[None])[0].reshape(4, 6), atol=1e-5)


def test_grid_traverses_longer_codes_one_by_one() -> None:
    fit = fitted("vae", latent=3)
    (axes,) = panels(fit, "grid", side=5)
    found = sheet(axes)
    assert found.shape == (3 * 5 - 1, 5 * 7 - 1)
    middle = codes.decoded(fit, torch.zeros(1, 3))[0].reshape(4, 6)
    assert all(np.allclose(found[5 * i : 5 * i + 4, 14:20], middle, atol=1e-5) for i in range(3))
    assert words(axes.get_yticklabels()) == ["z[0]", "z[1]", "z[2]"]
    refused(lambda: panels(fit, "grid", codes="quantiles"), "code of 2 numbers")
    refused(lambda: panels(fit, "grid", codes="randm"), "random")


def test_grid_at_random_depends_on_its_seed() -> None:
    fits = [fitted("autoencoder"), fitted("vae")]
    one, again, other = (panels(fits, "grid", codes="random", side=2, seed=seed) for seed in (1, 1, 2))
    for a, b, c in zip(one, again, other, strict=True):
        assert np.array_equal(sheet(a), sheet(b), equal_nan=True)
        assert not np.array_equal(sheet(a), sheet(c), equal_nan=True)


def test_grid_holds_a_condition() -> None:
    fit = fitted("cvae", known="class")
    sheets = [sheet(panels(fit, "grid", side=2, given=row)[0]) for row in (0, 1, 3)]
    assert np.array_equal(sheets[0], sheets[2], equal_nan=True)  # the same class
    assert not np.array_equal(sheets[0], sheets[1], equal_nan=True)
    refused(lambda: panels(fit, "grid", given=12), "0 ... 11")


def test_completions_show_truth_known_and_draws() -> None:
    fit = fitted("cvae", known="quadrant")
    (axes,) = panels(fit, "completions", draws=2, rows=(1, 2))
    assert words(axes.get_yticklabels()) == ["truth", "known", "draw 1", "draw 2"]
    found, x = sheet(axes), fit.problem.data.x_test[1].reshape(2, 3)
    for row in range(4):
        assert np.allclose(found[5 * row + 2 : 5 * row + 4, :3], x)
    assert np.isnan(found[5:7, :6]).all()
    assert not np.allclose(found[10:12, :6], found[15:17, :6])


def test_completions_name_the_class() -> None:
    (axes,) = panels(fitted("cvae", known="class"), "completions", draws=1)
    assert words(axes.get_yticklabels()) == ["truth", "draw 1"]
    assert words(axes.get_xticklabels()) == ["a", "b", "c", "a", "b"]
    refused(lambda: panels(fitted("vae"), "completions"), "needs a condition")


@pytest.mark.parametrize("kind", ["reconstruct", "latent", "grid"])
def test_a_file_tells_what_the_fit_tells(kind: str, tmp_path: Any) -> None:
    fit = fitted("vae", likelihood="normal")
    again = zoo.open(fit.save(tmp_path / "fit.nc"))
    first, second = panels(fit, kind), panels(again, kind)
    if kind == "latent":
        assert np.allclose(first[0].lines[0].get_xydata(), second[0].lines[0].get_xydata())
    else:
        assert np.allclose(sheet(first[0]), sheet(second[0]), equal_nan=True)


@pytest.mark.parametrize("kind", ["reconstruct", "latent", "grid", "completions"])
def test_other_fits_are_refused(kind: str) -> None:
    fit = zoo.run(zoo.load("linear_regression"), "exact", draws=4)
    refused(lambda: panels(fit, kind), "no code|no images|condition")


def test_unasked_a_picture_shows_images() -> None:
    wanted = {"vae": "reconstruct", "autoencoder": "reconstruct"}
    assert {name: suited(fitted(name)) for name in wanted} == wanted
    assert {known: suited(fitted("cvae", known=known)) for known in ("quadrant", "class")} == {
        "quadrant": "completions", "class": "completions",
    }  # fmt: skip
    by_nuts = dataclasses.replace(fitted("vae"), params={})
    assert suited(by_nuts) == "grid"
    assert words(zoo.plot(by_nuts).axes[0].get_yticklabels())  # type: ignore[union-attr]
    bare = dataclasses.replace(fitted("vae").problem, data=dataclasses.replace(tiny(), info={}))
    assert suited(dataclasses.replace(fitted("vae"), problem=bare)) == "density"  # rows of numbers that are no images
