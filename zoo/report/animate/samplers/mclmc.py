"""MCLMC: as HMC, but at constant speed: the gradient only turns the direction. The end is accepted or refused.

Energy error: H - H_0 at each step, H = -log p(q) + (d - 1) log |p|.

Source: Robnik, Cohn-Gordon & Seljak 2025.
"""

from __future__ import annotations

from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import hmc
from zoo.infer.kernels import mclmc as kernel
from zoo.infer.mass import Mass

SIZES = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (1, 5, 20)
SIZE = "e"
VERDICT = True


def setup_of(length: int) -> Setup:
    """The setup of the kernel for two coordinates and step size 1: trajectories of `length` steps, without jitter."""
    return hmc.setup(2, length=float(length), jitter=0.0)


def seen(
    old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass
) -> tuple[Tensor, Tensor]:
    """Where the trajectory is and H - H_0 there."""
    return asked[0], -asked[1] + kernel.kinetic(new.at[:, 1], mass) - new.start_e[:, 1]
