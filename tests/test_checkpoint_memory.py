"""200 fits in one process: memory stays flat, and nothing global is changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEGABYTE = 1e6
GRAPHS = 2  # of nuts and of svi: each compiled once, and found by all the fits after


@pytest.mark.slow
def test_two_hundred_fits_leave_nothing_behind() -> None:
    """Over the last 140 less than 10 MB of 365; a twin that keeps 250 kB of each fit grows by more.

    Samplers, svi with predictions, map and laplace; a checkpoint in some; nuts and svi compiled as well.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.many_fits", "200"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    found = json.loads(done.stdout)
    assert found["changed"] == []
    assert found["resident"] < 10 * MEGABYTE < found["of a twin"]
    assert found["python, of 16"] < 16_000
    assert found["compiled"] == GRAPHS
