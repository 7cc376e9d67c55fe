"""What an uncompiled graph need not compute at every call: constants once, and no passes that change nothing.

A Pyro density asks for log scale, scale^2 and x - 0 at each of a network's weights; of the passes over memory that the
prior of a large one takes, half are those. Values stay the same but for the sign of a zero. Inductor does this by
itself.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from .graph import forget_source

MOST_NUMBERS = 2**22  # of one constant that is kept whole; equal numbers are kept as one
aten = torch.ops.aten
FILLED: dict[Any, float] = {  # of their first argument these take the shape, dtype and device alone
    aten.new_zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_ones.default: 1,
    aten.ones_like.default: 1,
}
# x op c = x. (-0) - 0 = -0 and (-0) + 0 = 0: the sign of a zero may differ, nothing else.
NEUTRAL: dict[Any, float] = {
    aten.add.Tensor: 0,
    aten.sub.Tensor: 0,
    aten.mul.Tensor: 1,
    aten.mul.Scalar: 1,
    aten.div.Tensor: 1,
    aten.pow.Tensor_Scalar: 1,
}

VIEWS = (aten.view.default, aten._unsafe_view.default)  # of memory that lies in order: else they fail
PLACES = (aten.as_strided.default, aten.as_strided_.default)


def fold(graph: GraphModule) -> GraphModule:
    """The same graph with its constants computed once and x - 0, x * 1, x / 1, x^1 left out; changed in place.

    A result may lie in memory in another order than the tracer saw: a constant kept as one number has no order for it
    to take over. So views become reshapes, and a graph that names places in memory is left alone.
    """
    if any(node.target in PLACES for node in graph.graph.nodes):
        return graph
    written, known = _written(graph), dict[Node, Tensor]()
    with torch.no_grad():
        for node in graph.graph.nodes:
            if node not in written and (value := _constant(graph, node, known)) is not None:
                known[node] = value
    _keep(graph, known)
    for node in list(graph.graph.nodes):
        if node not in written and node.args[:1] and node.args[0] not in written:
            _drop(node, known)
        if node.target in VIEWS and node not in written:
            node.target = aten.reshape.default
    graph.graph.eliminate_dead_code()
    forget_source(graph)
    graph.recompile()
    forget_source(graph)
    return graph


def _written(graph: GraphModule) -> set[Node]:
    """Nodes whose memory some operation writes to, whatever view of it that goes through."""
    found: set[Node] = set()
    for node in graph.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        found.add(node)
        ahead = [
            given for given, is_a in zip(node.args, schema.arguments, strict=False)
            if isinstance(given, Node) and is_a.alias_info is not None and is_a.alias_info.is_write
        ]  # fmt: skip
        while ahead:
            at = ahead.pop()
            if at not in found:
                found.add(at)
                ahead += _seen_through(at)
    for node in graph.graph.nodes:  # and views taken of it: they change with it
        if any(seen in found for seen in _seen_through(node)):
            found.add(node)
    return found


def _seen_through(node: Node) -> list[Node]:
    """What a node is a view of."""
    schema = getattr(node.target, "_schema", None)
    views = schema is not None and any(given.alias_info is not None for given in schema.returns)
    return list(node.all_input_nodes) if views or node.target is operator.getitem else []


def _constant(graph: GraphModule, node: Node, known: dict[Node, Tensor]) -> Tensor | None:
    """A node's value, where no argument of the graph has part in it."""
    if node.op == "get_attr":
        return getattr(graph, str(node.target)).detach()
    if node.op != "call_function":
        return None
    if node.target in FILLED:
        like = node.meta["val"]
        return torch.full((), FILLED[node.target], dtype=like.dtype, device=like.device).expand(like.shape)
    if not isinstance(node.target, torch._ops.OpOverload) or any(n not in known for n in node.all_input_nodes):
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return None
    like = node.meta.get("val")
    if not isinstance(like, Tensor):
        return None
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
    return _small(node.target(*args, **kwargs))


def _small(value: Tensor) -> Tensor | None:
    """Equal numbers as one, expanded; others as they are, where they are not too many."""
    if value.numel() > 1:
        first = value[(0,) * value.dim()]
        if bool((value == first).all()):
            return first.clone().expand(value.shape)
    return value if value.numel() <= MOST_NUMBERS else None


def _keep(graph: GraphModule, known: dict[Node, Tensor]) -> None:
    """Stores the constants that something else needs in the graph, in their nodes' place."""
    for i, (node, value) in enumerate(list(known.items())):
        if node.op == "get_attr" or all(user in known for user in node.users):
            continue
        name = f"_known_{i}"
        graph.register_buffer(name, value, persistent=False)
        with graph.graph.inserting_before(node):
            kept = graph.graph.get_attr(name)
        kept.meta = dict(node.meta)
        node.replace_all_uses_with(kept)
        known[kept] = value


def _drop(node: Node, known: dict[Node, Tensor]) -> None:
    """Leaves out an operation that returns its first argument as it is."""
    neutral = NEUTRAL.get(node.target) if node.op == "call_function" else None
    if neutral is None or len(node.args) != 2 or node.kwargs or not isinstance(node.args[0], Node):
        return
    first: Node = node.args[0]
    second: Any = node.args[1]
    constant: Any = known.get(second) if isinstance(second, Node) else second
    if isinstance(constant, Tensor):
        one_number = constant.numel() == 1 or (constant.numel() > 1 and not any(constant.stride()))
        constant = constant.reshape(-1)[0].item() if one_number else None
    one, other = first.meta.get("val"), node.meta.get("val")
    same = (
        isinstance(one, Tensor) and isinstance(other, Tensor) and (one.shape, one.dtype) == (other.shape, other.dtype)
    )
    if constant == neutral and same and not any(user.op == "output" for user in node.users):
        node.replace_all_uses_with(first)
