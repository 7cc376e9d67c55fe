"""What a guide must know of a model before it can imitate it: its latent sites, by one trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.infer.autoguide.initialization import InitMessenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from guides.supports import unconstrain


class Latent(NamedTuple):
    """A latent site: its support, first value, first unconstrained coordinates and plates.

    `event_dim` counts the event axes of the coordinates (a simplex of k has k - 1 of them, in one axis),
    `value_dim` those of the value. `prior` is the distribution that the model gave the site in this run.
    """

    name: str
    support: Any
    value: Tensor
    start: Tensor
    event_dim: int
    value_dim: int
    frames: tuple[Any, ...]
    prior: Any = None


def _latent(site: Any) -> Latent:
    name, fn, value = site["name"], site["fn"], site["value"].detach()
    start = unconstrain(fn.support, name).inv(value).detach()
    event_dim = fn.event_dim + start.dim() - value.dim()
    frames = tuple(frame for frame in site["cond_indep_stack"] if frame.vectorized)
    for frame in frames:
        if frame.full_size not in (None, frame.size):
            raise ValueError(
                f"site '{name}' lies in plate '{frame.name}', which shows {frame.size} of its {frame.full_size} rows "
                "at a time; this guide has parameters of single rows. Use a plate of all rows, or an encoder."
            )
    return Latent(name, fn.support, value, start, event_dim, fn.event_dim, frames, fn)


def latents(model: Callable[..., Any], init: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Latent]:
    """The latent sites of a model in the order it samples them, at the values `init` gives them.

    Args:
        model: A Pyro model.
        init: One of Pyro's `init_to_...` functions (`pyro.infer.autoguide.initialization`).
        args: The model's positional arguments.
        kwargs: The model's keyword arguments.
    """
    like = _floating([*args, *kwargs.values()])

    def first(site: Any) -> Any:
        present = getattr(site["fn"], "present", None)
        if isinstance(present, Tensor):  # a parameter that is estimated from where it is
            return present.clone()
        try:
            return init(site)
        except NotImplementedError:  # an improper prior cannot be sampled, which Pyro's starts all do
            return _centre(site, like)

    with torch.no_grad(), poutine.block(), InitMessenger(first):
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    sites = trace.iter_stochastic_nodes()
    return {name: _latent(site) for name, site in sites if not site_is_subsample(site)}


def _floating(values: list[Any]) -> Tensor:
    """A tensor of the dtype and device that the model works in."""
    return next((v for v in values if isinstance(v, Tensor) and v.is_floating_point()), torch.empty(0))


def _centre(site: Any, like: Tensor) -> Tensor:
    """The value at the origin of a site's unconstrained coordinates."""
    transform = unconstrain(site["fn"].support, site["name"])
    return transform(like.new_zeros(transform.inverse_shape(site["fn"].shape())))


def bounds(support: Any) -> list[Tensor]:
    """The numbers that a support depends on: the ends of an interval, those of its parts."""
    found = [torch.as_tensor(v) for v in vars(support).values() if isinstance(v, (Tensor, float))]
    for part in (getattr(support, "base_constraint", None), *getattr(support, "cseq", ())):
        found += bounds(part) if part is not None else []
    return found


@contextlib.contextmanager
def plates(latent: Latent, opened: dict[str, Any]) -> Iterator[None]:
    """Stands inside the plates of a site; `opened` keeps one plate object a name for the whole guide."""
    with contextlib.ExitStack() as stack:
        for frame in latent.frames:
            if frame.name not in opened:
                opened[frame.name] = pyro.plate(frame.name, frame.size, dim=frame.dim)
            stack.enter_context(opened[frame.name])
        yield
