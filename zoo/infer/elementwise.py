"""tanh and softplus as compilers do them well: few operations, no table, no branch, one exponential.

The library's are a call of 20 to 40 operations each; under vmap torch writes softplus and its slope with an
exponential of their own. Coefficients are least-maximum fits of relative error, rounded to float32's needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# x P(x^2) / Q(x^2) is tanh x on [-7.9, 7.9] to 1.4e-7, and at the ends, where tanh is 1 - 2.7e-7, no more than 1.
TANH_END = 7.9
TANH_P = (0.99999987020973, 0.129344370204340, 0.00296049178586577, 1.15319883363936e-05)
TANH_Q = (1.0, 0.462676640899178, 0.0238541649189105, 0.000240014366138531, 2.49258567567442e-07)
# log(1 + e) is e L(e) on [0, 1], to 3.1e-8.
LOG1P = (
    0.9999999698787605, -0.49999493130313405, 0.3331909659524825, -0.24842980522608168, 0.19106000140316592,
    -0.13663231711752633, 0.07822578584403907, -0.029505136813437922, 0.005232668818818384,
)  # fmt: skip


def polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """sum_k coefficients[k] x^k, by Horner's rule."""
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def tanh(x: Tensor) -> Tensor:
    """tanh, in float32 to 5e-7 relative and never above 1, in float64 to 1e-15; other dtypes keep the library's.

    float32: one rational function. float64: by exp, and near 0, where 1 - 2 / (e^2x + 1) loses all digits, by
    x / (1 + x^2 / (3 + x^2 / (5 + ...))), ended at 11.
    """
    if x.dtype == torch.float32:
        x = x.clamp(-TANH_END, TANH_END)
        square = x * x
        return x * polynomial(TANH_P, square) / polynomial(TANH_Q, square)
    if x.dtype != torch.float64:
        return NotImplemented
    square = x * x
    below = 10395 + square * (4725 + square * (210 + square))
    near = x * (10395 + square * (1260 + square * 21)) / below
    return torch.where(x.abs() < 0.25, near, 1 - 2 / (torch.exp(2 * x) + 1))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), beta = 1; beyond any threshold of 20 and more that is x."""
    if beta != 1 or threshold < 20 or x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    small = torch.exp(-x.abs())
    tail = small * polynomial(LOG1P, small) if x.dtype == torch.float32 else torch.log1p(small)
    return x.clamp(min=0) + tail


def softplus_slope(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    """grad sigmoid(x), of the same exponential: 1 / (1 + e^-|x|) where x >= 0, else e^-|x| / (1 + e^-|x|)."""
    if beta != 1 or threshold < 20 or x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    small = torch.exp(-x.abs())
    return grad * (torch.where(x >= 0, 1.0, small) / (1 + small))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.tanh.default: tanh,
    torch.ops.aten.softplus.default: softplus,
    torch.ops.aten.softplus_backward.default: softplus_slope,
}
