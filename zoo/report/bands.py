"""Central predictive intervals of a posterior, in the original units of y: the numbers of the pictures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core import units
from zoo.core.diagnostics import weighted_mean
from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from .marginals import equally_weighted

Array = NDArray[np.float64]
LEVELS = (0.025, 0.25, 0.75, 0.975)
# At least so many draws of y stand behind an interval, also where a method has only a few members.
LEAST = 4000
MOST = 20_000_000


class Band(NamedTuple):
    """Predictive mean (m,), and lower and upper ends of the central 95 and 50 % intervals."""

    mean: Array
    outer: tuple[Array, Array]
    inner: tuple[Array, Array]


def classes(posterior: Posterior) -> bool:
    """Whether y is a class label: then intervals are of the class probability."""
    return layout(posterior).classifies


def interval(posterior: Posterior, x: Tensor | None, output: int = 0) -> Band:
    """Predictive mean and central intervals of y (of the class probability for classifiers).

    Args:
        posterior: Any method's result.
        x: Inputs (m, d), or None for the training inputs.
        output: Which target or class, where there are several.
    """
    rows = len(posterior.problem.tensor if x is None else x)
    # Intervals need no more draws than memory is comfortable with; weighted draws go together.
    few = None if posterior.weights is not None else max(1000, MOST // rows)
    predicted = posterior.predict(x, draws=few)
    weights = None if posterior.weights is None else to_numpy(posterior.weights).astype(np.float64)
    mean = column(predicted["mean"], output)
    if classes(posterior):
        draws = equally_weighted(mean, weights)
    elif layout(posterior).family == "Normal":
        draws = _normal_draws(mean, column(predicted["var"], output), weights)
    else:
        draws = equally_weighted(column(predicted[posterior.problem.names["y"]], output), weights)
    ends = np.quantile(draws, LEVELS, axis=0)
    return Band(weighted_mean(mean, weights), (ends[0], ends[3]), (ends[1], ends[2]))


def _normal_draws(mean: Array, var: Array, weights: Array | None) -> Array:
    """Draws of y from the mixture of Normals over the posterior's draws: at least 4,000, by a fixed seed."""
    flat, spread = equally_weighted(mean, weights), equally_weighted(np.sqrt(var), weights)
    times = max(1, -(-LEAST // len(flat)))
    # The same noise at every input: intervals are of one input at a time, and their edges come out smooth.
    noise = np.random.default_rng(0).standard_normal((times, len(flat), 1))
    return np.asarray((flat + spread * noise).reshape(-1, flat.shape[1]))


def column(value: Tensor, output: int) -> Array:
    """(chain, draw, m): one target, or the probability of one class; ValueError where a row has a class a pixel."""
    array = to_numpy(value).astype(np.float64)
    if array.ndim == 3:
        return array
    if array.ndim > 4:
        raise ValueError(
            f"this kind draws one number a row, and rows here have {' x '.join(map(str, array.shape[3:]))}. Images "
            "with a class a pixel are drawn by kind 'segments'."
        )
    flat = array.reshape(*array.shape[:3], -1)
    if not 0 <= output < flat.shape[3]:
        raise ValueError(f"output must be in 0 ... {flat.shape[3] - 1}, got {output}.")
    return np.asarray(flat[..., output])


def observed(posterior: Posterior, y: Tensor, output: int = 0) -> Array:
    """Targets in original units (m,); for classifiers 1 where the class is `output` (or y itself)."""
    values = to_numpy(y).astype(np.float64)
    if layout(posterior).family in ("Categorical", "OneHotCategorical"):
        return (values == output).astype(np.float64) if values.ndim == 1 else values[:, output]
    data = posterior.problem.data
    original = to_numpy(units.targets(units.of(data, layout(posterior).family), y.double()))
    return original if original.ndim == 1 else original[:, output]


def names(posterior: Posterior, output: int = 0) -> tuple[str, str]:
    """Labels of the axes: the columns' own names where info has them."""
    data = posterior.problem.data
    info = data.info if isinstance(data, Data) else {}
    x_names, y_name = info.get("x_names") or [], info.get("y_name") or "y"
    y = str(y_name if isinstance(y_name, str) else y_name[min(output, len(y_name) - 1)])
    if classes(posterior):
        labels = info.get("classes") or []
        binary = layout(posterior).family == "Bernoulli"
        place = 1 if binary else output
        y = f"P({y} = {labels[place] if place < len(labels) else place})"
    return (str(x_names[0]) if len(x_names) == 1 else "x"), y
