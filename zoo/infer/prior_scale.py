"""`prior_scale`: how wide the prior is in each unconstrained coordinate, as the scale of a mass that is never learned.

    s_i = (q_.75 - q_.25) / 1.349 of coordinate i over 400 draws of the prior        (the sd of a normal one)

Of a network's weights the data determine a few directions; in the others, most of them, the posterior is as wide as
the prior. Learned in a mode, sds of single weights say little of that, and a unit mass fits priors of sd 1 only.
Quartiles: a prior may have no sd.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .density import Density
from .seeds import block_seed

DRAWS = 400
NORMAL = 1.3489795003921634  # between the quartiles of N(0, 1)


def prior_scale(density: Density, seed: int) -> Tensor:
    """s (dim,); 1 where the prior has no width.

    Args:
        density: Of the posterior; only its coordinates and its problem's prior matter.
        seed: Of the draws.

    Raises:
        ValueError: For an improper prior, naming the site.
    """
    from .methods import prior

    try:
        drawn = prior.fit(density.problem, draws=DRAWS, seed=block_seed(seed, 0, 0, "prior scale"))
    except ValueError as error:
        raise ValueError(f"mass='prior' needs draws of the prior: {error}") from None
    values = {block.name: drawn.draws[block.name][0].to(density.dtype) for block in density.blocks}
    position = density.unconstrain(values).double()
    low, high = torch.quantile(position, position.new_tensor([0.25, 0.75]), 0)
    scale = (high - low) / NORMAL
    return torch.where(torch.isfinite(scale) & (scale > 0), scale, 1.0).to(position.device, density.dtype)
