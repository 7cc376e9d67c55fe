"""Tables and pictures that are right and unusual: read as they are meant, the same again when they are asked anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import zoo
from tests.refusals import refused
from zoo.__main__ import main
from zoo.data import own_images, tables
from zoo.data.files import is_images, read
from zoo.data.ready import new_rows


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return path


# -- tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Na", "NA", "None", "inf"])
def test_a_column_may_be_named_like_a_missing_value(name: str, tmp_path: Path) -> None:
    """Sodium. Twin: a header of numbers is none."""
    assert read(write(tmp_path, f"{name},y\n1,2\n3,4\n")).names == [name, "y"]
    refused(lambda: read(write(tmp_path, "0,y\n1,2\n")), "the first line must hold column names", "got 0, y")


@pytest.mark.parametrize("cut", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_line_breaks_end_a_row(cut: str, tmp_path: Path) -> None:
    table = read(write(tmp_path, f"id,comment,y\n1,good{cut}really,3\n2,bad,4\n"))
    assert table.columns["y"].tolist() == [3.0, 4.0]
    assert table.columns["comment"][0] == f"good{cut}really"


def test_classes_of_many_digits_stay_apart(tmp_path: Path) -> None:
    codes = [1000001, 1000002] * 20
    path = write(tmp_path, "a,code\n" + "".join(f"{i * 7 % 11},{code}\n" for i, code in enumerate(codes)))
    data = tables.load(path, target="code", classify=True, test=0)
    assert data.info["classes"] == ["1000001", "1000002"]
    again = new_rows(data, path)[1]
    assert again is not None
    assert again.tolist() == [0, 1] * 20


def test_new_rows_have_the_decimals_of_the_table(tmp_path: Path) -> None:
    """Twin: the same numbers with points are the same rows, of another file."""
    rows = [f"{i % 7},{i}" for i in range(20)]
    comma, point = tmp_path / "comma.csv", tmp_path / "point.csv"
    comma.write_text("a;y\n" + "".join(f"{row.replace(',', ',5;')},5\n" for row in rows))
    point.write_text("a;y\n" + "".join(f"{row.replace(',', '.5;')}.5\n" for row in rows))
    fits = [
        zoo.run(zoo.load("linear_regression", tables.load(path, decimal=mark)), "exact", draws=4)
        for path, mark in ((comma, ","), (point, "."))
    ]
    torch.testing.assert_close(fits[0].predict(comma)["mean"], fits[1].predict(point)["mean"])


@pytest.mark.parametrize("objective", ["expected", "marginal"])
def test_a_mixtures_f_is_in_the_units_of_y(objective: str) -> None:
    """As that of a normal, the likelihood of objective="expected"."""
    table = pd.DataFrame({"a": np.linspace(0, 1, 30), "y": 500 + 10 * np.arange(30.0)})
    options = {"objective": objective, "hidden": (), "units": 2, "link": "relu"}
    out = zoo.run(zoo.load("stochastic_activation", table, target="y", **options), "prior", draws=20).predict()
    assert float((out["f"].mean() - out["mean"].mean()).abs() / out["mean"].std()) < 0.5


# -- pictures ----------------------------------------------------------------------------------------------


def test_zeros_and_ones_of_bytes_are_zeros_and_ones(tmp_path: Path) -> None:
    """As they are through zoo.Data. Twin: with a single 2 they are bytes."""
    x = (np.arange(200).reshape(10, 5, 4) % 2).astype(np.uint8)
    np.save(tmp_path / "mine.npy", x)
    assert own_images.load(tmp_path / "mine.npy", test=0).x.max() == 1
    np.save(tmp_path / "mine.npy", x * 2)
    assert float(own_images.load(tmp_path / "mine.npy", test=0).x.max()) == pytest.approx(2 / 255)


def test_numbers_of_a_tiff_stay(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 20, dtype=np.float32).reshape(5, 4)
    for name in ("a.tif", "b.tif"):
        Image.fromarray(x).save(tmp_path / name)
    np.testing.assert_allclose(own_images.load(tmp_path, test=0).x[0, 0].numpy(), x)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_black_on_nothing_is_black_on_white(mode: str, tmp_path: Path) -> None:
    """Twin: alpha alone dropped, all of it would be black."""
    drawn = Image.new(mode, (4, 5), (0,) * len(mode))
    drawn.putpixel((1, 2), (0,) * (len(mode) - 1) + (255,))
    for name in ("a.png", "b.png"):
        drawn.save(tmp_path / name)
    x = own_images.load(tmp_path, test=0).x[0, 0]
    assert x[2, 1] == 0
    assert float(x.sum()) == 19


# -- the command line --------------------------------------------------------------------------------------


def test_a_sets_name_is_none_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uci" / "concrete").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert is_images("uci")
    assert not is_images("uci/concrete")


@pytest.mark.parametrize("given", ["seed=3", "data=diabetes", "name=a"])
def test_what_is_none_of_the_models_options_is_said(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["run", "coin_flip", "-m", "exact"], ["sbc", "coin_flip", "-m", "exact"], ["gold", "coin_flip"]):
        assert main([*command, "--set", given]) == 2
        assert f"{given.partition('=')[0]} is none" in capsys.readouterr().err


def test_a_fit_is_saved_before_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that closes, or a table too large to make, loses no run."""

    def closed(posterior: zoo.Posterior) -> str:
        raise BrokenPipeError

    monkeypatch.setattr("zoo.cli.summary.summary", closed)
    main(["run", "coin_flip", "-m", "exact", "-o", str(tmp_path / "fit.nc")])
    assert zoo.open(tmp_path / "fit.nc").shape == (1, 1000)
