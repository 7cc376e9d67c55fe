"""`python -m tests.many_fits FITS` prints as JSON how memory grows over many fits, and what they leave changed."""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import signal
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import torch
from torch.distributions import constraints

import zoo
from tests.checkpoint_runs import small
from zoo.infer import graph

LEAK = 250_000  # bytes that a twin forgets to free in each fit
SHORT: dict[str, Any] = {"progress": False, "draws": 4}
TREES: dict[str, Any] = {"warmup": 4, "max_depth": 1}


def run(method: str, number: int, engine: str = "eager", **options: Any) -> zoo.Posterior:
    return zoo.run(small(), method, seed=number, engine=engine, **(SHORT | options))


def nuts(number: int, folder: Path) -> None:
    run("nuts", number, **TREES)


def kept(number: int, folder: Path) -> None:
    run("nuts", number, checkpoint=folder / str(number), checkpoint_seconds=0, **TREES)


def compiled_nuts(number: int, folder: Path) -> None:
    assert run("nuts", number, "compiled", **TREES).settings["engine"] == "compiled"


def chees(number: int, folder: Path) -> None:
    run("chees", number, chains=4, warmup=4, max_steps=2)


def svi(number: int, folder: Path) -> None:
    run("svi", number, steps=8)


def compiled_svi(number: int, folder: Path) -> None:
    fit = run("svi", number, "compiled", steps=8)
    assert fit.settings["engine"] == "compiled"
    fit.predict()


def best(number: int, folder: Path) -> None:
    zoo.run(small(), "map", seed=number, restarts=1, progress=False)


def laplace(number: int, folder: Path) -> None:
    zoo.run(small(), "laplace", seed=number, **SHORT)


Fit = Callable[[int, Path], None]
# Compiled nuts, which takes longest, comes once, and late: also in the traced fits before those that are compared.
FITS: tuple[Fit, ...] = (nuts, svi, compiled_svi, kept, best, laplace, chees) * 2 + (compiled_nuts, svi)


def params() -> dict[str, tuple[str, str]]:
    """Each parameter of Pyro's store: its unconstrained value, bit for bit, and its constraint."""
    state = pyro.get_param_store().get_state()
    value = {name: str(found.detach().double().numpy().tobytes().hex()) for name, found in state["params"].items()}
    return {name: (value[name], str(state["constraints"][name])) for name in value}


def count_compiled() -> Counter[str]:
    """Counts the graphs that are compiled from here on."""
    found, real = Counter[str](), graph._inductor

    def counted(*args: Any) -> Any:
        found["compiled"] += 1
        return real(*args)

    graph._inductor = counted
    return found


def switches() -> dict[str, Any]:
    """Everything global that a fit might change."""
    return {
        "torch's generator": torch.get_rng_state().numpy().tobytes().hex(),
        "numpy's generator": repr(np.random.get_state()),
        "Python's generator": repr(random.getstate()),
        "dtype": str(torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "validation": (torch.distributions.Distribution._validate_args, pyro.infer.util.is_validation_enabled()),
        "param store": params(),
        "handlers": len(pyro.poutine.runtime._PYRO_STACK),
        "signals": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "open files": len(os.listdir("/proc/self/fd")),
    }


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(fits: int) -> dict[str, Any]:
    graphs = count_compiled()
    logging.getLogger("zoo").setLevel(logging.ERROR)
    pyro.param("mine", torch.ones(2), constraint=constraints.positive)
    with tempfile.TemporaryDirectory() as folder:

        def fit(numbers: range) -> None:
            for number in numbers:
                FITS[number % len(FITS)](number, Path(folder))
            gc.collect()

        settled = fits * 3 // 10  # what is loaded late, caches of a fixed size, the allocator's own room
        fit(range(settled))
        before, begun = switches(), resident()
        fit(range(settled, fits))
        grown, begun = resident() - begun, resident()
        hoard = [os.urandom(LEAK) for _ in range(fits - settled)]
        twin = resident() - begun
        tracemalloc.start()
        fit(range(fits, fits + 8))
        begun = tracemalloc.get_traced_memory()[0]
        fit(range(fits + 8, fits + 24))
        python = tracemalloc.get_traced_memory()[0] - begun
        tracemalloc.stop()
        after = switches()
    assert hoard
    changed = [name for name in before if before[name] != after[name]]
    return {
        "resident": grown, "of a twin": twin, "python, of 16": python, "changed": changed, **graphs
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
