"""`sampled`: one kernel on many data sets as one batch, every data set with an adaptation of its own.

A data set's chains are those of `zoo.infer.chains.fit` on it alone, noise and adaptation included: nothing is pooled.
(To rounding, where that one sums many rows in pieces.)
No data set waits for another: one may be in warm-up while another samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from .centred import Intercept, centred, may_centre
from .chains import chains_of, check_target, first_run, weights_of
from .density import Density
from .engine import choose_engine
from .lockstep import Batch, batch_of, varying
from .march import POSITION, Run, noted
from .noise import BLOCK
from .stream import every
from .threads import running_on
from .warmup import Plan, Tuning, conclude, first_memory, first_step_size, learned, next_stride, settle
from .way_in import come_from, on_the_way, way_in_of

# Numbers that a batch of runs may work on at once: their gradients', and their draws'. With so many a step takes a
# millisecond or two, and what a call costs besides is little.
MOST_NUMBERS, ENOUGH_NUMBERS = 2**24, 2**20
Stop = Callable[[], str]
LOOP = (
    "draws", "chains", "warmup", "thin", "init", "step_size", "target_accept", "mass", "centre", "temperature",
    "engine",
)  # fmt: skip
LOOP_ONLY = ("kernel", "keep_warmup", "progress", "max_seconds", "checkpoint", "seed")


@dataclasses.dataclass
class Course:
    """How far one run of the batch is.

    Attributes:
        index: Which run.
        memory: What warm-up remembers.
        kept: Iterations of sampling done.
        rows: The draws, block by block.
    """

    index: int
    memory: Tuning
    kept: int = 0
    rows: list[dict[str, Tensor]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Group:
    """A batch with its runs' courses (None: done), and room for what a block of iterations draws."""

    batch: Batch
    courses: list[Course | None]
    plan: Plan
    wanted: int
    thin: int
    room: dict[str, Tensor]


def sampled(
    problems: Sequence[Problem], kernel: Any, options: dict[str, Any], seeds: Sequence[int], stop: Stop
) -> Iterator[tuple[int, Posterior]]:
    """Posteriors by one kernel with the index of their data set, as they are done; none that `stop` cut short.

    Args:
        problems: Of one model, with data of the same shapes, on `zoo.Data` or a dict.
        kernel: A kernel; where another one is its way in, all data sets first go that way as a batch of that kernel.
        options: All of the kernel's, as for `zoo.infer.chains.fit`.
        seeds: One a problem: chain c's noise is a function of (seed, c).
        stop: Why to end, or "".
    """
    given = {name: options[name] for name in LOOP}
    own = {name: value for name, value in options.items() if name not in (*LOOP, *LOOP_ONLY)}
    chains = chains_of(kernel, given["chains"])
    check_target(kernel, given["target_accept"])
    given["engine"] = _engine(problems[0], given)
    differs, places, way_in = varying(problems), _places(problems, chains, given), way_in_of(kernel, given["warmup"])
    intercept = _intercept(problems[0], kernel, own, given)
    runs = [_run(one, kernel, own, chains, seed, given, intercept) for one, seed in zip(problems, seeds, strict=True)]
    if way_in:
        _come_in(runs, places, differs, given | {"warmup": way_in}, stop)
    for course in _all_done(runs, places, differs, given | {"warmup": given["warmup"] - way_in}, stop):
        yield course.index, _posterior(runs[course.index], course, given["thin"])


def _engine(problem: Problem, given: dict[str, Any]) -> str:
    iterations = given["warmup"] + given["draws"] * given["thin"]
    return choose_engine(given["engine"], Density(problem, "eager"), iterations)


def _come_in(runs: list[Run], places: int, differs: list[bool], given: dict[str, Any], stop: Stop) -> None:
    """The first part of warm-up by another kernel, see `zoo.infer.warmup`."""
    others = [on_the_way(run) for run in runs]
    target = others[0].kernel.TARGET_ACCEPT
    only = given | {"draws": 0, "target_accept": target, "step_size": None, "engine": "eager"}
    for course in _all_done(others, places, differs, only, stop):
        come_from(runs[course.index], others[course.index])


def _intercept(problem: Problem, kernel: Any, own: dict[str, Any], given: dict[str, Any]) -> Intercept | None:
    """Found on one data set for all: the batch is of one graph."""
    target = Density(problem, "eager", given["temperature"])
    return centred(target).intercept if may_centre(kernel, target.dim, own, given["mass"], given["centre"]) else None


def _run(
    problem: Problem, kernel: Any, own: dict[str, Any], chains: int, seed: int, given: dict[str, Any],
    intercept: Intercept | None,
) -> Run:  # fmt: skip
    target = Density(problem, "eager", given["temperature"]).with_intercept(intercept)
    return first_run(target, kernel, own, given["mass"], chains, seed, given["init"])


def _places(problems: Sequence[Problem], chains: int, given: dict[str, Any]) -> int:
    """Data sets at once: enough for a step to be worth its call, no more than keep gradients and draws in memory.

    A place that is free is taken by the next data set; at the end places stay empty, and the fewer those are, the less
    is computed for nothing.
    """
    target = Density(problems[0], "eager")
    rows = target.sites.rows
    enough = -(-ENOUGH_NUMBERS // (chains * target.dim * rows))
    most = MOST_NUMBERS // (chains * target.dim * max(rows, 2 * BLOCK, given["draws"]))
    return min(len(problems), enough, max(1, most))


def _group(runs: list[Run], differs: list[bool], given: dict[str, Any]) -> Group:
    run, thin = runs[0], given["thin"]
    batch = batch_of(runs, differs, given["engine"] == "compiled")
    target = given["target_accept"] or run.setup.target or run.kernel.TARGET_ACCEPT
    plan = Plan(given["warmup"], target, given["mass"], given["step_size"], False)
    shape = (*batch.draw.done.shape, BLOCK)
    like = run.mass.scale
    room = {name: like.new_zeros(shape, dtype=torch.float64) for name in noted(run.kernel)}
    room[POSITION] = like.new_zeros(*shape, run.density.dim)
    return Group(batch, [None] * len(runs), plan, given["draws"] * thin, thin, room)


def _enter(group: Group, place: int, index: int) -> None:
    """The run in a place begins its warm-up."""
    run, plan = group.batch.runs[place], group.plan
    run.tuned["step_size"] = first_step_size(run, 0) if plan.step_size is None else plan.step_size
    group.courses[place] = Course(index, first_memory(run))
    group.batch.write_tuned(place)
    group.batch.stop[place] = 1
    if not plan.warmup:
        _begin_sampling(group, place)


def _all_done(runs: list[Run], places: int, differs: list[bool], given: dict[str, Any], stop: Stop) -> Iterator[Course]:
    """Moves all runs through as many places, until every run is done or `stop` says why not; each one's course."""
    if stop():
        return
    group = _group(runs[:places], differs, given)
    batch, waiting = group.batch, iter(range(places, len(runs)))
    for place in range(places):
        _enter(group, place, place)
    busy = torch.ones(places, dtype=torch.bool, device=batch.stop.device)
    while any(group.courses):
        with running_on(batch.threads):
            batch.step()
        _keep(batch, group.room)
        for place in (busy & (batch.state.completed.amin(1) >= batch.stop)).nonzero()[:, 0].tolist():
            course = group.courses[place]
            assert course is not None
            if not _moved_on(group, place, course):
                continue
            group.courses[place] = None
            yield course
            following = next(waiting, None)
            busy[place] = following is not None
            if following is not None:
                batch.put(place, runs[following])
                _enter(group, place, following)
        if stop():
            return


def _keep(batch: Batch, room: dict[str, Tensor]) -> None:
    """Writes what the chains have completed to its places."""
    done = batch.draw.done.nonzero(as_tuple=True)
    if len(done[0]):
        at = (*done, batch.draw.iteration[done])
        for name, rows in room.items():
            rows[at] = getattr(batch.draw, name)[done].to(rows.dtype)


def _moved_on(group: Group, place: int, course: Course) -> bool:
    """What follows once all chains of a run have come to its stop; whether that was the last."""
    if course.memory.done < group.plan.warmup:
        _learn(group, place, course)
        return not group.wanted and course.memory.done == group.plan.warmup
    run, count = group.batch.runs[place], int(group.batch.stop[place])
    rows = {name: value[place, :, :count] for name, value in group.room.items()}
    rows = every(rows, group.thin, course.kept)  # the room is written over by the next block
    course.rows.append({name: value.clone() for name, value in rows.items()})
    course.kept, run.iteration = course.kept + count, run.iteration + count
    if course.kept < group.wanted:
        _next_block(group, place, course)
    return course.kept == group.wanted


def _learn(group: Group, place: int, course: Course) -> None:
    """A stride of warm-up."""
    batch, run, plan = group.batch, group.batch.runs[place], group.plan
    at, end = run.iteration % BLOCK, int(batch.stop[place])
    stats = {name: rows[place, :, at:end].clone() for name, rows in group.room.items()}
    run.iteration, run.state = run.iteration + end - at, batch.state_of(place)
    course.memory, _ = learned(run, plan, course.memory, stats.pop(POSITION), stats)
    batch.write_state(place)
    if course.memory.done == plan.warmup:
        conclude(run, plan, course.memory)
        if group.wanted:
            _begin_sampling(group, place)
        return
    batch.write_tuned(place)
    if run.iteration % BLOCK == 0:
        batch.new_block(place)
    batch.stop[place] = run.iteration % BLOCK + next_stride(run, plan, course.memory)


def _begin_sampling(group: Group, place: int) -> None:
    run, course = group.batch.runs[place], group.courses[place]
    assert course is not None
    run.state = group.batch.state_of(place)
    settle(run)
    group.batch.write_state(place)
    run.sampling = run.iteration = -(-run.iteration // BLOCK) * BLOCK
    _next_block(group, place, course)


def _next_block(group: Group, place: int, course: Course) -> None:
    group.batch.new_block(place)
    group.batch.stop[place] = min(BLOCK, group.wanted - course.kept)


def _posterior(run: Run, course: Course, thin: int) -> Posterior:
    rows = {name: torch.cat([part[name] for part in course.rows], 1) for name in course.rows[0]}
    whole = rows.pop(POSITION)
    stats = {name: rows[name] for name in run.kernel.STATS}
    name = str(run.kernel.__name__.rpartition(".")[2])
    return Posterior(
        run.density.problem, name, "markov", run.density.constrain(whole), weights=weights_of(run, whole, thin),
        stats=stats, settings=dict(run.tuned),
    )  # fmt: skip
