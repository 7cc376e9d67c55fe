"""MALA: a step along the gradient plus noise, q′ = q + h ∇log p + √(2h) z; refused ones repeat the draw.

Energy error: minus the log of the acceptance ratio, the two proposal densities in it.

Source: Ambrogioni, "Metropolis-adjusted Langevin".
"""

from __future__ import annotations

from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import mala as kernel
from zoo.infer.mass import Mass

SIZES = (0.005, 0.02, 0.08, 0.3)
LENGTHS = (0,)
SIZE = "h"
VERDICT = True


def setup_of(length: int) -> Setup:
    """The setup of the kernel for two coordinates and step size 1."""
    return kernel.setup(2)


def seen(
    old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass
) -> tuple[Tensor, Tensor]:
    """The proposal and -log a (h = 1)."""
    position, lp, grad = asked
    return position, -kernel.log_ratio((old.position, old.lp, old.grad), (position, lp, grad), lp.new_tensor(1.0), mass)
