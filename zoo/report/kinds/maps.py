"""Single draws as maps over two inputs, then their average: consistent is certain, scattered is not.

Source: Ambrogioni, "Bayesian logistic regression: point estimate and posterior averaging"; Thome, "moons".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from zoo.core.posterior import Posterior

from ..bands import classes, names
from ..canvas import LABEL, labels, legend_above, panels
from ..inputs import SIDE, common_data, curves, square, x_name
from ..points import map_points
from .surface import PROBABILITIES, contours, light

DRAWS = 1000


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0, draws: int = 5) -> list[Axes]:
    """A panel a draw, evenly spread over all of them, and one for the average; one scale.

    Args:
        fits: One fit with x (n, 2).
        on: None: there are several panels.
        output: Which target or class.
        draws: How many single draws.
    """
    if len(fits) != 1:
        raise ValueError(f"maps draws one fit, got {len(fits)}. Draw one at a time, or kind 'surface'.")
    (fit,), data = fits, common_data(fits)
    if data.x.dim() != 2 or data.x.shape[1] != 2:
        raise ValueError(f"maps needs x of shape (n, 2), got {tuple(data.x.shape)}. Try kind 'lines' or 'predicted'.")
    across, up, places = square(fit)
    every = curves(fit, places, output, DRAWS)
    some = every[np.linspace(0, len(every) - 1, min(draws, len(every))).round().astype(int)]
    maps = [np.asarray(m).reshape(SIDE, SIDE) for m in (*some, every.mean(0))]
    titles = [*(f"draw {i + 1}" for i in range(len(some))), f"average of {len(every)}"]
    shown = panels(on, len(maps), (5.4, 4.6), sharex=True, sharey=True)
    probability = classes(fit)
    low, high = (0.0, 1.0) if probability else (min(m.min() for m in maps), max(m.max() for m in maps))
    levels = PROBABILITIES if probability else np.linspace(low, high, 9)[1:-1]
    for i, (axes, values, title) in enumerate(zip(shown, maps, titles, strict=True)):
        mesh = axes.pcolormesh(across, up, values, cmap=light(), vmin=low, vmax=high, shading="gouraud")
        contours(axes, across, up, values, levels)
        map_points(axes, fit)
        axes.set(title=f"{labels(fits)[0]}: {title}", xlim=across[[0, -1]], ylim=up[[0, -1]])
        if i + 3 >= len(shown):
            axes.set_xlabel(x_name(data, 0))
        if i % 3 == 0:
            axes.set_ylabel(x_name(data, 1))
    legend_above(shown, on)
    bar = shown[0].figure.colorbar(mesh, ax=shown)
    bar.set_label(names(fit, output)[1], fontsize=LABEL)
    return shown
