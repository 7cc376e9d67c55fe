"""Mean-field Gaussian: every unconstrained coordinate has its own Normal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import constraints
from pyro.infer.autoguide.initialization import init_to_median, init_to_uniform
from pyro.poutine.messenger import Messenger
from torch import Tensor

from guides.point import sample_point
from guides.prototype import Latent, bounds, latents, plates
from guides.supports import unconstrain


def normal(
    model: Callable[..., Any],
    *,
    init_scale: float = 0.1,
    init: Callable[..., Any] = init_to_median,
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Tensor]]:
    """A factorised Gaussian guide for any Pyro model with continuous latents.

    q(theta) = prod_i N(u_i | loc_i, scale_i^2) |du_i / dtheta_i|,    theta = t(u)

    with t the bijection from the real line to each site's support. It finds means and, coordinate by
    coordinate, spread; it cannot represent correlation or several modes, and at its optimum its variances are
    those of each coordinate with all others held fixed: too small wherever the posterior correlates.

    Real-valued sites carry Normal(loc, scale).to_event(k) itself, so that KL(q, prior) can be analytic;
    constrained sites carry the TransformedDistribution of it, whose density holds the Jacobian. Both
    `Trace_ELBO` and `TraceMeanField_ELBO` are right with it.

    Args:
        model: A Pyro model; the guide takes its arguments.
        init_scale: First value of every scale.
        init: Where each loc starts: one of Pyro's `init_to_...` functions.
        point: Sites that get a point estimate instead of a Normal.

    Returns:
        A Pyro guide with parameters "<site>.loc", "<site>.scale" ("<site>.point").

    Raises:
        ValueError: For init_scale <= 0; at the first call for unknown names in `point`, discrete sites and
            supports without a bijection.
    """
    if not init_scale > 0:
        raise ValueError(f"init_scale must be positive, got {init_scale}. Try 0.1.")
    found: dict[str, Latent] = {}
    moving: list[str] = []

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            found.update(latents(model, init, args, kwargs))
            _check_names(point, found)
            moving.extend(_moving(model, found, args, kwargs))
        if moving:
            return _beside(model, found, init_scale, point, args, kwargs)
        values, opened = {}, dict[str, Any]()
        for name, latent in found.items():
            with plates(latent, opened):
                values[name] = sample_point(latent) if name in point else _sample(latent, init_scale)
        return values

    guide.mean_field = True  # type: ignore[attr-defined]
    return guide


def _check_names(point: Sequence[str], found: dict[str, Latent]) -> None:
    unknown = [name for name in point if name not in found]
    if unknown:
        raise ValueError(f"point must name latent sites {list(found)}, got {unknown}.")


def _family(latent: Latent, init_scale: float, support: Any) -> Any:
    """The distribution q of one site, on the support it has now."""
    k = latent.event_dim
    loc = pyro.param(f"{latent.name}.loc", latent.start.clone, event_dim=k)
    scale = pyro.param(
        f"{latent.name}.scale",
        lambda: torch.full_like(latent.start, init_scale),
        constraint=constraints.positive,
        event_dim=k,
    )
    base = dist.Normal(loc, scale).to_event(k)
    transform = unconstrain(support, latent.name)
    return base if _is_real(support) else dist.TransformedDistribution(base, [_cached(transform)])


def _sample(latent: Latent, init_scale: float) -> Tensor:
    return pyro.sample(latent.name, _family(latent, init_scale, latent.support))


def _is_real(support: Any) -> bool:
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is constraints.real or support is constraints.real_vector


def _cached(transform: Any) -> Any:
    """Remembers its last input: log q of a fresh draw then needs no inverse (sigmoid's is inexact at 1)."""
    try:
        return transform.with_cache(1)
    except NotImplementedError:
        return transform


# -- supports that depend on another latent ----------------------------------------------------------------


def _moving(model: Callable[..., Any], found: dict[str, Latent], args: Any, kwargs: Any) -> list[str]:
    """Sites whose support is another one when the latents have other values."""
    if not any(bounds(latent.support) for latent in found.values()):
        return []
    other = latents(model, init_to_uniform, args, kwargs)
    return [
        name
        for name, latent in found.items()
        if any(not torch.equal(a, b) for a, b in zip(bounds(latent.support), bounds(other[name].support), strict=True))
    ]


class _Approximate(Messenger):
    """Gives each latent site of a running model its q, on the support it has in this run."""

    def __init__(self, found: dict[str, Latent], init_scale: float, point: Sequence[str]) -> None:
        super().__init__()
        self.found, self.init_scale, self.point = found, init_scale, point
        self.values: dict[str, Tensor] = {}

    def _pyro_sample(self, msg: Any) -> None:
        latent = self.found.get(msg["name"])
        if latent is None:
            return
        if latent.name in self.point:
            where = pyro.param(f"{latent.name}.point", latent.value.clone, constraint=msg["fn"].support)
            msg["fn"] = dist.Delta(where, event_dim=latent.value_dim)
        else:
            msg["fn"] = _family(latent, self.init_scale, msg["fn"].support)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] in self.found:
            self.values[msg["name"]] = msg["value"]


def _beside(
    model: Callable[..., Any],
    found: dict[str, Latent],
    init_scale: float,
    point: Sequence[str],
    args: Any,
    kwargs: Any,
) -> dict[str, Tensor]:
    """Runs the model with q in the place of the priors; its observations stay hidden."""

    def hidden(msg: Any) -> bool:
        return msg["type"] == "sample" and msg["name"] not in found

    with poutine.block(hide_fn=hidden), _Approximate(found, init_scale, point) as guide:
        model(*args, **kwargs)
    return guide.values
