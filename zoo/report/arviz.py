"""`to_arviz`: a posterior as ArviZ's object, InferenceData under ArviZ 0.x and DataTree under 1.x."""

from __future__ import annotations

import logging
import types
import warnings
from typing import Any

import xarray as xr

import zoo
from zoo.core.posterior import Posterior
from zoo.core.quantities import point_sites

from .groups import fit_groups, predicted_groups, warmup_groups

log = logging.getLogger("zoo")

# ArviZ's loo takes what it is given for draws of the posterior.
LOO_OF_Q = "az.loo takes these draws of q for draws of the posterior; zoo.loo weights them by p / q"
LOO_OF_POINTS = "no log_likelihood: points have no leave-one-out; az.summary(kind='stats') has no R-hat of them"
# Fewer draws are no chain to cut in two.
LEAST_TO_FOLD = 8


def arviz() -> types.ModuleType:
    """The ArviZ module; its once-a-day notice at import is left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)
        import arviz as az
    return az


def to_arviz(posterior: Posterior, *, prior: bool = False, log_likelihood: bool = True, warmup: bool = False) -> Any:
    """A posterior as ArviZ's object, with named axes.

    Groups: posterior, sample_stats (ArviZ's names), posterior_predictive (f and the observed sites at the
    training inputs), log_likelihood (a value a row), observed_data, constant_data and, for held-out rows,
    predictions_constant_data. Draws of method "prior" are in the groups prior and prior_predictive instead.
    Points (map) have no log_likelihood: az.loo would take their fit to the training rows for a prediction.

    Two things differ from `posterior.draws`, both so that `az.summary` has an R-hat for all that it sees: one
    chain is exported as its two halves (`attrs["folded"]` says so; ArviZ takes R-hat between chains), and
    sites with a point estimate are constant draws in constant_data. ArviZ knows no weights: they are in
    sample_stats, and its own means ignore them.

    Some coordinates are constant by construction, though their site is not: the upper triangle of a Cholesky factor.
    They stay where they belong, as an array can't leave single entries out; ArviZ divides 0 by 0 for their R-hat
    and ESS, which shows as NaN and as numpy's "invalid value encountered". Select the others to be rid of it:
    az.summary(data, coords={...}) with the names of the site's axes, or its var_names without the site.

    Args:
        posterior: Any method's result.
        prior: Also carry the groups prior and prior_predictive.
        log_likelihood: Also carry the pointwise log likelihood (what az.loo needs). az.loo takes draws of an
            approximation q for draws of the posterior (`attrs["loo"]` says so); `zoo.loo` corrects for q.
        warmup: Also carry warmup_posterior and warmup_sample_stats.

    Returns:
        InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x).

    Raises:
        ValueError: For warmup=True where the fit kept none.
    """
    if warmup and posterior.warmup is None:
        raise ValueError(
            f"warmup=True needs a fit that kept its warm-up, got one of {posterior.method} that did not. "
            "Run a sampler with keep_warmup=True."
        )
    if posterior.weights is not None:
        log.warning(
            "%s: ArviZ knows no weights and its means ignore them; they are in sample_stats['weight'].",
            posterior.method,
        )
    groups = fit_groups(posterior) | predicted_groups(posterior, log_likelihood=log_likelihood)
    if warmup:
        groups |= warmup_groups(posterior)
    if prior and posterior.method != "prior":
        groups |= _prior_groups(posterior)
    attrs = _attrs(posterior)
    if posterior.shape[0] == 1 and posterior.shape[1] >= LEAST_TO_FOLD:
        groups = {name: fold(group) for name, group in groups.items()}
        attrs["folded"] = "one chain, as its two halves (ArviZ takes R-hat between chains)"
    return assemble(groups, attrs)


def assemble(groups: dict[str, xr.Dataset], attrs: dict[str, Any]) -> Any:
    """The object of the ArviZ that is installed, from named datasets."""
    az = arviz()
    if az.__version__.startswith("0."):
        return az.InferenceData(**groups, attrs=attrs)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attrs)
    return tree


def fold(group: xr.Dataset) -> xr.Dataset:
    """One chain as its two halves; the last of an odd number of draws is left out."""
    if group.sizes.get("chain") != 1:
        return group
    half = group.sizes["draw"] // 2
    halves = [group.isel(draw=slice(i * half, (i + 1) * half)) for i in (0, 1)]
    halves = [h.assign_coords(chain=[i], draw=range(half)) for i, h in enumerate(halves)]
    # Variables without (chain, draw) are the same in both halves and stay as they are.
    return xr.concat(halves, dim="chain", data_vars="minimal", coords="minimal", compat="override", join="outer")


def _prior_groups(posterior: Posterior) -> dict[str, xr.Dataset]:
    from zoo.infer.dispatch import run

    chains, draws = posterior.shape
    seed = posterior.settings.get("seed", 0)
    drawn = run(posterior.problem, "prior", draws=min(1000, chains * draws), seed=seed)
    return {"prior": fit_groups(drawn)["prior"], **predicted_groups(drawn, log_likelihood=False)}


def _attrs(posterior: Posterior) -> dict[str, Any]:
    """Facts for the root: strings and numbers only, as netCDF wants them."""
    out = {
        "inference_library": "pyro",
        "creation_library": f"zoo {zoo.__version__}",
        "model": posterior.problem.name,
        "method": posterior.method,
        "outcome": posterior.outcome,
        "sampling_time": float(sum(posterior.seconds.values())),
    }
    points = point_sites(posterior)
    if points:
        out["point"] = ", ".join(points)
    if posterior.kind == "members":
        out["loo"] = LOO_OF_POINTS
    elif posterior.kind == "iid" and posterior.method not in ("exact", "prior"):
        out["loo"] = LOO_OF_Q
    return out
