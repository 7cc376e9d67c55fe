"""Where a true value lies among draws of its posterior: what simulation-based calibration counts.

    r = #{draws < truth} + floor(U (1 + #{draws = truth})),    U uniform on (0, 1)

is uniform on 0 ... M for M independent draws of the right posterior, ties or not. Of the draws of a Markov chain, M
are kept, evenly spaced: L, or as many as the least effective sample size of the quantities where that is smaller. So
kept neighbours are at least an autocorrelation time (1 + r) / (1 - r) apart, where those of an AR(1) chain correlate
by less than exp(-2) = .14. A rank among M < L draws becomes one among L: floor((r + U) / (M + 1) (L + 1)), uniform too.

The log likelihood of the simulated data is ranked beside what is compared: a "posterior" that never looked at y, the
prior, has uniform ranks of all parameters, and this one gives it away.

Source: Talts et al. 2018, algorithms 1 and 2; Modrak et al. 2023, "Simulation-based calibration checking".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.diagnostics import ess, kish
from zoo.core.likelihoods import log_likelihoods
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.core.quantities import quantities
from zoo.core.tensors import to_numpy

from .gold import probe_inputs

Array = NDArray[np.float64]
LOG_LIKELIHOOD = "log likelihood"


class Ranked(NamedTuple):
    """The ranks (k,) of the true values of k quantities, their names, the number of draws M, whether all is finite."""

    ranks: NDArray[np.int64]
    labels: list[str]
    kept: int
    finite: bool


def ranked(fit: Posterior, truth: dict[str, Tensor], most: int, rng: np.random.Generator) -> Ranked:
    """The ranks of the truth among draws of a fit of the data that were simulated from it.

    Args:
        fit: Of independent draws or of Markov chains.
        truth: {site: the true value}.
        most: L.
        rng: For ties.
    """
    labels, values = tested(fit)
    right = tested(_point(fit.problem, truth))[1].reshape(-1)
    count = effective(fit, values, most)
    kept = thinned(values, fit.weights, count)
    finite = bool(np.isfinite(values).all() and np.isfinite(right).all())
    return Ranked(rank_among(kept, right, most, rng), labels, count, finite)


def _point(problem: Problem, truth: dict[str, Tensor]) -> Posterior:
    return Posterior(problem, "truth", "iid", {name: value[None, None] for name, value in truth.items()})


def tested(fit: Posterior) -> tuple[list[str], Array]:
    """Names and values (chain, draw, k): what is compared, f at 20 rows or fewer, and the log likelihood of the data.

    Class probabilities are left out: functions of the others.
    """
    found = quantities(fit, fit.predict(probe_inputs(fit.problem)))
    if len(found) > 1:
        found.pop("mean", None)
    labels = [label for quantity in found.values() for label in quantity.labels]
    terms = [to_numpy(value.double().reshape(*value.shape[:2], -1).sum(-1)) for value in log_likelihoods(fit).values()]
    values = [np.asarray(quantity.values, dtype=np.float64) for quantity in found.values()]
    return [*labels, LOG_LIKELIHOOD], np.concatenate([*values, np.sum(terms, axis=0)[:, :, None]], axis=2)


def effective(fit: Posterior, values: Array, most: int) -> int:
    """M: at most L, and at most the least bulk ESS of the quantities of a Markov chain; at least 1.

    Args:
        fit: The fit.
        values: (chain, draw, k).
        most: L.
    """
    size: Any = values.shape[0] * values.shape[1]
    if fit.kind == "markov":
        found = ess(np.nan_to_num(values))
        # Fewer than 4 draws a chain have no known size: one.
        size = np.nan_to_num(found, nan=1.0).min()
    if fit.weights is not None:
        size = size * kish(to_numpy(fit.weights))
    return max(1, min(most, int(size)))


def thinned(values: Array, weights: Tensor | None, count: int) -> Array:
    """`count` draws (count, k), evenly spaced over all chains end to end; by weight, where draws have weights.

    Args:
        values: (chain, draw, k).
        weights: (chain, draw), or None.
        count: How many.
    """
    flat = values.reshape(-1, values.shape[2])
    share = np.full(len(flat), 1 / len(flat)) if weights is None else to_numpy(weights).astype(np.float64).reshape(-1)
    ends = np.cumsum(share / share.sum())
    at = np.searchsorted(ends, (np.arange(count) + 0.5) / count)
    return np.asarray(flat[np.minimum(at, len(flat) - 1)])


def rank_among(draws: Array, truth: Array, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The ranks (k,), from 0 to L, of the true values (k,) among draws (M, k); NaN counts as above every truth."""
    below, ties = (draws < truth).sum(0), (draws == truth).sum(0)
    rank = below + np.floor(rng.random(len(truth)) * (1 + ties))
    spread = np.floor((rank + rng.random(len(truth))) / (len(draws) + 1) * (most + 1))
    return np.asarray(spread.astype(np.int64))
