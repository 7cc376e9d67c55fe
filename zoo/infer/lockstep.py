"""`Batch`: runs of one kernel on data of their own, moved on by one function of tensors with one more leading axis.

A kernel's step is a pure function of the chains' state, noise, tuned numbers, mass and data, so `vmap` over all of
these at once is the step of many runs, each with a step size, a mass and a length of its own. Chains of one run wait
for each other where its adaptation asks for it; runs never wait for each other: each has a `stop` of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from zoo.core.problem import Problem

from .engine import step_on
from .graph import trace
from .in_place import compile_in_place
from .kernel import Draw
from .march import Run
from .mass import Mass
from .threads import threads_for

Call = Callable[..., tuple[Tensor, ...]]


@dataclasses.dataclass
class Batch:
    """Runs side by side; every tensor has a leading axis (run,).

    Attributes:
        runs: As `zoo.infer.march` knows them; their states and noise are views of the batch's.
        state, draw: The kernel's state and what it completed last, (run, chain, ...).
        noise: {name: (run, iteration, chain, ...)}: each run's present block.
        tuned: {name: (run,)}.
        mass: (run, dim), ...
        stop: (run,) iterations of its block that each run may complete.
        data: What differs between the runs' data, (run, ...) each.
        shared: Constants of the kernel and what the data have in common.
        differs: See `varying`.
        call: The step, on all of these as they are.
        threads: To run it on.
    """

    runs: list[Run]
    state: Any
    draw: Draw
    noise: dict[str, Tensor]
    tuned: dict[str, Tensor]
    mass: Mass
    stop: Tensor
    data: list[Tensor]
    shared: list[Tensor]
    differs: list[bool]
    call: Callable[[], Any]
    threads: int

    def step(self) -> None:
        """Moves every chain that has not completed its run's `stop` by one unit of work."""
        self.call()

    def state_of(self, place: int) -> Any:
        """A run's state, as views."""
        return type(self.state)(*(value[place] for value in self.state))

    def write_tuned(self, place: int) -> None:
        """Takes over a run's tuned numbers and mass."""
        run = self.runs[place]
        for name, value in self.tuned.items():
            value[place] = run.tuned[name]
        for mine, own in zip(self.mass, run.mass, strict=True):
            mine[place] = own

    def write_state(self, place: int) -> None:
        """Takes over a run's state, where that is no view of the batch's."""
        for mine, own in zip(self.state, self.runs[place].state, strict=True):
            mine[place] = own

    def put(self, place: int, run: Run) -> None:
        """Another run of the same model and shapes takes a place, at its start. The step stays as it is."""
        self.runs[place] = run
        self.write_tuned(place)
        self.new_block(place)
        for mine, own in zip(self.data, _own(run, self.differs), strict=True):
            mine[place] = own
        self.stop[place] = 0

    def new_block(self, place: int) -> None:
        """The block of noise that belongs to a run's iteration; its counts start anew."""
        run = self.runs[place]
        run.fill_noise()
        self.write_state(place)
        run.state = self.state_of(place)
        for name, value in self.noise.items():
            value[place] = run.noise[name]
        self.write_tuned(place)


def varying(problems: Sequence[Problem]) -> list[bool]:
    """Which leaves of the model's arguments differ between problems: tensors that are not one and the same."""
    columns = zip(*(pytree.tree_leaves(problem.arguments()) for problem in problems), strict=True)
    return [isinstance(c[0], Tensor) and any(leaf is not c[0] for leaf in c) for c in columns]


def _own(run: Run, differs: Sequence[bool]) -> list[Tensor]:
    """A run's arguments that differ from those of others."""
    leaves = pytree.tree_leaves(run.density.problem.arguments())
    return [leaf for leaf, own in zip(leaves, differs, strict=True) if own]


def _arguments(run: Run, differs: Sequence[bool]) -> tuple[list[Tensor], Callable[..., Any]]:
    """The tensors that all runs have in common, and how to put a run's own and these together."""
    leaves, spec = pytree.tree_flatten(run.density.problem.arguments())
    common = [isinstance(leaf, Tensor) and not own for leaf, own in zip(leaves, differs, strict=True)]
    shared = [leaf for leaf, same in zip(leaves, common, strict=True) if same]

    def together(own: Sequence[Tensor], same: Sequence[Tensor]) -> Any:
        mine, theirs = iter(own), iter(same)
        triples = zip(leaves, differs, common, strict=True)
        return pytree.tree_unflatten([next(mine) if d else next(theirs) if c else leaf for leaf, d, c in triples], spec)

    return shared, together


def _stacked(runs: Sequence[Run]) -> tuple[Any, dict[str, Tensor], dict[str, Tensor], Mass]:
    """State, first block of noise, tuned numbers and mass of the runs, each (run, ...)."""
    first = runs[0]
    for run in runs:
        run.fill_noise()
    state = type(first.state)(*map(torch.stack, zip(*(run.state for run in runs), strict=True)))
    noise = {name: torch.stack([run.noise[name] for run in runs]) for name in first.noise}
    like = first.mass.scale
    tuned = {name: torch.stack([like.new_tensor(run.tuned[name]) for run in runs]) for name in first.tuned}
    return state, noise, tuned, Mass(*map(torch.stack, zip(*(run.mass for run in runs), strict=True)))


def batch_of(runs: Sequence[Run], differs: Sequence[bool], compiled: bool) -> Batch:
    """Runs of one kernel and one model as a batch; each has its first block of noise.

    Args:
        runs: With states at their starts.
        differs: Which arguments of the model may differ between these runs and those put in later, see `varying`.
        compiled: Compile the step; else it is traced, which spares it Pyro's handlers and vmap's bookkeeping.
    """
    first = runs[0]
    state, noise, tuned, mass = _stacked(runs)
    stop = torch.zeros(len(runs), dtype=torch.int64, device=mass.scale.device)
    data = [torch.stack(column) for column in zip(*(_own(run, differs) for run in runs), strict=True)]
    shared, together = _arguments(first, differs)
    constants = first.setup.constants

    def moved(state: Any, noise: Any, tuned: Any, mass: Any, stop: Any, data: Any, shared: Any) -> tuple[Any, Draw]:
        fixed = dict(zip(constants, shared, strict=False))
        arguments = together(data, shared[len(constants) :])
        return step_on(first.kernel, first.density, arguments, state, noise, tuned, mass, stop, fixed)

    shared = [*constants.values(), *shared]
    many = torch.func.vmap(moved, in_dims=(0, 0, 0, 0, 0, 0, None))
    _, draw = many(state, noise, tuned, mass, stop, data, shared)
    draw = Draw(*(value.clone() for value in draw))
    flat = _flat(many, ((*state, *draw), noise, tuned, mass, stop, data, shared), type(state))
    call, threads = _ready(*flat, compiled)
    return Batch(list(runs), state, draw, noise, tuned, mass, stop, data, shared, list(differs), call, threads)


def _flat(many: Callable[..., tuple[Any, Draw]], example: Any, kind: Any) -> tuple[Call, list[Tensor]]:
    """The step as a function of flat tensors that writes the new state and draw over the old ones."""
    leaves, spec = pytree.tree_flatten(example)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        old, *rest = pytree.tree_unflatten(list(tensors), spec)
        after, draw = many(kind(*old[: len(kind._fields)]), *rest)
        for target, value in zip(old, (*after, *draw), strict=True):
            target.copy_(value)
        return (old[0].new_zeros(()),)

    return function, leaves


def _ready(function: Call, leaves: list[Tensor], compiled: bool) -> tuple[Callable[[], Any], int]:
    """The step as a function of nothing, and the threads to run it on."""
    if compiled:
        call, made = compile_in_place(function, leaves, ())
        return lambda: call(()), made.threads
    graph = trace(function, leaves)

    def step() -> None:
        with torch.no_grad():
            graph(*leaves)

    return step, threads_for(graph)
