"""Latents of single rows (inside the data plate) at new rows: from their prior, or from the guide at given targets.

    generate:       z_i ~ p(z),  y_i ~ p(y | z_i, w)
    reconstruct:    z_i ~ q(z | y_i, x_i),  y_i ~ p(y | z_i, w)

The training rows' own draws of z are of no use there, and are never taken.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import pkgutil
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from .base_noise import BaseNoise
from .handlers import Record, Values, in_plate, is_latent
from .posterior import Posterior
from .problem import Data, Problem, finite_tensor
from .shades import extremes
from .sites import sites

Draws = dict[str, Tensor]
NOISE = "_noise_of_rows"
MOST = 20_000_000  # numbers in the draws of a fit whose rows have latents
log = logging.getLogger("zoo")


def local_sites(problem: Problem) -> tuple[str, ...]:
    """Names of the latents that have a value for each row of the data."""
    return tuple(name for name, site in sites(problem).latent.items() if site.local)


def affordable_draws(problem: Problem, draws: int, chains: int) -> int:
    """How many draws are kept: fewer than asked for where those of all latents hold more than `MOST` numbers."""
    each = chains * sum(site.shape.numel() for site in sites(problem).latent.values())
    if draws * each <= MOST:
        return draws
    kept = max(2, MOST // each)
    log.info("%d draws instead of %d: each holds %d numbers, a latent of every row among them", kept, draws, each)
    return min(draws, kept)


class RowNoise(BaseNoise):
    """Answers the unanswered latents inside the plate, and nothing else, from standard normals.

    Args:
        noise: (size,), or None to draw fresh ones and count how many are used.
        plate: The plate's name.
        free: Sites in the plate that are left alone: those to be predicted.
        like: Dtype and device of fresh ones.
    """

    def __init__(
        self, noise: Tensor | None, plate: str, free: Collection[str] = (), like: Tensor | None = None
    ) -> None:
        super().__init__(noise, like)
        self.plate, self.free = plate, free

    def _pyro_sample(self, msg: Any) -> None:
        if is_latent(msg) and in_plate(msg, self.plate) and msg["name"] not in self.free:
            super()._pyro_sample(msg)


class FixedParameters(Messenger):
    """Answers `pyro.param` with the values of a fit.

    Args:
        values: {name: value in the parameter's own space}.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.values = values

    def _pyro_param(self, msg: Any) -> None:
        if msg["name"] in self.values:
            msg["value"], msg["done"] = self.values[msg["name"]], True


def guide_of(posterior: Posterior) -> Callable[..., Any]:
    """The guide that a fit was made with, without its parameters.

    Raises:
        ValueError: For fits by other methods and by guides that are not at hand.
    """
    factory, settings = posterior.problem.guide, posterior.settings
    if not posterior.params or factory is None or settings.get("guide") != _name(factory):
        raise ValueError(_no_encoder(posterior))
    options = dict(settings.get("options", {}).get("guide_options") or {})
    if "point" in inspect.signature(factory).parameters:
        options.setdefault("point", tuple(settings.get("point") or ()))
    return functools.partial(factory, **options)(posterior.problem.model)


def at(problem: Problem, x: Any, y: Any) -> Problem:
    """The problem with these rows in place of its data, checked against the model.

    Args:
        problem: On `Data`.
        x: (m, d); None where the model has no inputs, or for the training inputs.
        y: Targets (m, ...); images may have the shape that info["image_shape"] says.

    Raises:
        ValueError: For rows that do not fit.
    """
    if not isinstance(problem.data, Data):
        raise ValueError("targets can be given to a problem on zoo.Data; this one is on a dict.")
    own, like = problem.data, problem.tensor
    y = _rows(own, y)
    if x is None and own.x[0].numel() == 0:
        x = like.new_empty(len(y), *own.x.shape[1:])
    elif x is None and len(y) != len(own.x):
        raise ValueError(f"x is needed: the model has inputs, and {len(y)} rows of y are given. Give both.")
    given = Data(problem.inputs(x)[0][0], y).to(device=like.device, dtype=like.dtype)
    if own.y is not None and given.y is not None:
        if given.y.shape[1:] != own.y.shape[1:]:
            raise ValueError(
                f"y must have rows of shape {tuple(own.y.shape[1:])} as in training, got {tuple(given.y.shape[1:])}. "
                "Bring them to that size first."
            )
        cast = given.y.to(own.y.dtype)
        if not torch.equal(cast.to(given.y.dtype), given.y) and not own.y.is_floating_point():
            raise ValueError("y must hold whole numbers, as in training, got fractions. Give class labels.")
        given = dataclasses.replace(given, y=cast)
    new = dataclasses.replace(problem, data=given)
    sites(new)  # with validation on: refuses targets outside the support
    return new


def _rows(own: Data, y: Any) -> Tensor:
    """Targets as a finite tensor with rows, images flattened as in training; ValueError for bytes where it had none."""
    if y is None or isinstance(y, Data):
        raise ValueError(f"targets y (m, ...) are needed, got {type(y).__name__}. Give a tensor: data.y_test, say.")
    y = finite_tensor(y, "y")
    if y.dim() == 0:
        raise ValueError("y must hold a row for each target, got one number. Give (m, ...).")
    shape = tuple(own.info.get("image_shape") or ())
    if shape and own.y is not None and own.y.dim() == 2 and tuple(y.shape[1:]) in (shape, (1, *shape)):
        y = y.flatten(1)
    ends, known = extremes(y), own.info.get("y_range")
    if known and ends:
        low, high = known
        width = high - low  # noise may lead a little beyond, bytes lead far
        if ends[0] < low - width or ends[1] > high + width:
            raise ValueError(
                f"y must lie in [{low:g}, {high:g}] as in training, got {ends[0]:g} to {ends[1]:g}. "
                "Scale it as the training targets were: bytes by 255."
            )
    return y


def _name(factory: Any) -> str:
    return str(getattr(factory, "__name__", type(factory).__name__))


def _families() -> set[str]:
    """Names of the guides that are no encoder, whatever the model."""
    from pyro.infer import autoguide

    import guides

    autoguides = {name for name in dir(autoguide) if name.startswith("Auto")}
    return {module.name for module in pkgutil.iter_modules(guides.__path__)} | autoguides


def _no_encoder(posterior: Posterior) -> str:
    """Why no guide of this fit infers rows' latents from their y, and what to do."""
    problem, used = posterior.problem, posterior.settings.get("guide")
    if not local_sites(problem):
        return (
            f"'{problem.name}' has no latents of rows for a guide to infer from y. What it computes of a row's x, an "
            "autoencoder's code z and its image, is in predict(x)."
        )
    own = bool(posterior.params) and used not in _families()
    if own and problem.guide is None:
        return (
            f"the guide {used!r} of this fit is your own, and files carry no code. Open the file with it: "
            f"zoo.open(path, model={getattr(problem.model, '__name__', 'your_model')}, guide={used})."
        )
    if own:
        return f"this fit was made with the guide {used!r}, got {_name(problem.guide)!r}. Give that one."
    by = f"svi with guide={used!r}" if used else posterior.method
    return (
        f"given targets need a guide that infers a row's latents from its y, an encoder; this fit is by {by}. Fit by "
        "svi with the model's own guide, zoo.run(problem, 'svi'), or with a factory of yours, guide=your_guide."
    )


def of_chain(posterior: Posterior, chain: int) -> Draws:
    """A fit's guide parameters of one restart."""
    return {name: value[chain] for name, value in posterior.params.items()}


def guide_messages(
    guide: Callable[..., Any], problem: Problem, params: Draws, values: Mapping[str, Tensor], rows: RowNoise
) -> dict[str, Any]:
    """The guide's messages on a problem's rows, its other sites at `values`, its rows' latents answered by `rows`.

    The caller holds `pyro_state(validate=False)`, and a seed where `rows` draws.
    """
    args, kwargs = problem.arguments()
    with Record() as record, FixedParameters(params), Values(values), rows:
        guide(*args, **kwargs)
    return record.sites


def codes(messages: Mapping[str, Any], plate: str) -> Draws:
    """The latents of rows among a guide's messages: {site: value}."""
    return {n: m["value"] for n, m in messages.items() if in_plate(m, plate) and not m["is_observed"]}


def encode(posterior: Posterior, y: Any, x: Any) -> dict[str, Tensor]:
    """See `Posterior.encode`."""
    from .handlers import pyro_state
    from .randomness import seeded

    guide, new = guide_of(posterior), at(posterior.problem, x, y)
    names, found = local_sites(new), []
    if len(names) != 1:
        raise ValueError(f"encode needs one latent a row, the model has {list(names)}.")
    with pyro_state(validate=False), torch.no_grad(), seeded(0, new.tensor.device):
        for chain in range(posterior.shape[0]):
            values = {n: v[chain, 0] for n, v in posterior.draws.items() if n not in names}
            rows = RowNoise(None, new.names["plate"], (), new.tensor)
            fn = guide_messages(guide, new, of_chain(posterior, chain), values, rows)[names[0]]["fn"]
            found.append((fn.mean, fn.stddev))
    loc, scale = zip(*found, strict=True)
    return {"loc": torch.stack(loc), "scale": torch.stack(scale)}
