"""Tensors: those a distribution is made of, and their values as numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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


def to_numpy(value: Tensor) -> NDArray[Any]:
    """The values on the CPU; half precisions, which netCDF lacks, as float32."""
    value = value.detach().cpu()
    return np.asarray((value.float() if value.dtype in (torch.float16, torch.bfloat16) else value).numpy())


def plain(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The same memory as numpy's, which does little with few numbers in a fifth of the time, where it is the CPU's."""
    return {name: value.numpy() if value.is_cpu else value for name, value in tensors.items()}
