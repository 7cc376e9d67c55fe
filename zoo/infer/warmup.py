"""Warm-up: step size, mass and a kernel's own numbers are tuned, all shared by the chains.

A kernel may say how: `mean_accept(accept)` (chain, iteration) -> one number, where it is not the mean; and
`begin(length) -> memory`, `tune(memory, rise, accept, step_size, max_steps) -> memory` with `memory.log_length` and
`memory.average`, `rescaled(memory, by) -> memory` (log lengths grow by `by`), where it learns a trajectory length:
its state then has `seen`, and its draws `rise`, see `zoo.infer.trajectory`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import adapt, mass
from .journal import Journal
from .march import POSITION, Run, Show, Stats, Stop, advance, put_on, restore
from .noise import BLOCK
from .seeds import block_seed
from .way_in import come_from, on_the_way, way_in_of

STEPS_IN = 10


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


class Tuning(NamedTuple):
    """What warm-up remembers from one stride to the next, beside the run itself.

    `done` iterations; the acceptance's dual averaging; each chain's spread in this window and, where directions are
    learned, its positions; the climb of a trajectory length; each chain's recent acceptance.
    """

    done: int
    averaging: adapt.DualAveraging
    spread: adapt.Spread
    window: list[Tensor]
    climb: Any
    recent: Tensor


def warm(run: Run, plan: Plan, journal: Journal, stop: Stop, show: Show) -> bool:
    """All of warm-up, from where the journal says that it is; False where `stop` ended it."""
    way_in = way_in_of(run.kernel, plan.warmup)
    if way_in and not journal.past("way in") and not _come_in(run, plan._replace(warmup=way_in), journal, stop, show):
        return False
    if journal.past("warmup"):
        return True
    saved = journal.take("warmup")
    if saved is None:
        run.tuned["step_size"] = first_step_size(run, 0) if plan.step_size is None else plan.step_size
    plan = plan._replace(warmup=plan.warmup - way_in)
    if not _warm_up(run, plan, saved, "warmup", journal, stop, show):
        return False
    settle(run)
    return True


def _come_in(run: Run, plan: Plan, journal: Journal, stop: Stop, show: Show) -> bool:
    """The first part of warm-up by another kernel. As `warm`."""
    other = on_the_way(run)
    journal.compiled_in(put_on(journal.engine, other)[1])
    saved = journal.take("way in")
    if saved is None:
        other.tuned["step_size"] = first_step_size(other, 0)
    plan = plan._replace(target=other.kernel.TARGET_ACCEPT, step_size=None)
    if not _warm_up(other, plan, saved, "way in", journal, stop, show):
        return False
    come_from(run, other)
    return True


def _warm_up(run: Run, plan: Plan, saved: Any, stage: str, journal: Journal, stop: Stop, show: Show) -> bool:
    """Tunes `run`, a few iterations of all chains at a time, from the beginning or from what was saved; as `warm`."""
    if saved is not None:
        restore(run, saved["run"])
    memory = first_memory(run) if saved is None else _restored(run, saved["tuning"])
    while memory.done < plan.warmup:
        positions, stats, completed = advance(run, next_stride(run, plan, memory), stop, True)
        if not completed:
            journal.write(stage, run, functools.partial(_packed, memory))
            return False
        if plan.keep:
            journal.warmup.add({POSITION: positions, **{name: stats[name] for name in run.kernel.STATS}})
        memory, accept = learned(run, plan, memory, positions, stats)
        show(memory.done, f"warm-up, accept {accept:.2f}, step {run.tuned['step_size']:.2g}")
        journal.at_boundary(stage, run, functools.partial(_packed, memory))
    conclude(run, plan, memory)
    run.watch.awake = True
    return True


def conclude(run: Run, plan: Plan, memory: Tuning) -> None:
    """At warm-up's end the step size and the length become the averages of those that were tried."""
    if plan.warmup and plan.target is not None:
        _set_step(run, plan, adapt.average(memory.averaging))
    if memory.climb is not None and memory.climb.time:
        run.tuned["length"] = math.exp(memory.climb.average)


def first_memory(run: Run) -> Tuning:
    """The memory that warm-up begins with."""
    chains = len(run.state.completed)
    averaging, spread = adapt.restart(run.tuned["step_size"]), adapt.no_spread(run.mass.scale, chains)
    return Tuning(0, averaging, spread, [], _first_climb(run), torch.ones(chains, dtype=torch.float64))


def _packed(memory: Tuning) -> dict[str, Any]:
    """A memory as a file holds it."""
    return {"tuning": memory._asdict() | {"window": [torch.cat(memory.window, 1)] if memory.window else []}}


def _restored(run: Run, saved: dict[str, Any]) -> Tuning:
    """The inverse of `_packed`, once read from a file."""
    climb = None if saved["climb"] is None else type(run.kernel.begin(1.0))(**saved["climb"])
    averaging, spread = adapt.DualAveraging(**saved["averaging"]), adapt.Spread(**saved["spread"])
    return Tuning(**saved | {"averaging": averaging, "spread": spread, "climb": climb})


def _settled(plan: Plan) -> tuple[int, int, set[int]]:
    """When the first window of the mass begins, when a trajectory length may be learned, when windows end."""
    first, ends = adapt.windows(plan.warmup)
    return first, sorted(ends)[:2][-1] if ends else first, ends


def next_stride(run: Run, plan: Plan, memory: Tuning) -> int:
    """How many iterations the chains do before the next `learned`; within one block of noise."""
    first, settled, ends = _settled(plan)
    since = memory.done - max((end for end in ends if end <= memory.done), default=0)
    block = memory.done + BLOCK - run.iteration % BLOCK
    return adapt.stride(memory.done, since, (first, settled, *ends, plan.warmup, block))


def learned(run: Run, plan: Plan, memory: Tuning, positions: Tensor, stats: Stats) -> tuple[Tuning, float]:
    """What `next_stride` more iterations teach; the run's step size, mass and length follow.

    Args:
        run, plan, memory: As they were before.
        positions: (chain, iteration, dim).
        stats: (chain, iteration) each.

    Returns:
        The memory, and the acceptance tuned to.
    """
    first, settled, ends = _settled(plan)
    done, accept = memory.done + positions.shape[1], stats["accept"]
    pooled, recent = _pooled(run, accept, memory.recent)
    averaging, spread, window = memory.averaging, memory.spread, memory.window
    step_size = run.tuned["step_size"]
    if plan.target is not None:
        averaging = adapt.update(averaging, pooled, plan.target)
        _set_step(run, plan, adapt.now(averaging))
    climb = _tune(run, memory.climb, stats, step_size, done > settled)
    if done > first:
        spread = adapt.add(spread, positions)
        window = [*window, positions] if plan.kind in ("low_rank", "dense") else window
    memory = Tuning(done, averaging, spread, window, climb, recent)
    return (_renewed(run, plan, memory) if done in ends else memory), pooled


def _renewed(run: Run, plan: Plan, memory: Tuning) -> Tuning:
    """At a window's end: the mass that it taught, with a step size and a window begun anew."""
    before, run.mass = run.mass, _new_mass(run, plan.kind, memory.spread, memory.window)
    by = _by(before, run.mass)
    guess = plan.target is None or memory.done == min(_settled(plan)[2])
    # A mass that is learned again is another by little: from then on what dual averaging has found goes on. (Where its
    # directions are others, too, a few of the window's iterations find that out.)
    size = first_step_size(run, memory.done) if guess else adapt.average(memory.averaging) * math.exp(by)
    _set_step(run, plan, size)
    averaging = adapt.restart(run.tuned["step_size"], 10.0 if guess else 1.0)
    spread = adapt.no_spread(run.mass.scale, len(memory.recent))
    run.watch.awake = True
    return memory._replace(averaging=averaging, spread=spread, window=[], climb=_rescaled(run, memory.climb, by))


def _by(before: mass.Mass, after: mass.Mass) -> float:
    """By how much log times grow with another mass: in units of its scales' geometric mean."""
    return float((before.scale.log() - after.scale.log()).mean())


def _set_step(run: Run, plan: Plan, value: float) -> None:
    if plan.step_size is None:
        run.tuned["step_size"] = value


def _pooled(run: Run, accept: Tensor, recent: Tensor) -> tuple[float, Tensor]:
    own = getattr(run.kernel, "mean_accept", None)
    return (own(accept), recent) if own else adapt.pooled(accept, recent.to(accept))


def _new_mass(run: Run, kind: str, spread: adapt.Spread, window: list[Tensor]) -> mass.Mass:
    scale = adapt.scale(spread, run.mass.scale)
    if kind in mass.FIXED:
        return _with_mean_of_f(run, scale)
    scaled = run.mass._replace(scale=scale)
    return scaled if kind == "diagonal" else mass.stretched(torch.cat(window, 1), kind, scaled)


def _with_mean_of_f(run: Run, scale: Tensor) -> mass.Mass:
    """A mass that is not learned, but for the mean of f: half way, in logarithms, from its sd to the prior's.

    In units of its sd it would be as slow as weights that the data say nothing of, and all of f with it; in the prior's
    it would need steps as small as without `zoo.infer.centred`.
    """
    if run.density.intercept is None or run.width is None:
        return run.mass
    columns = torch.tensor(run.density.intercept.columns, device=scale.device)
    between = (run.width * scale).sqrt()
    return run.mass._replace(scale=run.mass.scale.index_copy(0, columns, between[columns]))


def _first_climb(run: Run) -> Any:
    if not hasattr(run.kernel, "tune"):
        return None
    run.tuned["length"] = run.tuned["step_size"]
    return run.kernel.begin(run.tuned["length"])


def _tune(run: Run, climb: Any, stats: Stats, step_size: float, settled: bool) -> Any:
    """Steps of the climb, by trajectories of steps of a size; while chains come in, trajectories of some 10 steps.

    What is learned of the length on the way in is wrong, and single steps take a hundred times as long to come in.
    """
    if climb is None:
        return None
    most = int(run.setup.constants["max_steps"])
    if not settled:
        run.tuned["length"] = min(STEPS_IN, most / 2) * run.tuned["step_size"]
        run.state = run.state._replace(seen=torch.zeros_like(run.state.seen))
        return run.kernel.begin(run.tuned["step_size"])
    climb = run.kernel.tune(climb, stats["rise"], stats["accept"], step_size, most)
    run.tuned["length"] = math.exp(climb.log_length)
    return climb


def _rescaled(run: Run, climb: Any, by: float) -> Any:
    """With another mass, time has another unit; the climb goes on from there."""
    if climb is None:
        return None
    climb = run.kernel.rescaled(climb, by)
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


def settle(run: Run) -> None:
    """Lets the kernel make its state ready for sampling, if it says how: gradients of fresh batches are at hand."""
    own = getattr(run.kernel, "settle", None)
    if own is None:
        return
    batches = iter(range(run.iteration, run.iteration + BLOCK))

    def gradient(position: Tensor) -> Tensor:
        rows = run.noise["rows"][next(batches) % BLOCK] if "rows" in run.noise else None
        return run.density.value_and_grad(position, rows)[1]

    if not run.noise:  # no warm-up, no block yet
        run.fill_noise()
    run.state = own(run.state, gradient, run.tuned, run.mass, run.setup.constants)
