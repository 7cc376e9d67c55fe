"""Metropolis-Hastings: a blind step q′ = q + e z; refused ones repeat the draw.

Energy error: log p(q) - log p(q').

Source: Ambrogioni, "Metropolis-Hastings".
"""

from __future__ import annotations

from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import mh as kernel
from zoo.infer.mass import Mass

SIZES = (0.1, 0.3, 1.0, 3.0)
LENGTHS = (0,)
SIZE = "e"
VERDICT = True


def setup_of(length: int) -> Setup:
    """The setup of the kernel for two coordinates and step size 1."""
    return kernel.setup(2)


def seen(
    old: kernel.State, new: kernel.State, asked: tuple[Tensor, Tensor, Tensor], mass: Mass
) -> tuple[Tensor, Tensor]:
    """The proposal and -log(p(q') / p(q))."""
    return asked[0], -kernel.log_ratio(old.lp, asked[1])
