"""Where a guide samples: each latent site in its plates, on the support it has now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer.autoguide.initialization import init_to_uniform
from pyro.poutine.messenger import Messenger
from torch import Tensor

from guides.prototype import Latent, bounds, latents, plates

Family = Callable[[Latent, Any], Any]


def check_points(point: Sequence[str], found: Mapping[str, Any]) -> None:
    """Raises ValueError for names in `point` that are no latent site."""
    unknown = [name for name in point if name not in found]
    if unknown:
        raise ValueError(f"point must name latent sites {list(found)}, got {unknown}.")


def moves(model: Callable[..., Any], found: dict[str, Latent], args: Any, kwargs: Any) -> list[str]:
    """Sites whose support is another one when the latents have other values: v ~ Uniform(0, u)."""
    if not any(bounds(latent.support) for latent in found.values()):
        return []
    other = latents(model, init_to_uniform, args, kwargs)
    return [
        name
        for name, latent in found.items()
        if any(not torch.equal(a, b) for a, b in zip(bounds(latent.support), bounds(other[name].support), strict=True))
    ]


def place(
    model: Callable[..., Any], found: dict[str, Latent], family: Family, args: Any, kwargs: Any, *, follow: bool
) -> dict[str, Tensor]:
    """Samples every site from family(latent, support); returns {site: value}.

    Args:
        model: The Pyro model.
        found: Its latent sites.
        family: (latent with its present prior, its present support) -> distribution.
        args, kwargs: The model's arguments.
        follow: Run the model to learn each support anew; needed where one depends on another latent.
    """
    if follow:
        return _beside(model, found, family, args, kwargs)
    values, opened = {}, dict[str, Any]()
    for name, latent in found.items():
        with plates(latent, opened):
            values[name] = pyro.sample(name, family(latent, latent.support))
    return values


class _Approximate(Messenger):
    """Gives each latent site of a running model its q, on the support it has in this run."""

    def __init__(self, found: dict[str, Latent], family: Family) -> None:
        super().__init__()
        self.found, self.family = found, family
        self.values: dict[str, Tensor] = {}

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.found:
            latent = self.found[msg["name"]]._replace(prior=msg["fn"])
            msg["fn"] = self.family(latent, msg["fn"].support)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] in self.found:
            self.values[msg["name"]] = msg["value"]


def _beside(
    model: Callable[..., Any], found: dict[str, Latent], family: Family, args: Any, kwargs: Any
) -> dict[str, Tensor]:
    """Runs the model with q in the place of the priors; its observations stay hidden, noise of q does not."""

    def hidden(msg: Any) -> bool:
        own = msg["name"] in found or msg["infer"].get("is_auxiliary")
        return msg["type"] == "sample" and not own

    with poutine.block(hide_fn=hidden), _Approximate(found, family) as guide:
        model(*args, **kwargs)
    return guide.values
