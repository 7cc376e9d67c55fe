"""A posterior as named arrays: the xarray datasets that ArviZ's two generations and zoo's files all hold."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from zoo.core import units
from zoo.core.layout import Layout, layout, observed_values
from zoo.core.likelihoods import log_likelihoods
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import point_sites
from zoo.core.tensors import to_numpy

log = logging.getLogger("zoo")

# The zoo's word: ArviZ's word. Others (lp, logq, diverging, energy, step_size) are the same.
STATS = {"accept": "acceptance_rate", "depth": "tree_depth", "steps": "n_steps"}
# No array of more values is written or exported.
CAP = 100_000_000
DRAWS = ("chain", "draw")
SLASH = "\u2215"  # DIVISION SLASH: reads as "/" and is none


def plain(name: str) -> str:
    """A site's name as a variable's: "/" (of `pyro.contrib.autoname.scope`) would be a path in a file or a tree."""
    return name.replace("/", SLASH)


def dataset(
    values: Mapping[str, Tensor],
    dims: Mapping[str, Iterable[str]],
    coords: Mapping[str, Any],
    *,
    drawn: bool = True,
) -> xr.Dataset:
    """A dataset of named arrays.

    Args:
        values: {name: (chain, draw, *shape)}, or (*shape) where not `drawn`.
        dims: {name: names of the axes of *shape}; `<name>_dim_<i>` for others, and where lengths disagree.
        coords: {axis: labels}.
        drawn: Whether the values carry (chain, draw).
    """
    lead = DRAWS if drawn else ()
    variables = {}
    for name, value in values.items():
        own = tuple(dims.get(name, ()))
        if len(own) != value.dim() - len(lead):
            own = tuple(f"{name}_dim_{i}" for i in range(value.dim() - len(lead)))
        variables[plain(name)] = ((*lead, *map(plain, own)), to_numpy(value))
    used = {d: n for axes, a in variables.values() for d, n in zip(axes, a.shape, strict=True)}
    labels = {plain(d): c for d, c in coords.items() if used.get(plain(d)) == len(c)}
    if drawn:
        labels |= {d: np.arange(used[d]) for d in DRAWS if d in used}
    return xr.Dataset(variables, coords=labels)


def fit_groups(posterior: Posterior) -> dict[str, xr.Dataset]:
    """The groups that need no further run of the model: draws, sample_stats, observed_data, constant_data."""
    plan = layout(posterior)
    points = point_sites(posterior)
    moving = {n: v for n, v in posterior.draws.items() if n not in points}
    prior = posterior.method == "prior"
    out = {"prior" if prior else "posterior": dataset(moving, plan.dims, plan.coords)}
    if posterior.stats or posterior.weights is not None:
        out["sample_stats_prior" if prior else "sample_stats"] = stats_group(posterior)
    out |= data_groups(posterior, plan)
    if points:
        # Constant draws, kept apart: R-hat of a constant is 0 / 0, and ArviZ computes it for all it sees.
        fixed = dataset({n: posterior.draws[n] for n in points}, plan.dims, plan.coords)
        out["constant_data"] = out.get("constant_data", xr.Dataset()).merge(fixed)
    return out


def warmup_groups(posterior: Posterior) -> dict[str, xr.Dataset]:
    """warmup_posterior and warmup_sample_stats of a sampler that kept its warm-up; {} of others."""
    kept = posterior.warmup
    if kept is None:
        return {}
    plan = layout(posterior)
    out = {"warmup_posterior": dataset(kept["draws"], plan.dims, plan.coords)}
    if kept["stats"]:
        first = next(iter(kept["draws"].values()))
        out["warmup_sample_stats"] = _under_arviz_names(kept["stats"], (first.shape[0], first.shape[1]))
    return out


def stats_group(posterior: Posterior) -> xr.Dataset:
    """`stats` under ArviZ's names, and the weights; a value a chain is repeated for its draws."""
    values = dict(posterior.stats)
    if posterior.weights is not None:
        values["weight"] = posterior.weights
    return _under_arviz_names(values, posterior.shape)


def _under_arviz_names(values: Mapping[str, Tensor], shape: tuple[int, int]) -> xr.Dataset:
    full = {STATS.get(n, n): v if v.dim() >= 2 else v.reshape(-1, 1).expand(shape) for n, v in values.items()}
    if "diverging" in full:
        full["diverging"] = full["diverging"].bool()
    return dataset(full, {}, {})


def data_groups(posterior: Posterior, plan: Layout) -> dict[str, xr.Dataset]:
    """observed_data, constant_data and, for held-out rows, predictions_constant_data."""
    problem = posterior.problem
    seen = stored(posterior, "observed")
    seen = observed_values(problem) if seen is None else seen
    out = {"observed_data": dataset(seen, plan.dims, plan.coords, drawn=False)} if seen else {}
    if not isinstance(problem.data, Data):
        tensors = {n: v for n, v in problem.data.items() if isinstance(v, Tensor)}
        return out | ({"constant_data": dataset(tensors, {}, {}, drawn=False)} if tensors else {})
    data, rows = problem.data, problem.names["plate"]
    names = data.info.get("x_names") or ()
    labelled = data.x.dim() == 2 and len(names) == data.x.shape[1]
    tail = ["feature" if labelled else "x_dim_1", *[f"x_dim_{i}" for i in range(2, data.x.dim())]]
    dims = {"x": [rows, *tail], "x_test": ["test", *tail]}
    coords = {"feature": [str(n) for n in names]} if labelled else {}
    out["constant_data"] = dataset({"x": data.x}, dims, coords, drawn=False)
    held_out = {n: v for n in ("x_test", "y_test") if (v := getattr(data, n)) is not None}
    if "y_test" in held_out:
        held_out["y_test"] = units.targets(units.of(data, plan.family), held_out["y_test"])
    if data.y_test is not None:
        dims["y_test"] = ["test", *[f"y_dim_{i}" for i in range(1, data.y_test.dim())]]
    if held_out:
        out["predictions_constant_data"] = dataset(held_out, dims, coords, drawn=False)
    return out


def stored(posterior: Posterior, what: str) -> Any:
    """What a file kept of a model that is not at hand (see `zoo.report.stored`), or None."""
    kept = getattr(posterior, "stored", None)
    return None if kept is None else kept[what]


def predicted_groups(posterior: Posterior, *, log_likelihood: bool) -> dict[str, xr.Dataset]:
    """posterior_predictive (the observed sites drawn, and f) at the training inputs, and log_likelihood."""
    plan = layout(posterior)
    chains, draws = posterior.shape
    data = posterior.problem.data
    out = {}
    if isinstance(data, Data) and chains * draws * len(data.x) > CAP:
        log.warning(
            "%d draws x %d rows are more than %g values: predictions and log likelihood are left out of the "
            "ArviZ object. Run with fewer draws or a larger thin=.",
            chains * draws, len(data.x), float(CAP),
        )  # fmt: skip
        return {}
    kept = {n: v for n, v in posterior.predict().items() if n not in ("mean", "var") or n in plan.dims}
    name = "prior_predictive" if posterior.method == "prior" else "posterior_predictive"
    out[name] = dataset(kept, plan.dims, plan.coords)
    has_targets = not isinstance(data, Data) or data.y is not None
    if log_likelihood and posterior.method != "prior" and posterior.kind != "members" and has_targets:
        terms = pointwise(posterior)
        # Event axes are summed away: what is left are the leading axes of the observed site.
        rows = {n: plan.dims.get(n, ())[: v.dim() - 2] for n, v in terms.items()}
        out["log_likelihood"] = dataset(terms, rows, plan.coords)
    return out


def pointwise(posterior: Posterior) -> dict[str, Tensor]:
    """{observed site: (chain, draw, *batch)} log likelihoods at the training data."""
    kept = stored(posterior, "log_likelihood")
    return log_likelihoods(posterior) if kept is None else kept
