"""MCLMC: as HMC, but at constant speed: the gradient only turns the direction. The end is accepted or refused.

Energy error: H - H_0 at each step, H = -log p(q) + (d - 1) log |p|.

Source: Robnik, Cohn-Gordon & Seljak 2025.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.infer.kernels import mclmc as kernel
from zoo.infer.mass import Mass

SIZES = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (1, 5, 20)
SIZE = "e"
VERDICT = True
OPTIONS: dict[str, Any] = {}


def error(old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Tensor:
    """H - H_0 where the trajectory is."""
    return -asked[1] + kernel.kinetic(new.at[:, 1], mass) - new.start_e[:, 1]
