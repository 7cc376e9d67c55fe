"""Killed at any moment, also within a save: the same call ends with the bits of the run that never died."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.checkpoint_runs import kept, same, small
from tests.killed_runs import COMPILED
from tests.test_checkpoint import KERNELS
from zoo.infer import atomic, checkpoint

ROOT = Path(__file__).parents[1]
MH: dict[str, Any] = {"warmup": 0, "step_size": 0.3, "draws": 70, "chains": 2, "seed": 4, "engine": "eager"}
# Kills of which that many must have found a run there: stored at this stage, writing, or over what another left.
LEAST = {"the beginning": 5, "warmup": 5, "sampling": 5, "steps": 1, "within a save": 5, "over half a file": 3}


class Killed(BaseException):
    """The end of a process."""


@functools.cache
def whole() -> zoo.Posterior:
    return zoo.run(small(), "mh", progress=False, **MH)


CALLS = ("open", "fsync", "replace")


def dies_at(monkeypatch: pytest.MonkeyPatch, count: int) -> list[int]:
    """The process dies as it is about to make its count-th call of the system that writes; counts them."""
    calls = [0]

    def mortal(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == count:
                raise Killed
            return real(*args, **options)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, mortal(getattr(os, name)))
    return calls


def survives(directory: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> bool:
    with monkeypatch.context() as patch:
        dies_at(patch, count)
        with pytest.raises(Killed):
            kept(directory, "mh", **MH)
    return same(kept(directory, "mh", **MH), whole())


@pytest.mark.slow
def test_killed_before_any_call_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every such call of a run, one after the other."""
    with monkeypatch.context() as patch:
        calls = dies_at(patch, -1)
        kept(tmp_path / "whole", "mh", **MH)
    assert calls[0] > 25
    for count in range(1, calls[0] + 1):
        assert survives(tmp_path / f"{count}", monkeypatch, count), count


def test_a_twin_that_writes_in_place_does_not_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens the old state for writing, which empties it, and dies."""
    real = atomic.write_tree

    def in_place(folder: int, name: str, tree: Any, strict: bool = True) -> None:
        if name == checkpoint.STATE and (tmp_path / "run" / name).exists():
            os.close(os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder))
            raise Killed
        real(folder, name, tree, strict)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_tree", in_place)
        with pytest.raises(Killed):
            kept(tmp_path / "run", "mh", **MH)
    with pytest.raises(ValueError, match=r"state.npz is damaged"):
        kept(tmp_path / "run", "mh", **MH)


def test_a_twin_that_counts_rows_before_they_are_written_does_not_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state first, and killed before the draws."""
    real = checkpoint.Checkpoint.save

    def state_first(self: checkpoint.Checkpoint, state: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(self, "write_rows", lambda *args: None)
            real(self, state)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, "save", state_first)
        with pytest.raises(Killed):
            kept(tmp_path / "run", "mh", **MH)
    with pytest.raises(ValueError, match=r"draws-000000.npz is missing"):
        kept(tmp_path / "run", "mh", **MH)


def test_a_twin_that_trips_over_half_a_file_does_not_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes NAME.part only where there is none, as after no kill; the same run does without it."""
    real = os.open

    def exclusive(path: Any, flags: int, *args: Any, **options: Any) -> int:
        new = str(path).endswith(atomic.PART)
        return real(path, flags | os.O_EXCL if new else flags, *args, **options)

    for twin in (False, True):
        directory = tmp_path / f"{twin}"
        directory.mkdir()
        for name in (checkpoint.STATE, checkpoint.RESULT):
            (directory / f"{name}{atomic.PART}").write_bytes(b"half")
        with monkeypatch.context() as patch:
            if twin:
                patch.setattr(os, "open", exclusive)
            assert same(kept(directory, "mh", **MH), whole()) != twin


# -- real kills --------------------------------------------------------------------------------------------


def killed(kills: int, *cases: str) -> dict[str, dict[str, int]]:
    command = [sys.executable, "-m", "tests.killed_runs", str(kills), *cases]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_sigkill_at_random_moments() -> None:
    found = killed(4, "mala")["mala"]
    assert found["other bits"] == 0
    assert found["kills"] == 4


@pytest.mark.slow
def test_fifty_sigkills() -> None:
    """Four of every sampler, of svi and of a compiled run, at every stage, within saves and over half-written files."""
    found = killed(4)
    assert set(found) == {*KERNELS, "svi", COMPILED}
    assert {case: counts["other bits"] for case, counts in found.items() if counts["other bits"]} == {}
    total = sum((Counter(counts) for counts in found.values()), Counter())
    assert total["kills"] >= 50
    assert {where: total[where] for where, least in LEAST.items() if total[where] < least} == {}
