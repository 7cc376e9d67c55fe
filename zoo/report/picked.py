"""Which numbers of a fit a picture shows: parameters, or for networks outputs at a few inputs.

A network's hidden units permute and flip sign, so its weights say little; they are shown where asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.computed import as_written
from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import thin
from zoo.core.tensors import to_numpy
from zoo.core.words import nearest

from .bands import classes, column, names
from .inputs import is_stored, original
from .marginals import equally_weighted

Array = NDArray[np.float64]
PROBES = 4
SMALL = 100
# More numbers of one site are thinned evenly before anything else.
MOST = 2000


class Pick(NamedTuple):
    """One number.

    Args:
        site: The site it is of; "f" for outputs.
        values: (chain, draw).
        original: Whether it is in original units.
    """

    site: str
    values: Array
    original: bool


Picks = dict[str, Pick]


def picked(fit: Posterior, site: str | Sequence[str] | None, output: int, most: int) -> Picks:
    """{label: Pick}, at most `most`, evenly spread over what there is.

    Args:
        fit: Any method's result.
        site: Sites by name; None: the model's latents, or for a network outputs and scalar latents.
        output: Which target or class the outputs are of.
        most: Thin to so many.

    Raises:
        ValueError: For an unknown site, with the nearest right one.
    """
    if site is not None:
        found: Picks = {}
        for name in [site] if isinstance(site, str) else site:
            found |= _named(fit, name)
    elif is_network(fit) and (outputs := _outputs(fit, output)):
        found = outputs | _scalars(fit)
    else:
        found = {
            label: pick
            for name, value in as_written(fit.draws).items()
            for label, pick in _coordinates(fit, name, value).items()
        }
    kept = thin(len(found), most)
    return {label: pick for i, (label, pick) in enumerate(found.items()) if i in kept}


def is_network(fit: Posterior) -> bool:
    """Two weight matrices or more, or a hundred numbers: then single weights are not what to look at."""
    values = as_written(fit.draws).values()
    return sum(value.dim() == 4 for value in values) > 1 or sum(value[0, 0].numel() for value in values) > SMALL


def equal(fit: Posterior, values: Array) -> Array:
    """(chain, draw) as (S,) of equal weight."""
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    return equally_weighted(values[:, :, None], weights)[:, 0]


def axis_name(fit: Posterior, label: str, pick: Pick) -> str:
    """The label with its unit: y's name for outputs, and a word where the model's units are not the table's."""
    data = fit.problem.data
    if isinstance(data, Data) and data.x.dim() == 2 and data.x.shape[1] == 0:
        return f"{label} (no inputs)"
    scaled = isinstance(data, Data) and ("y_scale" in data.info or "x_scale" in data.info)
    return f"{label} (standardised)" if scaled and not pick.original else label


def _named(fit: Posterior, name: str) -> Picks:
    if name in fit.draws:
        return _coordinates(fit, name, fit.draws[name])
    if name == fit.problem.names["f"] and (found := _outputs(fit, 0)):
        return found
    predicted = fit.predict() if isinstance(fit.problem.data, Data) else {}
    known = [*fit.draws, *(n for n in predicted if n not in ("mean", "var"))]
    if name not in known:
        raise ValueError(nearest(name, known, "site"))
    return _coordinates(fit, name, predicted[name])


def _scalars(fit: Posterior) -> Picks:
    return {name: Pick(name, _array(value), False) for name, value in fit.draws.items() if value.dim() == 2}


def _coordinates(fit: Posterior, name: str, value: Tensor) -> Picks:
    """A Pick for each number of a site, labelled by the names of its axes' entries."""
    shape = tuple(value.shape[2:])
    plan = layout(fit)
    axes = plan.dims.get(name, ())
    coords = [plan.coords.get(axes[i], ()) if i < len(axes) else () for i in range(len(shape))]
    out = {}
    for place in zip(*np.unravel_index(thin(math.prod(shape), MOST), shape), strict=True) if shape else [()]:
        words = [str(c[i]) if len(c) == n else str(i) for i, c, n in zip(place, coords, shape, strict=True)]
        label = f"{name}[{', '.join(words)}]" if words else name
        out[label] = Pick(name, _array(value[(slice(None), slice(None), *place)]), False)
    return out


def _outputs(fit: Posterior, output: int) -> Picks:
    """E[y | x, draw] in original units (or the class probability) at a few test rows (or training rows)."""
    data = fit.problem.data
    if not isinstance(data, Data):
        return {}
    x = data.x if data.x_test is None else data.x_test
    rows = _probes(x)
    kept = is_stored(fit)
    predicted = fit.predict(data.x_test if kept else x[rows])
    if "mean" not in predicted:
        return {}
    values = column(predicted["mean"], output)
    values = values[:, :, rows] if kept else values
    what = names(fit, output)[1] if classes(fit) else "f"
    one = data.x.dim() == 2 and data.x.shape[1] == 1
    at = [f"{v:.3g}" for v in original(data, x[rows, 0], 0)] if one else [f"row {i}" for i in rows]
    return {f"{what} at {place}": Pick("f", values[:, :, i], True) for i, place in enumerate(at)}


def _probes(x: Tensor) -> NDArray[np.int64]:
    """Four rows: evenly spread over the only column, or over the rows."""
    flat = x.reshape(len(x), -1)
    order = np.argsort(to_numpy(flat)[:, 0], kind="stable") if flat.shape[1] == 1 else np.arange(len(x))
    places = (np.arange(PROBES) + 0.5) / PROBES * len(x)
    return (
        np.unique(order[places.astype(int)]) if flat.shape[1] != 1 else np.asarray(order[np.unique(places.astype(int))])
    )


def _array(value: Tensor) -> Array:
    return to_numpy(value).astype(np.float64)
