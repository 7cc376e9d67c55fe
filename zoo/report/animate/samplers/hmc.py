"""HMC: a kick of random momentum, then L leapfrog steps of size e; the end is accepted or refused as a whole.

Energy error: H - H_0 at each leapfrog step, H = -log p(q) + |p|^2 / 2.

Source: Ambrogioni, "Hamiltonian Monte Carlo".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.infer.kernels import hmc as kernel
from zoo.infer.mass import Mass, kinetic

SIZES = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (1, 5, 20)
SIZE = "e"
VERDICT = True
OPTIONS: dict[str, Any] = {}


def error(old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Tensor:
    """H - H_0 where the trajectory is."""
    return -asked[1] + kinetic(new.at[:, 1], mass) - new.start_e[:, 1]
