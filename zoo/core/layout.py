"""What the axes of a model's sites are called, and which sites may be compared: one trace of the model."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from pyro.distributions import constraints

from . import units
from .handlers import Record, Values, is_computed, is_data, is_deterministic, is_factor, pyro_state
from .posterior import Posterior
from .predictive import seeded
from .problem import Data, Problem
from .sites import sites

CLASSIFIERS = ("Bernoulli", "Categorical", "OneHotCategorical")


class Layout(NamedTuple):
    """Names of axes and sites, JSON-able, so that a file can carry them without the model.

    Args:
        dims: {site: a name for each axis of its value}; without the leading (chain, draw).
        coords: {axis name: labels}.
        observed: The observed sites.
        family: The family of the site called y (or of the only observed one), such as "Normal".
        bounded: Scalar latent sites whose support has a bound (a sd, a rate, a probability).
    """

    dims: dict[str, tuple[str, ...]]
    coords: dict[str, list[Any]]
    observed: tuple[str, ...]
    family: str
    bounded: tuple[str, ...]

    @property
    def classifies(self) -> bool:
        """Whether y is a class label, so that its mean is a probability."""
        return self.family in CLASSIFIERS


def layout(posterior: Posterior) -> Layout:
    """The layout of a posterior's model; a fit opened without its model brings its own."""
    stored = getattr(posterior, "layout", None)
    return stored if stored is not None else trace_layout(posterior.problem)


def row_latents(posterior: Posterior) -> tuple[str, ...]:
    """Sites among the draws that have a value for each row of the data."""
    plan, plate = layout(posterior), posterior.problem.names["plate"]
    return tuple(name for name in posterior.draws if plate in plan.dims.get(name, ()))


def trace_layout(problem: Problem) -> Layout:
    """Names axes by the plates they stand in, feature axes by `info["x_names"]`, others `<site>_dim_<i>`.

    An axis is a feature axis where it grows when x gets one column more, and a class axis where it grows with
    the hyperparameter `classes`, so equal sizes are never mistaken.
    """
    values = sites(problem).values
    record = _trace(problem, values)
    dims = {name: _dims(name, message, problem) for name, message in record.sites.items()}
    info = problem.data.info if isinstance(problem.data, Data) else {}
    coords = _name_features(problem, record, dims, info)
    coords |= _name_classes(problem, record, dims, info)
    observed = tuple(n for n, m in record.sites.items() if n not in values and not is_computed(m) and not is_factor(m))
    y = problem.names["y"] if problem.names["y"] in observed or len(observed) != 1 else observed[0]
    family = units.family_of(record.sites[y]["fn"]) if y in record.sites else ""
    bounded = tuple(n for n in values if values[n].dim() == 0 and _is_bounded(record.sites[n]["fn"]))
    return Layout(_without_clashes(dims), coords, observed, family, bounded)


def observed_values(problem: Problem) -> dict[str, torch.Tensor]:
    """{observed site: its value}, the target in its original units; {} where there are no targets."""
    record = _trace(problem, sites(problem).values)
    seen = {n: m for n, m in record.sites.items() if is_data(m)}
    y = problem.names["y"] if len(seen) != 1 else next(iter(seen))

    def original(message: Any) -> torch.Tensor:
        return units.targets(units.of(problem.data, units.family_of(message["fn"])), message["value"])

    return {n: original(m) if n == y else m["value"] for n, m in seen.items()}


def _trace(problem: Problem, values: dict[str, torch.Tensor]) -> Record:
    args, kwargs = problem.arguments()
    with pyro_state(validate=False), seeded(0, problem.tensor.device), torch.no_grad(), Record() as record:
        with Values(values):
            problem.model(*args, **kwargs)
    return record


def _is_bounded(fn: Any) -> bool:
    return fn.support is not constraints.real


def _dims(name: str, message: Any, problem: Problem) -> tuple[str, ...]:
    """Default names, then the plates; a deterministic site with a row a data point is in the data plate."""
    shape = tuple(message["value"].shape)
    names = [f"{name}_dim_{i}" for i in range(len(shape))]
    event = 0 if is_deterministic(message) else message["fn"].event_dim
    for frame in message["cond_indep_stack"]:
        axis = -1 if frame.dim is None else len(shape) - event + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    plate = problem.names["plate"]
    rows = len(problem.data.x) if isinstance(problem.data, Data) else -1
    if is_deterministic(message) and shape and shape[0] == rows and plate not in names:
        names[0] = plate
    return tuple(names)


def _name_features(
    problem: Problem, record: Record, dims: dict[str, tuple[str, ...]], info: dict[str, Any]
) -> dict[str, list[Any]]:
    """Calls the axes that follow the columns of x "feature"; returns their labels."""
    if not (isinstance(problem.data, Data) and info.get("x_names")) or problem.data.x.dim() != 2:
        return {}
    labels = [str(label) for label in info["x_names"]]
    if len(labels) != problem.data.x.shape[1]:
        return {}
    found = False
    x = problem.data.x
    wider = _shapes(problem, torch.cat([x, x.new_zeros(len(x), 1)], dim=1), problem.hyper)
    found = _name_grown("feature", len(labels), wider, record, dims)
    return {"feature": labels} if found else {}


def _shapes(problem: Problem, x: torch.Tensor, hyper: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of all sites for other inputs or hyperparameters; {} where the model refuses them."""
    try:
        with pyro_state(validate=False), seeded(0, x.device), torch.no_grad(), Record() as record:
            problem.model(x, None, **hyper)
    except Exception:  # whatever a user's model says of a size it was not made for: axes keep plain names
        return {}
    return {name: tuple(message["value"].shape) for name, message in record.sites.items()}


def _name_grown(
    axis: str, size: int, larger: dict[str, tuple[int, ...]], record: Record, dims: dict[str, tuple[str, ...]]
) -> bool:
    """Names the one axis of each site that grew from `size` by one; whether there was any."""
    found = False
    for name, wider in larger.items():
        shape = tuple(record.sites[name]["value"].shape) if name in record.sites else ()
        grown = [i for i in range(len(shape)) if len(wider) == len(shape) and wider[i] == shape[i] + 1 == size + 1]
        if len(grown) == 1:
            dims[name] = tuple(axis if i == grown[0] else d for i, d in enumerate(dims[name]))
            found = True
    return found


def _name_classes(
    problem: Problem, record: Record, dims: dict[str, tuple[str, ...]], info: dict[str, Any]
) -> dict[str, list[Any]]:
    """Calls "class" the axes with one entry a class: of f, and of what grows with the hyperparameter `classes`."""
    f, hyper = problem.names["f"], defaults(problem.model) | problem.hyper
    count = hyper.get("classes")
    classes = info.get("classes") or (range(count) if isinstance(count, int) else ())
    found = bool(classes) and f in record.sites and tuple(record.sites[f]["value"].shape[1:]) == (len(classes),)
    if found:
        dims[f] = (dims[f][0], "class")
    if isinstance(problem.data, Data) and count == len(classes) > 0:
        larger = _shapes(problem, problem.data.x, {**problem.hyper, "classes": count + 1})
        found = _name_grown("class", count, larger, record, dims) or found
    return {"class": [str(label) for label in classes]} if found else {}


def defaults(model: Any) -> dict[str, Any]:
    """{keyword: default} of a model's signature; {} for what has none."""
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _without_clashes(dims: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """xarray wants axes named unlike variables, chain and draw, and unlike one another."""
    taken = {*dims, "chain", "draw", "mean", "var"}
    out = {}
    for name, axes in dims.items():
        plain = [f"{axis}_plate" if axis in taken else axis for axis in axes]
        out[name] = tuple(a if plain.count(a) == 1 else f"{name}_dim_{i}" for i, a in enumerate(plain))
    return out
