"""What proves a gold file: its density is Pyro's, another sampler agrees, exact values agree, stock Pyro agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
from numpy.typing import NDArray
from pyro import poutine
from scipy import stats
from torch.distributions import biject_to

from zoo.core.diagnostics import mcse_mean
from zoo.core.handlers import pyro_state
from zoo.core.no_result import NoResult
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import Quantity
from zoo.core.randomness import untouched
from zoo.core.tensors import to_numpy

from .gold import probe_inputs

ALPHA = 0.001
LEAST_ESS = 1000.0
POINTS = 100
TOLERANCE = 1e-9


def density(fit: Posterior) -> dict[str, Any]:
    """The sampler's log density against Pyro's own, at 100 of its draws.

        log_prob_sum of the model's trace at the draw + sum over sites of log |d theta / d u|

    Returns:
        {"points", "largest_error"}, relative to max(1, |lp|).

    Raises:
        NoResult: Beyond 1e-9.
    """
    lp = to_numpy(fit.stats["lp"]).reshape(-1)
    at = np.linspace(0, len(lp) - 1, POINTS).round().astype(int)
    with pyro_state(validate=True), untouched(fit.problem.tensor.device):
        own = np.array([_pyro_lp(fit, int(i)) for i in at])
    error = float((np.abs(own - lp[at]) / np.maximum(1.0, np.abs(own))).max())
    if not error <= TOLERANCE:
        raise NoResult(f"no gold for {fit.problem.name}: log density differs from Pyro's by {error:.2g}, limit 1e-9.")
    return {"points": POINTS, "largest_error": float(f"{error:.2g}")}


def _pyro_lp(fit: Posterior, draw: int) -> float:
    args, kwargs = fit.problem.arguments()
    values = {name: value.flatten(0, 1)[draw] for name, value in fit.draws.items()}
    trace = poutine.trace(pyro.condition(fit.problem.model, values)).get_trace(*args, **kwargs)
    total = trace.log_prob_sum()
    for name in [n for n in values if n in trace.nodes and trace.nodes[n]["type"] == "sample"]:
        transform = biject_to(trace.nodes[name]["fn"].support)
        total = total + transform.log_abs_det_jacobian(transform.inv(values[name]), values[name]).sum()
    return float(total)


def agreement(numbers: dict[str, Any], again: dict[str, Any], name: str) -> dict[str, Any]:
    """Two runs' means of every quantity and of its square, in combined Monte Carlo errors.

    Args:
        numbers, again: {quantity: labels and `zoo.report.summaries.summary`} of both.
        name: The problem's.

    Returns:
        {"largest_z", "limit" (Bonferroni at alpha = .001), "least_ess" of the second run}.

    Raises:
        NoResult: Where they disagree; names the quantity.
    """
    z = {label: value for n in numbers for label, value in _z(numbers[n], again[n]).items()}
    worst = max(z, key=lambda label: abs(z[label]))
    limit = float(stats.norm.isf(ALPHA / 2 / len(z)))
    if not abs(z[worst]) < limit:
        raise NoResult(f"no gold for {name}: two runs differ in {worst} by {z[worst]:.1f} errors, limit {limit:.1f}.")
    least = min(min(entry[kind]) for entry in again.values() for kind in ("ess_bulk", "ess_tail"))
    return {"largest_z": round(abs(z[worst]), 2), "limit": round(limit, 2), "least_ess": round(least)}


def _z(one: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    out: dict[str, float] = {}
    for word in ("mean", "mean_square"):
        error = np.hypot(one[f"mcse_{word}"], other[f"mcse_{word}"])
        apart = np.subtract(one[word], other[word])
        z = np.divide(apart, error, out=np.where(apart == 0, 0.0, np.inf), where=error > 0)
        out |= dict(zip([f"{word} of {label}" for label in one["labels"]], z.tolist(), strict=True))
    return out


def exact(fit: Posterior, found: dict[str, Quantity]) -> dict[str, Any] | None:
    """The run against the model's exact posterior, where it has one: E y at the probes, else its scalar sites' means.

    Returns:
        {"largest_z", "limit"}; None for a model without `exact`.
    """
    problem = fit.problem
    if problem.exact is None or not isinstance(problem.data, Data):
        return None
    answer = problem.exact(problem.data, **problem.hyper)
    x = probe_inputs(problem)
    if x is not None:
        pairs = [(found["f"], to_numpy(answer.predictive(x).mean))]
    else:
        pairs = [(found[n], to_numpy(d.mean)) for n, d in answer.posterior.items() if n in found]
    z = np.concatenate([_errors(quantity, mean) for quantity, mean in pairs])
    limit = float(stats.norm.isf(ALPHA / 2 / len(z)))
    if not float(np.abs(z).max()) < limit:
        raise NoResult(
            f"no gold for {problem.name}: {np.abs(z).max():.1f} errors off the exact mean, limit {limit:.1f}."
        )
    return {"largest_z": round(float(np.abs(z).max()), 2), "limit": round(limit, 2)}


def _errors(quantity: Quantity, mean: NDArray[Any]) -> NDArray[np.float64]:
    error = mcse_mean(quantity.values)
    apart = np.asarray(quantity.values, dtype=np.float64).mean((0, 1)) - mean.reshape(-1)
    return np.divide(apart, error, out=np.where(np.abs(apart) < 1e-12, 0.0, np.inf), where=error > 0)
