"""SIGINT and SIGTERM to a real `zoo run`: it ends in order, says how to go on, and going on gives the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import zoo
from tests.checkpoint_runs import same
from zoo.__main__ import main
from zoo.infer.atomic import read_tree
from zoo.infer.checkpoint import RESULT, STATE

ROOT = Path(__file__).parents[1]
OPTIONS: dict[str, Any] = {"warmup": 64, "draws": 600, "engine": "eager"}
SAID = "stopping after this iteration; once more (Ctrl-C) to stop at once"
LONGEST = 60.0  # seconds


class Ended(NamedTuple):
    """How a process ended: its exit code, what it printed on stdout and on stderr."""

    code: int
    out: str
    err: str


def words(directory: Path) -> list[str]:
    """The words after `zoo` of the run, saved at every block."""
    given = [f"--opt={name}={value}" for name, value in (OPTIONS | {"checkpoint_seconds": 0}).items()]
    return ["run", "coin_flip", "-m", "mh", *given, "--checkpoint", str(directory)]


def in_sampling(directory: Path) -> bool:
    return (directory / STATE).exists() and bool(read_tree(directory / STATE)["stage"] == "sampling")


def signalled(directory: Path, *signals: signal.Signals) -> Ended:
    """The run, in a process that gets these signals at once when some of its draws are stored."""
    command = [sys.executable, "-m", "zoo", *words(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    begun = time.monotonic()
    while process.poll() is None and not in_sampling(directory):
        assert time.monotonic() - begun < LONGEST, "no draw is stored"
        time.sleep(0.02)
    for number in signals:
        process.send_signal(number)
    out, err = process.communicate(timeout=LONGEST)
    assert not (directory / RESULT).exists(), "the run had ended before the signal"
    return Ended(process.returncode, out, err)


@pytest.fixture(scope="module")
def whole() -> zoo.Posterior:
    """The run that was never disturbed."""
    return zoo.run("coin_flip", "mh", seed=0, **OPTIONS)


def result(directory: Path) -> zoo.Posterior:
    """What a finished directory holds."""
    assert (directory / RESULT).exists()
    return zoo.run("coin_flip", "mh", seed=0, checkpoint=directory, **OPTIONS)


def ended_in_order(ended: Ended, directory: Path) -> bool:
    """The outcome is printed with how to go on; the exit code is that of an outcome that is not ok."""
    go_on = f"to go on, make the same call, or: zoo resume {directory}"
    said = "interrupted after " in ended.out and go_on in " ".join(ended.out.split())
    return said and SAID in ended.err and ended.code == 1 and "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_in_order_and_zoo_resume_goes_on(
    number: signal.Signals, tmp_path: Path, whole: zoo.Posterior
) -> None:
    ended = signalled(tmp_path / "run", number)
    assert ended_in_order(ended, tmp_path / "run"), ended
    again = words(tmp_path / "run") if number == signal.SIGINT else ["resume", str(tmp_path / "run")]
    assert main(again) == (0 if whole.ok else 1)
    assert same(result(tmp_path / "run"), whole)


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path: Path, whole: zoo.Posterior) -> None:
    """Exit code 130 and one line; what was stored before is gone on with."""
    ended = signalled(tmp_path / "run", signal.SIGINT, signal.SIGTERM)
    assert (ended.code, ended.out) == (130, "")
    assert "zoo: stopped" in ended.err.splitlines()
    assert "Traceback" not in ended.err
    assert main(["resume", str(tmp_path / "run")]) == (0 if whole.ok else 1)
    assert same(result(tmp_path / "run"), whole)


@pytest.mark.slow
def test_a_twin_that_is_killed_says_nothing(tmp_path: Path, whole: zoo.Posterior) -> None:
    """SIGKILL: no outcome, no way to go on, another exit code; all the same the same bits in the end."""
    ended = signalled(tmp_path / "run", signal.SIGKILL)
    assert not ended_in_order(ended, tmp_path / "run")
    assert (ended.code, ended.out) == (-signal.SIGKILL, "")
    assert "stopping" not in ended.err
    assert main(words(tmp_path / "run")) == (0 if whole.ok else 1)
    assert same(result(tmp_path / "run"), whole)
