"""Parameters of a model (`pyro.param`, PyroParam, nn.Parameter) as latent sites with a flat prior: points.

    p(w) = 1 on w's support, so that argmax_w log p(y | w, theta) p(theta) p(w) is w's maximum likelihood

Methods that end in points (map, svi) estimate them so; `prior` holds them where they are; others have no
distribution to give and say so.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.poutine.messenger import Messenger
from torch import Tensor, nn

from .handlers import LogProb, Values, pyro_state
from .problem import Problem
from .randomness import seeded
from .sites import sites
from .slots import holding, slots

log = logging.getLogger("zoo")
POINT_METHODS, HOLDING = ("map", "svi"), ("prior",)


class Parameter(NamedTuple):
    """A parameter's present value, the set it may move in, and the nn.Parameter it is, if pyro.module named it."""

    value: Tensor
    constraint: Any
    source: nn.Parameter | None = None


class Flat(dist.ImproperUniform):
    """A flat prior; a "draw" is the present value, which is where guides start."""

    def __init__(self, parameter: Parameter) -> None:
        self.present = parameter.value.detach()
        event = self.present.dim() - parameter.constraint.event_dim
        support = constraints.independent(parameter.constraint, event) if event else parameter.constraint
        super().__init__(support, torch.Size(), self.present.shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Parameters stand outside plates, so there is nothing to expand."""
        if torch.Size(batch_shape):
            raise ValueError("a parameter cannot be expanded.")
        return self

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """The present value."""
        # Not a view: torch's median of an expanded tensor reads memory that it does not own.
        return self.present.expand(torch.Size(sample_shape) + self.present.shape).clone()


class _Found(Messenger):
    """Collects the parameters that code asks `pyro.param` for; those set by an inner handler are constants."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters: dict[str, Parameter] = {}
        self.announced: dict[str, nn.Parameter] = {}  # read from their module whatever pyro.param answers
        self._open: set[str] = set()

    def _pyro_param(self, msg: Any) -> None:
        if msg["value"] is not None:
            return
        if len(msg["args"]) > 1 and isinstance(msg["args"][1], nn.Parameter):
            self.announced[_dotted(msg["name"])] = msg["args"][1]
        else:
            self._open.add(msg["name"])

    def _pyro_post_param(self, msg: Any) -> None:
        if msg["name"] in self._open:
            constraint = pyro.get_param_store()._constraints.get(msg["name"], constraints.real)
            self.parameters[msg["name"]] = Parameter(msg["value"].detach().clone(), constraint)


def _dotted(name: str) -> str:
    """pyro.module's name of a parameter, net$$$0.weight, as a module's own would be: net.0.weight."""
    return name.replace("$$$", ".")


class _Answers(Messenger):
    """Answers `pyro.param` with given values; the store is not read."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.values = values

    def _pyro_param(self, msg: Any) -> None:
        name = _dotted(msg["name"])
        if name in self.values:
            msg["value"], msg["done"] = self.values[name], True
            msg["stop"] = True  # a trace outside has a sample site of that name


def parameters(problem: Problem) -> dict[str, Parameter]:
    """The parameters of a problem's model by name; the param store is left as found."""
    store, (args, kwargs), found = pyro.get_param_store(), problem.arguments(), _Found()
    own = _owned(problem.model)
    state = store.get_state()
    with pyro_state(validate=False), store.scope(state), seeded(0, problem.tensor.device), torch.no_grad():
        with found, Values(sites(problem).values):
            problem.model(*args, **kwargs)
    named = {} if own else {n: p for n, p in found.announced.items() if p.requires_grad}
    return {
        **{n: Parameter(p.detach().clone(), constraints.real) for n, p in own.items()},
        **{n: Parameter(p.detach().clone(), constraints.real, p) for n, p in named.items()},
        **found.parameters,
    }


def _owned(model: Any) -> dict[str, nn.Parameter]:
    """The free nn.Parameters of a model that is a module; PyroParams come by pyro.param."""
    if not isinstance(model, nn.Module):
        return {}
    return {n: p for n, p in model.named_parameters() if p.requires_grad and not n.endswith("_unconstrained")}


def as_sites(problem: Problem, found: Mapping[str, Parameter]) -> Problem:
    """The problem with each parameter a latent site of the same name and a flat prior."""
    model: Any = problem.model
    own = _owned(model)
    places = {name: slots(parameter.source) for name, parameter in found.items() if parameter.source is not None}

    def with_points(*args: Any, **kwargs: Any) -> Any:
        values = {name: pyro.sample(name, Flat(parameter)) for name, parameter in found.items()}
        mine = {name: values[name] for name in own}
        # A PyroParam writes itself into the store before it asks: into one that is thrown away.
        store = pyro.get_param_store().scope({"params": {}, "constraints": {}})
        with store, _Answers(values), holding(values, places):
            return torch.func.functional_call(model, mine, args, kwargs) if own else model(*args, **kwargs)

    return dataclasses.replace(problem, model=with_points)


def prepared(problem: Problem, method: str) -> tuple[Problem, tuple[str, ...]]:
    """The problem as `method` can serve it, and the names of its parameters, now sites to estimate as points.

    Raises:
        ValueError: For a method that gives distributions, naming the parameters.
    """
    found = {} if method in HOLDING else parameters(problem)
    if found and method not in POINT_METHODS:
        raise ValueError(
            f"{method} has no distribution for the parameters {', '.join(found)} of model '{problem.name}': they have "
            "no prior. Estimate them as points with map or svi, give them one (pyro.sample, PyroSample), or hold "
            "them: poutine.substitute(model, {name: value}), or .requires_grad_(False) for a module's."
        )
    problem = as_sites(problem, found) if found else problem
    if hidden(problem):
        log.warning(
            "model '%s' reads nn.Parameters that no Pyro statement names: they are held where they are. Make the "
            "nn.Module itself the model to estimate them.",
            problem.name,
        )
    return problem, tuple(found)


def hidden(problem: Problem) -> bool:
    """Whether the log joint depends on tensors that require a gradient and are no site: held where they are."""
    args, kwargs = problem.arguments()
    values = sites(problem).values
    with pyro_state(validate=False), seeded(0, problem.tensor.device), torch.enable_grad():
        with _Held(), LogProb() as log_prob, Values(values):
            problem.model(*args, **kwargs)
    return any(value.requires_grad for value in log_prob.sites.values())


class _Held(Messenger):
    """Answers `pyro.param` with detached values, so that only what is hidden from Pyro has a gradient."""

    def _pyro_post_param(self, msg: Any) -> None:
        msg["value"] = msg["value"].detach()
