"""Kills runs: `python -m tests.killed_runs METHOD KILLS` prints what came of it as JSON.

A run is a forked child, so that torch is loaded once; it is killed by SIGKILL at a random moment, and the next child
makes the same call, until the wanted number of kills is reached; then it may finish.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import zoo
from tests.checkpoint_runs import kept, same, small

SIZES: dict[str, Any] = {"warmup": 100, "draws": 160, "seed": 4, "engine": "eager"}
OPTIONS: dict[str, dict[str, Any]] = {
    "nuts": SIZES | {"max_depth": 2, "mass": "dense", "keep_warmup": True},
    "chees": SIZES | {"max_steps": 4, "chains": 4},
    "mala": SIZES,
    "sghmc": SIZES | {"batch_size": 5},
    "svi": {"steps": 300, "seed": 4, "restarts": 2, "draws": 20, "engine": "eager"},
}


def child(method: str, directory: Path) -> int:
    """The process id of a child that makes the call."""
    pid = os.fork()
    if pid == 0:
        fsync = os.fsync
        os.fsync = lambda file: (time.sleep(0.05), fsync(file))[1]  # so that some kills fall into a save
        try:
            kept(directory, method, **OPTIONS[method])
        finally:
            os._exit(0)
    return pid


def killed(method: str, directory: Path, kills: int, longest: float) -> tuple[int, int]:
    """So many children killed; also how many left a half-written file behind."""
    randomness, done, within = random.Random(1), 0, 0
    while done < kills and not (directory / "result.npz").exists():
        pid = child(method, directory)
        time.sleep(randomness.uniform(0.02, longest))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        done += os.WIFSIGNALED(status)
        halves = [*directory.glob("*.part")]
        within += bool(halves)
        for half in halves:
            half.unlink()
    return done, within


def main(method: str, kills: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    whole = zoo.run(small(), method, progress=False, **OPTIONS[method])  # the first one loads what is loaded late
    begun = time.perf_counter()
    zoo.run(small(), method, progress=False, **OPTIONS[method])
    longest = 2 * (time.perf_counter() - begun) / kills + 0.1  # the kills are spread over about one run
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        done, within = killed(method, directory, kills, longest)
        finished = kept(directory, method, **OPTIONS[method])
    return {"kills": done, "within a save": within, "same": same(whole, finished)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
