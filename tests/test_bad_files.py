"""Errors around files: one line in the shell, nothing half-written, nothing foreign opened."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import resource
import threading
from collections.abc import Iterator
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


# -- saving --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk(size: int = 2000) -> Iterator[None]:
    """No file may grow beyond `size` bytes (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path: Path) -> None:
    fit, path = zoo.run("coin_flip", "exact", draws=5), tmp_path / "fit.nc"
    for before in (b"", b"old"):
        if before:
            path.write_bytes(before)
        with full_disk():
            refused(lambda: fit.save(path), "can't be written", "large|space", "choose", error=OSError)
        assert [p.name for p in tmp_path.iterdir()] == (["fit.nc"] if before else [])
    assert path.read_bytes() == b"old"


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    fit, long = zoo.run("coin_flip", "exact", draws=5), tmp_path / f"{'n' * 300}.nc"
    refused(lambda: fit.save(long), "a name of 303 characters is too long", r"Shorten it: fit\.nc")
    refused(lambda: zoo.open(long), "there is no file", error=FileNotFoundError)
    refused(lambda: zoo.plot(fit, to=long.with_suffix(".png")), "too long", r"picture\.png")
    wanted = "path must be the name of a file, got None"
    for call in (lambda: fit.save(None), lambda: zoo.open(None)):  # type: ignore[arg-type]
        refused(call, wanted, r"fit\.nc", error=TypeError)
    refused(lambda: zoo.write_report(fit, None), wanted, r"report\.html", error=TypeError)  # type: ignore[arg-type]
    refused(lambda: zoo.animate(to=None), wanted, r"sampler\.html", error=TypeError)  # type: ignore[arg-type]


def test_a_pipe_is_not_replaced_and_a_link_stays_one(tmp_path: Path) -> None:
    fit = zoo.run("coin_flip", "exact", draws=5)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(os.devnull)
    for name in ("pipe", "link"):
        refused(lambda name=name: fit.save(tmp_path / name), "must be a file", name, "fit.nc")
    refused(lambda: fit.save(os.devnull), "must be a file", os.devnull)
    (tmp_path / "other.nc").symlink_to(tmp_path / "real.nc")
    assert fit.save(tmp_path / "other.nc") == tmp_path / "other.nc"
    assert (tmp_path / "other.nc").is_symlink()
    assert zoo.open(tmp_path / "real.nc").ok


def test_threads_that_save_to_one_path_leave_one_whole_file(tmp_path: Path) -> None:
    fit, errors = zoo.run("coin_flip", "exact", draws=5), []

    def save() -> None:
        try:
            for _ in range(3):
                fit.save(tmp_path / "fit.nc")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
    assert zoo.open(tmp_path / "fit.nc").ok


def test_a_saved_file_has_the_users_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    path = zoo.run("coin_flip", "exact", draws=5).save(tmp_path / "fit.nc")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_damaged_files_are_one_line_and_nothing_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fit.nc"
    whole = zoo.run("coin_flip", "exact", draws=5).save(path).read_bytes()
    for part in (b"", whole[:1], bytes(len(whole)), whole[:100], whole[:-1]):
        path.write_bytes(part)
        refused(lambda: zoo.open(path), "no netCDF file, or is cut off", "Save the fit anew")
    text = whole.find(b"zoo_format") + 40
    for place in (*range(400, 1400, 50), text):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises((ValueError, FileNotFoundError)) as caught:  # noqa: PT012
            zoo.open(path)
            raise FileNotFoundError  # a byte that carries nothing
        assert not isinstance(caught.value, UnicodeError)
        assert "\n" not in str(caught.value)
        del caught  # its traceback holds the file that failed to open
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("door", ["loo", "compare", "plot", "check_predictive"])
def test_doors_take_posteriors(door: str) -> None:
    for wrong in (3, zoo.load("coin_flip"), "fit.nc"):
        refused(lambda wrong=wrong: getattr(zoo, door)(wrong), f"{door} takes posteriors", "zoo.open", error=TypeError)
