"""Errors around files: one line in the shell, nothing half-written, nothing foreign opened."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import zoo
from tests.refusals import refused
from zoo.__main__ import main


@pytest.mark.parametrize(
    "words",
    [
        ["run", "coin_flip", "-m", "nutz"],
        ["run", "coin_flp", "-m", "exact"],
        ["run", "coin_flip", "-m", "exact", "--set", "head=3"],
        ["run", "coin_flip", "-m", "exact", "--opt", "drws=3"],
        ["run", "coin_flip", "-m", "exact", "--opt", "draws=0"],
        ["run", "logistic_regression", "-m", "exact"],
        ["run", "linear_regression", "-m", "exact", "--data", "nowhere.csv"],
    ],
    ids=" ".join,
)
def test_the_shell_says_it_in_one_line_and_writes_nothing(words, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, "-o", "fit.nc"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_no_file_and_the_old_one_whole(tmp_path: Path) -> None:
    fit = zoo.run("coin_flip", "exact", draws=5)
    broken = dataclasses.replace(fit, problem=dataclasses.replace(fit.problem, hyper={"a": object()}))
    with pytest.raises((TypeError, ValueError)):
        broken.save(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []
    fit.save(tmp_path / "fit.nc")
    before = (tmp_path / "fit.nc").read_bytes()
    with pytest.raises((TypeError, ValueError)):
        broken.save(tmp_path / "fit.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
    assert (tmp_path / "fit.nc").read_bytes() == before


def test_files_that_are_none_of_ours(tmp_path: Path) -> None:
    fit = zoo.run("coin_flip", "exact", draws=5)
    refused(lambda: fit.save(tmp_path / "no" / "fit.nc"), "no", error=(ValueError, OSError))
    refused(lambda: zoo.open(tmp_path / "fit.nc"), "fit.nc", error=(ValueError, OSError))
    (tmp_path / "text.nc").write_text("not a netCDF file")
    refused(lambda: zoo.open(tmp_path / "text.nc"), "text.nc", error=(ValueError, OSError))
    whole = fit.save(tmp_path / "whole.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    refused(lambda: zoo.open(tmp_path / "half.nc"), "half.nc", error=(ValueError, OSError))
