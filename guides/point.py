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

from guides.prototype import Latent, latents, plates


def at_point(latent: Latent, support: Any) -> Any:
    """Delta(m) for the site, m = pyro.param("<site>.point") in the support it has now."""
    where = pyro.param(f"{latent.name}.point", latent.value.clone, constraint=support)
    return dist.Delta(where, event_dim=latent.value_dim)


def point(model: Callable[..., Any], *, init: Callable[..., Any] = init_to_median) -> Callable[..., dict[str, Tensor]]:
    """A guide that gives every latent site a point estimate.

    q(theta) = prod_site delta(theta_site - m_site)

    Args:
        model: A Pyro model; the guide takes its arguments.
        init: Where each m starts: one of Pyro's `init_to_...` functions.

    Returns:
        A Pyro guide with parameters "<site>.point".
    """
    found: dict[str, Latent] = {}

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            found.update(latents(model, init, args, kwargs))
        values, opened = {}, dict[str, Any]()
        for name, latent in found.items():
            with plates(latent, opened):
                values[name] = pyro.sample(name, at_point(latent, latent.support))
        return values

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
    """
    rest = family(poutine.block(model, hide=list(names)))
    points = point(poutine.block(model, expose=list(names)))

    def guide(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**(rest(*args, **kwargs) or {}), **points(*args, **kwargs)}

    guide.mean_field = getattr(rest, "mean_field", False)  # type: ignore[attr-defined]
    return guide
