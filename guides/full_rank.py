"""Full-rank Gaussian: all unconstrained coordinates together, with every correlation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.infer.autoguide.initialization import init_to_median
from torch import Tensor

from guides.joint import check_scale, over_all_sites

LARGEST = 10_000  # coordinates: 10^8 numbers, of which Adam keeps four copies


def full_rank(
    model: Callable[..., Any],
    *,
    init_scale: float = 0.1,
    init: Callable[..., Any] = init_to_median,
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Tensor]]:
    """A Gaussian guide with a full covariance, for any Pyro model with continuous latents.

    q(theta) = N(u | loc, L L^T) |du / dtheta|,    u = loc + L e,    e ~ N(0, I) (D,),    L = diag(scale) tril
    log q(theta) = log N(e | 0, I) - sum log scale - log |dtheta / du|

    theta = t(u) stacks all sites, t the bijection from the real line to each site's support (which may depend
    on other latents); tril is lower triangular with ones on its diagonal. It is exact where the unconstrained
    posterior is Gaussian: linear regression with known noise, and a site or two more; its ELBO is then the log
    evidence. It cannot represent several modes, skew or heavy tails, and it still prefers one mode and the
    inside of a curved posterior.

    Cost: D (D + 3) / 2 parameters in D^2 numbers, D^2 multiplications a draw: up to some thousand coordinates.
    Latents inside the data plate tie it to its rows, so it takes no minibatches there. In stock Pyro fit it with
    Trace_ELBO: TraceMeanField_ELBO takes KL(Delta, prior) in closed form, which drops log |du / dtheta| of sites with
    a constrained support, and climbs to a wrong optimum. (zoo's own engines keep it.)

    Args:
        model: A Pyro model; the guide takes its arguments.
        init_scale: First value of every scale.
        init: Where loc starts: one of Pyro's `init_to_...` functions.
        point: Sites that get a point estimate and no part in the covariance.

    Returns:
        A Pyro guide with parameters "full_rank.loc", "full_rank.scale", "full_rank.tril" ("<site>.point") and
        the auxiliary site "_full_rank".

    Raises:
        ValueError: For init_scale <= 0; at the first call for unknown names in `point`, discrete sites, supports
            without a bijection, sites in a subsampled plate and more than 10,000 coordinates.

    Source: Thome, "Stochastic variational inference"; Kucukelbir et al. 2017.
    """
    check_scale(init_scale)

    def draw(start: Tensor) -> Tensor:
        size = len(start)
        if size > LARGEST:
            raise ValueError(
                f"full_rank keeps a matrix of {size} x {size} numbers, at most {LARGEST} x {LARGEST} are allowed. "
                "Use 'low_rank' or 'normal'."
            )
        loc = pyro.param("full_rank.loc", start.clone)
        scale = pyro.param(
            "full_rank.scale", lambda: torch.full_like(start, init_scale), constraint=constraints.positive
        )
        eye = lambda: torch.eye(size, dtype=start.dtype, device=start.device)  # noqa: E731
        tril = pyro.param("full_rank.tril", eye, constraint=constraints.unit_lower_cholesky)
        base = dist.Normal(torch.zeros_like(loc), 1.0).to_event(1)
        # The cache: log q of a fresh draw needs e, which is there already, and no triangular solve.
        affine = dist.transforms.LowerCholeskyAffine(loc, scale.unsqueeze(-1) * tril, cache_size=1)
        return pyro.sample("_full_rank", dist.TransformedDistribution(base, [affine]), infer={"is_auxiliary": True})

    return over_all_sites(model, draw, init=init, point=point)
