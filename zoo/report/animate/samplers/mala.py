"""MALA: a step along the gradient plus noise, q′ = q + h ∇log p + √(2h) z; refused ones repeat the draw.

Energy error: minus the log of the acceptance ratio, the two proposal densities in it.

Source: Ambrogioni, "Metropolis-adjusted Langevin".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.infer.kernels import mala as kernel
from zoo.infer.mass import Mass

SIZES = (0.005, 0.02, 0.08, 0.3)
LENGTHS = (0,)
SIZE = "h"
VERDICT = True
OPTIONS: dict[str, Any] = {}


def error(old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Tensor:
    """-log a of the proposal (h = 1)."""
    return -kernel.log_ratio((old.position, old.lp, old.grad), asked, asked[1].new_tensor(1.0), mass)
