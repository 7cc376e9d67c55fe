"""Stochastic gradient ascent on the ELBO: all restarts at once, noise and batches from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.core.problem import Data

from .adam import Pace, adam, schedule
from .batches import batch_rows
from .checkpoint import Checkpoint
from .convergence import at_rest
from .elbo import Terms
from .engine import MOST_COORDINATES, has_compiler
from .fold import fold
from .graph import COMPILING, trace
from .in_place import compile_in_place
from .large import large_step
from .looped import Looped
from .prepared import ALL, Batch, quiet
from .track import ELBO, STATE, Tensors, Track, first_state, row_of, track
from .variational import Variational

Fit = Variational | Looped
ENGINES = ("auto", "compiled", "eager", "loop")
# A draw's weights are written down once, where inductor would compute them anew for each row of the data: with 16
# restarts of the lecture's network a step takes half the time.
SETTINGS = {"realize_reads_threshold": 2}
LEAST_STEPS = 4000  # below it, tracing alone has finished before a compiler has begun to pay
REPAYS = 800_000_000  # numbers that an ascent passes over, at some 20 ns each: the 10 to 20 s that compiling takes
BLOCK, BLOCK_NUMBERS = 64, 2**22


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


def make_step(fit: Fit, rows: int | None, batch_scale: float) -> Callable[..., Tensors]:
    """step(params, m, v, good, noise, pace[, x, y]) -> (params', m', v', good', row), row as `row_of` makes it.

    A restart whose ELBO or gradient is not finite stays where it is, which the row says; `good` are the last
    parameters at which both were.

    Args:
        fit: The problem and its guide.
        rows: Rows of a batch, one batch for each restart; None: x and y are all data, shared by the restarts.
        batch_scale: n / rows.
    """

    def step(params: Tensor, m: Tensor, v: Tensor, good: Tensor, noise: Tensor, pace: Tensor, *data: Tensor) -> Tensors:
        batch = Batch(data[0], data[1], shared=rows is None) if data else ALL
        grad, terms = fit.gradient(params, noise, batch, batch_scale)
        finite = torch.isfinite(terms.elbo) & torch.isfinite(grad).all(-1)
        moved = (*adam(params, m, v, grad, Pace(*pace.unbind())), params)
        keep = finite.unsqueeze(-1)
        kept = [torch.where(keep, new, old) for new, old in zip(moved, (params, m, v, good), strict=True)]
        return (*kept, row_of(finite, terms))

    return step


def in_place(step: Callable[..., Tensors], example: Tensors) -> tuple[Callable[..., Tensors], str, float]:
    """The step compiled: its state stays in one place, which each step writes over."""
    own = tuple(value.clone() for value in example[:STATE])

    def over(*tensors: Tensor) -> Tensors:
        *after, row = step(*tensors)
        for old, new in zip(tensors, after, strict=False):
            old.copy_(new)
        return (row,)

    call, compiled = compile_in_place(over, own, example[STATE:], **SETTINGS)

    def moved(*tensors: Tensor) -> Tensors:
        for mine, now in zip(own, tensors, strict=False):
            if mine is not now:
                mine.copy_(now)
        return (*own, call(tensors[STATE:])[0].clone())

    return moved, compiled.engine, compiled.seconds


def ready(fit: Fit, source: Source, engine: str, example: Tensors) -> tuple[Callable[..., Tensors], str, float]:
    """The step on the engine; an untraceable guide (Python control flow on its draws) runs as it is.

    A step may write over the state it was given: what is to stay is cloned.
    """
    start, step = time.perf_counter(), make_step(fit, source.separate, source.scale)
    if engine == "compiled":
        return in_place(step, example)
    if engine == "loop":
        return step, engine, 0.0
    try:
        if fit.layout.size > MOST_COORDINATES:
            return large_step(fit, source.size, source.scale, example), "eager", time.perf_counter() - start
        return fold(trace(step, example)), "eager", time.perf_counter() - start
    except Exception:  # whatever the user's guide does to a proxy tensor
        return step, "eager", time.perf_counter() - start


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
    numbers = masked_numbers(fit, source.shape, source.size)
    step = _begin(fit, at, source, choose_engine(engine, fit, steps, numbers), show)
    pace = paces(at, lr)
    watch(at.done, at.state[0])
    while not at.ended and not reason:
        done, offset, rows = at.done, at.done % source.length, []
        noise = source.block(done // source.length)[offset:]
        count = min(len(noise), at.steps - done)
        batches, rates = source.rows(done, count), pace[done : done + count].unbind()
        with quiet(), torch.set_grad_enabled(False):
            for i in range(count):
                *state, row = step(*at.state, noise[i], rates[i], *batches(i))
                at.state = tuple(state)
                rows.append(row)
                watch(done + i + 1, at.state[0])
                if reason := stop():
                    break
        bad = at.add(rows, done - offset)
        if len(rows) == count:  # a block's end, where an ascent that is never stopped looks around, too
            at.bad = bad
            if rests(at):
                pace = paces(at, lr)
            if kept is not None and kept.due():
                at.save()
        show(at.done, f"elbo {float(rows[-1][ELBO].max()):.5g}")
    at.save()
    return ended_at(at, bad, "" if at.ended else reason)


def _begin(fit: Fit, at: Track, source: Source, engine: str, show: Callable[..., None]) -> Callable[..., Tensors]:
    """The step on its engine, which the track is told."""
    first = (*first_state(fit.start), source.block(0)[0], paces(at, 1.0)[0], *source.rows(0, 1)(0))
    engine = engine if at.kept is None else at.kept.engine(engine)
    show(at.done, COMPILING if engine == "compiled" else "")
    with quiet():
        step, engine, compiling = ready(fit, source, engine, first)
    at.begin(engine, compiling)
    return step


def paces(at: Track, lr: float) -> Tensor:
    """What Adam gets at each step, (step, 3)."""
    return torch.stack(schedule(at.steps, lr, at.state[0]), 1)


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


class Source:
    """Noise and batches of every step, functions of (seed, restart, step) only.

    Args:
        fit: The problem and its guide.
        particles, batch_size: As for `climb`.
        seeds: (seed, restart) of each row of parameters.
        own: x (row, n, d) and y (row, n, ...) where every row has data of its own; None: the problem's, for all.
    """

    def __init__(
        self, fit: Fit, particles: int, batch_size: int | None, seeds: Sequence[tuple[int, int]],
        own: tuple[Tensor, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.fit, self.size, self.seeds, self.own = fit, batch_size, seeds, own
        data = fit.problem.data
        rows = len(data.x) if isinstance(data, Data) and batch_size is None else batch_size
        self.shape = (particles, rows) if fit.by_row and rows else (particles,)
        self.length = max(1, min(BLOCK, BLOCK_NUMBERS // max(1, math.prod(self.shape) * fit.noise_for(self.size))))
        self.data: Any = own or ((data.x, data.y) if isinstance(data, Data) else None)
        self.separate = rows if own else batch_size
        self.scale = 1.0 if batch_size is None else len(fit.problem.tensor) / batch_size

    def block(self, index: int) -> tuple[Tensor, ...]:
        """Noise (row, particle, [row of data,] noise_size) of each step of one block."""
        shape = (self.length, *self.shape)
        normals = [self.fit.noise(seed, r, index, shape, rows=self.size) for seed, r in self.seeds]
        return torch.stack(normals, 1).unbind()

    def rows(self, first: int, count: int) -> Callable[[int], tuple[Any, ...]]:
        """i -> the data of step first + i: (x, y), or nothing for a problem on a dict."""
        if self.data is None:
            return lambda i: ()
        x, y = self.data
        if self.size is None:
            return lambda i: (x, y)
        n = len(self.fit.problem.tensor)
        drawn = [batch_rows(n, self.size, seed=s, restart=r, first=first, count=count) for s, r in self.seeds]
        places = torch.stack(drawn).to(x.device)
        if self.own is None:
            return lambda i: (x[places[:, i]], y[places[:, i]])
        row = torch.arange(len(places), device=x.device)[:, None]
        return lambda i: (x[row, places[:, i]], y[row, places[:, i]])
