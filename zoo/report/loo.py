"""`loo`: how well each row is predicted by the posterior of all other rows, from one fit.

    elpd = sum_i log p(y_i | y without i),    p(y_i | y without i) = sum_s w_is p(y_i | theta_s)
    w_is ∝ p(theta_s, y) / (q(theta_s) p(y_i | theta_s)), Pareto-smoothed over draws s for each row i

Where draws are of the posterior itself (exact, samplers) the first factor is constant and drops out. Draws of
an approximation q (laplace, svi) are weighted by it, else the answer would be that of q, not of the model.

Source: Vehtari, Gelman, Gabry 2017; Magnusson, Andersen, Jonasson, Vehtari 2019.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from zoo.core.diagnostics import ess
from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.psis import good_k, psis
from zoo.core.quantities import point_sites
from zoo.core.tensors import to_numpy

from . import density_ratio
from .groups import pointwise
from .table import number, wrap

Array = NDArray[np.float64]

# Fewer draws leave a tail of fewer than five ratios.
LEAST_DRAWS = 25
# Above this share of bad rows a fit without each of them is no advice.
MOST_BAD = 0.1
# So many at once in memory.
NUMBERS = 2**24
NONE = "none: the draws are of the posterior"
WEIGHTED = "the weights of the draws"
RATIO = "log p(theta, y) - log q(theta): the draws are of q (Magnusson et al. 2019)"


@dataclasses.dataclass(frozen=True, repr=False)
class Loo:
    """Leave-one-out predictions; `print` says the sum, its errors and whether to believe it.

    Args:
        elpd: Sum over rows of log p(y_i | y without i), in nats and the original units of y.
        se: sqrt(n var(elpd_i)): how far another n rows of the same kind would move elpd.
        mcse: Monte Carlo error of elpd: how far other draws would move it.
        p_loo: log p of the rows with them seen, minus elpd: about the number of parameters that the data inform.
        rows: log p(y_i | y without i), one for each row of the site.
        rows_mcse: Monte Carlo error of each row.
        khat: Shape of the tail of each row's weights; above `good_k` the row is not to be trusted.
        khat_q: The same for p(theta, y) / q(theta), how well q covers the posterior; NaN where nothing is corrected,
            -inf where q is the posterior.
        good_k: min(1 - 1 / log10 S, 0.7) for S draws.
        site: The observed site.
        correction: What draws were weighted by, besides the row that is left out.
        outcome: Of the fit: leave-one-out cannot see that a chain has not converged.
    """

    elpd: float
    se: float
    mcse: float
    p_loo: float
    rows: Array
    rows_mcse: Array
    khat: Array
    khat_q: float
    good_k: float
    site: str
    correction: str
    outcome: str = "ok"

    def __str__(self) -> str:
        bad = int((self.khat > self.good_k).sum())
        about = "the weights" if self.correction == WEIGHTED else "p / q"
        about_q = "" if np.isnan(self.khat_q) else f", k-hat of {about} {number(self.khat_q)}"
        lines = [
            f"elpd_loo {self.elpd:.2f} (se {number(self.se)} over rows, {number(self.mcse)} over draws), "
            f"p_loo {number(self.p_loo)}; {self.rows.size} rows of {self.site}",
            f"correction: {self.correction}{about_q}",
            f"k-hat: {self.rows.size - bad} of {self.rows.size} rows at most {number(self.good_k)}, "
            f"largest {number(float(self.khat.max()))}",
        ]
        if bad > MOST_BAD * self.rows.size:
            lines.append(f"{bad} rows are not to be trusted, too many to fit without each: score rows kept apart.")
        elif bad:
            lines.append(f"{bad} rows are not to be trusted: fit without them (zoo.Data of the other rows) to know.")
        if self.outcome != "ok":
            lines.append(f"The fit itself is not ok, and leave-one-out does not see it: {self.outcome}")
        if self.khat_q > self.good_k:
            lines.append("q covers the posterior too badly to be corrected: trust exact or nuts.")
        return "\n".join(map(wrap, lines))

    __repr__ = __str__


def loo(posterior: Posterior, *, site: str | None = None) -> Loo:
    """Leave-one-out log predictive density by Pareto-smoothed importance sampling.

    Args:
        posterior: Draws of the posterior (exact, samplers), or of a q with a density (laplace, svi).
        site: The observed site whose rows are left out; None: the one called y, or the only one.

    Returns:
        `Loo`; its `correction` says what the draws were weighted by.

    Raises:
        TypeError: For what is no posterior.
        ValueError: For draws of the prior, for points, which have no density, for fewer than 25 draws, for draws of
            some weight under which a row is impossible, and for a model of several observed sites where none is named.
    """
    check_posteriors("loo", posterior)
    log_ratio, correction = _log_ratio(posterior)
    name, terms = _terms(posterior, site)
    if bad := int((~(terms.max(axis=(0, 1)) > -np.inf)).sum()):  # NaN, or impossible under every draw
        raise ValueError(
            f"loo needs rows that some draw can give, got {bad} that none can ({posterior.outcome}). Run the fit anew."
        )
    shape, flat = terms.shape[2:], terms.reshape(len(log_ratio), -1)
    r_eff = _effective(terms) if posterior.kind == "markov" else 1.0
    rows, error, khat, influence = _by_row(flat, log_ratio, r_eff)
    seen = logsumexp(psis(log_ratio, r_eff)[0][:, None] + flat, axis=0)
    elpd = float(rows.sum())
    return Loo(
        elpd=elpd,
        se=float(np.sqrt(rows.size * rows.var(ddof=1))) if rows.size > 1 else np.nan,
        mcse=float(np.sqrt((influence**2).sum() / r_eff)),
        p_loo=float(seen.sum()) - elpd,
        rows=rows.reshape(shape),
        rows_mcse=error.reshape(shape),
        khat=khat.reshape(shape),
        khat_q=np.nan if correction == NONE else density_ratio.khat(log_ratio),
        good_k=good_k(len(flat)),
        site=name,
        correction=correction,
        outcome=posterior.outcome,
    )


def left_out_weights(posterior: Posterior, rows: NDArray[np.int64], site: str | None = None) -> Array:
    """Weights (k, S) that turn the draws into draws of the posterior without row i, for k rows.

    Args:
        posterior: As for `loo`.
        rows: Which rows of the site.
        site: The observed site; None: the one called y, or the only one.

    Raises:
        ValueError: As for `loo`.
    """
    log_ratio, _ = _log_ratio(posterior)
    terms = _terms(posterior, site)[1]
    r_eff = _effective(terms) if posterior.kind == "markov" else 1.0
    flat = np.ascontiguousarray(terms.reshape(len(log_ratio), len(terms[0, 0]), -1).sum(-1)[:, rows].T)
    at_once = max(1, NUMBERS // (50 * len(log_ratio)))
    parts = [flat[start : start + at_once] for start in range(0, len(flat), at_once)]
    return np.exp(np.concatenate([psis(_without(log_ratio, part), r_eff)[0] for part in parts]))


def _by_row(terms: Array, log_ratio: Array, r_eff: float) -> tuple[Array, Array, Array, Array]:
    """(log p(y_i | y without i), its error, k-hat) (n,), and each draw's influence on the sum (S,).

    The influence of draw s on row i is w_is (p(y_i | theta_s) / p(y_i | y without i) - 1), and the error
    sqrt(sum_s influence^2 / r_eff).
    """
    draws, rows = terms.shape
    out, error, khat = (np.empty(rows) for _ in range(3))
    total = np.zeros(draws)
    at_once = max(1, NUMBERS // (50 * draws))
    for start in range(0, rows, at_once):
        here = slice(start, start + at_once)
        term = np.ascontiguousarray(terms[:, here].T)
        weight, khat[here] = psis(_without(log_ratio, term), r_eff)
        out[here] = logsumexp(weight + term, axis=-1)
        influence = np.exp(weight + term - out[here, None]) - np.exp(weight)
        error[here] = np.sqrt((influence**2).sum(-1) / r_eff)
        total += influence.sum(0)
    return out, error, khat, total


def _without(log_ratio: Array, terms: Array) -> Array:
    """Log weights (k, S) of draws without one row each; a draw of weight 0 has none without the row, either."""
    seen = np.isneginf(terms) & ~np.isneginf(log_ratio)
    if bad := int(seen.any(axis=0).sum()):
        raise ValueError(
            f"loo needs draws that can give every row, got {bad} of {len(log_ratio)} that have weight and cannot give "
            "some row: no draws of the posterior. Run exact or nuts."
        )
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_ratio), -np.inf, log_ratio - terms)


def _log_ratio(posterior: Posterior) -> tuple[Array, str]:
    """(log p(theta, y) / q(theta) (S,), what it is) of draws, 0 where the draws are of the posterior."""
    method, count = posterior.method, posterior.shape[0] * posterior.shape[1]
    if method == "prior":
        raise ValueError("loo needs draws that know y, got draws of the prior. Run exact, laplace, svi or nuts.")
    if reason := posterior.settings.get("no_density"):
        raise ValueError(f"loo needs draws of a density: {reason}. Run laplace, svi with guide='normal', or nuts.")
    points = ", ".join(point_sites(posterior)) or ("all of them" if posterior.kind == "members" else "")
    if points:
        raise ValueError(
            f"loo needs draws of a density, got point estimates of {method} ({points}), which have none. "
            "Run exact, laplace, svi without point=, or nuts."
        )
    if count < LEAST_DRAWS:
        raise ValueError(f"loo needs at least {LEAST_DRAWS} draws, got {count}. Run with more draws.")
    if posterior.weights is not None:
        with np.errstate(divide="ignore"):
            return np.log(to_numpy(posterior.weights).astype(np.float64).reshape(-1)), WEIGHTED
    if posterior.kind == "markov" or method == "exact":
        return np.zeros(count), NONE
    return _density_ratio(posterior), RATIO


def _density_ratio(posterior: Posterior) -> Array:
    stats = posterior.stats
    if "logq" not in stats:
        raise ValueError(f"loo needs log q of each draw, which {posterior.method} does not give. Run laplace or svi.")
    ratio = np.asarray(to_numpy(stats["lp"]) - to_numpy(stats["logq"]), dtype=np.float64).reshape(-1)
    bad = int((np.isnan(ratio) | (ratio == np.inf)).sum())
    if bad:
        why = "" if posterior.ok else f" ({posterior.outcome})"
        raise ValueError(f"loo needs finite log p - log q, got {bad} of {len(ratio)} that are not{why}. Run nuts.")
    return ratio


def _terms(posterior: Posterior, site: str | None) -> tuple[str, Array]:
    """An observed site and its log likelihoods (chain, draw, ...)."""
    terms: dict[str, Any] = pointwise(posterior)
    wanted = site or posterior.problem.names["y"]
    if site is None and wanted not in terms and len(terms) == 1:
        wanted = next(iter(terms))
    if wanted not in terms:
        got = f"got {site!r}" if site else "got none"
        raise ValueError(f"site must be one of the observed {sorted(terms)}, {got}. Name it: zoo.loo(fit, site=...).")
    return wanted, to_numpy(terms[wanted]).astype(np.float64)


def _effective(terms: Array) -> float:
    """Effective draws for each draw: those of the rows' likelihoods, on average."""
    share = np.exp(terms - terms.max(axis=(0, 1))).reshape(*terms.shape[:2], -1)
    return float(min(1.0, ess(share, "mean").mean() / (terms.shape[0] * terms.shape[1])))
