"""Activation functions by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from .words import nearest

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "elu": functional.elu,
}


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """The function of that name.

    Raises:
        ValueError: For an unknown name, with the nearest right one.
    """
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(nearest(str(name), ACTIVATIONS, "activation"))
    return ACTIVATIONS[name]
