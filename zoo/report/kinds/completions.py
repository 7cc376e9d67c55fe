"""Images drawn given what is known of them: the truth, what is known, and several answers, a panel a fit.

Where x leaves open what the image is, the draws differ; what x tells is the same in all of them.

Source: Leal-Taixe, "Conditional variational autoencoder"; Sohn, Lee & Yan 2015.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from zoo.core.checks import whole
from zoo.core.posterior import Posterior
from zoo.core.problem import Data

from ..canvas import panels
from ..codes import code_size, decoded, has_prior, held_out, names_of, places
from ..images import limits, pictures, show


def draw(
    fits: Sequence[Posterior],
    on: Axes | None,
    *,
    rows: int | Sequence[int] | None = None,
    draws: int = 5,
    seed: int = 0,
) -> list[Axes]:
    """A panel a fit: a column an image; below the truth the mean images of codes drawn from the prior.

    Args:
        fits: Fits of a conditional model, on the same images.
        on: An Axes or None.
        rows: Which images of the test set (of the training set where there is none); None: the first ten.
        draws: How many answers.
        seed: For the codes.
    """
    draws, wanted = whole("draws", draws), places(fits, rows)
    shown = panels(on, len(fits), (max(4.0, 0.9 * len(wanted) + 1.5), 0.9 * (draws + 2) + 0.6), columns=2)
    for axes, fit, name in zip(shown, fits, names_of(fits), strict=True):
        y, x = (values[wanted] for values in held_out(fit))
        if not has_prior(fit) or not x.shape[1:].numel():
            raise ValueError(f"completions needs a condition x, '{fit.problem.name}' has none. Try kind 'grid'.")
        data = fit.problem.data
        assert isinstance(data, Data)
        lines = {"truth": pictures(data, y, x)}
        if data.info.get("pixels_of"):
            lines["known"] = pictures(data, None, x)
        z = torch.randn(draws, len(x), code_size(fit), generator=torch.Generator().manual_seed(seed))
        for i in range(draws):
            lines[f"draw {i + 1}"] = pictures(data, decoded(fit, z[i], x), x)
        show(axes, list(lines.values()), limits(lines["truth"]), up=list(lines), across=_classes(data, x))
        axes.set_title(name)
    return shown


def _classes(data: Data, x: Tensor) -> list[str]:
    """A name for each column where x is a class, one-hot."""
    names = data.info.get("x_names")
    if not names or x.dim() != 2 or not bool(((x == 0) | (x == 1)).all() and (x.sum(1) == 1).all()):
        return []
    return [str(names[int(place)]).rpartition("=")[2] for place in x.argmax(1)]
