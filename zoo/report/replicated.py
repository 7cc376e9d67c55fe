"""Observed sites beside what the fit draws for them at the training inputs: the numbers of a predictive check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.layout import layout, observed_values
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy
from zoo.core.words import nearest

from .bands import classes
from .groups import stored
from .marginals import equally_weighted
from .repeated import repeated

Array = NDArray[np.float64]
DRAWS = 500
# So few different whole numbers are counted one by one.
FEW = 20


class Replicated(NamedTuple):
    """One observed site.

    Args:
        name: What to call it.
        observed: (n,).
        drawn: (S, n), of equal weight.
        labels: Names of the values 0 ... k - 1 for class labels and small counts; [] for measurements.
    """

    name: str
    observed: Array
    drawn: Array
    labels: list[str]


def replicated(fit: Posterior, site: str | Sequence[str] | None, output: int) -> list[Replicated]:
    """Every observed site (or those named), in original units.

    Raises:
        ValueError: Where nothing was observed, and for an unknown site.
    """
    kept = stored(fit, "observed")
    seen: dict[str, Tensor] = observed_values(fit.problem) if kept is None else kept
    if not seen:
        raise ValueError(
            f"ppc compares with observed y, and '{fit.problem.name}' has none. Give y, or try kind 'prior'."
        )
    wanted = [site] if isinstance(site, str) else list(site or seen)
    if wrong := next((name for name in wanted if name not in seen), None):
        raise ValueError(nearest(wrong, seen, "observed site"))
    fit = repeated(fit)
    weighted = fit.weights is not None
    drawn = fit.predict(draws=None if weighted else DRAWS)
    return [_one(fit, name, seen[name], drawn[name], output) for name in wanted]


def _one(fit: Posterior, name: str, seen: Tensor, drawn: Tensor, output: int) -> Replicated:
    found, values = to_numpy(seen).astype(np.float64), to_numpy(drawn).astype(np.float64)
    data, is_y = fit.problem.data, name == fit.problem.names["y"] and isinstance(fit.problem.data, Data)
    if layout(fit).family == "OneHotCategorical" and is_y:
        found, values = found.argmax(-1), values.argmax(-1)
    elif is_y:
        if found.ndim == 2 and not 0 <= output < found.shape[1]:
            raise ValueError(f"output must be in 0 ... {found.shape[1] - 1}, got {output}.")
        # Both are in original units already (zoo.core.units).
        values = values[..., output] if found.ndim == 2 else values
        found = found[..., output] if found.ndim == 2 and not classes(fit) else found
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    flat = equally_weighted(values.reshape(*values.shape[:2], -1), weights)
    flat = flat[np.linspace(0, len(flat) - 1, min(len(flat), DRAWS)).round().astype(int)]
    found = found.ravel()
    info = data.info if isinstance(data, Data) else {}
    label = info.get("y_name") or name if is_y else name
    label = str(label if isinstance(label, str) else label[output])
    named = info.get("classes") if is_y and classes(fit) else None
    return Replicated(label, found, flat, _labels(found, flat, named))


def _labels(observed: Array, drawn: Array, classes_: Sequence[str] | None) -> list[str]:
    """Names of 0 ... k - 1 where all values are small whole numbers, else []."""
    top = max(float(observed.max()), float(drawn.max()))
    whole = all(bool((v == v.round()).all()) and float(v.min()) >= 0 for v in (observed, drawn))
    if not whole or top >= FEW:
        return []
    names = [str(name) for name in classes_ or ()]
    return [names[i] if i < len(names) else str(i) for i in range(max(int(top) + 1, len(names)))]
