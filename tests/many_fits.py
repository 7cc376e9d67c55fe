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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import torch

import zoo
from tests.checkpoint_runs import small

LEAK = 250_000  # bytes that a twin forgets to free in each fit
SHORT: dict[str, Any] = {"progress": False, "draws": 8}


def kept(number: int, folder: Path) -> zoo.Posterior:
    options = SHORT | {"engine": "eager", "warmup": 8, "max_depth": 1}
    return zoo.run(small(), "nuts", seed=number, checkpoint=folder / str(number), checkpoint_seconds=0, **options)


def nuts(number: int, folder: Path) -> zoo.Posterior:
    return zoo.run(small(), "nuts", seed=number, engine="eager", warmup=8, max_depth=1, **SHORT)


def svi(number: int, folder: Path) -> zoo.Posterior:
    return zoo.run(small(), "svi", seed=number, engine="eager", steps=20, **SHORT)


FITS: tuple[Callable[[int, Path], zoo.Posterior], ...] = (nuts, svi, kept, svi)


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
        "param store": sorted(pyro.get_param_store().keys()),
        "handlers": len(pyro.poutine.runtime._PYRO_STACK),
        "signals": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "open files": len(os.listdir("/proc/self/fd")),
    }


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(fits: int) -> dict[str, Any]:
    logging.getLogger("zoo").setLevel(logging.ERROR)
    pyro.param("mine", torch.ones(2))
    with tempfile.TemporaryDirectory() as folder:

        def run(numbers: range) -> None:
            for number in numbers:
                FITS[number % len(FITS)](number, Path(folder))
            gc.collect()

        settled = fits * 3 // 10  # what is loaded late, caches of a fixed size, the allocator's own room
        run(range(settled))
        before, begun = switches(), resident()
        run(range(settled, fits))
        grown, begun = resident() - begun, resident()
        hoard = [os.urandom(LEAK) for _ in range(fits - settled)]
        twin = resident() - begun
        tracemalloc.start()
        run(range(fits, fits + 8))
        begun = tracemalloc.get_traced_memory()[0]
        run(range(fits + 8, fits + 24))
        python = tracemalloc.get_traced_memory()[0] - begun
        tracemalloc.stop()
        after = switches()
    assert hoard
    changed = [name for name in before if before[name] != after[name]]
    return {"resident": grown, "of a twin": twin, "python, of 16": python, "changed": changed}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
