"""A guide that has run once on its model: its parameters, laid out flat, and the checks that the two fit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import transform_to

from zoo.core.handlers import Record, Values, is_deterministic, pyro_state
from zoo.core.problem import Problem
from zoo.core.randomness import seeded
from zoo.core.sites import Site, sites

from .elbo import is_choice

Messages = dict[str, Any]
Guide = Callable[..., Any]


class Layout(NamedTuple):
    """Where each guide parameter lies in a flat vector of unconstrained values."""

    shapes: dict[str, torch.Size]
    constraints: dict[str, Any]
    attributes: dict[str, str]  # parameters that the guide, a module, reads from itself: {name: attribute}

    @property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes.values())

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """(size,) -> {name: tensor}."""
        parts = flat.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.reshape(s) for (name, s), part in zip(self.shapes.items(), parts, strict=True)}

    def named(self, params: Tensor) -> dict[str, Tensor]:
        """{name: (restart, *shape)} of flat parameters (restart, size), each in its own space."""
        each = [self.split(flat) for flat in params]
        maps = {name: transform_to(self.constraints[name]) for name in self.shapes}
        return {name: torch.stack([maps[name](values[name]) for values in each]).detach() for name in self.shapes}


@contextlib.contextmanager
def quiet(validate: bool = False) -> Iterator[None]:
    """Pyro's handlers to ourselves, with an empty param store; both put back as found."""
    with pyro_state(validate=validate), pyro.get_param_store().scope({"params": {}, "constraints": {}}):
        yield


class Batch(NamedTuple):
    """Rows of the data: x (rows, d) for all restarts, or (restart, rows, d); None: the problem's own."""

    x: Tensor | None = None
    y: Tensor | None = None
    shared: bool = True

    def of(self, restart: int) -> tuple[Tensor | None, Tensor | None]:
        """One restart's rows."""
        if self.shared or self.x is None or self.y is None:
            return self.x, self.y
        return self.x[restart], self.y[restart]


ALL = Batch()


class _Plain(Messenger):
    """Names of parameters that code reads from a module itself: their pyro.param only announces them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def _pyro_param(self, msg: Any) -> None:
        if len(msg["args"]) > 1 and isinstance(msg["args"][1], torch.nn.Parameter):
            self.names.add(msg["name"])


class Prepared(NamedTuple):
    """A guide that has run once: its parameters (`plain` ones live in modules), and that run's messages."""

    guide: Guide
    params: dict[str, Tensor]
    constraints: dict[str, Any]
    plain: set[str]


def prepare(guide: Guide, problem: Problem, seed: int) -> Prepared:
    """Runs a fresh guide once, so that it makes its parameters, under a seed and with Pyro's validation on.

    Raises:
        ValueError: If guide and model do not have the same latent sites of the same shapes, naming them; if the
            guide has no parameters, or fails.
    """
    args, kwargs = problem.arguments()
    with quiet(validate=True), seeded(seed, problem.tensor.device), torch.no_grad():
        with Record() as q, _Plain() as plain, _first_run("the guide fails on the model's arguments"):
            guide(*args, **kwargs)
        state = pyro.get_param_store().get_state()
        params, constraints = dict(state["params"]), dict(state["constraints"])
    _check_guide(q.sites, params, sites(problem).latent)
    values = {name: msg["value"] for name, msg in q.sites.items() if is_choice(msg)}
    with quiet(validate=True), torch.no_grad(), Values(values), Record() as p:
        with _first_run("the model fails on the guide's values"):
            problem.model(*args, **kwargs)
    check_sites(q.sites, p.sites)
    return Prepared(guide, params, constraints, plain.names)


@contextlib.contextmanager
def _first_run(what: str) -> Iterator[None]:
    """Errors of other people's code on one line, saying whose; one-line ValueErrors say it themselves."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split()).partition(" Trace Shapes:")[0]
        if isinstance(error, ValueError) and "\n" not in str(error):
            raise
        raise ValueError(
            f"{what} ({type(error).__name__}: {text[:200]}). "
            "A guide takes what the model takes and follows x in dtype and device; or use dtype='float32'."
        ) from error


def _check_guide(q: Messages, params: dict[str, Tensor], latent: dict[str, Site]) -> None:
    """What can be seen before the model runs on the guide's values: parameters, sites, shapes."""
    _check_names(q, list(latent), latent)
    if not params:
        raise ValueError(
            "the guide has no parameters, so there is nothing to fit. "
            "Make some with pyro.param(name, start), or use a name: 'normal', 'full_rank'."
        )
    for name, site in latent.items():
        _check_shape(name, q[name]["value"].shape, site.shape)


def arguments(problem: Problem, x: Tensor | None, y: Tensor | None) -> Any:
    """The model's arguments on a batch; None: all data."""
    args, kwargs = problem.arguments()
    return ((x, y), kwargs) if x is not None else (args, kwargs)


def check_sites(q: Messages, p: Messages) -> None:
    """Guide and model must have the same latent sites, of the same shapes."""
    wanted = [n for n, m in p.items() if not m["is_observed"] and not is_deterministic(m)]
    _check_names(q, wanted, p)
    for name in wanted:
        _check_shape(name, q[name]["value"].shape, p[name]["fn"].shape())


def _check_names(q: Messages, wanted: Sequence[str], known: Container[str]) -> None:
    missing = [n for n in wanted if n not in q or not is_choice(q[n])]
    extra = [n for n, m in q.items() if is_choice(m) and n not in known and not m["infer"].get("is_auxiliary")]
    if missing or extra:
        raise ValueError(
            f"the guide must sample the model's latent sites {wanted}; missing {missing}, unknown {extra}. "
            "Mark helper sites of the guide with infer={'is_auxiliary': True}."
        )


def _check_shape(name: str, got: torch.Size, wanted: torch.Size) -> None:
    if tuple(got) != tuple(wanted):
        raise ValueError(
            f"the guide gives site '{name}' shape {tuple(got)}, the model wants {tuple(wanted)}. "
            "Give its parameters that shape."
        )


def check_batch(run_on: Callable[[Any], tuple[Messages, Messages]], problem: Problem, rows: int) -> None:
    """Refuses a guide whose q of a local site is tied to the rows of all the data.

    Args:
        run_on: Runs guide and model on the model's arguments.
        problem: A problem on `Data` with targets.
        rows: Rows of a batch.
    """
    data: Any = problem.data
    try:
        with quiet(validate=True), torch.no_grad():
            check_sites(*run_on(arguments(problem, data.x[:rows], data.y[:rows])))
    except (ValueError, RuntimeError) as error:
        why = " ".join(str(error).split()).partition(" Trace Shapes:")[0]
        local = [name for name, site in sites(problem).latent.items() if site.local]
        which = (
            f" of {', '.join(local)}, which {'has' if len(local) == 1 else 'have'} a value for every row,"
            if local
            else ""
        )
        raise ValueError(
            f"the guide does not fit a batch of {rows} of {len(data.x)} rows ({why}). A q{which} with parameters of "
            "single rows needs batch_size=None; one that is computed from x (an encoder) fits any batch."
        ) from None


def own_parameters(prepared: Prepared) -> dict[str, str]:
    """{name in the store: attribute} of the parameters a guide module reads from itself, not by pyro.param.

    Raises:
        HiddenParameters: If a plain parameter belongs to a module that is not the guide.
    """
    if not prepared.plain:
        return {}
    if not isinstance(prepared.guide, torch.nn.Module):
        raise HiddenParameters(f"parameters {sorted(prepared.plain)} belong to modules inside the guide")
    names = {id(p): name for name, p in prepared.guide.named_parameters()}
    return {n: names[id(prepared.params[n])] for n in prepared.plain}


class HiddenParameters(ValueError):
    """Parameters that live in modules a guide closes over: no argument can replace them."""
