"""NUTS: the trajectory doubles forwards or backwards until it turns; one of its points is the next draw.

At most 63 leapfrog steps. Energy error: H - H_0 at each of them.

Source: Ambrogioni II, "Hamiltonian Monte Carlo"; Hoffman & Gelman 2014.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.infer.kernels import nuts as kernel
from zoo.infer.mass import Mass, kinetic

SIZES = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (0,)
SIZE = "e"
VERDICT = False
OPTIONS: dict[str, Any] = {"max_depth": 6}


def error(old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Tensor:
    """H - H_0 at the leaf."""
    return -asked[1] + kinetic(new.at[:, 1], mass) - new.energy_0
