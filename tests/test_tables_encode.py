"""One-hot inputs and raw rows: new rows become what the training rows became, and predictions come back raw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from tests.refusals import refused
from zoo.data import tables
from zoo.data.columns import Table
from zoo.data.encode import encoded, plan
from zoo.data.ready import new_inputs, new_rows

COLORS = ["red", "blue", "green"]


def frame(rows: int = 60, offset: float = 0.0, noise: float = 0.3) -> pd.DataFrame:
    """y = offset + 3 age / 10 + 2 (blue) - 1 (green) + N(0, noise)."""
    rng = np.random.default_rng(1)
    age, color = rng.uniform(20, 60, rows), [COLORS[i % 3] for i in range(rows)]
    effect = np.array([{"red": 0.0, "blue": 2.0, "green": -1.0}[c] for c in color])
    y = offset + 0.3 * age + effect + noise * rng.normal(size=rows)
    return pd.DataFrame({"age": age + offset, "color": color, "y": y})


@pytest.fixture(scope="module")
def fit() -> zoo.Posterior:
    problem = zoo.load("linear_regression", frame(), noise=0.1, prior_scale=10.0)
    return zoo.run(problem, "exact", draws=500)


# -- encoding -------------------------------------------------------------------------------------------------


def test_text_becomes_one_column_a_level_but_the_first() -> None:
    own = frame()
    data = tables.load(own, test=0)
    assert data.info["x_names"] == ["age", "color=green", "color=red"]
    raw = data.x.double().numpy() * data.info["x_scale"] + data.info["x_loc"]
    order = np.argsort(raw[:, 0])
    want = np.stack([own["age"], own["color"] == "green", own["color"] == "red"], 1)[np.argsort(own["age"])]
    np.testing.assert_allclose(raw[order], want, atol=1e-5)


def test_a_level_more_would_be_collinear_with_the_bias() -> None:
    """Twin: all levels kept make [1, x] singular, so that flat priors have no posterior."""
    data = tables.load(frame(), test=0)
    ones = torch.cat([torch.ones(60, 1), data.x], 1).double()
    assert int(torch.linalg.matrix_rank(ones)) == 4
    blue = (data.x[:, 1:] * torch.tensor(data.info["x_scale"][1:]) + torch.tensor(data.info["x_loc"][1:])).sum(1)
    twin = torch.cat([ones, 1 - blue[:, None].double()], 1)
    assert int(torch.linalg.matrix_rank(twin, rtol=1e-6)) == 4  # of 5 columns


def test_truth_values_are_one_column() -> None:
    own = pd.DataFrame({"smoker": [True, False] * 10, "y": range(20)})
    assert tables.load(own).info["x_names"] == ["smoker=True"]


def test_info_is_json() -> None:
    info = tables.load(frame()).info
    assert json.loads(json.dumps(info)) == info


# -- raw rows -------------------------------------------------------------------------------------------------


def test_the_training_rows_raw_are_the_training_inputs(fit) -> None:
    """All rows of the table, encoded again, are the rows of x and x_test in another order."""
    data = fit.problem.data
    again = new_inputs(data, frame())
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again[order], torch.cat([data.x, data.x_test]))


def test_predictions_of_raw_rows_are_the_truth_in_its_own_units(fit, tmp_path: Path) -> None:
    """Twin: rows in original units given as a tensor are far outside."""
    rows = {"color": ["blue", "green", "red"], "age": [30.0, 30.0, 50.0]}
    got = fit.predict(rows)["mean"].mean((0, 1))
    np.testing.assert_allclose(got, [11.0, 8.0, 15.0], atol=0.3)
    pd.DataFrame(rows).to_csv(tmp_path / "new.csv", index=False)
    for same in (tmp_path / "new.csv", str(tmp_path / "new.csv"), pd.DataFrame(rows)):
        assert torch.equal(fit.predict(same)["mean"], fit.predict(rows)["mean"])
    assert fit.predict({"age": 30.0, "color": "blue"})["y"].shape == (1, 500, 1)
    twin = fit.predict(torch.tensor([[30.0, 0, 0], [30.0, 1, 0], [50.0, 0, 1]]))["mean"].mean((0, 1))
    assert float((twin - torch.tensor([11.0, 8.0, 15.0])).abs().min()) > 5


def test_likelihoods_of_raw_rows_are_those_of_the_held_out_rows(fit) -> None:
    data = fit.problem.data
    held_out = torch.randperm(60, generator=torch.Generator().manual_seed(0))[48:].numpy()
    raw = frame().iloc[held_out]
    torch.testing.assert_close(
        fit.log_likelihood(raw), fit.log_likelihood(data.x_test, data.y_test), rtol=1e-4, atol=1e-4
    )
    refused(lambda: fit.log_likelihood(raw.drop(columns="y")), "lacks the target", "'y'")


def test_a_saved_fit_predicts_raw_rows(fit, tmp_path) -> None:
    opened = zoo.open(fit.save(tmp_path / "fit.nc"))
    rows = {"age": [33.0], "color": ["red"]}
    assert torch.equal(opened.predict(rows)["mean"], fit.predict(rows)["mean"])


def test_classes_of_raw_rows() -> None:
    own = frame().assign(kind=["yes" if v > 12 else "no" for v in frame()["y"]]).drop(columns="y")
    problem = zoo.load("logistic_regression", own)
    fit = zoo.run(problem, "laplace", draws=200)
    assert fit.predict({"age": [58.0, 22.0], "color": ["blue", "green"]})["mean"].mean((0, 1)).round().tolist() == [
        1,
        0,
    ]
    held_out = torch.randperm(60, generator=torch.Generator().manual_seed(0))[48:].numpy()
    want = fit.log_likelihood(problem.data.x_test, problem.data.y_test)
    torch.testing.assert_close(fit.log_likelihood(own.iloc[held_out]), want)
    refused(lambda: fit.log_likelihood(own.assign(kind="maybe")), "class 'maybe'", "no, yes")


def test_an_offset_of_1e8_survives_to_the_prediction_and_its_float32_twin_does_not() -> None:
    """x and y both at 1e8 with sds of 12 and 4: predicted within 1, where float32 knows y to the next 8 only."""
    own = frame(offset=1e8)
    fit = zoo.run(zoo.load("linear_regression", own, noise=0.1, prior_scale=10.0), "exact", draws=500)
    rows = {"age": [1e8 + 30, 1e8 + 50], "color": ["blue", "red"]}
    got = fit.predict(rows)
    assert got["mean"].dtype == got["y"].dtype == torch.float64
    np.testing.assert_allclose(got["mean"].mean((0, 1)) - 1e8, [11.0, 15.0], atol=0.3)
    twin = np.float32(1e8) + np.float32(4.0) * np.float32(0.3)
    assert abs(float(twin) - 1e8 - 1.2) > 1
    column = np.asarray(own["age"], dtype=np.float32)
    assert np.abs(column.astype(np.float64) - own["age"]).max() > 1  # x read as float32 would be wrong by an eighth sd


@pytest.mark.parametrize(
    ("rows", "patterns"),
    [
        ({"age": [1.0], "color": ["teal"]}, ("'color' holds 'teal' .row 0.", "blue, green, red")),
        ({"age": [1.0], "colour": ["red"]}, ("lacks a column", "'color'", "'colour'")),
        ({"age": [1.0, None], "color": ["red", "red"]}, (r"1 missing .*'age' \(1\)",)),
        ({"age": ["old"], "color": ["red"]}, ("'age' holds text", "'old'")),
        ({"age": [1.0], "color": ["red", "blue"]}, ("equal length", "'age': 1, 'color': 2")),
        ({"age": [[1.0]], "color": ["red"]}, ("'age' must be a list", r"\(1, 1\)")),
        ("nowhere.csv", ("nowhere.csv",)),
    ],
)
def test_rows_unlike_the_training_table(fit, rows, patterns) -> None:
    refused(lambda: fit.predict(rows), *patterns, error=(ValueError, FileNotFoundError))


def test_data_of_no_table_take_no_tables() -> None:
    fit = zoo.run("linear_regression", "exact", draws=3)
    refused(lambda: fit.predict({"x": [1.0]}), "did not come from one", "tensor")


# -- there and back, whatever the table ------------------------------------------------------------------------

LEVEL = st.text("abcxyz =,", min_size=1, max_size=5).map(str.strip).filter(lambda s: s and s not in ("na",))


@st.composite
def any_tables(draw) -> pd.DataFrame:
    rows = draw(st.integers(12, 30))
    levels = draw(st.lists(LEVEL, min_size=2, max_size=4, unique=True))
    scale = 10.0 ** draw(st.integers(-6, 6))
    offset = draw(st.sampled_from([0.0, 1.0, -1e4, 1e8])) * scale
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    cells = [*levels, *levels, *rng.choice(levels, rows - 2 * len(levels))]
    return pd.DataFrame({"number": offset + scale * rng.normal(size=rows), "text": cells, "y": rng.normal(size=rows)})


@settings(max_examples=60, deadline=None)
@given(any_tables())
def test_encoding_decodes_to_the_table_and_repeats(own: pd.DataFrame) -> None:
    data = tables.load(own, test=0)
    x, y = new_rows(data, own)
    order = torch.randperm(len(own), generator=torch.Generator().manual_seed(0))
    assert torch.equal(x[order], data.x)
    torch.testing.assert_close(y[order], data.y)
    raw = x.double().numpy() * data.info["x_scale"] + data.info["x_loc"]
    np.testing.assert_allclose(raw[:, 0], own["number"], rtol=1e-15, atol=1e-5 * data.info["x_scale"][0])
    hot = raw[:, 1:].round().astype(int)
    levels = next(c["levels"] for c in data.info["columns"] if c["name"] == "text")
    back = [levels[0] if not row.any() else levels[1 + int(row.argmax())] for row in hot]
    assert back == own["text"].tolist()
    assert (hot.sum(1) <= 1).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(LEVEL, min_size=4, max_size=20))
def test_each_row_is_one_level(cells: list[str]) -> None:
    table = Table({"c": np.array(cells * 2, dtype=object)}, "a table")
    columns = plan(table, ["c"])
    hot = encoded(table, columns)
    assert hot.shape == (2 * len(cells), len(set(cells)) - 1)
    base = min(set(cells))
    assert (hot.sum(1) == [cell != base for cell in cells * 2]).all()
