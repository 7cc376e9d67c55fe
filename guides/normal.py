"""Mean-field Gaussian: every unconstrained coordinate has its own Normal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.infer.autoguide.initialization import init_to_median
from torch import Tensor

from guides.options import names, positive
from guides.places import check_points, moves, place
from guides.point import at_point
from guides.prototype import Latent, latents
from guides.supports import is_real, unconstrain


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
    positive("init_scale", init_scale, "Try 0.1.")
    point, found = names("point", point), dict[str, Latent]()
    moving: list[str] = []

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            found.update(latents(model, init, args, kwargs))
            check_points(point, found)
            moving.extend(moves(model, found, args, kwargs))

        def family(latent: Latent, support: Any) -> Any:
            if latent.name in point:
                return at_point(latent, support, latent.name in moving)
            return at_normal(latent, init_scale, support)

        return place(model, found, family, args, kwargs, follow=bool(moving))

    guide.mean_field = True  # type: ignore[attr-defined]
    return guide


def at_normal(latent: Latent, init_scale: float, support: Any) -> Any:
    """N(loc, scale^2) on the site's unconstrained coordinates, on the support it has now."""
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
    return base if is_real(support) else dist.TransformedDistribution(base, [_cached(transform)])


def _cached(transform: Any) -> Any:
    """Remembers its last input: log q of a fresh draw then needs no inverse (sigmoid's is inexact at 1)."""
    try:
        return transform.with_cache(1)
    except NotImplementedError:
        return transform
