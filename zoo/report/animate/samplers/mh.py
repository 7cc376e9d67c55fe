"""Metropolis-Hastings: a blind step q′ = q + e z; refused ones repeat the draw.

Energy error: log p(q) - log p(q').

Source: Ambrogioni, "Metropolis-Hastings".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.infer.kernels import mh as kernel
from zoo.infer.mass import Mass

SIZES = (0.1, 0.3, 1.0, 3.0)
LENGTHS = (0,)
SIZE = "e"
VERDICT = True
OPTIONS: dict[str, Any] = {}


def error(old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Tensor:
    """-log(p(q') / p(q)) of the proposal."""
    return -kernel.log_ratio(old.lp, asked[1])
