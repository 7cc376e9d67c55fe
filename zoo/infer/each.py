"""`fits`: one method on many problems that differ in their data only: as one batch where it can be, else in turn."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from . import many_guides, many_modes
from .density import Density, density
from .dispatch import asked_of, methods, run
from .engine import ENGINES
from .known import asks_for_numbers
from .many import sampled

# Methods that are no kernels, and what fits many data sets by them at once.
ABREAST: dict[str, Any] = {"svi": many_guides, "laplace": many_modes}
Stop = Callable[[], str]
Fits = Iterator[tuple[int, Posterior]]


def fits(problems: Sequence[Problem], method: str, options: dict[str, Any], seeds: Sequence[int], stop: Stop) -> Fits:
    """Fits with the index of their problem, as they are done, until all are or `stop` says why not.

    Args:
        problems: Of one model, with data of the same shapes.
        method: As for `zoo.run`.
        options: The method's own, the seed left out.
        seeds: One a problem.
        stop: Why to end, or "". No fit is given that it cut short.
    """
    _, given, defaults = asked_of(method, options)
    asked, module = defaults | given, importlib.import_module(methods()[method])
    if method in ABREAST:
        together = ABREAST[method]
        if together.possible(problems[0], asked) and not _asks(problems[0]):
            return together.fitted(problems, asked, seeds, stop)
    elif not hasattr(module, "fit") and _side_by_side(problems[0], asked) and not _asks(problems[0]):
        return sampled(problems, module, asked, seeds, stop)
    return _in_turn(problems, method, options, seeds, stop)


def _side_by_side(problem: Problem, options: dict[str, Any]) -> bool:
    """Whether a kernel's runs can be one batch: vmap takes the model."""
    if options["engine"] not in ENGINES or options["engine"] in ("loop", "pyro"):
        return False
    return density(problem).engine == "eager"


def _asks(problem: Problem) -> bool:
    """Whether a model asks its data for numbers, which a batch of data sets has several of."""
    target = Density(problem, "eager")
    at = torch.zeros(1, target.dim, dtype=target.dtype, device=target.device)
    return asks_for_numbers(lambda: target.value_and_grad(at))[1]


def _in_turn(
    problems: Sequence[Problem], method: str, options: dict[str, Any], seeds: Sequence[int], stop: Stop
) -> Fits:
    for i, (problem, seed) in enumerate(zip(problems, seeds, strict=True)):
        try:
            fit = run(problem, method, seed=seed, **options)
        except (ValueError, RuntimeError) as error:
            if stop():
                return
            raise type(error)(f"data set {i} of {len(problems)}: {error}") from error
        if stop():  # it reached this fit, too
            return
        yield i, fit
