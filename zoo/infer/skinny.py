"""Matrix products in the form that suits what is fused round them.

Of one row or column, as elementwise operations: a compiler fuses those.

    A B = A * B                        for A (m, 1), B (1, n)
    A B = sum_k A[:, k] B[k, 0]        for A (m, k), B (k, 1)
    A B = sum_k A[0, k] B[k, :]        for A (1, k), B (k, n)

A call of the library costs as much as a small network's layer, and what lies before and after it cannot be fused. One
fit's step then costs a third; of several fits together the compiler sees batches, which it takes apart by itself.

    A B = (B^T A^T)^T                  for B (k, n) whose columns lie in one piece, n < m

Chains' weights (chain, k) times rows (m, k): numbers of one chain then lie side by side, m of them, and are worked on
eight or sixteen at a time, however few chains there are. Four chains' gradients cost a quarter.

    A B_c = the c-th columns of A [B_1 B_2 ...]        for rows A that all chains share

One wide product in place of many narrow ones: of 13 inputs and 50 units it costs two fifths.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
    if b.stride(0) == 1 and b.shape[1] < a.shape[0]:
        return torch.mm(b.t(), a.t()).t()
    return NotImplemented


def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """C + A B, as `mm`."""
    product = mm(a, b) if beta == 1 and alpha == 1 else NotImplemented
    return product if product is NotImplemented else c + product


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """A B_c (c, m, n) of rows A (m, k) that all chains share, and their B_c (c, k, n): one product instead of c."""
    chains, k, n = b.shape
    shared = a.device.type == "cpu" and chains > 1 and a.stride(0) == 0 and min(k, n) > 1
    if not shared or not a.is_floating_point():
        return NotImplemented
    return torch.mm(a[0], b.permute(1, 0, 2).reshape(k, chains * n)).unflatten(1, (chains, n)).permute(1, 0, 2)


DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.mm.default: mm,
    torch.ops.aten.addmm.default: addmm,
    torch.ops.aten.bmm.default: bmm,
}
