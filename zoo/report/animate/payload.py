"""What the page is told: targets, samplers and every chain of the grid, as JSON with packed whole numbers.

Positions are kept to a thousandth, energy errors to a hundredth, acceptance to a thousandth; what is larger than 16
bits hold (a chain that has run away, a divergence) stands at their end.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.infer.seeds import block_seed

from . import exact, folders
from .record import Record, record

Array = NDArray[Any]

LARGEST = 32_767
POSITION, ERROR, CHANCE = 1000, 100, 1000

logger = logging.getLogger("zoo")


def packed(values: Any, unit: float = 1) -> str:
    """Numbers of any shape, times unit and rounded, as base64 of little-endian 16-bit whole numbers."""
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=LARGEST)
    scaled = np.clip(numbers, -LARGEST, LARGEST) * unit
    return base64.b64encode(np.clip(np.rint(scaled), -LARGEST, LARGEST).astype("<i2").tobytes()).decode()


def unpacked(text: str, unit: float = 1) -> Array:
    """The numbers again, flat."""
    return np.frombuffer(base64.b64decode(text), dtype="<i2") / unit


def payload(samplers: Sequence[str], targets: Sequence[str], draws: int, seed: int) -> dict[str, Any]:
    """All that the page shows.

    Args:
        samplers: Names of files in `samplers`.
        targets: Names of files in `targets`.
        draws: Of each chain.
        seed: A target's chain draws the same random numbers whichever others there are, for all step sizes.

    Returns:
        {"draws", "bins", "units", "targets": [...], "samplers": [...], "runs": {"target/sampler/size/length": run}}.
    """
    runs: dict[str, Any] = {}
    for name in samplers:
        logger.info("animate: %s on %s", name, ", ".join(targets))
        runs |= _runs(name, targets, draws, seed)
    return {
        "draws": draws,
        "bins": exact.BINS,
        "units": {"position": POSITION, "error": ERROR, "chance": CHANCE},
        "shares": exact.SHARES,
        "targets": [_target(name) for name in targets],
        "samplers": [_sampler(name) for name in samplers],
        "runs": runs,
    }


def _runs(name: str, targets: Sequence[str], draws: int, seed: int) -> dict[str, Any]:
    """The chains of one sampler: every target, step size and length."""
    sampler = folders.module("samplers", name)
    grid = [(target, size) for target in targets for size in sampler.SIZES]
    files = [folders.module("targets", target) for target, _ in grid]
    seeds = [block_seed(seed, 0, 0, f"animate {target}") for target, _ in grid]
    found = {}
    for length in sampler.LENGTHS:
        records = record(sampler, files, [size for _, size in grid], length, draws=draws, seeds=seeds)
        for (target, size), chain in zip(grid, records, strict=True):
            found[f"{target}/{name}/{size:g}/{length}"] = _run(chain)
    return found


def _run(chain: Record) -> dict[str, Any]:
    """One chain, packed; `forward` only where some points were reached backwards in time."""
    backward = {} if chain.forward.all() else {"forward": "".join("01"[int(yes)] for yes in chain.forward)}
    return {
        "draws": packed(chain.draws, POSITION),
        "count": packed(chain.visited),
        "path": packed(chain.path, POSITION),
        "error": packed(chain.error, ERROR),
        "chance": packed(chain.chance, CHANCE),
        **backward,
    }


def _target(name: str) -> dict[str, Any]:
    target = folders.module("targets", name)
    title, text = folders.said(target)
    marginals = []
    for axis in (0, 1):
        _, density, mass = exact.curve(target, axis)
        marginals.append({"density": [float(f"{x:.3g}") for x in density], "mass": [float(f"{x:.3g}") for x in mass]})
    lines = [[packed(line, POSITION) for line in level] for level in exact.outlines(target)]
    return {
        "name": name, "title": title, "text": text, "axes": target.AXES, "box": target.BOX,
        "outlines": lines, "marginals": marginals,
    }  # fmt: skip


def _sampler(name: str) -> dict[str, Any]:
    sampler = folders.module("samplers", name)
    title, text = folders.said(sampler)
    return {
        "name": name, "title": title, "text": text, "size": sampler.SIZE, "verdict": sampler.VERDICT,
        "accepts": sampler.kernel.TARGET_ACCEPT is not None,
        "sizes": [f"{size:g}" for size in sampler.SIZES], "lengths": list(sampler.LENGTHS),
    }  # fmt: skip
