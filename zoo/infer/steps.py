"""Steps of an ascent, a block of them at a time, on an engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core.problem import Data

from .adam import Pace, adam
from .beside_rows import beside_rows, on_tensors
from .engine import MOST_COORDINATES
from .fold import fold
from .graph import trace
from .in_place import compile_in_place
from .known import Untraceable, asks_for_numbers
from .large import large_step
from .prepared import ALL, Batch
from .step_source import Fit, Rows, Source
from .track import STATE, Tensors, row_of

log = logging.getLogger("zoo")
# A draw's weights are written down once, where inductor would compute them anew for each row of the data: with 16
# restarts of the lecture's network a step takes half the time.
SETTINGS: dict[str, Any] = {"realize_reads_threshold": 2}
Step = Callable[..., Tensors]
# advance(state, noise, paces, rows, which, look) -> state and rows (step, term, restart) of the steps done: those of
# the block that `which` names, until look(i, state) after step i says that it is enough. The state it returns may be
# written over by the next call, and that which `look` sees is.
Advance = Callable[[Tensors, Tensor, Tensor, Rows, range, Callable[[int, Tensors], bool]], tuple[Tensors, Tensor]]


def make_step(fit: Fit, rows: int | None, batch_scale: float) -> Callable[..., Tensors]:
    """step(params, m, v, good, noise, pace, *data) -> (params', m', v', good', row), row as `row_of` makes it.

    data: What `Source.rows` gives: x and y of `Data`, then the tensors beside rows that the graph does not hold.

    A restart whose ELBO or gradient is not finite stays where it is from then on, which the rows say and the NaN in
    its m; `good` are the last parameters at which both were.

    Args:
        fit: The problem and its guide.
        rows: Rows of a batch, one batch for each restart; None: x and y are all data, shared by the restarts.
        batch_scale: n / rows.
    """
    own = 2 if isinstance(fit.problem.data, Data) else 0

    def step(params: Tensor, m: Tensor, v: Tensor, good: Tensor, noise: Tensor, pace: Tensor, *data: Tensor) -> Tensors:
        batch = Batch(data[0], data[1], shared=rows is None) if own else ALL
        grad, terms = on_tensors(fit, data[own:]).gradient(params, noise, batch, batch_scale)
        x, mean, square = adam(params, m, v, grad, Pace(*pace.unbind()))
        # The mean of gradients is not finite where a gradient is not, and where an earlier step was not.
        finite = torch.isfinite(terms.elbo) & torch.isfinite(mean).all(-1)
        moved, old = (x, mean, square, params), (params, torch.full_like(m, torch.nan), v, good)
        keep = finite.unsqueeze(-1)
        kept = [torch.where(keep, new, was) for new, was in zip(moved, old, strict=True)]
        return (*kept, row_of(finite, terms))

    return step


def ready(fit: Fit, source: Source, engine: str, state: Tensors, paces: Tensor) -> tuple[Advance, str, float]:
    """A block's steps on the engine; an untraceable guide (Python control flow on its draws) runs as it is.

    Args:
        fit: The problem and its guide.
        source: What steps are given.
        engine: "compiled", "eager" or "loop".
        state: As `first_state` makes it.
        paces: What Adam gets at each step of a block, (step, 3[, row, 1]).

    Returns:
        The function, the engine that it came to be, seconds of making it.
    """
    start, step = time.perf_counter(), make_step(fit, source.separate, source.scale)
    if engine == "loop":
        return one_by_one(step), engine, 0.0
    if engine == "compiled":
        advance, engine, seconds = compiled_on_any(step, fit, source, state, paces)
        if engine == "compiled":
            return advance, engine, seconds
    example = (*state, source.noise(0)[0], paces[0], *source.rows(0)(0))
    try:
        if fit.layout.size > MOST_COORDINATES:
            step = large_step(fit, source.size, source.scale, example)
        else:
            step = fold(trace(step, example))
    except Exception:  # whatever the user's guide does to a proxy tensor
        pass
    return one_by_one(step), "eager", time.perf_counter() - start


def one_by_one(step: Step) -> Advance:
    """A block of steps, each a call."""

    def advance(
        state: Tensors, noise: Tensor, paces: Tensor, rows: Rows, which: range, look: Callable[[int, Tensors], bool]
    ) -> tuple[Tensors, Tensor]:
        said, normals, rates = [], noise.unbind(), paces.unbind()
        for i in which:
            *moved, row = step(*state, normals[i], rates[i], *rows(i))
            state = tuple(moved)
            said.append(row)
            if look(i, state):
                break
        return state, torch.stack(said)

    return advance


def compiled_on_any(step: Step, fit: Fit, source: Source, state: Tensors, paces: Tensor) -> tuple[Advance, str, float]:
    """The step compiled, given the tensors beside rows from here on, so that other data of their shapes find it.

    Where the model asks for their numbers the graph holds them, as the uncompiled one does. Rows of `Data` it cannot
    hold, since each batch has others: then the step runs uncompiled.
    """
    noise, beside = source.noise(0), beside_rows(fit.problem)
    asks = bool(beside) and asks_for_numbers(lambda: step(*state, noise[0], paces[0], *source.rows(0)(0)))[1]
    source.beside = () if asks else beside
    try:
        made = compiled_block(step, state, noise, paces, source.rows(0)(0))
    except Untraceable as error:
        log.warning("could not compile (%s); running uncompiled", str(error).splitlines()[0][:200])
        made = one_by_one(step), "eager", 0.0
    if made[1] != "compiled":
        source.beside = ()
    return made


def compiled_block(
    step: Step, state: Tensors, noise: Tensor, paces: Tensor, rows: tuple[Any, ...]
) -> tuple[Advance, str, float]:
    """The step compiled. State, noise and what is said stay in one place, where the graph itself finds its step's."""
    found = step(*state, noise[0], paces[0], *rows)[STATE]
    said = found.new_zeros(len(noise), *found.shape)
    at = torch.zeros(1, dtype=torch.long, device=found.device)
    own = (*(value.clone() for value in state), at, said)

    def over(*tensors: Tensor) -> Tensors:
        state, (at, said, noise, paces, *rows) = tensors[:STATE], tensors[STATE:]
        now = noise.index_select(0, at)[0], paces.index_select(0, at)[0]
        *after, row = step(*state, *now, *rows)
        for old, new in zip(state, after, strict=True):
            old.copy_(new)
        said.index_copy_(0, at, row[None])
        at.add_(1)
        return ()

    call, compiled = compile_in_place(over, own, (noise, paces, *rows), **SETTINGS)

    def advance(
        state: Tensors, noise: Tensor, paces: Tensor, rows: Rows, which: range, look: Callable[[int, Tensors], bool]
    ) -> tuple[Tensors, Tensor]:
        for mine, now in zip(own, state, strict=False):
            if mine is not now:
                mine.copy_(now)
        at.fill_(which.start)
        for i in which:
            call((noise, paces, *rows(i)))
            if look(i, own[:STATE]):
                break
        return own[:STATE], said[which.start : i + 1].clone()

    return advance, compiled.engine, compiled.seconds
