"""A posterior as one JSON-able dict and named datasets, and back: what a file holds (`zoo_format` 1)."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
import xarray as xr
from torch import Tensor

import zoo
from zoo.core import points
from zoo.core.layout import Layout, layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.core.quantities import point_sites
from zoo.core.sites import sites

from .encode import DTYPES, decode, dtype_name, encode
from .groups import CAP, SLASH, STATS, dataset, fit_groups, plain, warmup_groups
from .stored import Stored, in_original_units, keep, missing

log = logging.getLogger("zoo")
Groups = dict[str, xr.Dataset]


def lecture_model(problem: Problem) -> str | None:
    """The name of the zoo's own model that a problem runs, or None for a user's."""
    name = getattr(problem.model, "__module__", "").removeprefix("zoo.")
    if name not in zoo.names() or getattr(problem.model, "__module__", "") != f"zoo.{name}":
        return None
    return name if getattr(importlib.import_module(f"zoo.{name}"), "model", None) is problem.model else None


def pack(posterior: Posterior) -> tuple[dict[str, Any], Groups]:
    """Everything about a posterior: facts for one JSON string, and the arrays by group."""
    problem, own = posterior.problem, lecture_model(posterior.problem) is None
    tensors, plain = _split_data(problem)
    facts: dict[str, Any] = {
        "zoo": zoo.__version__,
        "problem": problem.name,
        "lecture_model": lecture_model(problem),
        "names": problem.names,
        "compare": None if problem.compare is None else list(problem.compare),
        "hyper": _encodable(problem.hyper, "hyper", own),
        "data": {"kind": type(problem.data).__name__, "plain": _encodable(plain, "data", own)},
        "method": posterior.method,
        "kind": posterior.kind,
        "outcome": posterior.outcome,
        "seconds": encode(posterior.seconds, "seconds", strict=False),
        "settings": encode(posterior.settings, "settings", strict=False),
        "has_exact": posterior.exact is not None,
        "layout": layout(posterior)._asdict(),
        "sites": list(posterior.draws),
        "points": list(point_sites(posterior)),
        "per_chain": [name for name, value in posterior.stats.items() if value.dim() == 1],
        # Files without this word hold predictions of a standardised y.
        "units": "original",
        "dtypes": _dtypes(posterior, tensors),
    }
    groups = fit_groups(posterior) | warmup_groups(posterior) | {"zoo_data": dataset(tensors, {}, {}, drawn=False)}
    if posterior.params:
        groups["zoo_params"] = dataset(posterior.params, {}, {}, drawn=False)
    if posterior.history:
        groups["zoo_history"] = dataset(posterior.history, {}, {}, drawn=False)
    return facts, groups | (_kept_groups(posterior) if own else {})


def _dtypes(posterior: Posterior, tensors: dict[str, Tensor]) -> dict[str, dict[str, str]]:
    """{kind of array: {name: dtype}}; warm-up and weights only where there are some."""
    kinds = {"draws": posterior.draws, "stats": posterior.stats, "history": posterior.history, "data": tensors}
    kinds["weights"] = {"weight": posterior.weights} if posterior.weights is not None else {}
    kinds |= {"params": posterior.params} if posterior.params else {}
    kinds |= {f"warmup_{part}": values for part, values in (posterior.warmup or {}).items()}
    return {kind: {name: dtype_name(value) for name, value in values.items()} for kind, values in kinds.items()}


def unpack(facts: dict[str, Any], groups: Groups, model: Callable[..., Any] | None) -> Posterior:
    """The inverse of `pack`; only models in `zoo.names()` are imported.

    Raises:
        ValueError: Where the draws are not of the model's sites.
    """
    problem, at_hand = _problem(facts, groups, model)
    drawn = groups.get("prior" if facts["method"] == "prior" else "posterior", xr.Dataset())
    fixed = groups.get("constant_data", xr.Dataset())
    dtypes = facts["dtypes"]
    where = {n: fixed if n in facts["points"] else drawn for n in facts["sites"]}
    draws = {n: _tensor(group, n, dtypes["draws"]) for n, group in where.items()}
    if at_hand:
        _check_sites(problem, draws)
    stats = groups.get("sample_stats_prior" if facts["method"] == "prior" else "sample_stats", xr.Dataset())
    values: dict[str, Any] = {
        "problem": problem,
        "draws": draws,
        "weights": _tensor(stats, "weight", dtypes["weights"]) if dtypes["weights"] else None,
        "stats": {n: _stat(stats, n, dtypes["stats"]) for n in dtypes["stats"]},
        "history": {n: _tensor(groups["zoo_history"], n, dtypes["history"]) for n in dtypes["history"]},
        "warmup": _warmup(groups, facts),
        "params": {n: _tensor(groups["zoo_params"], n, dtypes["params"]) for n in dtypes.get("params", {})},
        "seconds": decode(facts["seconds"]),
        "settings": decode(facts["settings"]),
        **{name: str(facts[name]) for name in ("method", "kind", "outcome")},
    }
    values["stats"] |= {n: values["stats"][n][:, 0] for n in facts["per_chain"]}
    if not at_hand:
        plan, kept = _layout(facts["layout"]), _kept(groups)
        if facts.get("units") != "original":
            kept = in_original_units(kept, problem, plan)
        return Stored(**values, stored=kept, layout=plan)
    if facts["has_exact"] and problem.exact is not None:
        values["exact"] = problem.exact(problem.data, **problem.hyper)
    return Posterior(**values)


def _split_data(problem: Problem) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The data's tensors, and the rest."""
    if isinstance(problem.data, Data):
        data = problem.data
        tensors = {n: v for n in ("x", "y", "x_test", "y_test") if (v := getattr(data, n)) is not None}
        return tensors, {"info": data.info}
    tensors = {n: v for n, v in problem.data.items() if isinstance(v, Tensor)}
    return tensors, {n: v for n, v in problem.data.items() if n not in tensors}


def _encodable(values: Mapping[str, Any], where: str, own: bool) -> dict[str, Any]:
    """Each value encoded; what can't be is left out of a fit of a user's model, which needs model= anyway."""
    out = {}
    for name, value in values.items():
        try:
            out[name] = encode(value, f"{where}[{name!r}]")
        except TypeError as error:
            if not own:
                raise
            log.warning("%s Left out of the file; bind it to the model that you give to zoo.open.", error)
    return out


def _kept_groups(posterior: Posterior) -> Groups:
    """Predictions and log likelihoods of a user's model, under ArviZ's group names."""
    kept = posterior.stored if isinstance(posterior, Stored) else keep(posterior, CAP)
    plan, plate = layout(posterior), posterior.problem.names["plate"]
    test = {n: tuple("test" if axis == plate else axis for axis in axes) for n, axes in plan.dims.items()}
    out = {}
    for name, which, dims in (("posterior_predictive", "train", plan.dims), ("predictions", "test", test)):
        if which in kept["predictions"]:
            out[name] = dataset(kept["predictions"][which], dims, {})
    if kept["log_likelihood"]:
        out["log_likelihood"] = dataset(kept["log_likelihood"], {}, {})
    if kept["test_log_likelihood"] is not None:
        out["zoo_test"] = dataset({"log_likelihood": kept["test_log_likelihood"]}, {}, {})
    return out


def _kept(groups: Groups) -> dict[str, Any]:
    """What `_kept_groups` wrote, as `zoo.report.stored.keep` gave it."""

    def tensors(name: str) -> dict[str, Tensor]:
        variables = groups.get(name, xr.Dataset()).data_vars
        return {str(n).replace(SLASH, "/"): torch.from_numpy(v.values.copy()) for n, v in variables.items()}

    pairs = (("train", "posterior_predictive"), ("test", "predictions"))
    return {
        "predictions": {which: tensors(name) for which, name in pairs if name in groups},
        "log_likelihood": tensors("log_likelihood"),
        "test_log_likelihood": tensors("zoo_test").get("log_likelihood"),
        "observed": tensors("observed_data"),
    }


def _problem(facts: dict[str, Any], groups: Groups, model: Callable[..., Any] | None) -> tuple[Problem, bool]:
    """The problem, and whether its model is at hand."""
    tensors: dict[str, Any] = {
        n: _tensor(groups["zoo_data"], n, facts["dtypes"]["data"]) for n in facts["dtypes"]["data"]
    }
    plain = decode(facts["data"]["plain"])
    data: Any = Data(**tensors, **plain) if facts["data"]["kind"] == "Data" else {**tensors, **plain}
    hyper, name, lecture = decode(facts["hyper"]), str(facts["problem"]), facts["lecture_model"]
    compare = None if facts["compare"] is None else tuple(facts["compare"])
    extra: dict[str, Any] = {}
    if model is None and lecture in zoo.names():
        module = importlib.import_module(f"zoo.{lecture}")
        extra = {key: getattr(module, key, None) for key in ("guide", "exact")}
        model = module.model
    found = model or missing(name)
    problem = Problem(name, found, data, hyper=hyper, names=facts["names"], compare=compare, **extra)
    if model is not None and lecture not in zoo.names():
        problem, _ = points.prepared(problem, facts["method"])
    return problem, model is not None


def _tensor(group: xr.Dataset, name: str, dtypes: Mapping[str, str]) -> Tensor:
    return torch.from_numpy(group[plain(name)].values.copy()).to(DTYPES[dtypes[name]])


def _stat(group: xr.Dataset, name: str, dtypes: Mapping[str, str]) -> Tensor:
    there = STATS.get(name, name)
    return _tensor(group, there, {there: dtypes[name]})


def _warmup(groups: Groups, facts: dict[str, Any]) -> dict[str, dict[str, Tensor]] | None:
    dtypes = facts["dtypes"]
    if "warmup_draws" not in dtypes:
        return None
    stats = groups.get("warmup_sample_stats", xr.Dataset())
    names = dtypes.get("warmup_stats", {})
    return {
        "draws": {n: _tensor(groups["warmup_posterior"], n, dtypes["warmup_draws"]) for n in dtypes["warmup_draws"]},
        "stats": {n: _stat(stats, n, names) for n in names},
    }


def _layout(facts: dict[str, Any]) -> Layout:
    dims = {name: tuple(axes) for name, axes in facts["dims"].items()}
    tuples = {key: tuple(facts[key]) for key in ("observed", "bounded")}
    return Layout(**{**facts, "dims": dims, **tuples})


def _check_sites(problem: Problem, draws: Mapping[str, Tensor]) -> None:
    found = sites(problem)
    wanted = {n: tuple(s.shape) for n, s in found.latent.items()}
    got = {n: tuple(v.shape[2:]) for n, v in draws.items() if n not in found.deterministic}
    if wanted != got:
        raise ValueError(f"its draws are of {got}, the model samples {wanted}. Give the model that it was made with.")
