"""What a target is exactly: its two marginals and its regions of highest density, by quadrature."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import contourpy
import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]
BINS = 24
# Points of the curve to a bin: even, for Simpson's rule.
FINE = 8
# Shares of the probability that the outlines hold.
SHARES = (0.5, 0.8, 0.95)
OUTLINE_NODES = 201


class Whole(NamedTuple):
    """The density over the wide box.

    Attributes:
        log_z: Log of its integral, by the trapezoidal rule.
        levels: For each of SHARES the log density above which that share of the probability lies.
    """

    log_z: float
    levels: tuple[float, ...]


def nodes(ends: tuple[float, float], count: int) -> Array:
    """`count` equally spaced points from end to end."""
    return np.linspace(ends[0], ends[1], count)


def log_density(target: Any, first: Array, second: Array) -> Array:
    """Log density on a grid, (len(first), len(second))."""
    grid = torch.cartesian_prod(torch.from_numpy(first), torch.from_numpy(second))
    values: Array = target.log_density(grid).numpy().reshape(len(first), len(second))
    return values


def _wide(target: Any) -> tuple[Array, Array]:
    """The nodes of the integration along both coordinates; beyond them there is nothing to speak of."""
    return nodes(target.WIDE[0], target.NODES[0]), nodes(target.WIDE[1], target.NODES[1])


@cache
def whole(target: Any) -> Whole:
    """The integral of the density, and the levels of its regions of highest density."""
    first, second = _wide(target)
    values = log_density(target, first, second).reshape(-1)
    # The density is 0 at the borders: there the trapezoidal rule is a plain sum.
    cell = (first[1] - first[0]) * (second[1] - second[0])
    descending = np.sort(values)[::-1]
    held = np.cumsum(np.exp(descending)) * cell
    places = np.searchsorted(held, np.array(SHARES) * held[-1])
    return Whole(float(np.log(held[-1])), tuple(float(descending[place]) for place in places))


def marginal(target: Any, axis: int, at: Array) -> Array:
    """The marginal density of one coordinate: p(a) = (1 / Z) int p(a, b) db, by the trapezoidal rule.

    Args:
        target: A file of `targets`.
        axis: 0 or 1.
        at: Points (m,).
    """
    other = _wide(target)[1 - axis]
    values = log_density(target, at, other) if axis == 0 else log_density(target, other, at).T
    density: Array = np.exp(values - whole(target).log_z).sum(1) * (other[1] - other[0])
    return density


def curve(target: Any, axis: int) -> tuple[Array, Array, Array]:
    """The marginal over the box as the page shows it.

    Returns:
        Points (BINS FINE + 1,) and densities there; the probability of each of BINS equal bins, by Simpson's rule.
    """
    points = nodes(target.BOX[axis], BINS * FINE + 1)
    density = marginal(target, axis, points)
    weights = np.array([1.0, *[4.0, 2.0] * (FINE // 2)])
    weights[-1] = 1.0
    windows = np.lib.stride_tricks.sliding_window_view(density, FINE + 1)[::FINE]
    return points, density, windows @ weights * (points[1] - points[0]) / 3


def outlines(target: Any) -> list[list[Array]]:
    """For each of SHARES the lines (m, 2) around the smallest region that holds that share of the probability."""
    first, second = nodes(target.BOX[0], OUTLINE_NODES), nodes(target.BOX[1], OUTLINE_NODES)
    generator = contourpy.contour_generator(first, second, log_density(target, first, second).T)
    return [[np.asarray(line) for line in generator.lines(level)] for level in whole(target).levels]
