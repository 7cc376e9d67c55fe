"""Disks that fail: a checkpoint that can't be written costs no draw, and the outcome says so."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.checkpoint_runs import after_calls, kept, same, small, stops
from tests.refusals import refused
from tests.test_bad_files import full_disk
from tests.test_checkpoint_files import MH, full, whole
from zoo.infer import checkpoint
from zoo.infer.atomic import PART


def denied(*args: Any, **options: Any) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def read_only(*args: Any, **options: Any) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def fails_after(count: int, real: Callable[..., Any], failure: Callable[..., Any]) -> Callable[..., Any]:
    calls = [0]

    def call(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        return real(*args, **options) if calls[0] <= count else failure()

    return call


FAILURES = {
    "a full disk": ("replace", full, "No space left on device"),
    "a full disk at fsync": ("fsync", full, "No space left on device"),
    "a disk that became read-only": ("replace", read_only, "Read-only file system"),
    "a folder whose permissions were taken away": ("open", denied, "Permission denied"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_disk_that_fails_costs_no_draw(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name, failure, says = FAILURES[what]
    monkeypatch.setattr(os, name, fails_after(5, getattr(os, name), failure))
    posterior = kept(tmp_path / "run", "mh", **MH)
    right = whole()
    assert torch.equal(posterior.draws["w"], right.draws["w"])
    assert posterior.outcome.startswith(
        f"checkpoint {tmp_path / 'run'} could not be written ({says}): the draws are in"
    )
    assert not posterior.ok
    assert sum("can't be written" in message for message in caplog.messages) == 1


def test_a_limit_of_the_system_on_files_costs_no_draw(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No patch: every write itself fails (EFBIG) once its file is too long. Twin: a limit that all files keep to."""
    right = whole()
    for size, says in ((2000, f"checkpoint {tmp_path / '2000'} could not be written (File too large)"), (10**6, "")):
        caplog.clear()
        handles = len(os.listdir("/proc/self/fd"))
        with full_disk(size):
            posterior = kept(tmp_path / f"{size}", "mh", **MH)
        assert len(os.listdir("/proc/self/fd")) == handles
        assert torch.equal(posterior.draws["w"], right.draws["w"])
        assert posterior.outcome.startswith(says)
        assert ("could not be written" in posterior.outcome) == bool(says)
        assert any("can't be written" in message for message in caplog.messages) == bool(says)
        assert not list((tmp_path / f"{size}").glob(f"*{PART}"))


def test_a_device_that_is_full_once_is_written_to_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No patch: the first save goes to /dev/full, whose ENOSPC comes from the write; the next ones find room."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f"{checkpoint.STATE}{PART}").symlink_to("/dev/full")
    posterior = kept(tmp_path / "run", "mh", **MH)
    assert sum("can't be written (No space left on device)" in message for message in caplog.messages) == 1
    assert same(posterior, whole())
    assert same(kept(tmp_path / "run", "mh", **MH), posterior)


def test_svi_on_a_full_disk_keeps_its_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", fails_after(3, os.replace, full))
    options = {"steps": 100, "draws": 5, "engine": "eager"}
    posterior = kept(tmp_path / "run", "svi", **options)
    assert "could not be written (No space left on device)" in posterior.outcome
    assert torch.equal(posterior.draws["w"], zoo.run(small(), "svi", progress=False, **options).draws["w"])


def test_a_disk_with_room_again_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws that could not be written wait for the next save."""
    calls, real = [0], os.replace

    def sometimes(*args: Any, **options: Any) -> None:
        calls[0] += 1
        return full() if calls[0] in (3, 5) else real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", sometimes)
        first = kept(tmp_path / "run", "mh", **MH)
    assert calls[0] > 6
    assert same(first, whole())
    assert same(kept(tmp_path / "run", "mh", **MH), first)
    assert same(kept(tmp_path / "run", "mh", **(MH | {"draws": 160})), whole(draws=160))


def test_a_directory_that_vanishes_costs_no_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = checkpoint.Checkpoint.save

    def vanishing(self: checkpoint.Checkpoint, state: Any) -> None:
        real(self, state)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)

    monkeypatch.setattr(checkpoint.Checkpoint, "save", vanishing)
    posterior = kept(tmp_path / "run", "mh", **MH)
    assert torch.equal(posterior.draws["w"], whole().draws["w"])
    assert "could not be written (No such file or directory)" in posterior.outcome
    assert not (tmp_path / "run").exists()


def test_a_stopped_run_that_could_not_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", fails_after(2, os.replace, full))
    stops(monkeypatch, "chains", after_calls(120))
    posterior = kept(tmp_path / "run", "mh", **MH)
    assert "stopped after " in posterior.outcome
    assert "could not be written (No space left on device), so it cannot go on from here" in posterior.outcome


def test_draws_that_fit_neither_disk_nor_memory_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.infer.journal.CAP", 4 * 64 * 5)
    monkeypatch.setattr(os, "replace", fails_after(2, os.replace, full))
    posterior = kept(tmp_path / "run", "mh", **MH)
    assert posterior.shape == (4, 128)
    assert "can't be written (No space left on device) after 128 draws" in posterior.outcome


@pytest.mark.parametrize("failure, says", [(read_only, "Read-only file system"), (denied, "Permission denied")])
@pytest.mark.parametrize("name", ["mkdir", "open"])
def test_a_directory_that_cannot_be_made_is_refused_at_once(
    name: str, failure: Callable[..., Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda path, *a, **o: failure() if "run" in str(path) else real(path, *a, **o))
    refused(
        lambda: kept(tmp_path / "run", "mh", **MH),
        rf"run can't be written \({says}\). Give another directory",
        error=OSError,
    )


def test_a_finished_directory_need_not_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(tmp_path / "run", "mh", **(MH | {"draws": 5}))
    real = os.open

    def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        return read_only() if flags & (os.O_WRONLY | os.O_RDWR) else real(path, flags, *args, **options)  # type: ignore

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert same(kept(tmp_path / "run", "mh", **(MH | {"draws": 5})), first)
    refused(lambda: kept(tmp_path / "run", "mh", **(MH | {"draws": 6})), "can't be written", error=OSError)
