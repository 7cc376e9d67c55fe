"""Tables from outside: what each form reads as, and one line for each way in which a table can be broken."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.refusals import refused
from zoo.__main__ import main
from zoo.data import tables
from zoo.data.files import read


def frame(rows: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, rows),
            "color": [("red", "blue", "green")[i % 3] for i in range(rows)],
            "smoker": [bool(i % 2) for i in range(rows)],
            "y": rng.normal(size=rows),
        }
    )


def write(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# -- every form is the same table ----------------------------------------------------------------------------


def test_a_frame_and_its_csv_and_tsv_are_the_same_data(tmp_path) -> None:
    own = frame()
    own.to_csv(tmp_path / "a.csv", index=False)
    own.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    own.to_csv(tmp_path / "a.txt", index=False, sep=";", decimal=",")
    found = [tables.load(own), *(tables.load(tmp_path / name) for name in ("a.csv", "a.tsv"))]
    found.append(tables.load(tmp_path / "a.txt", decimal=","))
    assert len({data.hash for data in found}) == 1
    assert found[0].info["x_names"] == ["age", "color=green", "color=red", "smoker=True"]
    assert zoo.load("linear_regression", own, target="age").data.info["y_name"] == "age"


def test_a_frame_needs_no_file_and_keeps_its_own_kinds() -> None:
    odd = pd.DataFrame(
        {"n": pd.array([1, None, 3], dtype="Int64"), "c": pd.Categorical(["a", "b", None]), 3: [1.5] * 3}
    )
    table = read(odd)
    assert table.names == ["n", "c", "3"]
    np.testing.assert_array_equal(table.columns["n"], [1.0, np.nan, 3.0])
    assert table.columns["c"].tolist() == ["a", "b", ""]


def test_parquet_is_read_by_pandas(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pd, "read_parquet", lambda path: frame())
    path = write(tmp_path, "", "a.parquet")
    assert tables.load(path).hash == tables.load(frame()).hash


def test_a_missing_package_is_named(tmp_path, monkeypatch) -> None:
    def no_engine(path):
        raise ImportError("Unable to find a usable engine; tried using: 'pyarrow', 'fastparquet'.")

    monkeypatch.setattr(pd, "read_parquet", no_engine)
    path = write(tmp_path, "", "a.parquet")
    refused(lambda: tables.load(path), "a.parquet needs the package pyarrow", "pip install pyarrow")
    monkeypatch.setattr(pd, "read_parquet", lambda path: (_ for _ in ()).throw(OSError("not a\nparquet file")))
    refused(lambda: tables.load(path), "can't be read as Parquet .not a parquet file")
    monkeypatch.setitem(sys.modules, "pandas", None)
    refused(lambda: tables.load(path), "needs the package pandas")


def test_a_quoted_cell_may_hold_delimiters_and_line_breaks(tmp_path) -> None:
    path = write(tmp_path, 'a,b,y\n1,"x,\n1",2\n2,"z ""q""",3\n3,"z ""q""",4\n4,"x,\n1",5\n')
    table = read(path)
    assert table.columns["b"].tolist() == ["x,\n1", 'z "q"', 'z "q"', "x,\n1"]
    assert list(table.lines) == [3, 4, 5, 7]


def test_rows_without_a_value_are_dropped_where_asked_and_counted(tmp_path, caplog) -> None:
    path = write(tmp_path, "a,b,y\n" + "".join(f"{i},{'' if i in (2, 5) else i * i},{i % 7}\n" for i in range(12)))
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = tables.load(path, missing="drop")
    assert len(data.x) + len(data.x_test) == 10
    assert "2 of 12 rows lack a value" in caplog.text
    assert len(tables.load(path, ignore="b", test=0).x) == 12


def test_several_targets(tmp_path) -> None:
    data = tables.load("linnerud", test=0)
    assert data.y.shape == (20, 3)
    assert data.info["y_name"] == ["Weight", "Waist", "Pulse"]
    assert data.info["x_names"] == ["Chins", "Situps", "Jumps"]
    fit = zoo.run(zoo.load("linear_regression", data, outputs=3), "exact", draws=500)
    assert abs(float(fit.predict()["mean"].mean((0, 1, 2))[0]) - 178.6) < 8  # the mean weight, in pounds
    assert tables.load("linnerud", "Waist").info["x_names"] == ["Chins", "Situps", "Jumps"]


# -- one line each: got, allowed, what to do -----------------------------------------------------------------

TEN = range(10)
DAYS = "day,y\n" + "".join(f"2020-01-{i + 1:02d},{i}\n" for i in TEN)
NAMES = "who,y\n" + "".join(f"person {i},{i}\n" for i in TEN)
MIXED = "a,y\n" + "".join(f"{'high' if i == 6 else i},{i}\n" for i in TEN)
COMMAS = "a;y\n" + "".join(f"{i},5;{i * i}\n" for i in TEN)
INDEX = ",a,y\n" + "".join(f"{i},{i * i % 7},{i % 3}\n" for i in TEN)
GAPS = "a,b,y\n1,red,2\n2,,3\n,blue,4\n3,red,NA\n"
BAD = {
    "dates": (DAYS, {}, ("'day' holds dates", "2020-01-01", "ignore='day'")),
    "dates of another form": (DAYS.replace("2020-01-", "1/1/20"), {}, ("'day' holds dates",)),
    "times": (DAYS.replace(",", "T10:00:00,").replace("dayT10:00:00", "day"), {}, ("'day' holds dates",)),
    "names of rows": (NAMES, {}, ("'who' has 10 different texts in 10 rows", "ignore='who'")),
    "text among numbers": (MIXED, {}, ("'a' holds text in 1 of 10 rows", "line 8: 'high'", "Correct")),
    "decimal commas": (COMMAS, {}, ("'a' is written with decimal commas", "line 2: '0,5'", "decimal=','")),
    "pandas index": (INDEX, {}, ("the first column has no name", "index=False")),
    "pandas index from 1": (INDEX.replace("\n0,0,0", ""), {}, ("index=False",)),
    "no name": ("a,,y\n1,5,3\n2,4,3\n", {}, ("column 2 has no name", "Name it")),
    "missing": (GAPS, {}, (r"3 missing .*'a' \(1\), 'b' \(1\)|2 missing", "missing='drop'", "of 4 rows")),
    "missing target": (GAPS, {"ignore": ("a", "b")}, (r"1 missing .*'y' \(1\)",)),
    "nothing left": ("a,y\n1,\n,2\n", {"missing": "drop"}, ("at least 2 rows, got 0",)),
    "missing of another kind": (GAPS, {"missing": "impute"}, ("'refuse' or 'drop', got 'impute'",)),
    "ignore": (NAMES, {"ignore": "whom"}, ("unknown column 'whom'", "'who'")),
    "ignored target": (NAMES, {"ignore": "y"}, ("'y' is the target",)),
    "no target": (NAMES, {"target": []}, ("target must name a column",)),
    "classes of two columns": (NAMES, {"target": ["who", "y"], "classify": True}, ("a class is one column",)),
    "decimal": (NAMES, {"decimal": ";"}, ("decimal must be",)),
    "zero bytes": ("a,y\0\n1,2\n", {}, ("no text", "CSV UTF-8")),
    "a wide line": ("a,y\n1,5,3\n", {}, ("line 2 has 3 fields, the header 2", "decimal commas")),
    "underscores": ("a,y\n" + "".join(f"{i},1_{i}\n" for i in TEN), {}, ("'y' holds text",)),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_broken_tables_are_refused_in_one_line(tmp_path, case) -> None:
    text, options, patterns = BAD[case]
    path = write(tmp_path, text)
    refused(lambda: tables.load(path, **options), *patterns)


def test_a_table_of_one_column_is_its_own_target(tmp_path) -> None:
    path = write(tmp_path, "y\n" + "".join(f"{i * 0.5}\n" for i in TEN))
    assert zoo.load("linear_regression", path).data.x.shape == (8, 0)


def test_other_files_and_other_things(tmp_path) -> None:
    book = write(tmp_path, "x", "book.xlsx")
    refused(lambda: tables.load(book), "book.xlsx is no text table", "CSV or Parquet")
    refused(lambda: tables.load(tmp_path), "there is no file")
    refused(lambda: tables.load(3), "got int", error=TypeError)
    refused(lambda: zoo.load("linear_regression", np.zeros((3, 2))), "ndarray", r"zoo\.Data\(x, y\)", error=TypeError)
    refused(lambda: zoo.load("linear_regression", "diabetes", targt="bmi"), "targt", "'target'")


@pytest.mark.parametrize(
    ("own", "patterns"),
    [
        (frame().rename(columns={"age": "Unnamed: 0"}).assign(**{"Unnamed: 0": range(20)}), ("index=False",)),
        (pd.concat([frame(), frame()[["age"]]], axis=1), ("'age' stands twice",)),
        (frame().assign(day=pd.Timestamp("2020-01-01"), y2=frame()["y"]), ("'day' holds dates", "ignore='day'")),
        (frame().assign(age=[None, 5, *range(18)]), (r"1 missing .*'age' \(1\)",)),
        (frame().assign(age=["five", *range(19)]), ("'age' holds text in 1 of 20 rows", "row 0: 'five'")),
        (frame().assign(y=1e400), (r"20 missing or infinite values, in columns 'y'",)),
        (frame().iloc[:0], ("at least 2 rows",)),
    ],
    ids=["index", "twice", "dates", "missing", "text", "infinite", "empty"],
)
def test_broken_frames_are_refused_in_one_line(own, patterns) -> None:
    refused(lambda: tables.load(own), *patterns)


# -- the shell ------------------------------------------------------------------------------------------------


def test_the_shell_reads_tables_with_the_same_options(tmp_path, capsys) -> None:
    text = "who;color;b;y\n" + "".join(f"p{i};{'rb'[i % 2]};{i * i % 11},5;{i}\n" for i in range(20)) + "p;r;;3\n"
    path = write(tmp_path, text)
    run = ["run", "linear_regression", "-m", "exact", "--data", str(path), "--opt", "draws=50"]
    assert main(run) == 2
    assert "--ignore who" in capsys.readouterr().err
    assert main([*run, "--ignore", "who"]) == 2
    assert "--decimal ," in capsys.readouterr().err
    assert main([*run, "--ignore", "who", "--decimal", ","]) == 2
    assert "--missing drop" in capsys.readouterr().err
    assert main([*run, "--ignore", "who", "--decimal", ",", "--missing", "drop", "--test", "0"]) == 0
    said = capsys.readouterr()
    assert "1 of 21 rows lack a value" in said.err
    assert "20 rows to train on, 0 held out" in said.err
    assert "weights, noise and the log evidence are of standardised columns" in said.out
    assert "noise is taken as known, 0.6 sds of y" in said.out


def test_the_shell_says_what_a_coin_counts(tmp_path, capsys) -> None:
    flips = write(tmp_path, "flip\n" + "\n".join("HTHHTHHHTH"))
    assert main(["run", "coin_flip", "-m", "exact", "--data", str(flips), "--test", "0"]) == 0
    said = capsys.readouterr()
    assert "y = 1 stands for flip = T" in said.out
    assert "10 rows to train on" in said.err
    assert main(["run", "coin_flip", "-m", "exact", "--data", "iris"]) == 2
    assert "two classes apart, got the 3 classes setosa" in capsys.readouterr().err
    assert main(["run", "coin_flip", "-m", "exact", "--data", "diabetes"]) == 2
    assert "a regression model such as linear_regression" in capsys.readouterr().err
    assert main(["run", "coin_flip", "-m", "exact", "--missing", "drop"]) == 2
    assert "--missing says how to read --data" in capsys.readouterr().err


def test_the_shell_lists_the_sets(capsys) -> None:
    assert main(["list", "--data"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in tables.names())
    assert main(["list"]) == 0
    assert "zoo list --data" in capsys.readouterr().out
