"""Double well: x in the potential 4 (x² − 1)², y ~ N(0, 0.7²). Two modes: how often does the chain cross?

    log p = -4 (x^2 - 1)^2 - (y / .7)^2 / 2

The barrier is 4 nats high: the lecture's well U = x^4 - 2 x^2 at a quarter of its temperature.

Source: Ambrogioni, "Langevin".
"""

from __future__ import annotations

from torch import Tensor

BOX = ((-2.4, 2.4), (-2.4, 2.4))
WIDE = ((-4.0, 4.0), (-7.0, 7.0))
NODES = (401, 281)
START = (-1.0, 0.0)
AXES = ("x", "y")


def log_density(q: Tensor) -> Tensor:
    """The formula of the file for positions (chain, 2) -> (chain,)."""
    x, y = q.unbind(-1)
    return -4.0 * (x**2 - 1) ** 2 - 0.5 * (y / 0.7) ** 2
