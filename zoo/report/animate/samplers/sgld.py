"""SGLD, all rows: q′ = q + (h/2) ∇log p + √h z, always taken: too wide a law, the wider the larger h.

The Langevin step without an accept step, h constant. There is no acceptance ratio, so no energy error.

Source: Ambrogioni, "Stochastic gradient Langevin dynamics".
"""

from __future__ import annotations

from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import sgld as kernel
from zoo.infer.mass import Mass

SIZES = (0.01, 0.03, 0.1, 0.3)
LENGTHS = (0,)
SIZE = "h"
VERDICT = False


def setup_of(length: int) -> Setup:
    """The setup of the kernel for two coordinates and step size 1, the step constant."""
    return kernel.setup(2, gamma=0.0)


def seen(
    old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass
) -> tuple[Tensor, Tensor]:
    """Where the step led, and 0."""
    return new.position, 0 * asked[1]
