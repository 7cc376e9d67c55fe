"""Tables, generated data and labels: the right numbers, and one line for every bad input."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import datasets

import zoo
from zoo.core.problem import Data
from zoo.data import labels, standard, tables, toy


@pytest.fixture
def write(tmp_path: Path):
    def make(text: str, name: str = "mine.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return make


def numbers(rows: int = 20, seed: int = 0) -> str:
    values = np.random.default_rng(seed).normal(size=(rows, 3))
    return "a,b,y\n" + "\n".join(",".join(f"{v:.17g}" for v in row) for row in values) + "\n"


# -- what a table becomes ------------------------------------------------------------------------------------


def test_standardised_with_the_train_mean_and_population_sd():
    data = tables.load("diabetes", seed=3)
    assert data.x.dtype == data.y.dtype == torch.float32
    assert len(data.x) == 354
    assert len(data.x_test) == 88
    assert torch.allclose(data.x.mean(0), torch.zeros(10), atol=1e-6)
    assert torch.allclose(data.x.std(0, unbiased=False), torch.ones(10), atol=1e-6)
    assert abs(float(data.y.std(unbiased=False)) - 1) < 1e-6
    assert float(data.x_test.mean(0).abs().max()) > 1e-3  # the test rows are not looked at


def test_the_inverse_gives_the_original_numbers():
    data = tables.load("diabetes", seed=1)
    raw = datasets.load_diabetes(scaled=False)
    whole = {
        (round(float(row[0])), round(float(row[3]), 2), float(t)) for row, t in zip(raw.data, raw.target, strict=True)
    }
    loc, scale = np.array(data.info["x_loc"]), np.array(data.info["x_scale"])
    back = torch.cat([data.x, data.x_test]).double().numpy() * scale + loc
    y = torch.cat([data.y, data.y_test]).double().numpy() * data.info["y_scale"] + data.info["y_loc"]
    got = {(round(row[0]), round(row[3], 2), round(t)) for row, t in zip(back, y, strict=True)}
    assert got == whole
    assert data.info["x_names"] == list(raw.feature_names)


def test_the_split_follows_the_seed_only():
    before = torch.random.get_rng_state()
    first, again, other = (tables.load("wine", seed=s) for s in (5, 5, 6))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.hash == again.hash != other.hash


@pytest.mark.parametrize(("name", "classes"), [("breast_cancer", 2), ("iris", 3), ("wine", 3), ("digits", 10)])
def test_bundled_classes_are_labels(name, classes):
    data = tables.load(name)
    assert data.y.dtype == torch.int64
    assert sorted(data.y.unique().tolist()) == list(range(classes)) == list(range(len(data.info["classes"])))
    assert "y_loc" not in data.info
    assert torch.isfinite(data.x).all()


def test_constant_columns_of_a_bundled_set_are_left_out_and_said(caplog):
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = tables.load("digits")
    assert "pixel_0_0" in data.info["x_dropped"]
    assert data.x.shape[1] + len(data.info["x_dropped"]) == 64 == 64
    assert "left out" in caplog.text


def test_a_file_keeps_its_column_order_and_takes_any_target(write):
    path = write(numbers())
    data = tables.load(path, target="a", test=0.25)
    assert data.info["x_names"] == ["b", "y"]
    assert data.info["y_name"] == "a"
    assert (len(data.x), len(data.x_test)) == (15, 5)
    assert tables.load(path).info["y_name"] == "y"  # the last column, as UCI's tables have it
    assert tables.load(str(path), test=0).x_test is None


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_and_a_byte_order_mark(write, delimiter):
    path = write(numbers().replace(",", delimiter), encoding="utf-8-sig")
    assert tables.load(path, target="a").info["x_names"] == ["b", "y"]


def test_an_offset_of_1e8_survives(write):
    rng = np.random.default_rng(0)
    rows = [f"{1e8 + v:.17g},{t:.17g}" for v, t in rng.normal(size=(50, 2))]
    data = tables.load(write("a,y\n" + "\n".join(rows)))
    want = np.random.default_rng(0).normal(size=(50, 2))[:, 0]
    got = torch.cat([data.x, data.x_test]).double().numpy()[:, 0] * data.info["x_scale"][0]
    got = got + (data.info["x_loc"][0] - 1e8)
    assert np.allclose(np.sort(got), np.sort(want), atol=1e-6)


def test_text_and_signed_classes_become_codes(write):
    text = write("x,kind\n" + "\n".join(f"{i},{'cat' if i % 2 else 'dog'}" for i in range(10)))
    data = tables.load(text, classify=True)
    assert data.info["classes"] == ["cat", "dog"]
    signed = write("x,y\n" + "\n".join(f"{i},{i % 2 * 2 - 1}" for i in range(10)), "signed.csv")
    data = tables.load(signed, classify=True)
    assert data.info["classes"] == ["-1", "1"]
    assert set(data.y.tolist()) == {0, 1}


def test_a_table_without_inputs_has_x_of_width_0(write):
    data = tables.load(write("heads\n" + "1\n0\n1\n1\n0\n"), classify=True)
    assert data.x.shape == (4, 0)


# -- one line each: got, allowed, what to do -----------------------------------------------------------------

LONG = "x,y\n" + "\n".join(f"{i},{i * i}" for i in range(12))
HUGE = "a,b,y\n" + "\n".join(f"{i},{1 + i % 7}e300,{i % 3}" for i in range(12))
BAD = {
    "one row": ("a,y\n1,2\n", {}, "at least 2 rows, got 1"),
    "no rows": ("a,y\n", {}, "at least 2 rows, got 0"),
    "empty": ("", {}, "is empty"),
    "no header": ("1,2\n3,4\n5,6\n", {}, "column names"),
    "no such target": (LONG, {"target": "yy"}, "column 'yy'.*mean 'y'.*x, y"),
    "missing values": ("a,b,y\n1,,2\n3,nan,4\n5,6,7\nNA,1,2\n", {}, r"3 missing .*'a' \(1\), 'b' \(2\)"),
    "infinite": ("a,y\n1,2\ninf,3\n4,5\n", {}, r"1 missing or infinite .*'a' \(1\)"),
    "missing target": ("a,y\n1,2\n3,\n4,5\n", {}, r"1 missing .*'y' \(1\)"),
    "a class in no training row": (
        "a,sex,y\n1,male,2\n2,female,3\n3,male,1\n4,male,1\n",
        {"test": 0.5, "seed": 3},
        "'sex'.*'female' in held-out rows only.*Join",
    ),
    "text target": ("a,kind\n1,cat\n2,dog\n3,cat\n", {}, "'kind'.*'cat'.*classify=True"),
    "constant": ("a,b,y\n" + "\n".join(f"{i},.1,{i % 3}" for i in range(12)), {}, "'b'.*constant.*Drop"),
    "constant target": ("a,y\n1,2\n3,2\n4,2\n", {}, "'y'.*constant"),
    "ragged": ("a,b,y\n1,2,3\n1,2\n", {}, "line 3 has 2 fields, the header 3"),
    "twice": ("a,a,y\n1,2,3\n2,3,4\n", {}, "'a'.*twice"),
    "one class": ("a,y\n1,2\n3,2\n4,2\n", {"classify": True}, "at least 2 classes"),
    "measured target": (
        "x,y\n" + "\n".join(f"{i},{i / 7}" for i in range(12)),
        {"classify": True},
        "classes.*classify=False",
    ),
    "huge x": (HUGE, {"target": "y"}, "column 'b' holds numbers too large.*another unit"),
    "huge y": (HUGE, {"target": "b"}, "column 'b' holds numbers too large.*another unit"),
    "tiny x": (HUGE.replace("e300", "e-300"), {"target": "y"}, "column 'b' .*too small.*another unit"),
    "largest": (HUGE.replace("e300", "e307"), {"target": "y"}, "column 'b' holds numbers too large"),
    "one outlier": (LONG + "\n1e300,1", {"test": 0.0}, "column 'x' holds"),
    "long field": ("a,y\n1,2\n" + "1" * 200_000 + ",3\n", {}, "mine.csv can't be read.*limit.*quotes"),
    "test of 1": (LONG, {"test": 1.0}, "test must be"),
    "all rows for the test": (LONG, {"test": 0.95}, "test must be"),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_bad_tables_are_refused_in_one_line(write, case):
    text, options, message = BAD[case]
    with pytest.raises(ValueError, match=message) as error:
        tables.load(write(text), **options)
    assert "\n" not in str(error.value)


def test_an_outlier_in_a_held_out_row_is_named(write):
    for seed in range(8):
        with pytest.raises(ValueError, match="column 'x' holds numbers too large"):
            tables.load(write(LONG + "\n1e200,1"), seed=seed)


@pytest.mark.parametrize("unit", [2.0**100, 2.0**-100])
def test_the_unit_of_a_column_does_not_matter(write, unit):
    one, other = (
        tables.load(write("x,y\n" + "\n".join(f"{i * u!r},{i * i * u!r}" for i in range(12)))) for u in (1.0, unit)
    )
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert other.info["y_scale"] == one.info["y_scale"] * unit


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_refused_with_advice(write, encoding):
    with pytest.raises(ValueError, match=r"mine\.csv is not UTF-8 text \(byte 0x.*CSV UTF-8") as error:
        tables.load(write("größe,y\n1,2\n3,4\n", encoding=encoding))
    assert "\n" not in str(error.value)


def test_unknown_names_get_the_nearest_right_one(tmp_path):
    with pytest.raises(ValueError, match="mean 'diabetes'"):
        tables.load("diabtes")
    with pytest.raises(ValueError, match=r"no file .*none\.csv"):
        tables.load(tmp_path / "none.csv")


def test_constant_means_tiny_against_its_mean_not_zero():
    # float32's mean of a constant column leaves an sd of 6e-8 of it: a test for 0 would divide by that.
    column = torch.full((1000, 1), 0.1)
    assert 0 < float((column - column.mean(0)).square().mean().sqrt()) < 1e-6
    assert standard.constant(np.full((1000, 1), 0.1)).all()
    assert not standard.constant(1e8 + np.random.default_rng(0).normal(size=(1000, 1))).any()


# -- labels --------------------------------------------------------------------------------------------------

X = torch.zeros(4, 1)


@pytest.mark.parametrize("y", [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [False, True, True, False]])
def test_zero_one_labels_stay(y, caplog):
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = labels.binary(Data(X, torch.tensor(y)))
    assert torch.equal(data.y, torch.tensor([0.0, 1, 1, 0]))
    assert not caplog.records


def test_signed_labels_are_mapped_and_said_once(caplog):
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = labels.binary(Data(X, torch.tensor([-1, 1, 1, -1]), X, torch.ones(4)))
    assert torch.equal(data.y, torch.tensor([0.0, 1, 1, 0]))
    assert torch.equal(data.y_test, torch.ones(4))
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2, 2, 1], r"2 different values: 1, 2\."),
        ([0, 1, 2, 1], "3 different values: 0, 1, 2"),
        ([-1, 0, 1, 1], "-1, 0, 1"),
        ([0.1, 0.9, 1.0, 0.0], "0, 0.1, 0.9, 1"),
    ],
)
def test_other_codings_are_refused_by_name(y, message):
    with pytest.raises(ValueError, match=message):
        labels.binary(Data(X, torch.tensor(y)))


def test_a_measured_target_is_no_class_and_a_class_no_measurement():
    with pytest.raises(ValueError, match="214 different values in 442 rows"):
        zoo.load("logistic_regression", "diabetes")
    with pytest.raises(ValueError, match="a measured target, got the classes setosa"):
        zoo.load("bnn_regression", "iris")
    with pytest.raises(ValueError, match=r"two classes apart.*setosa, .*softmax_regression"):
        zoo.load("logistic_regression", "iris")
    assert zoo.load("logistic_regression", "breast_cancer").data.y.dtype == torch.float32


def test_targets_of_a_regression_follow_x():
    data = labels.real(Data(X, torch.tensor([1, 2, 3, 4]), X, torch.ones(4, dtype=torch.float64)))
    assert data.y.dtype == data.y_test.dtype == torch.float32


def test_one_hot_labels_are_refused():
    with pytest.raises(ValueError, match="argmax"):
        labels.binary(Data(X, torch.eye(4)))


# -- generated data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy.flips, toy.line, toy.sin_x_plus_x, toy.blobs])
def test_toy_data_follow_the_seed_and_leave_the_generator(make):
    before = torch.random.get_rng_state()
    assert make(seed=1, n=40).hash == make(seed=1, n=40).hash
    assert torch.equal(before, torch.random.get_rng_state())
    if make is not toy.flips:
        assert make(seed=1).hash != make(seed=2).hash
    data = make()
    assert data.x.dtype == data.y.dtype == torch.float32
    assert data.x.device.type == "cpu"


def test_toy_data_are_what_they_say():
    data = toy.sin_x_plus_x(n=20000)
    left_over = data.y - (data.x.sin() + data.x)[:, 0]
    assert abs(float(left_over.std()) - 0.1) < 0.003  # six standard errors
    assert float(data.x.abs().max()) <= 4
    assert torch.equal(toy.flips().y, torch.ones(2))
    assert float(toy.flips(n=10, heads=7).y.sum()) == 7
    with pytest.raises(ValueError, match="between 0 and n = 3"):
        toy.flips(n=3, heads=4)
    blobs = toy.blobs(n=20000, d=3)
    apart = blobs.x[blobs.y == 1].mean(0) - blobs.x[blobs.y == 0].mean(0)
    assert abs(float(apart.norm()) - 2) < 0.09  # six standard errors of one coordinate
    assert toy.line(outputs=3).y.shape == (25, 3)
