"""Ctrl-C once keeps what there is, twice stops at once, and the clock works everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from zoo.infer.interrupt import SIGNALS, stoppable


@pytest.fixture
def handlers():
    """Asserts that the handlers found are the handlers left."""
    before = [signal.getsignal(s) for s in SIGNALS]
    yield
    assert [signal.getsignal(s) for s in SIGNALS] == before


pytestmark = pytest.mark.usefixtures("handlers")


@pytest.mark.parametrize("signum", SIGNALS)
def test_the_first_signal_is_noted_and_the_second_raises(signum: int) -> None:
    done = []
    with stoppable() as stop:
        assert stop() == ""
        os.kill(os.getpid(), signum)
        assert stop() == "interrupted"
        done.append("what there is")
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signum)
    assert done == ["what there is"]


def test_a_run_inside_a_run_stops_both() -> None:
    with stoppable() as outer:
        with stoppable() as inner:
            os.kill(os.getpid(), signal.SIGINT)
            assert inner() == "interrupted"
        assert outer() == "interrupted"


def test_a_run_after_an_interrupted_one_starts_fresh() -> None:
    with stoppable():
        os.kill(os.getpid(), signal.SIGINT)
    with stoppable() as stop:
        assert stop() == ""


def test_handlers_return_after_an_error() -> None:
    with pytest.raises(RuntimeError), stoppable():
        raise RuntimeError


def test_max_seconds() -> None:
    with stoppable(0.05) as stop:
        assert stop() == ""
        time.sleep(0.06)
        assert stop() == "max_seconds=0.05 reached"


@pytest.mark.parametrize("bad", [0, -1.0, float("nan")])
def test_max_seconds_must_be_positive(bad: float) -> None:
    with pytest.raises(ValueError, match="max_seconds must be positive or None, got"), stoppable(bad):
        pass


def test_outside_the_main_thread_only_the_clock_works() -> None:
    seen = []

    def work() -> None:
        with stoppable(0.01) as stop:
            before = [signal.getsignal(s) for s in SIGNALS]
            time.sleep(0.02)
            seen.extend([stop(), before])

    found = [signal.getsignal(s) for s in SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["max_seconds=0.01 reached", found]


PROGRAM = """
import time
from zoo.infer.interrupt import stoppable
with stoppable() as stop:
    print("ready", flush=True)
    for i in range(10_000):
        time.sleep(.01)
        if reason := stop():
            break
print(reason, "kept", i > 0, flush=True)
"""


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_real_process_ends_by_itself_with_what_it_has(signum: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signum)
    printed, _ = process.communicate(timeout=20)
    assert printed == "interrupted kept True\n"
    assert process.returncode == 0
