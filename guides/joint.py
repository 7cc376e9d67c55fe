"""What guides of all sites at once have in common: one vector of unconstrained coordinates, cut into the sites.

    u ~ q on R^D,    theta_site = t_site(u_site),    log q(theta) = log q(u) - sum_site log |d theta / d u|

An auxiliary site holds u; every latent site is a Delta at its value whose log density is minus the Jacobian. Pyro's
TraceMeanField_ELBO does not read that density: use Trace_ELBO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions.util import sum_rightmost
from torch import Tensor

from guides.options import names, positive
from guides.places import check_points, moves, place
from guides.point import at_point
from guides.prototype import Latent, latents
from guides.supports import unconstrain


def over_all_sites(
    model: Callable[..., Any],
    draw: Callable[[Tensor], Tensor],
    *,
    init: Callable[..., Any],
    point: Sequence[str],
) -> Callable[..., dict[str, Tensor]]:
    """The guide whose unconstrained coordinates come from one joint draw.

    Args:
        model: A Pyro model.
        draw: Samples the auxiliary site: first coordinates (D,) -> coordinates (..., D).
        init: Where the coordinates start: one of Pyro's `init_to_...` functions.
        point: Sites that get a point estimate and no coordinates in u.
    """
    point, found = names("point", point), dict[str, Latent]()
    moving: list[str] = []

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            found.update(latents(model, init, args, kwargs))
            check_points(point, found)
            moving.extend(moves(model, found, args, kwargs))
        inside = [latent for latent in found.values() if latent.name not in point]
        u = _cut(draw(torch.cat([latent.start.reshape(-1) for latent in inside])), inside) if inside else {}

        def family(latent: Latent, support: Any) -> Any:
            if latent.name in point:
                return at_point(latent, support, latent.name in moving)
            return _placed(latent, support, u[latent.name])

        return place(model, found, family, args, kwargs, follow=bool(moving))

    # For engines that can: log q is best differentiated along the draws only, q may be exact.
    guide.along_draws = True  # type: ignore[attr-defined]
    return guide


def _cut(u: Tensor, inside: list[Latent]) -> dict[str, Tensor]:
    """{site: its coordinates}; plates around the whole guide, over particles say, stay in front."""
    pieces = u.split([latent.start.numel() for latent in inside], -1)
    return {latent.name: _shaped(piece, latent) for latent, piece in zip(inside, pieces, strict=True)}


def _shaped(piece: Tensor, latent: Latent) -> Tensor:
    batch, shape = piece.shape[:-1], latent.start.shape
    own = len(shape) - latent.event_dim
    # The site's own plates take the place of the axes of size one that Pyro leaves for them.
    front = batch[: max(0, len(batch) - own)]
    return piece.reshape(front + shape)


def _placed(latent: Latent, support: Any, u: Tensor) -> Any:
    """Delta at t(u), with minus log |dt / du| as its log density."""
    transform = unconstrain(support, latent.name)
    value = transform(u)
    log_det = transform.log_abs_det_jacobian(u, value)
    log_det = sum_rightmost(log_det, log_det.dim() - value.dim() + latent.value_dim)
    return dist.Delta(value, -log_det, event_dim=latent.value_dim)


def check_scale(init_scale: float) -> None:
    """Raises ValueError unless the first scale is a positive number."""
    positive("init_scale", init_scale, "Try 0.1.")
