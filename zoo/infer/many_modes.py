"""`fitted`: laplace on many data sets; all modes are climbed at once, by a gradient that is traced once.

What data set k gets is what `zoo.infer.methods.laplace` gives on it alone, but for rounding. After the climb, data
sets are judged and their Gaussians made one after another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from zoo.core.handlers import pyro_state
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from .density import Density, density
from .fold import fold
from .graph import trace
from .lbfgs import Descent, Function, lbfgs
from .lockstep import varying
from .methods import laplace
from .modes import Modes, double, judged
from .runaway import Lost, watch
from .starts import starts
from .threads import running_on, threads_for_size

MOST_NUMBERS = 2**24  # that a gradient may hold for all data sets together
Stop = Callable[[], str]


def possible(problem: Problem, asked: dict[str, Any]) -> bool:
    """Whether modes can be climbed at once: vmap takes the model."""
    return density(double(problem)).engine == "eager"


def fitted(
    problems: Sequence[Problem], asked: dict[str, Any], seeds: Sequence[int], stop: Stop
) -> Iterator[tuple[int, Posterior]]:
    """Posteriors with the index of their data set, in order; none that `stop` cut short.

    Args:
        problems: Of one model, with data of the same shapes.
        asked: All options of laplace.
        seeds: One a problem.
        stop: Why to end, or "".
    """
    laplace.check(asked["structure"], asked["curvature"])
    differs, size = varying(problems), _group_size(problems, asked["restarts"])
    for first in range(0, len(problems), size):
        begun = time.perf_counter()
        targets = [Density(double(problem), "eager") for problem in problems[first : first + size]]
        found = _modes(targets, differs, asked["restarts"], seeds[first : first + size], stop)
        for k, modes in enumerate(found):
            if stop():
                return
            with running_on(1):
                fit = laplace.at_modes(
                    problems[first + k], modes, draws=asked["draws"], seed=seeds[first + k], begun=begun
                )
            yield first + k, fit


def _group_size(problems: Sequence[Problem], restarts: int) -> int:
    """Data sets at once: as many as keep a gradient in memory, evenly split."""
    target = Density(problems[0], "eager")
    rows = target.sites.rows
    groups = -(-len(problems) // max(1, MOST_NUMBERS // (restarts * target.dim * rows)))
    return -(-len(problems) // groups)


def _modes(
    targets: list[Density], differs: list[bool], restarts: int, seeds: Sequence[int], stop: Stop
) -> Iterator[Modes]:
    """Each data set's modes, judged as if it had been alone."""
    start = torch.cat([starts(target, restarts, seed) for target, seed in zip(targets, seeds, strict=True)])
    watches = [watch(target, True) for target in targets]
    rows = targets[0].sites.rows
    with running_on(threads_for_size(rows * len(start), targets[0].dim)):
        function = _downhill(targets, differs, restarts, start)
        ended = lbfgs(function, start, stop=stop, lost=_lost([lost for lost, _ in watches], restarts))
    for k, (target, (_, collapsed)) in enumerate(zip(targets, watches, strict=True)):
        mine = slice(k * restarts, (k + 1) * restarts)
        own = Descent(ended.x[mine], ended.f[mine], ended.grad[mine], ended.rested[mine], ended.iterations)
        with running_on(1):
            modes = judged(target, own, collapsed, True, restarts, stop)
        yield modes


def _downhill(targets: list[Density], differs: list[bool], restarts: int, example: Tensor) -> Function:
    """x (data set x restart, dim) -> minus the log densities and their gradients."""
    columns = list(zip(*(pytree.tree_leaves(target.problem.arguments()) for target in targets), strict=True))
    own = [
        torch.stack([leaf for leaf in c for _ in range(restarts)]) for c, d in zip(columns, differs, strict=True) if d
    ]
    leaves, spec = pytree.tree_flatten(targets[0].problem.arguments())

    def value(u: Tensor, mine: tuple[Tensor, ...]) -> Tensor:
        left = iter(mine)
        arguments = pytree.tree_unflatten([next(left) if d else v for v, d in zip(leaves, differs, strict=True)], spec)
        return -targets[0].log_density(u, True, arguments)

    def function(x: Tensor, *own: Tensor) -> tuple[Tensor, ...]:
        grad, f = torch.func.vmap(torch.func.grad_and_value(value))(x, own)
        return f, grad

    with pyro_state(validate=False):
        graph = fold(trace(function, (example, *own)))

    def traced(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            f, grad = graph(x, *own)
        return f, grad

    return traced


def _lost(each: list[Lost], restarts: int) -> Lost:
    """Every data set's own question whether a row will ever arrive, asked while one of its rows is on its way."""

    def lost(x: Tensor, f: Tensor, active: Tensor) -> Tensor:
        away = torch.zeros_like(active)
        for k, ask in enumerate(each):
            mine = slice(k * restarts, (k + 1) * restarts)
            if bool(active[mine].any()):
                away[mine] = ask(x[mine], f[mine], active[mine])
        return away

    return lost
