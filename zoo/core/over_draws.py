"""A function of one draw's values, over all draws: mapped in chunks that stay in the processor's cache, or compiled.

The rule never depends on a timing: it is compiled where draws x rows x latent numbers reaches 2 10^9, for at most
50,000 latent numbers and where there is a compiler. Mapped, as much takes some three seconds; compiled, a third of that
and a quarter of a second to trace, once the graph is there: the first time on a machine it takes seconds to make.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

log = logging.getLogger("zoo")
LEAST_WORK = 2_000_000_000
MOST_COORDINATES = 50_000
# Draws x rows at once. A hidden layer's activations then take some megabytes; larger pieces cost twice the time mapped,
# and compiled they would only make the trace dearer, which runs one piece.
CHUNK, COMPILED_CHUNK = 60_000, 40_000

Values = dict[str, Tensor]
One = Callable[[Values, Any], Any]


def over_draws(one: One, values: Values, data: Any, compiled: bool = True) -> Any:
    """What one(values of a draw, data) returns for every draw, stacked along a new first axis.

    Args:
        one: Returns a tree of tensors; nothing random, no branch on a tensor's value.
        values: {site: (draw, *shape)}.
        data: The model's (args, kwargs).
        compiled: Whether it may be compiled where that pays; no for a function that holds tensors of its own.

    The caller holds `pyro_state(validate=False)`.
    """
    rows = rows_of(data)
    if compiled and _pays(values, rows):
        try:
            return _compiled(one, values, data, max(1, COMPILED_CHUNK // rows))
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:  # of a model that can't be traced
            log.info("predicting uncompiled: %s", str(error).partition("\n")[0][:200])
    chunk = max(1, CHUNK // (rows * pixels_of(data)))
    return torch.func.vmap(lambda value: one(value, data), chunk_size=chunk)(values)


def rows_of(data: Any) -> int:
    """Rows of the longest tensor among the model's arguments; 1 where there is none."""
    sizes = [leaf.shape[0] for leaf in pytree.tree_leaves(data) if isinstance(leaf, Tensor) and leaf.dim()]
    return max([1, *sizes])


def pixels_of(data: Any) -> int:
    """Pixels of a row where some argument holds images (n, channels, height, width); else 1."""
    images = [
        leaf.shape[2:].numel() for leaf in pytree.tree_leaves(data) if isinstance(leaf, Tensor) and leaf.dim() > 3
    ]
    return max([1, *images])


def _pays(values: Values, rows: int) -> bool:
    draws = len(next(iter(values.values())))
    latent = sum(value[0].numel() for value in values.values()) if draws else 0
    if latent > MOST_COORDINATES or draws * rows * latent < LEAST_WORK:
        return False
    from zoo.infer.engine import has_compiler

    return has_compiler(next(iter(values.values())).device)


def _compiled(one: One, values: Values, data: Any, chunk: int) -> Any:
    """By one graph for `chunk` draws; the last chunk overlaps the one before."""
    from zoo.infer.graph import compile_graph
    from zoo.infer.threads import running_on

    draws = len(next(iter(values.values())))
    chunk = min(chunk, draws)
    leaves, spec = pytree.tree_flatten(data)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    names, shape = list(values), []

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for place, tensor in zip(places, tensors[len(names) :], strict=True):
            filled[place] = tensor
        given = pytree.tree_unflatten(filled, spec)
        out = torch.func.vmap(lambda value: one(value, given))(dict(zip(names, tensors, strict=False)))
        found, out_spec = pytree.tree_flatten(out)
        shape.append(out_spec)
        return tuple(found)

    def piece(start: int) -> list[Tensor]:
        return [*(values[name][start : start + chunk].contiguous() for name in names), *(leaves[i] for i in places)]

    compiled = compile_graph(function, piece(0))
    parts = []
    with running_on(compiled.threads):
        for begin in range(0, draws, chunk):
            start = min(begin, draws - chunk)
            parts.append([part[begin - start :] for part in compiled.call(*piece(start))])
    return pytree.tree_unflatten([torch.cat(pieces) for pieces in zip(*parts, strict=True)], shape[0])
