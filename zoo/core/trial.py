"""Running a model as the contract's checks do: at given latents, on other rows, as a function of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from .handlers import LogProb, Record, Values, pyro_state
from .problem import Data, Problem
from .sites import sites

Draws = dict[str, Tensor]


def run(problem: Problem, values: Draws, given: Any = None) -> dict[str, Any]:
    """The messages of one run at given latents (and other arguments than the problem's), by site."""
    args, kwargs = given or problem.arguments()
    with pyro_state(validate=False), torch.no_grad(), Record() as record, Values(values):
        problem.model(*args, **kwargs)
    return record.sites


def log_joint(problem: Problem, values: Draws, given: Any = None, sequential: Iterable[str] = ()) -> Tensor:
    """log p(y, theta), a float64 scalar, differentiable and traceable; the caller holds `pyro_state`."""
    args, kwargs = given or problem.arguments()
    with LogProb(problem.names["plate"]) as log_prob, Values(values, sequential):
        problem.model(*args, **kwargs)
    return log_prob.total


class NoRows(ValueError):
    """A model without the plate that the rows of the data stand in."""


def row_count(problem: Problem) -> int:
    """How many rows the data plate has; `NoRows` if no observed site stands in one of that name."""
    plate, others = problem.names["plate"], dict[str, int]()
    for site in sites(problem).observed.values():
        others |= dict(site.plates)
        if plate in others:
            return others[plate]
    if others:
        raise NoRows(
            f"no observed site stands in a plate '{plate}'; the model has {', '.join(others)}: name the one of the "
            f"rows, zoo.Problem(..., names={{'plate': '{next(iter(others))}'}})"
        )
    raise NoRows(f"no observed site stands in pyro.plate('{plate}', {length(problem)})")


def length(problem: Problem) -> str:
    """How a model writes the number of rows: x.shape[0], or of the first tensor in a dict."""
    named = tensors(problem)
    return f"{'x' if 'x' in named else next(iter(named), 'x')}.shape[0]"


def tensors(problem: Problem) -> Draws:
    """The data's tensors by name."""
    if isinstance(problem.data, Data):
        found: dict[str, Any] = {"x": problem.data.x, "y": problem.data.y}
    else:
        found = problem.data
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def arguments(problem: Problem, data: Draws) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The model's arguments with `data` in place of the problem's tensors."""
    if isinstance(problem.data, Data):
        return (data["x"], data.get("y")), dict(problem.hyper)
    return (), {**problem.data, **data, **problem.hyper}


def with_rows(problem: Problem, index: Tensor, n: int) -> Problem:
    """The problem on the rows `index` of n; in a dict, the tensors of n rows are those that go by row."""
    taken = {k: v[index] if v.shape[:1] == (n,) else v for k, v in tensors(problem).items()}
    if isinstance(problem.data, Data):
        return dataclasses.replace(problem, data=Data(taken["x"], taken.get("y")))
    return dataclasses.replace(problem, data={**problem.data, **taken})


def local_rows(problem: Problem, messages: dict[str, Any], values: Draws, index: Tensor) -> Draws:
    """The latents, with those inside the data plate taken at the rows `index`."""
    taken = {}
    for name, value in values.items():
        axis = row_axis(problem, messages[name], value.dim() - messages[name]["fn"].event_dim)
        taken[name] = value if axis is None else value.index_select(axis, index)
    return taken


def row_axis(problem: Problem, msg: Any, batch_dims: int) -> int | None:
    """Which axis of a site's value (or log prob) goes by row; None for a site outside the data plate."""
    for frame in msg["cond_indep_stack"]:
        if frame.name == problem.names["plate"]:
            return batch_dims + frame.dim
    return None


def row_log_prob(problem: Problem, msg: Any) -> Tensor:
    """log p(y_i | theta), (n,)."""
    terms = msg["fn"].log_prob(msg["value"])
    axis = row_axis(problem, msg, terms.dim())
    if axis is None:
        raise ValueError(f"observed site '{msg['name']}' is outside the plate '{problem.names['plate']}'")
    return terms.movedim(axis, 0).reshape(terms.shape[axis], -1).sum(-1)


def graph_of_any_rows(problem: Problem, values: Draws) -> Callable[[Draws, Draws], Tensor]:
    """log_joint as a graph of (data, latents) in which only the number of rows is symbolic."""
    mode, n = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True), row_count(problem)
    messages = run(problem, values)

    def fake(value: Tensor, axis: int | None) -> Tensor:
        sizes = [DimDynamic.DUCK if i == axis else DimDynamic.STATIC for i in range(value.dim())]
        return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    def of_data(data: Draws, latents: Draws) -> Tensor:
        return log_joint(problem, latents, arguments(problem, data))

    data = {name: fake(t, 0 if t.shape[:1] == (n,) else None) for name, t in tensors(problem).items()}
    latents = {
        name: fake(t, row_axis(problem, messages[name], t.dim() - messages[name]["fn"].event_dim))
        for name, t in values.items()
    }
    with mode:
        return make_fx(of_data)(data, latents)
