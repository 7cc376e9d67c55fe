"""Operations that a graph does twice on the same tensors, done once.

Under vmap a function and its slope are written apart, each with an exponential of its own; a compiler that cuts a graph
into loops keeps a shared value, and computes an equal one anew.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree


def merge_equal(graph: Graph) -> None:
    """Lets one node of a functional graph stand for all that are equal to it.

    A graph that writes into anything but its arguments is left as it is: equal tensors need not stay equal there. Of
    one that writes into arguments only what comes before the first write is merged.
    """
    written = [node for node in graph.nodes if _writes(node)]
    if any(not isinstance(node.args[0], Node) or node.args[0].op != "placeholder" for node in written):
        return
    seen: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node in written:
            return
        if node.op not in ("call_function", "get_attr") or _random(node):
            continue
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        # True, 1 and 1.0 are equal and hash alike, but not to an operator; nor are 0.0 and -0.0.
        said = tuple((type(leaf), repr(leaf) if isinstance(leaf, float) else leaf) for leaf in leaves)
        key = node.op, node.target, said, str(spec)
        try:
            first = seen.setdefault(key, node)
        except TypeError:  # an argument that cannot be a key
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _writes(node: Node) -> bool:
    """Whether a node changes a tensor in place."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _random(node: Node) -> bool:
    """Whether a node draws numbers."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
