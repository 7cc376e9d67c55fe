"""`fitted`: svi on many data sets as one ascent; each has a start, noise, batches and an end of its own.

    ELBO_k(q_k) for every data set k, one gradient for all of them: rows of parameters are restarts with their own y

What data set k gets is what `zoo.infer.methods.svi` gives on it alone, but for rounding (a product of matrices over
many data sets adds in another order), and but for settings: its ELBO is not estimated anew.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from guides.options import names
from zoo.core.local import local_sites
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.core.sites import sites
from zoo.core.tensors import parameters

from .ascent import ENGINES, Climb, choose_engine, ended_at, masked_numbers, paces, piece, rests
from .engine import MOST_COORDINATES
from .methods import svi
from .prepared import Batch, quiet
from .step_source import BLOCK, BLOCK_NUMBERS, Fit, Source
from .steps import Advance, ready
from .threads import running_on, threads_for_size
from .track import Tensors, Track, columns_of, first_state, track

MOST_NUMBERS = 2**24  # that a step, or a block of noise, may hold for all data sets together
Stop = Callable[[], str]


def possible(problem: Problem, asked: dict[str, Any]) -> bool:
    """Whether fits can be one ascent: on `zoo.Data`, in vectorised form, of a small q, no latents of single rows."""
    if asked["engine"] not in ENGINES or asked["engine"] == "loop" or not isinstance(problem.data, Data):
        return False
    if local_sites(problem) or _priors_from_data(problem):
        return False
    fit = _set_up([problem], asked, [0])
    return fit.engine == "vmap" and fit.layout.size <= MOST_COORDINATES


def _priors_from_data(problem: Problem) -> bool:
    """Whether a latent has another prior where y is another one; guides of dropout keep that of the first data set."""
    assert isinstance(problem.data, Data)
    if problem.data.y is None:
        return False
    y = problem.data.y[:1].expand_as(problem.data.y).clone()
    try:
        other = sites(dataclasses.replace(problem, data=dataclasses.replace(problem.data, y=y))).latent
    except ValueError:  # a scale from y's spread, say, which is 0 now
        return True
    own = sites(problem).latent
    pairs = [pair for n in own for pair in zip(parameters(own[n].fn), parameters(other[n].fn), strict=True)]
    return any(not torch.equal(one, two) for one, two in pairs)


def fitted(
    problems: Sequence[Problem], asked: dict[str, Any], seeds: Sequence[int], stop: Stop
) -> Iterator[tuple[int, Posterior]]:
    """Posteriors with the index of their data set, as they are done; none that `stop` cut short.

    Args:
        problems: Of one model, on `zoo.Data` of the same shapes.
        asked: All options of svi.
        seeds: One a problem.
        stop: Why to end, or "".
    """
    keys = ("lr", "particles", "batch_size", "stop", "gradient", "noise_per")
    svi.check(problems[0], **{key: asked[key] for key in keys})
    size = _group_size(problems, asked)
    for first in range(0, len(problems), size):
        group = slice(first, first + size)
        for k, found in _group(problems[group], asked, seeds[group], stop):
            yield first + k, found
        if stop():
            return


def _set_up(problems: Sequence[Problem], asked: dict[str, Any], seeds: Sequence[int]) -> Fit:
    """The guides' parameters (data set x restart, size) at their starts; the problem is that of the first."""
    guide = asked["guide"] if asked["guide"] is not None else (problems[0].guide or "normal")
    options, point = svi.options_of(asked["guide_options"]), names("point", asked["point"])
    prepared = [
        one
        for problem, seed in zip(problems, seeds, strict=True)
        for one in svi.first_runs(problem, guide, options, point, asked["restarts"], seed)
    ]
    return svi.on_engine(problems[0], prepared, gradient=asked["gradient"], noise_per=asked["noise_per"])


def _group_size(problems: Sequence[Problem], asked: dict[str, Any]) -> int:
    """Data sets at once: as many as keep a step and a block of noise in memory, evenly split."""
    fit = _set_up(problems[:1], asked, [0])
    rows, particles = asked["batch_size"] or len(problems[0].tensor), asked["particles"]
    noise = fit.noise_for(asked["batch_size"])
    block = min(BLOCK_NUMBERS, BLOCK * particles * noise * (rows if fit.by_row else 1))
    work = asked["restarts"] * max(fit.layout.size + particles * rows * noise, block)
    groups = -(-len(problems) // max(1, MOST_NUMBERS // work))
    return -(-len(problems) // groups)


def _group(
    problems: Sequence[Problem], asked: dict[str, Any], seeds: Sequence[int], stop: Stop
) -> Iterator[tuple[int, Posterior]]:
    fit, restarts = _set_up(problems, asked, seeds), asked["restarts"]
    if asked["batch_size"] is not None:
        fit.check_batch(asked["batch_size"])
    own = tuple(torch.stack([v for v in column for _ in range(restarts)]) for column in _columns(problems))
    rows = [(seed, r) for seed in seeds for r in range(restarts)]
    n = len(problems[0].tensor)
    batch_size = None if asked["batch_size"] == n else asked["batch_size"]
    source = Source(fit, asked["particles"], batch_size, rows, (own[0], own[1]))
    threads = threads_for_size(n * len(rows), fit.layout.size)
    for k, climbed in _climbs(fit, source, asked, len(problems), threads, stop):
        with running_on(threads):
            start = fit.start[k * restarts : (k + 1) * restarts]
            found = _posterior(fit, problems[k], climbed, asked, seeds[k], start)
        yield k, found


def _columns(problems: Sequence[Problem]) -> tuple[list[Tensor], list[Tensor]]:
    data: list[Any] = [problem.data for problem in problems]
    return [one.x for one in data], [one.y for one in data]


# -- the ascent --------------------------------------------------------------------------------------------


def _climbs(
    fit: Fit, source: Source, asked: dict[str, Any], count: int, threads: int, stop: Stop
) -> Iterator[tuple[int, Climb]]:
    """Moves all data sets on, a block of steps at a time, and gives each ascent when it has ended.

    A data set that has ended stays in its place with rate 0: blocks end where its own ascent would.
    """
    state, restarts, begin = first_state(fit.start), asked["restarts"], 0
    tracks = [track(part, asked["steps"], asked["stop"] == "converged", None, source.length)
              for part in fit.start.split(restarts)]  # fmt: skip
    busy, rates, advance = dict(enumerate(tracks)), dict[int, Tensor](), None
    while busy and not stop():
        index, which = begin // source.length, range(min(source.length, asked["steps"] - begin))
        with quiet(), torch.set_grad_enabled(False), running_on(threads):
            now = _paces(tracks, rates, begin, source.length, asked)
            advance = advance or _steps(fit, source, asked, state, now, tracks)
            state, said = advance(state, source.noise(index), now, source.rows(index), which, lambda i, state: False)
        begin += len(which)
        _look(busy, state, said, restarts)
        ended = {k: at for k, at in busy.items() if at.ended}
        busy = {k: at for k, at in busy.items() if k not in ended}
        for k, at in ended.items():
            yield k, ended_at(at, at.bad, "")


def _steps(
    fit: Fit, source: Source, asked: dict[str, Any], state: Tensors, paces: Tensor, tracks: list[Track]
) -> Advance:
    """The steps of all data sets on their engine, which their tracks are told."""
    numbers = masked_numbers(fit, source.shape, source.size)
    engine = choose_engine(asked["engine"], fit, asked["steps"], numbers)
    advance, engine, seconds = ready(fit, source, engine, state, paces)
    for at in tracks:
        at.begin(engine, seconds / len(tracks))
    return advance


def _paces(tracks: list[Track], rates: dict[int, Tensor], begin: int, length: int, asked: dict[str, Any]) -> Tensor:
    """What Adam gets at each step of a block, (step, 3, row, 1); rate 0 for what has ended. Schedules go to `rates`."""
    for at in tracks:
        if at.steps not in rates:
            rates[at.steps] = paces(at, asked["lr"])
    still = torch.tensor([0.0, 1.0, 1.0]).expand(length, 3).to(tracks[0].state[0])
    each = [still if at.ended else piece(rates[at.steps], begin, length) for at in tracks]
    return torch.stack(each, 2).repeat_interleave(asked["restarts"], 2)[..., None]


def _look(busy: dict[int, Track], state: Tensors, said: Tensor, restarts: int) -> None:
    """Tells the tracks what a block of steps has brought; some may now end earlier."""
    columns = columns_of(said)
    for k, at in busy.items():
        mine = slice(k * restarts, (k + 1) * restarts)
        begin = at.done
        at.state = tuple(part[mine].clone() for part in state)
        at.history.add({name: column[mine] for name, column in columns.items()})
        finite = columns["finite"][mine].T
        if not bool(finite.all()):
            step, restart = (~finite).nonzero()[0].tolist()
            at.bad = begin + step, restart
        rests(at)


# -- after it ----------------------------------------------------------------------------------------------


def _posterior(
    fit: Fit, problem: Problem, climbed: Climb, asked: dict[str, Any], seed: int, start: Tensor
) -> Posterior:
    begun, data = time.perf_counter(), problem.data
    assert isinstance(data, Data)
    batch, rows = Batch(data.x, data.y), []
    for r, flat in enumerate(climbed.params):
        rows.append(svi.drawn(fit, flat, fit.noise(seed, r, 0, (asked["draws"],), "draws"), batch))
    stats = {"lp": torch.stack([row[1] for row in rows]), "logq": torch.stack([row[2] for row in rows])}
    if fit.no_density:
        del stats["logq"]
    return Posterior(
        problem, "svi", "iid", {name: torch.stack([row[0][name] for row in rows]) for name in rows[0][0]},
        stats=stats, history=climbed.history,
        seconds={"compile": climbed.compiling, "warmup": climbed.seconds, "sample": time.perf_counter() - begun},
        settings={"engine": climbed.engine, "point": list(fit.points)},
        outcome=svi.outcome_of(climbed, asked["stop"], start, asked["lr"]),
    )  # fmt: skip
