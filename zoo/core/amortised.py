"""The guide of models of images: an encoder for each row's code, points or Normals for the decoder's weights.

    q(w, z | y, x) = q(w) prod_i N(z_i; mu(y_i, x_i), diag sd(y_i, x_i)^2),    mu and sd one network

Source: Kingma & Welling 2014.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from pyro import poutine
from torch import Tensor

from guides.matrices import glorot
from guides.normal import normal
from guides.places import check_points
from guides.point import point as points

from .checks import positive
from .decoder import encode
from .pixels import black_or_white


def defaults(model: Callable[..., Any]) -> dict[str, Any]:
    """The model's own hyperparameters, {name: default}."""
    parameters = inspect.signature(model).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def amortised(
    model: Callable[..., Any],
    sizes: Mapping[str, Any],
    *,
    weights: str = "point",
    init_scale: float = 0.05,
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Any]]:
    """The guide of a model whose rows have a code z.

    Args:
        model: A model (x, y, **hyper) with a site z in its plate.
        sizes: Its `defaults`: latent, hidden, activation and binarise where hyper leaves them out.
        weights: "point" or "normal", for all other sites.
        init_scale: First sd of the Normals.
        point: Sites that are points where the weights are Normals.

    Raises:
        ValueError: For other weights and an init_scale that is none; by the guide, without images and for names in
            `point` that are no sites.
    """
    if weights not in ("point", "normal"):
        raise ValueError(f"weights must be 'point' or 'normal', got {weights!r}. Leave it out for points.")
    positive("init_scale", init_scale)
    others = poutine.block(model, hide=["z"])
    if weights == "point":
        family = points(others, init=glorot)
    else:
        family = normal(others, init=glorot, init_scale=init_scale, point=point)

    def q(x: Tensor, y: Tensor | None = None, **hyper: Any) -> dict[str, Any]:
        if y is None:
            raise ValueError("the encoder needs images y. Give zoo.Data(x, y), or encode(y).")
        asked = {**sizes, **hyper}
        values = family(x, y, **hyper)
        check_points(point, values)
        seen: Any = black_or_white(y, asked["binarise"])
        loc, sd = encode(seen, x, asked["latent"], hidden=asked["hidden"], activation=asked["activation"])
        with pyro.plate("data", x.shape[0]):
            return values | {"z": pyro.sample("z", dist.Normal(loc, sd).to_event(1))}

    q.mean_field = True  # type: ignore[attr-defined]
    return q
