"""Matrix products in the form that suits what is fused round them.

Of one row or column, as elementwise operations: a compiler fuses those.

    A B = A * B                        for A (m, 1), B (1, n)
    A B = sum_k A[:, k] B[k, 0]        for A (m, k), B (k, 1)
    A B = sum_k A[0, k] B[k, :]        for A (1, k), B (k, n)

A call of the library costs as much as a small network's layer, and what lies before and after it cannot be fused. One
fit's step then costs a third; of several fits together the compiler sees batches, which it takes apart by itself.

    A B = (B^T A^T)^T                  for B (k, n) whose columns lie in one piece, n < m; and A's (m, k), too

Chains' weights (chain, k) times rows (m, k): numbers of one chain then lie side by side, m of them, and are worked on
eight or sixteen at a time, however few chains there are. Four chains' gradients cost a quarter. Of two transposed
factors the library makes a product in three times the time of B^T A^T, which it is turned round.

    A B_c = the c-th columns of A [B_1 B_2 ...]        for rows A that all chains share

One wide product in place of many narrow ones: of 13 inputs and 50 units it costs two fifths. Of one row (the slopes of
a layer of one input) it would be a sum over chains and units in one, gathered number by number: three times the time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from .once import VIEWS

_aten = torch.ops.aten
ADD, SUB, NEG = _aten.add.Tensor, _aten.sub.Tensor, _aten.neg.default
MOST = 65_536  # numbers in a factor beyond which the library's product is as fast


def mm(a: Tensor, b: Tensor) -> Tensor:
    """A B (m, n) of A (m, k), B (k, n) on the CPU, in one of the forms above; NotImplemented: the library's."""
    if a.device.type != "cpu" or not a.is_floating_point():
        return NotImplemented
    if a.shape[1] == 1:
        return a * b
    if max(a.numel(), b.numel()) > MOST:
        return NotImplemented
    if b.shape[1] == 1:
        return (a * b.t()).sum(1, keepdim=True)
    if a.shape[0] == 1:
        return (a.t() * b).sum(0, keepdim=True)
    if b.stride(0) == 1 and (a.stride(0) == 1 or b.shape[1] < a.shape[0]):
        return torch.mm(b.t(), a.t()).t()
    return NotImplemented


def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """C + A B, as `mm`."""
    product = mm(a, b) if beta == 1 and alpha == 1 else NotImplemented
    return product if product is NotImplemented else c + product


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """A B_c (c, m, n) of rows A (m, k) that all chains share, and their B_c (c, k, n): one product instead of c."""
    chains, k, n = b.shape
    shared = a.device.type == "cpu" and chains > 1 and a.stride(0) == 0 and min(a.shape[1], k, n) > 1
    if not shared or not a.is_floating_point():
        return NotImplemented
    return torch.mm(a[0], b.permute(1, 0, 2).reshape(k, chains * n)).unflatten(1, (chains, n)).permute(1, 0, 2)


def with_fixed(graph: Graph, same: set[Node]) -> None:
    """Products A B of a B (k, n) that never changes, and whose columns lie in one piece: of a copy whose rows do.

    The copy is made once (see `zoo.infer.once`). Logits of a thousand rows for four chains take 4 us in place of 7.
    """
    for node in graph.find_nodes(op="call_function", target=_aten.mm.default):
        a, b = node.args
        known = b.meta.get("tensor_meta")
        if b not in same or a in same or known is None or known.stride[0] != 1 or known.shape.numel() > MOST:
            continue
        with graph.inserting_before(node):
            rows = graph.call_function(_aten.clone.default, (b,), {"memory_format": torch.contiguous_format})
        rows.meta["tensor_meta"] = known
        node.args = (a, rows)


def add_outside(graph: Graph) -> None:
    """A B + C as A B - (-C), the same to the bit, which the compiler does not take for one call of the library.

    That call first copies C to where A B is to be: 2 of 6 us for a thousand rows. In the loop that follows it is free.
    """
    for node in graph.find_nodes(op="call_function", target=ADD):
        if len(node.args) == 2 and not node.kwargs and all(isinstance(a, Node) for a in node.args):
            product = next((a for a in node.args if _viewed(a).target is _aten.mm.default), None)
            other = node.args[node.args[0] is product]
            if product is not None and _is_float(other):
                with graph.inserting_before(node):
                    node.target, node.args = SUB, (product, graph.call_function(NEG, (other,)))


def _is_float(node: Node) -> bool:
    """Whether a node is known to be a tensor of floating point: of others there is no minus, or another."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return value is not None and value.dtype.is_floating_point


def _viewed(node: Node) -> Node:
    """The node that a node is a view of, or itself."""
    while node.target in VIEWS:
        node = node.all_input_nodes[0]
    return node


DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.mm.default: mm,
    torch.ops.aten.addmm.default: addmm,
    torch.ops.aten.bmm.default: bmm,
}
