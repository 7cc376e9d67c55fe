"""A weight matrix diag(z) M that is not multiplied out: x W = (x z) M costs what x M costs, for any number of z.

Where each row of the data has factors z of its own, W would be a matrix a row; z is only a vector a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}
# What Python asks of a type, not of its attributes.
OPERATORS = ("getitem", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "neg", "matmul")


class Product:
    """Stands for the tensor `factor * m` in calls of torch; only a layer's own call leaves it unmultiplied.

    Args:
        factor: (in, 1) for a matrix m (in, out), (1, in, 1, 1) for kernels (out, in, height, width); other shapes
            are multiplied out at once.
        m: The parameter.
    """

    def __init__(self, factor: Tensor, m: Tensor) -> None:
        self.factor, self.m = factor, m

    def whole(self) -> Tensor:
        """The tensor."""
        return self.factor * self.m

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if len(args) > 1 and isinstance(args[1], Product) and not isinstance(args[0], Product):
            h, w = args[0], args[1]
            if func in MATMUL and w.factor.dim() == 2 and w.factor.shape[1] == 1:
                return func(h * w.factor[:, 0], w.m)
            grouped = options.get("groups", 1) != 1 or len(args) > 6
            by_channel = w.factor.dim() == 4 and w.factor.shape[1] == math.prod(w.factor.shape)
            if func is functional.conv2d and h.dim() == 4 and by_channel and not grouped:
                return func(h * w.factor, w.m, *args[2:], **options)
        return func(*map(_whole, args), **{name: _whole(value) for name, value in options.items()})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole(), name)


def _whole(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_whole, value))
    return value.whole() if isinstance(value, Product) else value


def _operator(name: str) -> Callable[..., Any]:
    def call(self: Product, *args: Any) -> Any:
        return getattr(self.whole(), name)(*map(_whole, args))

    return call


for _name in OPERATORS:
    setattr(Product, f"__{_name}__", _operator(f"__{_name}__"))
