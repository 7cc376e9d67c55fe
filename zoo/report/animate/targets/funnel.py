"""Funnel: v ~ N(0, 1.5²) upwards, x given v ~ N(0, exp(v)). Steps that suit the mouth are too long for the neck.

    log p = -((v / 1.5)^2 + x^2 exp(-v) + v) / 2,    q = (x, v)

A scale and what it scales, as in hierarchical models; Neal's has sd 3 instead of 1.5.

Source: Neal 2003, "Slice sampling".
"""

from __future__ import annotations

from torch import Tensor

BOX = ((-6.0, 6.0), (-6.0, 6.0))
WIDE = ((-160.0, 160.0), (-8.5, 8.5))
NODES = (16_001, 341)
START = (1.0, 1.0)
AXES = ("x", "v")


def log_density(q: Tensor) -> Tensor:
    """The formula of the file for positions (chain, 2) -> (chain,)."""
    x, v = q.unbind(-1)
    return -0.5 * ((v / 1.5) ** 2 + x**2 * (-v).exp() + v)
