"""How far two classifiers' probabilities are apart, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from zoo.core.diagnostics import weighted_mean
from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy

Array = NDArray[np.float64]


def probabilities(posterior: Posterior, predicted: dict[str, Tensor]) -> Array | None:
    """Predictive class probabilities (m, classes), averaged over draws; None where y is no class label.

    Several labels a row (a picture of black and white pixels) count as a row each.

    Args:
        posterior: Any method's result.
        predicted: Its predictions.
    """
    plan = layout(posterior)
    if not plan.classifies or "mean" not in predicted:
        return None
    weights = None if posterior.weights is None else to_numpy(posterior.weights)
    mean = weighted_mean(to_numpy(predicted["mean"]), weights)
    if plan.family == "Bernoulli":
        return np.stack([1 - mean.reshape(-1), mean.reshape(-1)], axis=1)
    return mean.reshape(-1, mean.shape[-1])


def agreement(p: ArrayLike, q: ArrayLike) -> float:
    """Share of rows in which both have the same most probable class: mean of 1[argmax_k p_k = argmax_k q_k].

    Args:
        p: Probabilities (m, classes).
        q: Probabilities (m, classes).

    Source: Izmailov, Vikram, Hoffman, Wilson 2021, What are Bayesian neural network posteriors really like?
    """
    return float((np.asarray(p).argmax(1) == np.asarray(q).argmax(1)).mean())


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Mean over rows of sum_k |p_k - q_k| / 2: the most that any event's probability differs by.

    Args:
        p: Probabilities (m, classes).
        q: Probabilities (m, classes).

    Source: Izmailov, Vikram, Hoffman, Wilson 2021.
    """
    return float(np.abs(np.asarray(p, dtype=np.float64) - np.asarray(q, dtype=np.float64)).sum(1).mean() / 2)


def entropy(p: ArrayLike) -> Array:
    """-sum_k p_k log p_k of each row, in nats; 0 log 0 = 0.

    Args:
        p: Probabilities (m, classes).
    """
    p = np.asarray(p, dtype=np.float64)
    return np.asarray(-np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(1))
