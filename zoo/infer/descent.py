"""Descent of a batch of starts by any optimiser of `torch.optim`, with the stop rules of `lbfgs`.

    x_r <- step(x_r, gradient of f at x_r)      every row r on its own, all of them sharing each evaluation

The best point of every row is kept: an optimiser with a constant step circles its goal.

Source: Robbins & Monro 1951; Kingma & Ba 2015.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.core.words import nearest

from .lbfgs import ITERATIONS, WATCH, Descent, Function, lbfgs

PATIENCE = 100  # steps over which a gain is judged
NOT_SERVED = ("LBFGS", "SparseAdam")  # LBFGS mixes the rows, ours does not; gradients here are dense


def optimisers() -> dict[str, type[torch.optim.Optimizer]]:
    """{name in lower case: class} of torch's optimisers that can serve."""
    found = {n: c for n, c in vars(torch.optim).items() if inspect.isclass(c) and n not in NOT_SERVED}
    base = torch.optim.Optimizer
    return {n.lower(): c for n, c in found.items() if issubclass(c, base) and c is not base}


def choose(optimiser: Any, options: Mapping[str, Any]) -> Callable[..., Descent]:
    """The descent that `optimiser` names: (function, start, iterations=, stop=, show=, lost=) -> Descent.

    Args:
        optimiser: "lbfgs", the name of a class of torch.optim in any case, or such a class.
        options: Of the class: lr, momentum, ...

    Raises:
        ValueError: For an unknown name or option, with the nearest right one, and a value the class refuses.
        TypeError: For anything else than a name or a class.
    """
    if not isinstance(options, Mapping):
        raise ValueError(f"optimiser_options must be a dict, got {options!r}. Give {{'lr': 0.01}}, say.")
    if optimiser == "lbfgs":
        if options:
            raise ValueError(
                f"optimiser 'lbfgs' takes no options, got {dict(options)}. Name 'adam', say, or leave out."
            )
        return lbfgs
    known = optimisers()
    if isinstance(optimiser, str):
        if optimiser.lower() not in known:
            raise ValueError(nearest(optimiser, [*known, "lbfgs"], "optimiser"))
        optimiser = known[optimiser.lower()]
    if not (inspect.isclass(optimiser) and issubclass(optimiser, torch.optim.Optimizer)):
        got = getattr(optimiser, "__name__", type(optimiser).__name__)
        raise TypeError(f"optimiser must be 'lbfgs', a name in torch.optim or a class of it, got {got}.")
    if optimiser.__name__ in NOT_SERVED:
        raise ValueError(f"optimiser torch.optim.{optimiser.__name__} can't serve here. Use 'lbfgs' or 'adam'.")
    make = functools.partial(optimiser, **_checked(optimiser, options))
    _try(make)
    return functools.partial(descend, make=make)


def _checked(optimiser: Any, options: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = inspect.signature(optimiser).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD][1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return options
    for option in options:
        if option not in names:
            raise ValueError(f"optimiser_options: {nearest(str(option), names, 'option')}")
    return options


def _try(make: Callable[..., torch.optim.Optimizer]) -> None:
    """Lets the class judge its options before anything runs."""
    point = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    point.grad = torch.zeros_like(point)
    try:
        make([point]).step()
    except Exception as error:  # a class says what it dislikes in errors of many kinds
        words = " ".join(str(error).split())
        raise ValueError(f"optimiser_options do not fit torch.optim: {words}. Give {{'lr': 0.01}}, say.") from None


def descend(
    function: Function,
    start: Tensor,
    *,
    make: Callable[..., torch.optim.Optimizer],
    iterations: int = ITERATIONS,
    tolerance: float = 1e-10,
    stop: Callable[[], str] = lambda: "",
    show: Callable[..., None] = lambda done, text: None,
    lost: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, f, active: torch.zeros_like(active),
) -> Descent:
    """Lowers a function of each row of `start`; arguments as for `lbfgs`.

    Args:
        function: x (row, dim) -> values (row,), gradients (row, dim).
        start: (row, dim), of finite value.
        make: Parameters -> optimiser.
        iterations: At most so many steps.
        tolerance: A row is at rest when its best value sank by at most tolerance (1 + |f|) in `PATIENCE` steps.
        stop: Ends the descent early when it says so.
        show: Told of every tenth step and the best value so far.
        lost: (x, f, active rows) -> rows to give up, asked every `WATCH` steps.

    Returns:
        `Descent`, each row at its best point. A row whose value is no longer a number ends, not at rest.
    """
    rows = [row.clone().requires_grad_(True) for row in start]
    optimiser = make(rows)
    x, (f, grad) = start, function(start)
    best: tuple[Tensor, ...] = (x, f, grad)
    rested, broken = torch.zeros_like(f, dtype=torch.bool), torch.zeros_like(f, dtype=torch.bool)
    history, count = [f], 0
    while count < iterations and not bool((rested | broken).all()) and not stop():
        count += 1
        _step(optimiser, rows, grad, ~(rested | broken))
        x = torch.stack([row.detach() for row in rows])
        f, grad = function(x)
        broken = broken | ~(torch.isfinite(f) & torch.isfinite(grad).all(-1))
        better = (f < best[1]) & ~broken
        best = tuple(torch.where(better.reshape(-1, *[1] * (new.dim() - 1)), new, old)
                     for new, old in zip((x, f, grad), best, strict=True))  # fmt: skip
        history = [*history[-PATIENCE:], best[1]]
        if count % 10 == 0:
            show(count, f"{float(-best[1].min()):.6g}")
        if count >= PATIENCE:
            rested = rested | (~broken & (history[0] - best[1] <= tolerance * (1 + best[1].abs())))
        if count % WATCH == 0 and not bool((rested | broken).all()):
            rested = rested | lost(best[0], best[1], ~(rested | broken))
    return Descent(best[0], best[1], best[2], rested, count)


def _step(optimiser: torch.optim.Optimizer, rows: list[Tensor], grad: Tensor, active: Tensor) -> None:
    """One step of the active rows; a parameter without a gradient is left alone."""
    for row, slope, moves in zip(rows, grad, active.tolist(), strict=True):
        row.grad = slope.clone() if moves else None
    optimiser.step()
