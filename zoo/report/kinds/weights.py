"""Weights: a small density on every edge of a small network; histograms a layer of larger ones, a weight of lines.

Source: Blundell, Cornebise, Kavukcuoglu, Wierstra (2015), Weight uncertainty in neural networks, figures 1 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from zoo.core.computed import as_written
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy
from zoo.core.words import nearest

from ..canvas import colour, labels, legend, line, panels
from ..histograms import outlines
from ..inputs import x_name
from ..layers import Layer, layers
from ..marginals import equally_weighted
from ..network import draw_network
from ..picked import axis_name, equal, picked

EDGES = 30
CROSSING = 12  # more edges of one layer that cross, and the densities on them lie on each other
Array = NDArray[np.float64]


def draw(fits: Sequence[Posterior], on: Axes | None, *, site: str | Sequence[str] | None = None) -> list[Axes]:
    """The network drawn, up to 30 edges and 12 that cross in a layer; above that, and for named sites, histograms.

    Args:
        fits: Fits of the same model.
        on: An Axes (the network, or one panel then) or None.
        site: Sites to draw as histograms; None: all weights.
    """
    plan = layers(fits[0])
    if site is None and len(plan) > 1 and _drawable(plan):
        return _network(fits, on, plan)
    names = [site] if isinstance(site, str) else list(site or _all_weights(fits[0]))
    for name in names:
        if name not in fits[0].draws:
            raise ValueError(nearest(name, fits[0].draws, "site"))
    single = sum(fits[0].draws[name][0, 0].numel() for name in names) <= EDGES and len(plan) <= 1
    return (_each if single or site else _pooled)(fits, on, names, plan)


def _drawable(plan: Sequence[Layer]) -> bool:
    """Whether every edge has room for its density."""
    edges = [layer.fan_in * layer.width for layer in plan]
    crossing = [count for layer, count in zip(plan, edges, strict=True) if min(layer.fan_in, layer.width) > 1]
    return sum(edges) <= EDGES and max(crossing, default=0) <= CROSSING


def _all_weights(fit: Posterior) -> list[str]:
    """Every site that is no lone scalar beside larger ones (a noise, a rate), or else all."""
    plan = layers(fit)
    in_layers = [name for layer in plan for name in (layer.weights, layer.biases) if name]
    return in_layers if len(plan) > 1 else list(as_written(fit.draws))


def _network(fits: Sequence[Posterior], on: Axes | None, plan: Sequence[Layer]) -> list[Axes]:
    widest = max(plan[0].fan_in, *(layer.width for layer in plan))
    (axes,) = panels(on, 1, (3.2 + 3.2 * len(plan), max(4.5, 1.1 * widest + 2.0)))
    data = fits[0].problem.data
    assert isinstance(data, Data)
    names = [x_name(data, i) for i in range(plan[0].fan_in)]
    wanted = [name for layer in plan for name in (layer.weights, layer.biases) if name]
    draw_network(axes, [{name: _draws(fit, name) for name in wanted} for fit in fits], plan, names)
    axes.spines[:].set_visible(False)
    handles = [Patch(color=colour(0)), *(Line2D([], [], linewidth=2, **line(i)) for i in range(1, len(fits)))]
    legend(axes, handles=handles, labels=labels(fits), loc="lower left")
    return [axes]


def _draws(fit: Posterior, name: str) -> Array:
    """(S, *shape) of equal weight."""
    value = to_numpy(fit.draws[name]).astype(np.float64)
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    return equally_weighted(value.reshape(*value.shape[:2], -1), weights).reshape(-1, *value.shape[2:])


def _pooled(fits: Sequence[Posterior], on: Axes | None, names: list[str], plan: Sequence[Layer]) -> list[Axes]:
    """A panel a site: the draws of all its numbers together."""
    shown = panels(on, len(names), (6.0, 4.4), min(4, max(1, 2 * ((len(names) + 1) // 4))))
    for axes, name in zip(shown, names, strict=True):
        outlines(axes, [_draws(fit, name).ravel() for fit in fits if name in fit.draws], labels(fits))
        axes.set_title(_title(name, tuple(fits[0].draws[name].shape[2:]), plan))
        axes.set(xlabel=name, ylabel="density")
    legend(shown[0])
    return shown


def _title(name: str, shape: tuple[int, ...], plan: Sequence[Layer]) -> str:
    place = next((i for i, layer in enumerate(plan) if name in layer[:2]), None)
    size = " x ".join(map(str, shape)) or "1"
    numbers = "number" if shape in ((), (1,)) else "numbers"
    return f"{'' if place is None else f'layer {place + 1}: '}{name}, {size} {numbers}"


def _each(fits: Sequence[Posterior], on: Axes | None, names: list[str], plan: Sequence[Layer]) -> list[Axes]:
    """A panel a number."""
    picks = [picked(fit, names, 0, EDGES) for fit in fits]
    count = len(picks[0])
    shown = panels(on, count, (5.4, 4.0) if count < 7 else (4.6, 3.6), 3 if count < 10 else 4)
    for axes, label in zip(shown, picks[0], strict=True):
        values = [equal(fit, found[label].values) for fit, found in zip(fits, picks, strict=True) if label in found]
        outlines(axes, values, labels(fits), 30)
        axes.axvline(0.0, color="black", linewidth=1, linestyle=":")
        axes.set_xlabel(axis_name(fits[0], label, picks[0][label]))
        axes.set_yticks([])
    shown[0].set_ylabel("density")
    legend(shown[0])
    return shown
