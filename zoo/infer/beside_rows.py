"""The tensors among a model's arguments that are no rows of `Data`, as inputs of a compiled step.

A graph that holds the data's numbers is another graph for other data, and is compiled anew; one that is given them
serves all data of their shapes. x and y of `Data` are given as batches; here is the rest: a dict of data, and
hyperparameters that are tensors.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import Tensor
from torch.utils import _pytree as pytree

from zoo.core.problem import Data, Problem

Fit = TypeVar("Fit")


def _parts(problem: Problem) -> tuple[Any, Any]:
    return None if isinstance(problem.data, Data) else problem.data, problem.hyper


def beside_rows(problem: Problem) -> tuple[Tensor, ...]:
    """Those tensors, in an order that all data of one structure share."""
    return tuple(leaf.detach() for leaf in pytree.tree_leaves(_parts(problem)) if isinstance(leaf, Tensor))


def on_tensors(fit: Fit, tensors: tuple[Tensor, ...]) -> Fit:
    """The same fit of a problem with these tensors in place of its own; with none of them the fit itself.

    Args:
        fit: A problem and its guide.
        tensors: As `beside_rows` gives them.
    """
    if not tensors:
        return fit
    own: Any = fit
    leaves, spec = pytree.tree_flatten(_parts(own.problem))
    left = iter(tensors)
    data, hyper = pytree.tree_unflatten([next(left) if isinstance(leaf, Tensor) else leaf for leaf in leaves], spec)
    # Copied as they are: made anew a problem looks at its numbers, and a tensor that is traced has none.
    other, problem = copy.copy(own), copy.copy(own.problem)
    object.__setattr__(problem, "hyper", hyper)
    if not isinstance(problem.data, Data):
        object.__setattr__(problem, "data", data)
    other.problem = problem
    return other
