"""`sampled`: one kernel on many data sets as one batch, every data set with an adaptation of its own.

A data set's chains are those of `zoo.infer.chains.fit` on it alone, noise and adaptation included: nothing is pooled.
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

from . import adapt
from .chains import chains_of, check_target, run_from, weights_of
from .density import Density
from .engine import choose_engine
from .lockstep import Batch, batch_of, varying
from .march import POSITION, Run
from .noise import BLOCK
from .starts import starts
from .stream import every
from .threads import running_on
from .warmup import Plan, Tuning, conclude, first_memory, first_step_size, learned, settle

# Numbers that a batch of runs may work on at once: their gradients', and their draws'.
MOST_NUMBERS = 2**24
Stop = Callable[[], str]
LOOP = ("draws", "chains", "warmup", "thin", "init", "step_size", "target_accept", "mass", "temperature", "engine")
LOOP_ONLY = ("kernel", "keep_warmup", "progress", "max_seconds", "checkpoint", "seed")


@dataclasses.dataclass
class Course:
    """How far one run of the batch is.

    Attributes:
        index: Which data set.
        memory: What warm-up remembers.
        windows: When it renews the mass.
        kept: Iterations of sampling done.
        rows: The draws, block by block.
    """

    index: int
    memory: Tuning
    windows: tuple[int, set[int]]
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
        kernel: A kernel without a way in of another kernel.
        options: All of the kernel's, as for `zoo.infer.chains.fit`.
        seeds: One a problem: chain c's noise is a function of (seed, c).
        stop: Why to end, or "".
    """
    given = {name: options[name] for name in LOOP}
    own = {name: value for name, value in options.items() if name not in (*LOOP, *LOOP_ONLY)}
    chains = chains_of(kernel, given["chains"])
    check_target(kernel, given["target_accept"])
    size = _group_size(problems, chains, given)
    group = None
    for first in range(0, len(problems), size):
        if stop():
            return
        places = [min(first + i, len(problems) - 1) for i in range(size)]
        runs = [_run(problems[i], kernel, own, chains, seeds[i], given) for i in dict.fromkeys(places)]
        runs += [runs[-1]] * (size - len(runs))  # a full house, for the sake of shapes
        group = _group(runs, varying(problems), given) if group is None else _again(group, runs)
        for place in range(size):
            if first + place < len(problems):
                _enter(group, place, first + place)
        yield from _all_done(group, stop)


def _run(problem: Problem, kernel: Any, own: dict[str, Any], chains: int, seed: int, given: dict[str, Any]) -> Run:
    target = Density(problem, "eager", given["temperature"])
    return run_from(starts(target, chains, seed, given["init"]), target, kernel, own, given["mass"], seed)


def _group_size(problems: Sequence[Problem], chains: int, given: dict[str, Any]) -> int:
    """Data sets at once: as many as keep gradients and draws in memory, evenly split."""
    target = Density(problems[0], "eager")
    rows = max(site.shape[0] if site.shape else 1 for site in target.sites.observed.values())
    work = chains * target.dim * max(rows, 2 * BLOCK, given["draws"])
    groups = -(-len(problems) // max(1, MOST_NUMBERS // work))
    return -(-len(problems) // groups)


def _group(runs: list[Run], differs: list[bool], given: dict[str, Any]) -> Group:
    run, thin = runs[0], given["thin"]
    total = given["warmup"] + given["draws"] * thin
    batch = batch_of(runs, differs, choose_engine(given["engine"], run.density, total) == "compiled")
    target = given["target_accept"] or run.setup.target or run.kernel.TARGET_ACCEPT
    plan = Plan(given["warmup"], target, given["mass"], given["step_size"], False)
    shape = (*batch.draw.done.shape, BLOCK)
    like = run.mass.scale
    room = {name: like.new_zeros(shape, dtype=torch.float64) for name in (*run.kernel.STATS, "accept")}
    room[POSITION] = like.new_zeros(*shape, run.density.dim)
    return Group(batch, [None] * len(runs), plan, given["draws"] * thin, thin, room)


def _again(group: Group, runs: list[Run]) -> Group:
    """The same batch, compiled already, with other runs."""
    group.batch.load(runs)
    return group


def _enter(group: Group, place: int, index: int) -> None:
    """A run begins its warm-up."""
    run, plan = group.batch.runs[place], group.plan
    run.tuned["step_size"] = first_step_size(run, 0) if plan.step_size is None else plan.step_size
    group.courses[place] = Course(index, first_memory(run), adapt.windows(plan.warmup))
    group.batch.write_tuned(place)
    group.batch.stop[place] = 1
    if not plan.warmup:
        _begin_sampling(group, place)


def _all_done(group: Group, stop: Stop) -> Iterator[tuple[int, Posterior]]:
    """Moves the batch on until every run is done."""
    batch = group.batch
    busy = torch.tensor([course is not None for course in group.courses], device=batch.stop.device)
    while any(group.courses):
        with running_on(batch.compiled.threads):
            batch.step()
        _keep(batch, group.room)
        for place in (busy & (batch.state.completed.amin(1) >= batch.stop)).nonzero()[:, 0].tolist():
            found = _moved_on(group, place)
            if found is not None:
                group.courses[place], busy[place] = None, False
                yield found
        if stop():
            return


def _keep(batch: Batch, room: dict[str, Tensor]) -> None:
    """Writes what the chains have completed to its places."""
    done = batch.draw.done.nonzero(as_tuple=True)
    if len(done[0]):
        at = (*done, batch.draw.iteration[done])
        for name, rows in room.items():
            rows[at] = getattr(batch.draw, name)[done].to(rows.dtype)


def _moved_on(group: Group, place: int) -> tuple[int, Posterior] | None:
    """What follows once all chains of a run have come to its stop; its posterior, if that was the last."""
    course = group.courses[place]
    assert course is not None
    if course.memory.done < group.plan.warmup:
        _learn(group, place, course)
        return None
    run, count = group.batch.runs[place], int(group.batch.stop[place])
    rows = {name: value[place, :, :count] for name, value in group.room.items()}
    course.rows.append({name: value.clone() for name, value in every(rows, group.thin, course.kept).items()})
    course.kept, run.iteration = course.kept + count, run.iteration + count
    if course.kept == group.wanted:
        return course.index, _posterior(run, course, group.thin)
    _next_block(group, place, course)
    return None


def _learn(group: Group, place: int, course: Course) -> None:
    """One more iteration of warm-up."""
    batch, run, plan = group.batch, group.batch.runs[place], group.plan
    at = run.iteration % BLOCK
    position, accept = (group.room[name][place, :, at].clone() for name in (POSITION, "accept"))
    run.iteration, run.state = run.iteration + 1, batch.state_of(place)
    course.memory, _ = learned(run, plan, course.windows, course.memory, position[:, None], accept)
    if course.memory.done == plan.warmup:
        conclude(run, plan, course.memory)
        _begin_sampling(group, place)
        return
    batch.write_tuned(place)
    if run.iteration % BLOCK == 0:
        batch.new_block(place)
    batch.stop[place] = run.iteration % BLOCK + 1


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
