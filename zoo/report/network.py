"""A network as nodes and edges, with the density of each weight standing on its edge.

Source: Blundell, Cornebise, Kavukcuoglu, Wierstra (2015), Weight uncertainty in neural networks, figure 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from .canvas import TICKS, colour, line
from .layers import Layer

Array = NDArray[np.float64]
GRID = 81
# Sizes in the drawing's own units: layers are 3 apart, nodes 1.
APART, HALF, TALL = 3.4, 0.45, 0.48
WHERE = (0.34, 0.62, 0.48, 0.76)


class Curve(NamedTuple):
    """A density over [-reach, reach]: weight values (m,) and heights (m,) that integrate to one."""

    values: Array
    heights: Array


def density_curve(draws: Array, reach: float) -> Curve:
    """A Gaussian kernel density estimate on [-reach, reach]; a constant is a spike of one grid step.

    Args:
        draws: Equally weighted draws (S,).
        reach: Half the width of the axis.
    """
    values = np.linspace(-reach, reach, GRID)
    if len(draws) < 2 or np.ptp(draws) < 1e-3 * reach:
        heights = np.zeros(GRID)
        heights[np.abs(values - draws.mean()).argmin()] = 1.0
    else:
        heights = stats.gaussian_kde(draws)(values)
    return Curve(values, heights / (heights.sum() * (values[1] - values[0])))


def reach_of(draws: Sequence[Array]) -> float:
    """One half-width for all densities: the largest 99 % quantile of |w| over the weights."""
    return max(float(np.quantile(np.abs(d), 0.99)) for d in draws) * 1.05 or 1.0


def draw_network(axes: Axes, fits: Sequence[dict[str, Array]], plan: Sequence[Layer], names: Sequence[str]) -> None:
    """Nodes, edges, and on every edge a density a fit, all on one horizontal scale.

    Args:
        axes: Where to draw.
        fits: {site: draws (S, in, out) or (S, out)} of each fit.
        plan: The layers.
        names: Names of the inputs.
    """
    sizes = [plan[0].fan_in, *(layer.width for layer in plan)]
    tallest = max(sizes)
    reach = reach_of([d[:, i] for fit in fits for d in _flat(fit, plan) for i in range(d.shape[1])])
    at = [[(APART * k, _height(i, size, tallest)) for i in range(size)] for k, size in enumerate(sizes)]
    for k, layer in enumerate(plan):
        for i, j in np.ndindex(layer.fan_in, layer.width):
            start, end = at[k][i], at[k + 1][j]
            axes.plot(*zip(start, end, strict=True), color="#999999", linewidth=1, zorder=1)
            share = WHERE[(i + j) % len(WHERE)] if layer.fan_in > 1 and layer.width > 1 else 0.5
            place = tuple(np.asarray(start) + share * (np.asarray(end) - np.asarray(start)))
            _stand(axes, [fit[layer.weights][:, i, j] for fit in fits], place, reach)
        for j in range(layer.width if layer.biases else 0):
            x, y = at[k + 1][j]
            _stand(axes, [fit[str(layer.biases)][:, j] for fit in fits], (x, y + 0.3), reach)
    _nodes(axes, at, plan, names)
    low, high = min(y for column in at for _, y in column), max(y for column in at for _, y in column)
    axes.set(xlim=(-0.9, APART * len(plan) + 0.9), ylim=(low - 0.75, high + 1.15), xticks=[], yticks=[])
    axes.set_xlabel(
        f"each small axis: -{reach:.2g} to {reach:.2g}, the tick at 0;\nall drawn to one height; above a node: its bias"
    )


def _flat(fit: dict[str, Array], plan: Sequence[Layer]) -> list[Array]:
    names = [name for layer in plan for name in (layer.weights, layer.biases) if name]
    return [fit[name].reshape(len(fit[name]), -1) for name in names]


def _height(place: int, size: int, tallest: int) -> float:
    spread = 1.25 * (tallest / size if size > 1 else 1.0) ** 0.5
    return ((size - 1) / 2 - place) * spread


def _stand(axes: Axes, draws: Sequence[Array], place: Sequence[float], reach: float) -> None:
    """The densities of one weight on a small axis with its middle, 0, at `place`; the first fit's is filled.

    Each is drawn to the same height: a sharp one would leave nothing of a broad one.
    """
    x, y = place
    curves = [density_curve(d, reach) for d in draws]
    axes.plot([x - HALF, x + HALF], [y, y], color="black", linewidth=0.8, zorder=2)
    axes.plot([x, x], [y - 0.05, y + 0.05], color="black", linewidth=0.8, zorder=4)
    for i, curve in enumerate(curves):
        across, up = x + curve.values / reach * HALF, y + curve.heights / curve.heights.max() * TALL
        if i == 0:
            axes.fill_between(across, y, up, color=colour(0), alpha=0.85, linewidth=0.8, zorder=2.5)
        else:
            axes.plot(across, up, linewidth=1.6, zorder=3, **line(i))


def _nodes(axes: Axes, at: list[list[tuple[float, float]]], plan: Sequence[Layer], names: Sequence[str]) -> None:
    top = max(y for column in at for _, y in column) + 1.0
    for k, column in enumerate(at):
        for i, (x, y) in enumerate(column):
            axes.plot(x, y, "o", color="white", mec="black", mew=1.8, markersize=16, zorder=5)
            word = names[i] if k == 0 else ("f" if len(column) == 1 else f"f{i + 1}") if k == len(plan) else ""
            side, shift = ("right", -12) if k == 0 else ("left", 12)
            axes.annotate(word, (x, y), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=TICKS)
        if k:
            layer = plan[k - 1]
            title = f"layer {k}: {layer.weights}" + (f", {layer.biases}" if layer.biases else "")
            axes.text(APART * (k - 0.5), top, title, ha="center", fontsize=TICKS + 2)
