"""`prior_width`: where the prior lies in each unconstrained coordinate, and how wide it is there.

    c_i = q_.5,    s_i = (q_.75 - q_.25) / 1.349    of coordinate i over 400 draws of the prior; the sd of a normal one

mass="prior" has the scales s, never learned but for the mean of f, and its chains start in these units. Of a network's
weights the data determine a few directions; in the others, most of them, the posterior is as wide as the prior. Learned
in a mode, sds of single weights say little of that, and a unit mass fits priors of sd 1 only. Quartiles: a prior may
have no sd.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .density import Density
from .seeds import block_seed

DRAWS = 400
NORMAL = 1.3489795003921634  # between the quartiles of N(0, 1)


class Width(NamedTuple):
    """c and s, (dim,) each."""

    centre: Tensor
    scale: Tensor


def width_for(kind: str, density: Density, seed: int) -> Width | None:
    """The prior's, for the kind of mass that needs it."""
    return prior_width(density, seed) if kind == "prior" else None


def prior_width(density: Density, seed: int) -> Width:
    """c and s; s is 1 where the prior has no width.

    Args:
        density: Of the posterior; only its coordinates and its problem's prior matter.
        seed: Of the draws.

    Raises:
        ValueError: For an improper prior, naming the site.
    """
    from .methods import prior

    try:
        drawn = prior.fit(density.problem, draws=DRAWS, seed=block_seed(seed, 0, 0, "prior width"))
    except ValueError as error:
        raise ValueError(f"mass='prior' needs draws of the prior: {error}") from None
    values = {block.name: drawn.draws[block.name][0].to(density.dtype) for block in density.blocks}
    position = density.unconstrain(values).double()
    low, centre, high = torch.quantile(position, position.new_tensor([0.25, 0.5, 0.75]), 0)
    scale = (high - low) / NORMAL
    scale = torch.where(torch.isfinite(scale) & (scale > 0), scale, 1.0)
    return Width(*(value.to(position.device, density.dtype) for value in (centre, scale)))
