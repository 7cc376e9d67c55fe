"""What a graph computes of its data alone is computed once, not at every call.

log(scale), x^T, features of x, the Cholesky factor of a kernel matrix: a step of a sampler needs them a million times
and changes none of them.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

import torch
from torch.fx import Graph, GraphModule, Node

_aten = torch.ops.aten
VIEWS = {
    _aten.t.default, _aten.permute.default, _aten.transpose.int, _aten.view.default, _aten._unsafe_view.default,
    _aten.unsqueeze.default, _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.expand.default,
    _aten.select.int, _aten.slice.Tensor, _aten.alias.default, _aten.detach.default, _aten.diagonal.default,
}  # fmt: skip
MOST = 1 << 20  # numbers in a value that is kept, unless what it is computed of has more


def unchanged(graph: Graph, fixed: Collection[int]) -> set[Node]:
    """The nodes that depend on constants and on the inputs of these places alone, whose numbers never change.

    Also what is made of nothing, torch.zeros(3). Not what is drawn, nor what is written to or read of what is.
    """
    written = {base for node in graph.nodes for base in _written(node)}
    found: set[Node] = set()
    place = -1
    for node in graph.nodes:
        place += node.op == "placeholder"
        if node in written or node.op == "output":
            continue
        given = node.op == "get_attr" or (node.op == "placeholder" and place in fixed)
        computed = node.op == "call_function" and found.issuperset(node.all_input_nodes) and not _acts(node)
        if given or computed:
            found.add(node)
    return found


def computed_once(graph: GraphModule, fixed: Collection[int]) -> GraphModule | None:
    """Takes out of a graph what is `unchanged`: it then takes that as further inputs.

    Views, and what is made of nothing, stay: they cost nothing.

    Returns:
        A graph of the inputs that the graph had, which gives the further inputs; None where there are none.
    """
    same = unchanged(graph.graph, fixed)
    needed = _needed(graph.graph, same)
    if not needed:
        return None
    once, copied = Graph(), dict[Node, Node]()
    for node in graph.graph.nodes:
        if node.op == "placeholder" or node in same:
            copied[node] = once.node_copy(node, copied.__getitem__)
    once.output(tuple(copied[node] for node in needed))
    first = GraphModule(graph, once)
    first.graph.eliminate_dead_code()
    last = [node for node in graph.graph.nodes if node.op == "placeholder"][-1]
    for number, node in enumerate(needed):
        with graph.graph.inserting_after(last):
            last = graph.graph.placeholder(f"once_{number}")
        node.replace_all_uses_with(last)
    for node in reversed(list(graph.graph.nodes)):  # with its checks, that a matrix has a factor, which nobody reads
        if node in same and node.op != "placeholder" and not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    return first


def _needed(graph: Graph, same: set[Node]) -> list[Node]:
    """The computed nodes among `same` that others read, by themselves or by views of them."""
    wanted, found = set[Node](), list[Node]()
    for node in reversed(list(graph.nodes)):
        if node not in same:
            wanted.update(node.all_input_nodes)
        elif node in wanted:
            if _is_computed(node) and _size(node) <= max(MOST, *map(_size, _origins(node))):
                found.append(node)
            else:
                wanted.update(node.all_input_nodes)
    return found[::-1]


def _is_computed(node: Node) -> bool:
    return node.op == "call_function" and node.target not in VIEWS and bool(_origins(node))


def _origins(node: Node) -> set[Node]:
    """The inputs and constants that a node is computed of."""
    found, ahead, seen = set[Node](), [node], set[Node]()
    while ahead:
        one = ahead.pop()
        if one not in seen:
            seen.add(one)
            ahead.extend(one.all_input_nodes)
            if one.op != "call_function":
                found.add(one)
    return found


def _size(node: Node) -> float:
    """Numbers in a node's value; infinite where it is not one tensor of a known shape."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    shape = getattr(value, "shape", None)
    return float("inf") if shape is None else float(torch.Size(shape).numel())


def _written(node: Node) -> set[Node]:
    """What a node writes to: its arguments, and what those are views of."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return set()
    places = node.target._schema.arguments
    given = dict(zip((place.name for place in places), node.args, strict=False)) | node.kwargs
    found = {given.get(place.name) for place in places if place.alias_info and place.alias_info.is_write}
    bases = {node for node in found if isinstance(node, Node)}
    while more := {base.all_input_nodes[0] for base in bases if _shares(base)} - bases:
        bases |= more
    return bases


def _shares(node: Node) -> bool:
    """Whether a node's value may lie in its first input's memory."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem
    return any(place.alias_info is not None for place in node.target._schema.arguments)


def _acts(node: Node) -> bool:
    """Whether a node does more than compute its value of its arguments."""
    drawn = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
    return drawn or bool(_written(node))
