"""The test suite's own promises: left-out tests are counted, and a test that changes the process fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAMPLE = """
import pytest

def test_plain(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.data
def test_data(zoo_data): assert zoo_data.is_dir()
"""
CULPRITS = """
import pyro, torch

def test_dtype(): torch.set_default_dtype(torch.float64)

def test_validation(): torch.distributions.Distribution.set_default_validate_args(False)

def test_params(): pyro.param("left", torch.ones(1))

def test_clean_after_them(): assert torch.get_default_dtype() == torch.float32
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs pytest with this suite's conftest on a file of the given text; returns what it printed."""
    monkeypatch.delenv("ZOO_DATA", raising=False)
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n slow\n data\n gpu\n browser\n python312\n")

    def run(text: str, *options: str) -> str:
        (tmp_path / "test_it.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout

    return run


def test_left_out_tests_are_counted_with_their_reason(suite) -> None:
    printed = suite(SAMPLE)
    assert printed.count("deselected: 1 are slow (--slow, or make test-slow), 1 need $ZOO_DATA") == 2, printed
    assert "1 passed, 2 deselected" in printed
    printed = suite(SAMPLE, "-n", "2")
    assert "deselected: 1 are slow (--slow, or make test-slow), 1 need $ZOO_DATA" in printed, printed


def test_slow_tests_run_when_asked_for(suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    assert "3 passed" in suite(SAMPLE, "--slow")
    assert "1 passed, 2 deselected" in suite(SAMPLE, "-m", "slow")


def test_a_test_that_changes_the_process_fails_alone(suite) -> None:
    printed = suite(CULPRITS, "-q")
    assert "4 passed, 3 errors" in printed, printed
    for name in ("torch's default dtype", "torch.distributions' validation", "the param store"):
        assert name in printed
