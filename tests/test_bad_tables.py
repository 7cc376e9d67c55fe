"""Columns that stand for numbers and are not written as such, odd names, odd options, files that can't be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.data import tables, uci
from zoo.data.files import read

from .refusals import refused

TEN = range(10)


def write(folder: Path, cells: list[str], column: str = "a") -> Path:
    path = folder / "mine.csv"
    rows = "".join(f'"{cell}",{i * i % 7}\n' for i, cell in enumerate(cells))
    path.write_text(f"{column},y\n" + rows, encoding="utf-8")
    return path


# -- what stands for a number --------------------------------------------------------------------------------

SPELLED = {
    "days": ([f"2020-01-{i + 1:02d}" for i in TEN], "holds dates .'2020-01-01'", "days since"),
    "months": ([f"2020-{i + 1:02d}" for i in TEN], "holds dates", "days since"),
    "named months": ([f"{i + 1} Jan 2020" for i in TEN], "holds dates", "days since"),
    "American": ([f"Jan {i + 1}, 2020" for i in TEN], "holds dates", "days since"),
    "days and a word": (["soon", *(f"2020-01-{i + 1:02d}" for i in TEN)], "holds dates", "days since"),
    "times": ([f"10:{i:02d}" for i in TEN], "holds times .'10:00'", "minutes since midnight"),
    "percent": ([f"{i}%" for i in TEN], "numbers with a sign at them .'0%'", "Write the numbers alone"),
    "money": ([f"${i},000.50" for i in TEN], "numbers with a sign at them", "Write the numbers alone"),
    "thousands": (
        [f"{i + 1},000" for i in TEN],
        "with commas .line 2: '1,000'",
        "between thousands, or before decimals",
    ),
    "decimals": ([f"{i},5" for i in TEN], "with decimal commas .line 2: '0,5'", "decimal=','"),
}


@pytest.mark.parametrize("case", SPELLED)
def test_cells_that_stand_for_numbers_are_named_as_input_and_as_target(tmp_path: Path, case: str) -> None:
    cells, *patterns = SPELLED[case]
    path = write(tmp_path, cells)
    refused(lambda: tables.load(path), "column 'a'", *patterns)
    as_target = refused(lambda: tables.load(path, target="a"), "column 'a'", *patterns)
    assert "ignore='a'" not in as_target


def test_codes_of_digits_and_letters_stay_levels(tmp_path: Path) -> None:
    path = write(tmp_path, ["1st", "2nd", "3rd", "4b"] * 5)
    assert tables.load(path, seed=1).info["x_names"] == ["a=2nd", "a=3rd", "a=4b"]


def test_truth_values_are_no_measurements(tmp_path: Path) -> None:
    path = write(tmp_path, ["True", "False"] * 5)
    refused(lambda: tables.load(path, target="a"), "holds truth values", "classify=True")
    assert tables.load(path, target="a", classify=True).info["classes"] == ["False", "True"]
    assert tables.load(path).info["x_names"] == ["a=True"]


def test_a_date_is_no_class_either_unless_it_repeats(tmp_path: Path) -> None:
    path = write(tmp_path, [f"2020-01-{i + 1:02d}" for i in TEN])
    refused(lambda: tables.load(path, target="a", classify=True), "'a' holds dates", "name another target")


def test_points_where_decimals_are_commas_would_be_a_thousandth(tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    path.write_text("a;y\n" + "".join(f"{i + 1}.234;{i},5\n" for i in TEN))
    refused(lambda: tables.load(path, decimal=","), "'a' holds points .line 2: '1.234'", "decimal='.'")
    path.write_text("a;y\n" + "".join(f"{i + 1}.1.2020;{i},5\n" for i in TEN))
    refused(lambda: tables.load(path, decimal=","), "'a' holds dates")


# -- names and options ---------------------------------------------------------------------------------------


def test_targets_and_columns_to_ignore_are_names() -> None:
    own = pd.DataFrame({"a": np.arange(20.0), 7: np.arange(20.0) % 3, "y": np.arange(20.0) % 5})
    for bad in ({"y": 1}, [None], 1.5, True, ["y", 2.5]):
        refused(lambda b=bad: tables.load(own, target=b), "^target must be a column's name", "Give target='name'")
        refused(lambda b=bad: tables.load(own, ignore=b), "^ignore must be a column's name")
    refused(lambda: tables.load(own, target=["y", "y"]), "target names 'y' twice")
    refused(lambda: tables.load(own, target=8), "unknown column '8'")
    assert tables.load(own, target=7, ignore=None).info["y_name"] == "7"


def test_inputs_of_one_name_are_refused() -> None:
    own = pd.DataFrame({"color=red": np.arange(20.0), "color": ["red", "blue"] * 10, "y": np.arange(20.0) % 5})
    refused(lambda: tables.load(own), "an input named 'color=red'", "Rename one")


@pytest.mark.parametrize(("name", "value"), [("split", None), ("split", 1), ("seed", "a"), ("seed", -1)])
def test_options_that_would_do_nothing_or_fail(name: str, value: Any) -> None:
    refused(lambda: tables.load("diabetes", **{name: value}), name)
    refused(lambda: tables.load("diabetes", classify="yes"), "classify must be True or False")


def test_a_column_without_any_value_is_named() -> None:
    own = pd.DataFrame({"a": [None] * 20, "b": np.arange(20.0), "y": np.arange(20.0) % 5})
    for how in ("refuse", "drop"):
        refused(lambda h=how: tables.load(own, missing=h), "'a' holds no value in any of its 20 rows", "ignore='a'")
    assert len(tables.load(own, ignore="a", test=0).x) == 20


# -- files ---------------------------------------------------------------------------------------------------


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    refused(lambda: read(tmp_path), "can't be read: is a directory", "CSV, TSV or Parquet")
    refused(lambda: read(tmp_path / "no.csv"), "can't be read: no such file")
    long = refused(lambda: read("x" * 5000), "can't be read: file name too long")
    assert len(long) < 400
    refused(lambda: tables.load("x" * 300), "there is no file")


def test_a_set_of_a_package_that_is_not_there_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    refused(lambda: tables.load("iris"), "'iris' comes with the package scikit-learn", "pip install scikit-learn")
    refused(lambda: uci.load("boston", source="openml"), "OpenML", "pip install scikit-learn")


def test_dicts_that_are_no_columns() -> None:
    refused(lambda: read({}), "needs at least one, got none")
    refused(lambda: read({"a": [[1, 2], [3]]}), "'a' must be a list of values", "unequal length")


# -- new rows ------------------------------------------------------------------------------------------------


def test_new_rows_that_are_none() -> None:
    own = pd.DataFrame({"a": np.arange(20.0), "c": ["r", "b"] * 10, "y": np.arange(20.0) % 5})
    fit = zoo.run(zoo.load("linear_regression", own), "exact", draws=3)
    refused(lambda: fit.predict(own.iloc[:0]), "at least one row", "Give the rows")
    refused(lambda: fit.predict({"a": [], "c": []}), "at least one row")
    refused(lambda: fit.predict(torch.zeros(0, 2)), r"\(0, 2\)", "Give the rows")
    refused(lambda: fit.predict(torch.zeros(3, 2, device="meta")), "'meta'")
    refused(lambda: fit.predict("nowhere.csv"), "nowhere.csv can't be read")
    gaps = refused(
        lambda: fit.predict({"a": [1.0, None], "c": ["r", "b"]}), r"1 missing .*'a' \(1\)", "leave those rows"
    )
    assert "missing='drop'" not in gaps
    for seed in ("a", -1, None, 2**70):
        refused(lambda s=seed: fit.predict(seed=s), "^seed must be")


def test_facts_are_a_dict() -> None:
    refused(lambda: zoo.Data(torch.zeros(3, 1), torch.zeros(3), info=3), "info must be a dict of facts, got int")
