"""Images and what autoencoders make of them, a row a fit: truth | autoencoder | VAE.

A code of few numbers keeps what images have in common and loses the rest: look where a row differs from the first.

Source: Leal-Taixe, "Variational autoencoder: ground truth, autoencoder, VAE"; Hinton & Salakhutdinov 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from zoo.core.posterior import Posterior
from zoo.core.problem import Data

from ..canvas import panels
from ..codes import decoded, encoded, held_out, names_of, places
from ..images import limits, pictures, show


def draw(fits: Sequence[Posterior], on: Axes | None, *, rows: int | Sequence[int] | None = None) -> list[Axes]:
    """One panel: the images in the first row, then a row a fit, each the mean image of the image's code.

    Args:
        fits: Fits of models with a code, on the same images.
        on: An Axes or None.
        rows: Which images of the test set (of the training set where there is none); None: the first ten.
    """
    wanted = places(fits, rows)
    truth, x = held_out(fits[0])
    data = fits[0].problem.data
    assert isinstance(data, Data)
    lines = {"truth": pictures(data, truth[wanted], x[wanted])}
    for fit, name in zip(fits, names_of(fits), strict=True):
        y, given = (values[wanted] for values in held_out(fit))
        images = decoded(fit, encoded(fit, y, given), given)
        lines[name] = pictures(data, images, x[wanted])
    (axes,) = panels(on, 1, (max(4.0, 0.9 * len(wanted) + 1.5), 0.9 * len(lines) + 0.6))
    show(axes, list(lines.values()), limits(lines["truth"]), up=list(lines))
    return [axes]
