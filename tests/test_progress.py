"""The bar: on stderr, only in a terminal, with rate and text; and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from zoo.infer.progress import progress

PROGRAM = """
import time
from zoo.infer.progress import progress
with progress("nuts [w]", 20) as update:
    for i in range(20):
        time.sleep(.02)
        update(i + 1, "accept 0.83")
print("result")
"""


def test_silent_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("nuts", 10) as update:
        update(3)
        update(10, "accept 0.83")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_silent_needs_no_rich() -> None:
    code = "import sys; from zoo.infer.progress import progress\nwith progress('a', 1) as u: u(1)\n"
    code += "assert not any(name.startswith('rich') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)


def test_shown_on_request_on_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("nuts", 10, show=True) as update:
        update(10, "accept 0.83")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nuts" in captured.err
    assert "10/10" in captured.err
    assert "accept 0.83" in captured.err


def test_shown_in_a_terminal_with_rate_and_text() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stderr=theirs,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 1_000_000).decode()
    os.close(ours)
    assert done.stdout == "result\n"
    assert "nuts [w]" in shown  # a label is text, not markup
    assert "20/20" in shown
    assert "accept 0.83" in shown
    assert "/s" in shown


def test_an_error_inside_passes_through() -> None:
    with pytest.raises(RuntimeError, match="inside"), progress("nuts", 2, show=True):
        raise RuntimeError("inside")
