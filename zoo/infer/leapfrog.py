"""The leapfrog integrator of Hamilton's equations."""

from __future__ import annotations

import torch
from torch import Tensor

from .kernel import ValueAndGrad
from .mass import Mass, velocity


def leapfrog(at: Tensor, value_and_grad: ValueAndGrad, step: Tensor, mass: Mass) -> tuple[Tensor, Tensor]:
    """One leapfrog step on H(q, p) = -lp(q) + p^T M^-1 p / 2.

        p <- p + (e/2) grad lp(q);    q <- q + e M^-1 p;    p <- p + (e/2) grad lp(q)

    Reversible, keeps volume, energy error O(e^2) over a fixed time; stable on a harmonic mode of frequency w
    while e w < 2.

    Args:
        at: (chain, 3, dim) position, momentum, gradient.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) and gradients (chain, dim).
        step: Signed step sizes (chain, 1), or a scalar.
        mass: M.

    Returns:
        The new `at`, and its log densities (chain,).

    Source: Ambrogioni, "Leapfrog"; Neal 2011, section 2.3.
    """
    q, p, g = at.unbind(1)
    p = p + 0.5 * step * g
    q = q + step * velocity(p, mass)
    lp, g = value_and_grad(q)
    return torch.stack([q, p + 0.5 * step * g, g], 1), lp
