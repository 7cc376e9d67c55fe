"""Runs one side of a comparison in a process of its own and reads the JSON of its last line."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def measure(command: Sequence[str], threads: int) -> Any:
    """The JSON that `command` prints last, run with this many threads; 0: as it chooses itself."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" if threads == 1 else ""
    environment = {**os.environ, "XLA_FLAGS": flags}
    environment |= {"OMP_NUM_THREADS": str(threads)} if threads else {}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each key over runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def machine() -> str:
    """The processor and its cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [entry.split(":")[1].strip() for entry in lines if entry.startswith("model name")]
    return f"{named[0] if named else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
