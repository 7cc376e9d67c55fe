"""Scores of predictions, one function each; lengths in the original units of y."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from zoo.core import units
from zoo.core.diagnostics import weighted_mean
from zoo.core.layout import layout, row_latents
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from .importance import integrated

Array = NDArray[np.float64]


def rmse(mean: ArrayLike, y: ArrayLike) -> float:
    """sqrt(mean((mean - y)^2)).

    Args:
        mean: Predictive means (m,) or (m, k).
        y: Targets of the same shape.
    """
    error = np.asarray(mean, dtype=np.float64) - np.asarray(y, dtype=np.float64)
    return float(np.sqrt((error**2).mean()))


def log_likelihood(terms: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean over rows of log sum_s w_s p(y_i | draw s): the log predictive density of a row.

    Draws are averaged as probabilities, by logsumexp.

    Args:
        terms: Log likelihoods (chain, draw, m).
        weights: (chain, draw) or None.
    """
    return float(log_densities(terms, weights).mean())


def log_densities(terms: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """log sum_s w_s p(y_i | draw s) of each row (m,); see `log_likelihood`."""
    terms = np.asarray(terms, dtype=np.float64)
    flat = terms.reshape(-1, terms.shape[-1])
    share = np.ones(len(flat)) if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
    top = flat.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)  # a row that no draw can give has -inf, without a warning
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(share / share.sum() @ np.exp(flat - top)))


def accuracy(mean: ArrayLike, y: ArrayLike) -> float:
    """Share of rows whose most probable class is the right one; (m,) probabilities of 1, or (m, classes)."""
    mean, y = np.asarray(mean), np.asarray(y)
    guess = mean > 0.5 if mean.ndim == y.ndim else mean.argmax(axis=-1)
    return float((guess == y).mean())


def crps(draws: ArrayLike, y: ArrayLike) -> Array:
    """Continuous ranked probability score of each row: E|Y - y| - E|Y - Y'| / 2, Y and Y' predictive draws.

    The integral of (F(t) - 1[y <= t])^2 over t, in the units of y; for a point prediction the absolute error. Y and
    Y' are different draws, so that few draws are not scored worse than many.

    Args:
        draws: Of y (S, m), of equal weight.
        y: Targets (m,).

    Returns:
        Scores (m,); lower is better.

    Source: Gneiting, Raftery 2007, eq. 21; Ferro 2014 (different draws).
    """
    # From y: what is large in both does not round.
    apart = np.sort(np.asarray(draws, dtype=np.float64) - np.asarray(y, dtype=np.float64), axis=0)
    count = len(apart)
    if count == 1:
        return np.abs(apart[0])
    rank = 2.0 * np.arange(1, count + 1) - count - 1
    return np.asarray(np.abs(apart).mean(axis=0) - rank @ apart / (count * (count - 1)))


def brier(p: ArrayLike, y: ArrayLike) -> Array:
    """Brier score of each row: sum_k (p_k - 1[y = k])^2, halved for two classes, where it is (p_1 - y)^2.

    Args:
        p: Probabilities (m, classes).
        y: Labels 0 ... classes - 1 (m,).

    Returns:
        Scores (m,), from 0 to 1 for two classes and to 2 for more; lower is better.

    Source: Brier 1950; Gneiting, Raftery 2007, section 4.1.
    """
    p = np.asarray(p, dtype=np.float64)
    hit = np.asarray(y, dtype=np.int64)[:, None] == np.arange(p.shape[1])
    return np.asarray(((p - hit) ** 2).sum(axis=1) / (2 if p.shape[1] == 2 else 1))


def headline(posterior: Posterior, predicted: dict[str, Tensor]) -> dict[str, Any]:
    """RMSE or accuracy, and log likelihood a row, on the test rows; where there are none, the training rows.

    Args:
        posterior: Any method's result.
        predicted: Its predictions at x_test, or at x where there is no x_test.

    Returns:
        {"scored_on": "test" | "train" | "", "rmse", "accuracy", "log_lik"}, NaN for what makes no sense.
    """
    out: dict[str, Any] = {"scored_on": "", "rmse": np.nan, "accuracy": np.nan, "log_lik": np.nan}
    data = posterior.problem.data
    if not isinstance(data, Data) or "mean" not in predicted:
        return out
    test = data.x_test is not None
    y = data.y_test if test else data.y
    if y is None:
        return out
    weights = None if posterior.weights is None else to_numpy(posterior.weights)
    plan = layout(posterior)
    mean = weighted_mean(to_numpy(predicted["mean"]), weights)
    target = to_numpy(units.targets(units.of(data, plan.family), y))
    if row_latents(posterior):
        rows = integrated(posterior, data.x_test if test else None, y)
        same = mean.shape == target.shape and not plan.classifies
        error = rmse(mean, target) if same else np.nan
        return out | {"scored_on": "test" if test else "train", "rmse": error, "log_lik": float(rows.mean())}
    terms = to_numpy(posterior.log_likelihood(data.x_test, y) if test else posterior.log_likelihood())
    terms = terms.reshape(*terms.shape[:2], len(target), -1).sum(axis=-1)
    out["scored_on"] = "test" if test else "train"
    if plan.classifies:
        target = target.argmax(axis=-1) if plan.family == "OneHotCategorical" else target
        return out | {"accuracy": accuracy(mean, target), "log_lik": log_likelihood(terms, weights)}
    if mean.shape == target.shape:
        out["rmse"] = rmse(mean, target)
    return out | {"log_lik": log_likelihood(terms, weights)}
