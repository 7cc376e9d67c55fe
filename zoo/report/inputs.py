"""The horizontal axes of pictures: grids over the inputs, in original units, under the columns' own names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from .bands import column
from .marginals import equally_weighted
from .units_apart import units_apart

Array = NDArray[np.float64]
GRID, SIDE = 200, 60
MARGIN = 0.1


class Grid(NamedTuple):
    """Places to predict at.

    Args:
        axis: What stands on the axis, in original units (m,), rising.
        x: Inputs (m, d).
        order: The rows of x in the order of `axis`.
    """

    axis: Array
    x: Tensor
    order: NDArray[np.int64]


def common_data(fits: Sequence[Posterior]) -> Data:
    """The data of all fits.

    Raises:
        ValueError: For no fits, fits of different data or units of y, and data in a dict.
    """
    if not fits:
        raise ValueError("a picture needs at least one posterior, got none. Run one: zoo.run(problem, method).")
    if len({fit.problem.hash for fit in fits}) > 1:
        raise ValueError("the fits are of different data. Draw fits of one problem together.")
    if apart := units_apart(fits):
        raise ValueError(apart)
    data = fits[0].problem.data
    if not isinstance(data, Data):
        raise ValueError(
            f"'{fits[0].problem.name}' has data in a dict: there is no x to draw. Try kind 'ppc' or 'forest'."
        )
    return data


def is_stored(fit: Posterior) -> bool:
    """Whether the fit came from a file without its model, and answers at the inputs in the file only."""
    return getattr(fit, "stored", None) is not None


def x_name(data: Data, place: int) -> str:
    """The column's own name where info has it."""
    names = data.info.get("x_names") or []
    if place < len(names):
        return str(names[place])
    return "x" if data.x.shape[1] == 1 else f"x{place + 1}"


def original(data: Data, values: Tensor, place: int) -> Array:
    """A column's values in original units: x_loc + x_scale z, float64."""
    array = to_numpy(values).astype(np.float64)
    loc, scale = (np.atleast_1d(data.info.get(n, d)) for n, d in (("x_loc", 0.0), ("x_scale", 1.0)))
    at = place if len(loc) > 1 else 0
    return np.asarray(loc[at] + scale[at] * array)


def _every(data: Data) -> Tensor:
    return torch.cat([data.x] + ([] if data.x_test is None else [data.x_test]))


def _ends(values: Tensor) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def grid(fit: Posterior, place: int = 0) -> Grid:
    """200 values of one column over its range and a tenth beyond; the other columns at their means.

    A fit without its model: the test inputs in its file (or the training inputs), by their only column.
    """
    data = fit.problem.data
    assert isinstance(data, Data)
    d = data.x.shape[1] if data.x.dim() == 2 else 0
    if not 0 <= place < d:
        raise ValueError(f"input must be a column in 0 ... {d - 1}, got {place}. Columns start at 0.")
    if is_stored(fit):
        if d > 1:
            fit.problem.model()  # says how to give the model
        x = data.x if data.x_test is None else data.x_test
        order = np.argsort(to_numpy(x)[:, 0], kind="stable")
        return Grid(original(data, x[:, 0], 0)[order], x, order)
    every = _every(data)
    axis = torch.linspace(*_ends(every[:, place]), GRID, dtype=every.dtype, device=every.device)
    x = every.mean(0).repeat(GRID, 1)
    x[:, place] = axis
    return Grid(original(data, axis, place), x, np.arange(GRID))


def square(fit: Posterior) -> tuple[Array, Array, Tensor]:
    """A grid over two columns: their values in original units (60,) and (60,), and the inputs (3600, 2)."""
    if is_stored(fit):
        fit.problem.model()  # says how to give the model
    data = fit.problem.data
    assert isinstance(data, Data)
    every = _every(data)
    sides = [torch.linspace(*_ends(every[:, j]), SIDE, dtype=every.dtype, device=every.device) for j in (0, 1)]
    across, up = torch.meshgrid(*sides, indexing="xy")
    x = torch.stack([across.flatten(), up.flatten()], 1)
    return original(data, sides[0], 0), original(data, sides[1], 1), x


def curves(fit: Posterior, x: Tensor | None, output: int = 0, draws: int | None = None) -> Array:
    """The noise-free function of each draw, (S, m): E[y | x, draw] in original units, or the class probability.

    Args:
        fit: Any method's result.
        x: Inputs (m, d), or None for the training inputs.
        output: Which target or class, where there are several.
        draws: About so many draws, evenly spread; weighted draws are resampled to equal weights.
    """
    weighted = fit.weights is not None
    predicted = fit.predict(x, draws=None if weighted else draws)
    if "mean" not in predicted:
        raise ValueError(f"'{fit.problem.name}' has no mean of y to draw: got {', '.join(predicted)}. Try kind 'ppc'.")
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    flat = equally_weighted(column(predicted["mean"], output), weights)
    if weighted and draws is not None and len(flat) > draws:
        flat = flat[np.linspace(0, len(flat) - 1, draws).round().astype(int)]
    return np.asarray(flat)
