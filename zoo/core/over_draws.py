"""A function of one draw's values, over all draws: mapped in chunks that stay in the processor's cache, or compiled.

The rule never depends on a timing: it is compiled where draws x rows x latent numbers reaches 2 10^9, for at most
50,000 latent numbers and where there is a compiler. Mapped, as much takes some three seconds; compiled, a third of that
and a quarter of a second to trace, for the zoo's own models in each process once. The first time on a machine a graph
takes seconds to make.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .row_pieces import joined, pieces

log = logging.getLogger("zoo")
LEAST_WORK = 2_000_000_000
MOST_COORDINATES = 50_000
MOST_KEPT = 8
# Draws x rows at once. A hidden layer's activations then take some megabytes; larger pieces cost twice the time mapped,
# and compiled they would only make the trace dearer, which runs one piece.
CHUNK, COMPILED_CHUNK = 60_000, 40_000

Values = dict[str, Tensor]
One = Callable[[Values, Any], tuple[Any, Any]]


def over_draws(one: One, values: Values, data: Any, compiled: bool = True, known_as: Any = None) -> tuple[Any, Any]:
    """What one(values of a draw, data) returns for every draw, stacked along a new first axis, and what it says.

    Args:
        one: Returns a tree of tensors, and anything else that is the same for every draw; nothing random, no branch on
            a tensor's value.
        values: {site: (draw, *shape)}.
        data: The model's (args, kwargs).
        compiled: Whether it may be compiled where that pays; no for a function that holds tensors of its own.
        known_as: Names a function of the zoo's own, whose graph is not traced again and whose rows do not look at each
            other, so that many are done in pieces; None: it may change.

    The caller holds `pyro_state(validate=False)`.
    """
    rows = rows_of(data)
    if compiled and _pays(values, rows):
        try:
            return _compiled(one, values, data, max(1, COMPILED_CHUNK // rows), known_as)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:  # of a model that can't be traced
            log.info("predicting uncompiled: %s", str(error).partition("\n")[0][:200])
    parts = pieces(data, rows, pixels_of(data)) if known_as else [(data, rows)]
    found = [_mapped(one, values, *part) for part in parts]
    return joined([tree for tree, _ in found], [size for _, size in parts]), found[-1][1]


def _mapped(one: One, values: Values, data: Any, rows: int) -> tuple[Any, Any]:
    said: list[Any] = []

    def tensors(value: Values) -> Any:
        tree, other = one(value, data)
        said.append(other)
        return tree

    chunk = max(1, CHUNK // (rows * pixels_of(data)))
    return torch.func.vmap(tensors, chunk_size=chunk)(values), said[-1]


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


class _Graph(NamedTuple):
    """A compiled function of a chunk of draws, how its results are put together, and what was said beside them."""

    compiled: Any
    spec: Any
    said: Any


_graphs: dict[Any, _Graph] = {}


def _compiled(one: One, values: Values, data: Any, chunk: int, known_as: Any) -> tuple[Any, Any]:
    """By one graph for `chunk` draws; the last chunk overlaps the one before."""
    from zoo.infer.threads import running_on

    draws = len(next(iter(values.values())))
    chunk = min(chunk, draws)
    leaves = pytree.tree_leaves(data)
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def piece(start: int) -> list[Tensor]:
        return [*(value[start : start + chunk].contiguous() for value in values.values()), *given]

    key = _key(known_as, list(values), piece(0), data)
    graph = (_graphs.pop(key, None) if key else None) or _trace(one, list(values), piece(0), data)
    if key:
        _graphs[key] = graph  # the newest last
        while len(_graphs) > MOST_KEPT:
            del _graphs[next(iter(_graphs))]
    parts = []
    with running_on(graph.compiled.threads):
        for begin in range(0, draws, chunk):
            start = min(begin, draws - chunk)
            parts.append([part[begin - start :] for part in graph.compiled.call(*piece(start))])
    return pytree.tree_unflatten([torch.cat(pieces) for pieces in zip(*parts, strict=True)], graph.spec), graph.said


def _key(known_as: Any, names: list[str], example: list[Tensor], data: Any) -> Any:
    """What a graph depends on, or None where that can't be told: the function, shapes, and all that is no tensor."""
    if known_as is None:
        return None
    leaves, spec = pytree.tree_flatten(data)
    fixed = tuple((type(leaf), leaf) for leaf in leaves if not isinstance(leaf, Tensor))
    shapes = tuple((t.shape, t.stride(), t.dtype, t.device) for t in example)
    key = (known_as, tuple(names), shapes, fixed, str(spec))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _trace(one: One, names: list[str], example: list[Tensor], data: Any) -> _Graph:
    from zoo.infer.graph import compile_graph

    leaves, spec = pytree.tree_flatten(data)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    last: list[Any] = []

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        filled, said = list(leaves), []
        for place, tensor in zip(places, tensors[len(names) :], strict=True):
            filled[place] = tensor
        given = pytree.tree_unflatten(filled, spec)

        def of_draw(value: Values) -> Any:
            tree, other = one(value, given)
            said.append(other)
            return tree

        out = torch.func.vmap(of_draw)(dict(zip(names, tensors, strict=False)))
        found, out_spec = pytree.tree_flatten(out)
        last[:] = [out_spec, said[-1]]
        return tuple(found)

    return _Graph(compile_graph(function, example), *last)
