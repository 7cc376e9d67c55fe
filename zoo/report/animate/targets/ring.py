"""Ring: distance from the centre near 3 ± 0.3. A thin curved shell, as posteriors of many weights are.

    log p = -((|q| - 3) / .3)^2 / 2

Source: Betancourt 2017 (the typical set).
"""

from __future__ import annotations

from torch import Tensor

BOX = ((-4.5, 4.5), (-4.5, 4.5))
WIDE = ((-6.0, 6.0), (-6.0, 6.0))
NODES = (301, 301)
START = (0.0, 3.0)
AXES = ("x", "y")


def log_density(q: Tensor) -> Tensor:
    """The formula of the file for positions (chain, 2) -> (chain,)."""
    # hypot has no gradient at the centre; the small number keeps it finite there.
    radius = ((q**2).sum(-1) + 1e-12).sqrt()
    return -0.5 * ((radius - 3.0) / 0.3) ** 2
