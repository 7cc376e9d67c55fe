"""Predictions beside the targets of held-out rows, in original units: what every score is of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core import units
from zoo.core.diagnostics import weighted_mean
from zoo.core.layout import layout, row_latents
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import quantities
from zoo.core.tensors import to_numpy
from zoo.data.files import is_table
from zoo.data.ready import new_inputs, new_rows

from .agreement import entropy, probabilities
from .finite import check_finite
from .importance import integrated
from .marginals import equally_weighted
from .repeated import repeated
from .scores import log_densities

Array = NDArray[np.float64]

# At least so many draws of y stand behind a score where y is Normal; no more numbers in all than memory likes.
LEAST = 4000
MOST = 10_000_000
# What must be equal for rows to be in the units of the fit's data.
UNITS = ("x_loc", "x_scale", "y_loc", "y_scale", "classes")


class Rows(NamedTuple):
    """Held-out rows; several targets or labels a row count as a row each.

    Args:
        on: "test", "training" or "given".
        y: Targets in original units, or labels 0 ... classes - 1, (m,).
        p: Class probabilities (m, classes), or None for measurements.
        mean: Predictive means (m,), or None for classes and where there are none.
        draws: Predictive draws of y (S, m) of equal weight, or None for classes.
        log_lik: Log predictive densities, one a row of the data.
        uncertainty: 1 - max p, or the predictive sd of y, (m,).
        unlike: Entropy of p (nats), or the variance of f over draws, one a row: large far from the data.
    """

    on: str
    y: Array
    p: Array | None
    mean: Array | None
    draws: Array | None
    log_lik: Array
    uncertainty: Array
    unlike: Array


def held_out(posterior: Posterior, data: Any = None) -> Rows:
    """Predicts the rows.

    Args:
        posterior: Any method's result.
        data: `Data` in the units of the fit's own, a table with the target, or None: the test rows, or the training
            rows where none are held out.
    """
    x, y, on = _chosen(posterior.problem.data, data)
    predicted = posterior.predict(x)
    check_finite(posterior.method, quantities(posterior, predicted))
    weights = _weights(posterior)
    p, family = probabilities(posterior, predicted), layout(posterior).family
    target = to_numpy(units.targets(units.of(posterior.problem.data, family), y.double()))
    log_lik, unlike = _log_lik(posterior, x, y, weights), _unlike(posterior, predicted)
    if p is not None:
        labels = target.argmax(axis=-1) if family == "OneHotCategorical" else target
        return Rows(on, labels.reshape(-1), p, None, None, log_lik, 1 - p.max(axis=1), unlike)
    draws = _draws(posterior, predicted, x)
    mean, sd = _moments(predicted, weights, draws.shape[1])
    sd = draws.std(axis=0) if sd is None else sd
    return Rows(on, target.reshape(-1), None, mean, draws, log_lik, sd, unlike)


def _log_lik(posterior: Posterior, x: Any, y: Tensor, weights: Array | None) -> Array:
    """Log predictive densities (m,); rows' own latents integrated out, NaN where the fit has no guide to do it by."""
    if row_latents(posterior):
        return integrated(posterior, x, y)
    terms = to_numpy(posterior.log_likelihood(x, y) if x is not None else posterior.log_likelihood())
    return log_densities(terms.reshape(*terms.shape[:2], len(y), -1).sum(axis=-1), weights)


def unlikeness(posterior: Posterior, inputs: Any) -> Array:
    """How unlike the training inputs others look to the model: entropy of p in nats, or the variance of f.

    Args:
        posterior: Any method's result.
        inputs: A tensor (n, d), a table, or `Data`.

    Source: Hendrycks, Gimpel 2017 for classes; the variance of f: Gal 2016, section 3.3.
    """
    own = posterior.problem.data
    if isinstance(inputs, Data):
        inputs = inputs.x
    elif is_table(inputs) and isinstance(own, Data):
        inputs = new_inputs(own, inputs)
    return _unlike(posterior, posterior.predict(inputs))


def _unlike(posterior: Posterior, predicted: dict[str, Tensor]) -> Array:
    p = probabilities(posterior, predicted)
    if p is not None:
        return entropy(p)
    name = next((n for n in (posterior.problem.names["f"], "mean") if n in predicted), None)
    if name is None:
        raise ValueError(
            f"'{posterior.problem.name}' has neither f nor a mean of y to be uncertain of. Name f: names=."
        )
    values, weights = to_numpy(predicted[name]).astype(np.float64), _weights(posterior)
    spread = weighted_mean((values - weighted_mean(values, weights)) ** 2, weights)
    return np.asarray(spread.reshape(len(spread), -1).sum(axis=1))


def _weights(posterior: Posterior) -> Array | None:
    return None if posterior.weights is None else to_numpy(posterior.weights).astype(np.float64)


def _chosen(own: Any, data: Any) -> tuple[Any, Tensor, str]:
    """(x, or None for the training inputs; y; what to call the rows)."""
    if not isinstance(own, Data):
        raise ValueError("a score needs a problem on zoo.Data; this one is on a dict, whose rows are not known.")
    if data is None:
        if own.x_test is not None and own.y_test is not None:
            return own.x_test, own.y_test, "test"
        if own.y is None:
            raise ValueError("a score needs targets, and the fit's data have no y. Run on zoo.Data(x, y).")
        return None, own.y, "training"
    if is_table(data):
        x, y = new_rows(own, data)
        assert y is not None
        return x, y, "given"
    if not isinstance(data, Data):
        raise TypeError(f"data must be a zoo.Data or a table, got {type(data).__name__}. Give zoo.Data(x, y).")
    if data.y is None:
        raise ValueError("data must have targets, got y=None. Give zoo.Data(x, y).")
    if other := [name for name in UNITS if name in data.info and data.info[name] != own.info.get(name)]:
        raise ValueError(
            f"data has another {', '.join(other)} than the fit's data. Give the raw table, or x and y standardised as "
            "the fit's, without info."
        )
    return data.x, data.y, "given"


def _moments(predicted: dict[str, Tensor], weights: Array | None, count: int) -> tuple[Array | None, Array | None]:
    """Predictive means and sds (m,): E[mean], and sqrt(E[var] + var[mean]); None where y has none."""
    if "mean" not in predicted or "var" not in predicted:
        return None, None
    each, var = (to_numpy(predicted[name]).astype(np.float64) for name in ("mean", "var"))
    mean = weighted_mean(each, weights)
    sd = np.sqrt(weighted_mean(var + (each - mean) ** 2, weights)).reshape(-1)
    if mean.size != count or not (np.isfinite(mean).all() and np.isfinite(sd).all()):
        return None, None
    return mean.reshape(-1), sd


def _draws(posterior: Posterior, predicted: dict[str, Tensor], x: Any) -> Array:
    """Draws of y (S, m) of equal weight, independent between rows, by a fixed seed."""
    if layout(posterior).family == "Normal" and {"mean", "var"} <= set(predicted):
        mean, var = (_flat(posterior, predicted[name]) for name in ("mean", "var"))
        times = max(1, min(-(-LEAST // len(mean)), MOST // mean.size))
        noise = np.random.default_rng(0).standard_normal((times, *mean.shape))
        return np.asarray((mean + np.sqrt(var) * noise).reshape(-1, mean.shape[1]))
    again, name, observed = repeated(posterior), posterior.problem.names["y"], layout(posterior).observed
    found = predicted if again is posterior else again.predict(x)
    return _flat(again, found[name if name in found else observed[0]])


def _flat(posterior: Posterior, value: Tensor) -> Array:
    """(S, m) of equal weight, thinned evenly where they are too many."""
    values = to_numpy(value).astype(np.float64)
    flat = equally_weighted(values.reshape(*values.shape[:2], -1), _weights(posterior))
    most = max(1000, MOST // flat.shape[1])
    return flat if len(flat) <= most else flat[np.linspace(0, len(flat) - 1, most).round().astype(np.int64)]
