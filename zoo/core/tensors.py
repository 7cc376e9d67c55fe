"""The tensors a distribution is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.distributions import Distribution, Transform
from torch.distributions.constraints import Constraint


def parameters(fn: Any) -> Iterator[Tensor]:
    """Every tensor inside a distribution: its own, its base's, its transforms' and its support's bounds."""
    for value in vars(fn).values():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Tensor):
                yield item
            elif isinstance(item, (Distribution, Transform, Constraint)):
                yield from parameters(item)
