"""Stochastic gradient ascent on the ELBO: all restarts at once, noise and batches from outside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .adam import schedule
from .checkpoint import Checkpoint
from .convergence import at_rest
from .elbo import Terms
from .engine import MOST_COORDINATES, has_compiler
from .graph import COMPILING
from .prepared import quiet
from .step_source import Fit, Source
from .steps import Advance, ready
from .track import ELBO, Tensors, Track, first_state, track

ENGINES = ("auto", "compiled", "eager", "loop")
LEAST_STEPS = 4000  # below it, tracing alone has finished before a compiler has begun to pay
REPAYS = 800_000_000  # numbers that an ascent passes over, at some 20 ns each: the 10 to 20 s that compiling takes


class Climb(NamedTuple):
    """Where an ascent ended.

    `params` (restart, size), `history` {term: (restart, step)}, `bad` (step, restart) of the first value that
    was not finite, `reason` it stopped early or "", seconds spent on compiling and on climbing.
    """

    params: Tensor
    history: dict[str, Tensor]
    bad: tuple[int, int] | None
    reason: str
    engine: str
    compiling: float
    seconds: float


def choose_engine(engine: str, fit: Fit, steps: int, numbers: int = 0) -> str:
    """The engine to use; "auto" never depends on a timing.

    It is "loop" where the guide needs it; else, on a machine with a compiler, "compiled" from 4,000 steps on for at
    most 50,000 parameters, and wherever steps x `masked_numbers` reach 8e8; else "eager": traced once, not compiled.

    Args:
        engine: What was asked for.
        fit: The problem and its guide.
        steps: Of the ascent.
        numbers: Of `masked_numbers`.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}.")
    if fit.engine == "loop":
        if engine in ("compiled", "eager"):
            raise ValueError(f"this guide runs by engine='loop' only, got {engine!r}. Use 'auto'.")
        return "loop"
    if engine != "auto":
        return engine
    pays = (steps >= LEAST_STEPS and fit.layout.size <= MOST_COORDINATES) or steps * numbers >= REPAYS
    return "compiled" if pays and has_compiler(fit.start.device) else "eager"


def masked_numbers(fit: Fit, shape: tuple[int, ...], rows: int | None) -> int:
    """Parameters and masks of a step where every row has its own: what an uncompiled one passes over 20 times.

    0 for other guides, and for kernels: what convolutions cost a compiler does not save.

    Args:
        fit: The problem and its guide.
        shape: (particle, row) of the noise.
        rows: Of a batch; None: all data.
    """
    if not fit.by_row or any(len(kernel) == 4 for kernel in fit.layout.shapes.values()):
        return 0
    return len(fit.start) * (fit.layout.size + math.prod(shape) * fit.noise_for(rows))


def climb(
    fit: Fit,
    *,
    steps: int,
    lr: float,
    particles: int,
    batch_size: int | None,
    seed: int,
    engine: str,
    early: bool = False,
    stop: Callable[[], str] = lambda: "",
    show: Callable[..., None] = lambda done, text="": None,
    watch: Callable[[int, Tensor], None] = lambda done, params: None,
    kept: Checkpoint | None = None,
) -> Climb:
    """Runs Adam for `steps` steps, or until `stop` or a value that is not finite.

    `early`: once all ELBO curves lie still at the constant rate, after t steps, the rate falls over the next t: what
    comes out is a run of 2 t steps, bit for bit. Looks are a quarter further apart each time: every one of them may
    take noise for rest.

    `watch(done, params)` sees the parameters (restart, size) at the start and after every step, and clones what it
    keeps. With a checkpoint it goes on from the step that is stored there.
    """
    source = Source(fit, particles, batch_size, [(seed, r) for r in range(len(fit.start))])
    at = track(fit.start, steps, early, kept, source.length)
    reason, bad = "", at.bad
    if at.ended:
        return ended_at(at, bad, reason)
    chosen = choose_engine(engine, fit, steps, masked_numbers(fit, source.shape, source.size))
    advance, pace = _begin(fit, at, source, chosen, show), paces(at, lr)
    watch(at.done, at.state[0])
    while not at.ended and not reason:
        index, offset = divmod(at.done, source.length)
        begin = at.done - offset
        which = range(offset, min(source.length, at.steps - begin))

        def look(i: int, state: Tensors, begin: int = begin) -> bool:
            watch(begin + i + 1, state[0])
            return bool(stop())

        with quiet(), torch.set_grad_enabled(False):
            now = piece(pace, begin, source.length)
            at.state, said = advance(at.state, source.noise(index), now, source.rows(index), which, look)
        bad, reason = at.add(said, begin), stop()
        whole = len(said) == len(which)
        if whole or len(at.state[0]) == 1:  # a single restart stands still since: the block's rest would change nothing
            at.bad = bad
        if whole:  # a block's end, where an ascent that is never stopped looks around, too
            if rests(at):
                pace = paces(at, lr)
            if kept is not None and kept.due():
                at.save()
        show(at.done, f"elbo {float(said[-1][ELBO].max()):.5g}")
    at.save()
    return ended_at(at, bad, "" if at.ended else reason)


def _begin(fit: Fit, at: Track, source: Source, engine: str, show: Callable[..., None]) -> Advance:
    """The steps on their engine, which the track is told."""
    engine = engine if at.kept is None else at.kept.engine(engine)
    show(at.done, COMPILING if engine == "compiled" else "")
    with quiet():
        now = piece(paces(at, 1.0), 0, source.length)
        advance, engine, compiling = ready(fit, source, engine, first_state(fit.start), now)
    at.begin(engine, compiling)
    return advance


def paces(at: Track, lr: float) -> Tensor:
    """What Adam gets at each step, (step, 3)."""
    return torch.stack(schedule(at.steps, lr, at.state[0]), 1)


def piece(pace: Tensor, begin: int, length: int) -> Tensor:
    """Steps begin, begin + 1, ... of a pace, `length` of them; of those after its end, its last."""
    steps = torch.arange(begin, begin + length, device=pace.device)
    return pace[steps.clamp(max=len(pace) - 1)]


def rests(at: Track) -> bool:
    """Looks, if it is time to, whether the ELBO lies still; then sets the end at twice the steps done."""
    if not at.early or not at.look <= at.done < at.steps / 2:
        return False
    at.look = at.done * 5 // 4
    # Every restart over the last half of the steps, a quarter against a quarter.
    if not all(at_rest(curve, pieces=4) for curve in at.history.whole()["elbo"].cpu()):
        return False
    at.steps, at.early = 2 * at.done, False
    return True


def ended_at(at: Track, bad: Any, reason: str) -> Climb:
    """Where a track is, as a result."""
    whole = at.history.whole()
    steps = bad[0] + 1 if bad else at.done
    history = {name: whole[name][:, :steps].cpu() for name in Terms._fields}
    return Climb(at.state[3] if bad else at.state[0], history, bad, reason, at.engine, at.compiling, at.seconds)
