"""Images decoded on a grid of codes: 20 x 20 at normal quantiles, one coordinate at a time, or at random.

Neighbours on the grid are images that the decoder holds for alike; a VAE decodes to images everywhere.

Source: Leal-Taixe, "Variational autoencoder: 2-D grid, traversal of the latent space"; Kingma & Welling 2014.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from zoo.core.checks import whole
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy
from zoo.core.words import nearest

from ..canvas import panels
from ..codes import code_size, decoded, has_prior, names_of, spread, training_rows
from ..images import limits, pictures, show

CODES = ("quantiles", "traversal", "random")
ENDS = 0.01  # probability left out at both ends of the grid
SIDE, STEPS, RANDOM = 20, 11, 10


def draw(
    fits: Sequence[Posterior],
    on: Axes | None,
    *,
    codes: str | None = None,
    side: int | None = None,
    given: int | None = None,
    seed: int = 0,
) -> list[Axes]:
    """A panel a fit.

    Args:
        fits: Fits of models with a code.
        on: An Axes or None.
        codes: "quantiles": a grid over two coordinates; "traversal": a row a coordinate, the others in the middle;
            "random": drawn. Of the prior; where the code has none of a Normal with its training codes' mean and sd.
            None: a grid for a code of two numbers, else the traversal.
        side: Images on a side (20; 11 on a row of the traversal; 10 at random).
        given: The training row whose x is the condition, for a conditional model (0).
        seed: For codes at random.
    """
    shown = panels(on, len(fits), (7.0, 7.0))
    for axes, fit, name in zip(shown, fits, names_of(fits), strict=True):
        latent = code_size(fit)
        how = codes or ("quantiles" if latent == 2 else "traversal")
        z = _codes(how, latent, side, seed)
        loc, scale = (value.cpu() for value in spread(fit))
        data, x = _condition(fit, given, z[..., 0].numel())
        y = decoded(fit, (loc + scale * z).flatten(0, 1), x)
        images = pictures(data, y, x if data.info.get("pixels_of") else None)
        show(
            axes,
            list(images.reshape(*z.shape[:2], *images.shape[1:])),
            limits(to_numpy(training_rows(fit)[0])),
            **_ticks(how, z),
        )
        axes.set(title=name, **_words(how))
    return shown


def _codes(how: str, latent: int, side: int | None, seed: int) -> Tensor:
    """Standardised codes (rows, columns, latent)."""
    if how not in CODES:
        raise ValueError(nearest(str(how), CODES, "way to choose codes"))
    if how == "random":
        side = whole("side", side or RANDOM)
        return torch.randn(side, side, latent, generator=torch.Generator().manual_seed(seed))
    steps = whole("side", side or (SIDE if how == "quantiles" else STEPS))
    quantiles = torch.distributions.Normal(0.0, 1.0).icdf(torch.linspace(ENDS, 1 - ENDS, steps))
    if how == "traversal":
        return quantiles[None, :, None] * torch.eye(latent)[:, None]
    if latent != 2:
        raise ValueError(f"codes='quantiles' needs a code of 2 numbers, got {latent}. Take codes='traversal'.")
    up, across = torch.meshgrid(quantiles.flip(0), quantiles, indexing="ij")
    return torch.stack([across, up], -1)


def _condition(fit: Posterior, given: int | None, count: int) -> tuple[Data, Tensor | None]:
    """The data, and the condition of each image where the model has one."""
    data = fit.problem.data
    assert isinstance(data, Data)
    if not has_prior(fit) or not data.x[0].numel():
        return data, None
    row = 0 if given is None else given
    if not isinstance(row, int) or not 0 <= row < len(data.x):
        raise ValueError(f"given must be a training row in 0 ... {len(data.x) - 1}, got {given!r}.")
    return data, data.x[row].expand(count, *data.x.shape[1:])


def _ticks(how: str, z: Tensor) -> dict[str, list[str]]:
    if how == "random":
        return {"up": [], "across": []}
    if how == "traversal":
        return {"up": [f"z[{i}]" for i in range(len(z))], "across": _every(z[0, :, 0])}
    return {"up": _every(z[:, 0, 1]), "across": _every(z[0, :, 0])}


def _every(values: Tensor) -> list[str]:
    """The value of about five places, nothing at the others."""
    step = max(1, (len(values) - 1) // 4)
    return [f"{value:.1f}" if i % step == 0 else "" for i, value in enumerate(np.asarray(values).tolist())]


def _words(how: str) -> dict[str, str]:
    words = {"quantiles": ("z[0], in sds", "z[1], in sds"), "traversal": ("in sds, the others in the middle", "")}
    return dict(zip(("xlabel", "ylabel"), words.get(how, ("codes at random", "")), strict=True))
