"""NUTS: the trajectory doubles forwards or backwards until it turns; one of its points is the next draw.

At most 63 leapfrog steps. Energy error: H - H_0 at each of them.

Source: Ambrogioni II, "Hamiltonian Monte Carlo"; Hoffman & Gelman 2014.
"""

from __future__ import annotations

from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import nuts as kernel
from zoo.infer.mass import Mass, kinetic

SIZES = (0.1, 0.2, 0.4, 0.8)
LENGTHS = (0,)
SIZE = "e"
VERDICT = False
MAX_DEPTH = 6


def setup_of(length: int) -> Setup:
    """The setup of the kernel for two coordinates and step size 1."""
    return kernel.setup(2, max_depth=MAX_DEPTH)


def seen(
    old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass
) -> tuple[Tensor, Tensor]:
    """The leaf and H - H_0 there."""
    return asked[0], -asked[1] + kinetic(new.at[:, 1], mass) - new.energy_0
