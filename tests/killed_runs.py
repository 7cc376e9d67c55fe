"""Kills runs: `python -m tests.killed_runs KILLS [CASE ...]` prints as JSON what came of each case.

A run is a forked child, so that torch is loaded and graphs are compiled once. It is killed by SIGKILL at a random
moment, and the next child makes the same call over whatever is left there, half-written files included. A run that ends
before there are as many kills as wanted is compared, and another one begun.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

import zoo
from tests.checkpoint_runs import kept, same, small
from tests.test_checkpoint import KERNELS
from zoo.infer import graph
from zoo.infer.atomic import PART, read_tree
from zoo.infer.checkpoint import RESULT, STATE

SYNC = 0.02  # seconds that a sync of a file takes here, so that some kills fall into a save
MOST_RUNS = 20
SIZES: dict[str, Any] = {"warmup": 70, "draws": 70, "seed": 4, "engine": "eager"}


class Case(NamedTuple):
    """A call of `zoo.run` on the small problem."""

    method: str
    options: dict[str, Any]


CASES = {name: Case(name, SIZES | own) for name, (own, _) in KERNELS.items()}
CASES["nuts"].options["mass"] = "dense"
CASES["svi"] = Case("svi", {"steps": 300, "seed": 4, "restarts": 2, "draws": 20, "engine": "eager"})
COMPILED = "compiled mala"
CASES[COMPILED] = Case("mala", SIZES | {"draws": 300, "engine": "compiled"})


def never(*args: Any) -> Any:
    """A child that compiles runs uncompiled, which is another engine: the graph is to be found."""
    raise RuntimeError("compiled in a child")


def child(case: Case, directory: Path) -> tuple[int, int]:
    """The process id of a child that makes the call, and a pipe through which it tells every sync of a file."""
    read, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        return pid, read
    code, fsync = 1, os.fsync
    graph._inductor = never
    os.fsync = lambda file: (os.write(told, b"."), time.sleep(SYNC), fsync(file))[2]
    try:
        kept(directory, case.method, **case.options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def halves(directory: Path) -> dict[str, int]:
    """The half-written files, and when each was last written to."""
    return {path.name: path.stat().st_mtime_ns for path in directory.glob(f"*{PART}")}


def goes_on_from(directory: Path) -> str:
    """The stage that is stored: the beginning, warmup, sampling, or the steps of svi."""
    state = directory / STATE
    return str(read_tree(state).get("stage", "steps")) if state.exists() else "the beginning"


def kill_one(case: Case, directory: Path, syncs: int, seconds: float) -> Counter[str]:
    """Kills a child so many seconds after so many syncs; counts what that was, nothing where it had ended before."""
    before = halves(directory)
    pid, told = child(case, directory)
    while syncs and os.read(told, 1):
        syncs -= 1
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(told)
    if not os.WIFSIGNALED(status):
        if os.WEXITSTATUS(status):
            raise RuntimeError(f"{case} could not go on over {sorted(before)}")
        return Counter()
    written = [name for name, when in halves(directory).items() if before.get(name) != when]
    found = Counter({"kills": 1, goes_on_from(directory): 1})
    return found + Counter({"within a save": bool(written), "over half a file": bool(before)})


def killed(name: str, kills: int, folder: Path) -> dict[str, int]:
    """Counts of so many kills, and of the runs that ended with other bits than the one that was never killed."""
    case, randomness, found = CASES[name], random.Random(name), Counter[str]()
    begun = time.perf_counter()
    whole = zoo.run(small(), case.method, progress=False, **case.options)
    longest = (time.perf_counter() - begun) / 4
    for number in range(MOST_RUNS):
        directory = folder / f"{name} {number}"
        while found["kills"] < kills and not (directory / RESULT).exists():
            seconds = randomness.uniform(0, randomness.choice((SYNC, longest)))
            found += kill_one(case, directory, randomness.randint(0, 8), seconds)
        found["other bits"] += not same(whole, kept(directory, case.method, **case.options))
        if found["kills"] >= kills:
            break
    return dict(found)


def main(kills: int, names: list[str]) -> dict[str, dict[str, int]]:
    torch.set_num_threads(1)
    names = names or list(CASES)
    for name in {names[0], COMPILED} & set(names):  # loads what is loaded late, and compiles
        zoo.run(small(), CASES[name].method, progress=False, **CASES[name].options)
    with tempfile.TemporaryDirectory() as folder:
        return {name: killed(name, kills, Path(folder)) for name in names}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2:])))
