"""Codes of images, coloured by what the images show: what an autoencoder puts beside what, and where it has holes.

A VAE's codes fill the circles that hold 50 and 95 % of its prior; an autoencoder's lie anywhere, with gaps between.

Source: Leal-Taixe, "Autoencoder: latent space"; Kingma & Welling 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from ..canvas import TICKS, panels
from ..codes import code_size, encoded, has_prior, names_of
from ..inputs import Array

MOST = 5000
SHARES = (0.5, 0.95)
FEW = 20  # different whole numbers that are classes


def draw(
    fits: Sequence[Posterior], on: Axes | None, *, coordinates: tuple[int, int] = (0, 1), colour: str | None = None
) -> list[Axes]:
    """A panel a fit: the codes of the training images; circles: what the prior holds of them.

    Args:
        fits: Fits of models with a code of at least two numbers.
        on: An Axes or None.
        coordinates: Which two of the code.
        colour: "labels", or one of the factors that the data's info names; None: what there is.
    """
    across, up = (_coordinate(coordinates, place, min(map(code_size, fits))) for place in (0, 1))
    shown = panels(on, len(fits), (5.6, 5.2))
    for panel, fit, name in zip(shown, fits, names_of(fits), strict=True):
        z = to_numpy(encoded(fit))[:MOST].astype(np.float64)
        _points(panel, z[:, [across, up]], *_colours(fit, colour))
        if has_prior(fit):
            _circles(panel)
            panel.set_aspect("equal", adjustable="datalim")
        panel.set(title=name, xlabel=f"z[{across}]", ylabel=f"z[{up}]")
    return shown


def _coordinate(wanted: Sequence[int], place: int, size: int) -> int:
    both = list(wanted) if isinstance(wanted, Sequence) else []
    if len(both) != 2 or any(not isinstance(a, int) or not 0 <= a < size for a in both) or both[0] == both[1]:
        enough = f"two of 0 ... {size - 1}" if size > 1 else "two coordinates, and the code has one number only"
        raise ValueError(f"coordinates must be {enough}, got {wanted!r}. For a code of one number draw kind 'grid'.")
    return int(both[place])


def _colours(fit: Posterior, colour: str | None) -> tuple[str, Array | None]:
    """What the colours mean, and a number an image; no numbers where info has none."""
    data = fit.problem.data
    assert isinstance(data, Data)
    found = {**({"labels": data.info["labels"]} if "labels" in data.info else {}), **data.info.get("factors", {})}
    if colour is not None and colour not in found:
        raise ValueError(f"colour must be one of {', '.join(found) or 'nothing'}, got {colour!r}. Leave it out.")
    name = colour or next(iter(found), None)
    return ("", None) if name is None else (name, np.asarray(found[name], dtype=np.float64)[:MOST])


def _points(panel: Axes, z: Array, name: str, values: Array | None) -> None:
    if values is None:
        panel.plot(z[:, 0], z[:, 1], "o", color="#0072B2", markersize=4, alpha=0.6)
        return
    kinds = np.unique(values)
    if len(kinds) > FEW or np.any(kinds != kinds.round()):
        points = panel.scatter(z[:, 0], z[:, 1], c=values, cmap="viridis", s=14)
        panel.figure.colorbar(points, ax=panel).set_label(name, fontsize=TICKS)
        return
    for i, kind in enumerate(kinds):
        rows = values == kind
        # Digits as marks: read without colour, too.
        mark = f"${int(kind)}$"
        panel.plot(z[rows, 0], z[rows, 1], linestyle="", marker=mark, color=colormaps["tab10"](i % 10), markersize=6)


def _circles(panel: Axes) -> None:
    """Where the prior N(0, I) of two coordinates holds 50 and 95 %: radius sqrt(-2 log(1 - share))."""
    for share in SHARES:
        wide = 2 * math.sqrt(-2 * math.log(1 - share))
        panel.add_patch(Ellipse((0, 0), wide, wide, fill=False, edgecolor="black", linewidth=2, label=f"{share:.0%}"))
