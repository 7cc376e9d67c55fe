"""What an approximation's own density says of it: k-hat of p / q, and how far its ELBO is below the evidence."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.psis import psis
from zoo.core.quantities import point_sites
from zoo.core.tensors import to_numpy

log = logging.getLogger("zoo")
Array = NDArray[np.float64]

# Ratios this close are equal: log p and log q of an exact draw differ in rounding only.
EQUAL = 1e-9


def log_ratio(posterior: Posterior) -> Array | str:
    """log p(theta, y) - log q(theta) of each draw (S,), or why there is none.

    Args:
        posterior: Any method's result.
    """
    stats = posterior.stats
    if reason := posterior.settings.get("no_density"):
        return str(reason)
    if posterior.kind == "members" or point_sites(posterior):
        return "points have no density"
    if "logq" not in stats or posterior.weights is not None:
        return "no density q is known at the draws"
    ratio = np.asarray(to_numpy(stats["lp"]) - to_numpy(stats["logq"]), dtype=np.float64).reshape(-1)
    return "log p - log q is not finite" if np.isnan(ratio).any() or (ratio == np.inf).any() else ratio


def khat(ratio: ArrayLike) -> float:
    """k-hat: the shape of the tail of the weights p / q; above `zoo.core.psis.good_k` q misses some of p.

    Ratios that are all equal (q is p) have -inf, ratios of which none is finite NaN.

    Args:
        ratio: log p(theta_s, y) - log q(theta_s) (S,), theta_s ~ q; -inf where p has no density.

    Source: Vehtari, Simpson, Gelman, Yao, Gabry 2024; Yao, Vehtari, Simpson, Gelman 2018 for q of svi.
    """
    ratio = np.asarray(ratio, dtype=np.float64)
    finite = np.isfinite(ratio)
    if not finite.any():
        return np.nan
    if finite.all() and np.ptp(ratio) <= EQUAL * max(1.0, float(np.abs(ratio).max())):
        return -np.inf
    return float(psis(ratio)[1])


def elbo_gap(ratio: ArrayLike, log_evidence: float) -> float:
    """log p(y) - E_q[log p(theta, y) - log q(theta)] = KL(q, posterior), in nats, by the mean over draws.

    Draws of several restarts: the mean of their gaps. A small gap may come out below 0, by Monte Carlo error.

    Args:
        ratio: log p(theta_s, y) - log q(theta_s) (S,), theta_s ~ q.
        log_evidence: log p(y).

    Source: Bishop 2006, eq. 9.70.
    """
    return float(log_evidence - np.asarray(ratio, dtype=np.float64).mean())


def log_evidence(posterior: Posterior) -> float | None:
    """log p(y) where the model knows it in closed form, else None."""
    if posterior.exact is not None:
        return float(posterior.exact.log_evidence)
    problem = posterior.problem
    if problem.exact is None or not isinstance(problem.data, Data) or problem.data.y is None:
        return None
    try:
        return float(problem.exact(problem.data, **problem.hyper).log_evidence)
    except ValueError as error:  # no closed form at these hyperparameters, such as a noise to be learned
        log.debug("no evidence: %s", error)
        return None


def density_facts(posterior: Posterior) -> tuple[dict[str, float], list[str]]:
    """k-hat and the ELBO gap of a fit, and what is missing and why.

    Args:
        posterior: Any method's result.

    Returns:
        ({"khat", "elbo_gap"}, reasons), NaN for what is missing.
    """
    out = {"khat": np.nan, "elbo_gap": np.nan}
    ratio = log_ratio(posterior)
    if isinstance(ratio, str):
        return out, [f"k-hat, ELBO gap: {ratio}"]
    # log p and log q of exact draws differ by the evidence, and by rounding, which has no tail to judge.
    out["khat"] = -np.inf if posterior.method == "exact" else khat(ratio)
    evidence = log_evidence(posterior)
    if evidence is None:
        return out, ["ELBO gap: log p(y) is not known in closed form"]
    return out | {"elbo_gap": elbo_gap(ratio, evidence)}, []
