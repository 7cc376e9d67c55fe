"""Warm-up: step size, mass and a kernel's own numbers are tuned, all shared by the chains.

A kernel may say how: `mean_accept(accept)` (chain,) -> one number, where it is not the mean; and
`begin(length) -> memory`, `tune(memory, state, mass, step_size, max_steps) -> memory` with `memory.log_length` and
`memory.average`, `rescaled(memory, by) -> memory` (log lengths grow by `by`), where it learns a trajectory length.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import adapt, mass
from .engine import eager_drive
from .march import Run, Show, Stats, Stop, advance, at_start
from .noise import BLOCK
from .seeds import block_seed

STEPS_IN = 10
WAY_IN = 150


class Plan(NamedTuple):
    """What warm-up is to do: iterations, target acceptance (None: the kernel has none), kind of mass.

    `step_size`: as given, or None to tune it. `keep`: its draws are wanted; kept unasked they could take more memory
    than the run's own.
    """

    warmup: int
    target: float | None
    kind: str
    step_size: float | None
    keep: bool


def warm(run: Run, plan: Plan, stop: Stop, show: Show) -> tuple[Tensor, Stats]:
    """All of warm-up; returns what was drawn in it if that is kept: positions (chain, warmup, dim) and stats."""
    parts = []
    if hasattr(run.kernel, "WAY_IN") and plan.warmup:
        plan, drawn = _come_in(run, plan, stop, show)
        parts.append(drawn)
    run.tuned["step_size"] = first_step_size(run, 0) if plan.step_size is None else plan.step_size
    parts.append(_warm_up(run, plan, stop, show))
    _settle(run)
    names = parts[-1][1]
    return torch.cat([p for p, _ in parts], 1), {n: torch.cat([stats[n] for _, stats in parts], 1) for n in names}


def _come_in(run: Run, plan: Plan, stop: Stop, show: Show) -> tuple[Plan, tuple[Tensor, Stats]]:
    """The first part of warm-up by another kernel: some are lost far from where the mass is.

    Returns:
        The plan of what is left of warm-up, and what was drawn.
    """
    way = run.kernel.WAY_IN
    setup, state = at_start(way, run.density, run.kernel.position_of(run.state), {})
    other = Run(run.density, way, setup, run.seed, state, run.mass, {"step_size": 1.0, **setup.tuned}, run.watch)
    other.drive = eager_drive(way, run.density, setup.constants)
    other.tuned["step_size"] = first_step_size(other, 0)
    iterations = min(WAY_IN, plan.warmup // 3)
    drawn = _warm_up(other, plan._replace(warmup=iterations, target=way.TARGET_ACCEPT, step_size=None), stop, show)
    at, run.mass = way.position_of(other.state), other.mass
    run.state = run.kernel.init(at, *run.density.value_and_grad(at), run.setup.constants)
    return plan._replace(warmup=plan.warmup - iterations), drawn


def _warm_up(run: Run, plan: Plan, stop: Stop, show: Show) -> tuple[Tensor, Stats]:
    """Tunes `run`, one iteration of all chains at a time; returns what it drew if that is kept, as `collect`."""
    first, ends = adapt.windows(plan.warmup)
    settled = sorted(ends)[:2][-1] if ends else first
    averaging = adapt.restart(run.tuned["step_size"])
    spread = adapt.no_spread(run.mass.scale, len(run.state.completed))
    window: list[Tensor] = []
    climb, recent = _first_climb(run), torch.ones(len(run.state.completed), dtype=torch.float64)
    seen: list[tuple[Tensor, Stats]] = []
    for i in range(1, plan.warmup + 1):
        position, stats, completed = advance(run, 1, stop)
        if not completed:
            break
        seen += [(position, stats)] if plan.keep else []
        accept, recent = _pooled(run, stats["accept"][:, 0], recent)
        if plan.target is not None:
            averaging = adapt.update(averaging, accept, plan.target)
            _set_step(run, plan, adapt.now(averaging))
        climb = _tune(run, climb, i > settled)
        if i > first:
            spread = adapt.add(spread, position[:, 0])
            window += [position] if plan.kind in ("low_rank", "dense") else []
        if i in ends:
            before, run.mass = run.mass, _learned(run, plan.kind, spread, window)
            spread, window = adapt.no_spread(run.mass.scale, len(run.state.completed)), []
            _set_step(run, plan, first_step_size(run, i))
            climb = _rescaled(run, climb, before)
            averaging = adapt.restart(run.tuned["step_size"])
            run.watch.awake = True
        show(i, f"warm-up, accept {accept:.2f}, step {run.tuned['step_size']:.2g}")
    if plan.warmup and plan.target is not None:
        _set_step(run, plan, adapt.average(averaging))
    if climb is not None and climb.time:
        run.tuned["length"] = math.exp(climb.average)
    run.watch.awake = True
    return _joined(run, seen)


def _joined(run: Run, seen: list[tuple[Tensor, Stats]]) -> tuple[Tensor, Stats]:
    if not seen:
        return run.mass.scale.new_zeros(len(run.state.completed), 0, run.density.dim), {}
    names = run.kernel.STATS
    return torch.cat([p for p, _ in seen], 1), {n: torch.cat([stats[n] for _, stats in seen], 1) for n in names}


def _set_step(run: Run, plan: Plan, value: float) -> None:
    if plan.step_size is None:
        run.tuned["step_size"] = value


def _pooled(run: Run, accept: Tensor, recent: Tensor) -> tuple[float, Tensor]:
    own = getattr(run.kernel, "mean_accept", None)
    return (own(accept), recent) if own else adapt.pooled(accept, recent.to(accept))


def _learned(run: Run, kind: str, spread: adapt.Spread, window: list[Tensor]) -> mass.Mass:
    if kind == "unit":
        return run.mass
    scaled = run.mass._replace(scale=adapt.scale(spread, run.mass.scale))
    return scaled if kind == "diagonal" else mass.stretched(torch.cat(window, 1), kind, scaled)


def _first_climb(run: Run) -> Any:
    if not hasattr(run.kernel, "tune"):
        return None
    run.tuned["length"] = run.tuned["step_size"]
    return run.kernel.begin(run.tuned["length"])


def _tune(run: Run, climb: Any, settled: bool) -> Any:
    """A step of the climb; while chains still come in from their starts, trajectories of 10 steps on average.

    What is learned of the length on the way in is wrong, and single steps take a hundred times as long to come in.
    """
    if climb is None:
        return None
    step_size, most = run.tuned["step_size"], int(run.setup.constants["max_steps"])
    if not settled:
        run.tuned["length"] = min(STEPS_IN, most / 2) * step_size
        return run.kernel.begin(step_size)
    climb = run.kernel.tune(climb, run.state, run.mass, step_size, most)
    run.tuned["length"] = math.exp(climb.log_length)
    return climb


def _rescaled(run: Run, climb: Any, before: mass.Mass) -> Any:
    """With another mass, time has another unit: that of the scales' geometric mean; the climb goes on from there."""
    if climb is None:
        return None
    climb = run.kernel.rescaled(climb, float((before.scale.log() - run.mass.scale.log()).mean()))
    run.tuned["length"] = math.exp(climb.log_length)
    return climb


def first_step_size(run: Run, when: int) -> float:
    """A step size to begin tuning with, at the chains' present positions."""
    generator = torch.Generator().manual_seed(block_seed(run.seed, 0, when, "step size"))
    at = run.kernel.position_of(run.state)
    normal = torch.randn(at.shape, generator=generator, dtype=torch.float64).to(at)
    own = getattr(run.kernel, "first_step", None)
    size = adapt.reasonable_step(run.density, at, run.mass, normal, 1.0 if own else run.tuned["step_size"])
    return own(size, run.density.dim, run.share) if own else size


def _settle(run: Run) -> None:
    """Lets the kernel make its state ready for sampling, if it says how: gradients of fresh batches are at hand."""
    own = getattr(run.kernel, "settle", None)
    if own is None:
        return
    batches = iter(range(run.iteration, run.iteration + BLOCK))

    def gradient(position: Tensor) -> Tensor:
        rows = run.noise["rows"][next(batches) % BLOCK] if "rows" in run.noise else None
        return run.density.value_and_grad(position, rows)[1]

    if not run.noise:
        run.fill_noise()
    run.state = own(run.state, gradient, run.tuned, run.mass, run.setup.constants)
