"""Banana: x ~ N(0, 1), y given x ~ N(x² − 1, 0.5²). A bent ridge: no one step size suits both ends and middle.

    log p = -(x^2 + ((y - x^2 + 1) / .5)^2) / 2

Source: Haario, Saksman & Tamminen 1999.
"""

from __future__ import annotations

from torch import Tensor

BOX = ((-4.5, 4.5), (-2.9, 6.1))
WIDE = ((-7.0, 7.0), (-5.0, 50.0))
NODES = (561, 551)
START = (-2.0, 3.0)
AXES = ("x", "y")


def log_density(q: Tensor) -> Tensor:
    """The formula of the file for positions (chain, 2) -> (chain,)."""
    x, y = q.unbind(-1)
    return -0.5 * (x**2 + ((y - x**2 + 1) / 0.5) ** 2)
