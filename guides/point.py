"""Point estimates: q(theta) = delta(theta - m), for every site or for the named ones.

The ELBO of a point is log p(y, m): the prior acts as a penalty, no Jacobian is added, and the optimum is the
mode in the site's own space. A point has no spread: what it leaves out of the uncertainty is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from pyro import poutine
from pyro.infer.autoguide.initialization import init_to_median
from torch import Tensor

from guides.places import moves, place
from guides.prototype import Latent, latents
from guides.supports import unconstrain

# What a guide says of itself, which the engines read.
SAID = ("mean_field", "along_draws", "no_density", "by_row", "random_sites")


def at_point(latent: Latent, support: Any, moves: bool = False) -> Any:
    """Delta(m) for the site, m = pyro.param("<site>.point").

    Args:
        latent: The site.
        support: The one it has now.
        moves: Whether it has others at other times. A parameter keeps the constraint it was made with, so that m is
            then t(pyro.param("<site>.point")) with t the bijection to the support it has now.
    """
    if moves:
        u = pyro.param(f"{latent.name}.point", latent.start.clone)
        return dist.Delta(unconstrain(support, latent.name)(u), event_dim=latent.value_dim)
    where = pyro.param(f"{latent.name}.point", latent.value.clone, constraint=support)
    return dist.Delta(where, event_dim=latent.value_dim)


def point(model: Callable[..., Any], *, init: Callable[..., Any] = init_to_median) -> Callable[..., dict[str, Tensor]]:
    """A guide that gives every latent site a point estimate.

    q(theta) = prod_site delta(theta_site - m_site)

    Args:
        model: A Pyro model; the guide takes its arguments.
        init: Where each m starts: one of Pyro's `init_to_...` functions.

    Returns:
        A Pyro guide with parameters "<site>.point", unconstrained where a support depends on another latent.
    """
    found, moving = dict[str, Latent](), list[str]()

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            found.update(latents(model, init, args, kwargs))
            moving.extend(moves(model, found, args, kwargs))

        def family(latent: Latent, support: Any) -> Any:
            return at_point(latent, support, latent.name in moving)

        return place(model, found, family, args, kwargs, follow=bool(moving))

    guide.mean_field = True  # type: ignore[attr-defined]
    return guide


def with_points(
    family: Callable[..., Callable[..., Any]], model: Callable[..., Any], names: Sequence[str]
) -> Callable[..., dict[str, Any]]:
    """The guide `family(model)` for all sites but the named ones, which get point estimates.

    Args:
        family: A guide factory.
        model: A Pyro model.
        names: Sites to be estimated by points.

    Raises:
        ValueError: At the first call for a point whose support depends on other sites, which it cannot see.
    """
    rest = family(poutine.block(model, hide=list(names)))
    exposed = poutine.block(model, expose=list(names))
    points = point(exposed)
    looked: list[bool] = []

    def guide(*args: Any, **kwargs: Any) -> dict[str, Any]:
        if not looked:
            # The other sites are drawn anew in each run, so that a support that depends on them is another one.
            if moving := moves(exposed, latents(exposed, init_to_median, args, kwargs), args, kwargs):
                raise ValueError(
                    f"point must name sites of a fixed support with this guide, got '{moving[0]}', whose support "
                    "depends on other sites. Use guide='normal', which follows it, or the method 'map'."
                )
            looked.append(True)
        return {**(rest(*args, **kwargs) or {}), **points(*args, **kwargs)}

    guide.mean_field = False  # type: ignore[attr-defined]
    for said in SAID:
        if hasattr(rest, said):  # the object itself: a family fills its random_sites when it first runs
            setattr(guide, said, getattr(rest, said))
    return guide
