"""The way in: the first part of a kernel's warm-up by another one, where it is slow far from where the mass is."""

from __future__ import annotations

from typing import Any

from .march import Run, at_start

WAY_IN = 150


def way_in_of(kernel: Any, warmup: int) -> int:
    """How many iterations of warm-up belong to another kernel: some are lost far from where the mass is."""
    return min(WAY_IN, warmup // 3) if hasattr(kernel, "WAY_IN") else 0


def on_the_way(run: Run) -> Run:
    """The chains of a run at their starts, under the kernel that is its way in."""
    way = run.kernel.WAY_IN
    setup, state = at_start(way, run.density, run.kernel.position_of(run.state), {})
    tuned = {"step_size": 1.0, **setup.tuned}
    return Run(run.density, way, setup, run.seed, state, run.mass, tuned, run.watch, width=run.width)


def come_from(run: Run, other: Run) -> None:
    """Puts a run where its way in has led, with the mass learned there."""
    at, run.mass = other.kernel.position_of(other.state).clone(), other.mass
    run.state = run.kernel.init(at, *run.density.value_and_grad(at), run.setup.constants)
