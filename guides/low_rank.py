"""Low-rank Gaussian: a spread for every unconstrained coordinate, and a few directions along which they correlate."""

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


def low_rank(
    model: Callable[..., Any],
    *,
    rank: int | None = None,
    init_scale: float = 0.1,
    init: Callable[..., Any] = init_to_median,
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Tensor]]:
    """A Gaussian guide with a diagonal plus low-rank covariance, for any Pyro model with continuous latents.

    q(theta) = N(u | loc, S (I + F F^T) S) |du / dtheta|,    S = diag(scale),    F (D, rank)
    u = loc + S (F e1 + e2),    e1 ~ N(0, I) (rank,),    e2 ~ N(0, I) (D,)

    theta = t(u) stacks all sites, t the bijection from the real line to each site's support (which may depend
    on other latents). Its best ELBO lies between those of `normal` (rank 0) and `full_rank` (rank D). It follows
    the `rank` directions in which the posterior is longest against its coordinates; it cannot represent a
    direction along which the posterior is short (a sum of many weights that the data pin down takes rank D - 1),
    nor several modes, skew or heavy tails.

    Cost: D (rank + 2) parameters, D rank multiplications a draw, D rank^2 + rank^3 for its density.
    Latents inside the data plate tie it to its rows, so it takes no minibatches there. In stock Pyro fit it with
    Trace_ELBO: TraceMeanField_ELBO takes KL(Delta, prior) in closed form, which drops log |du / dtheta| of sites with
    a constrained support, and climbs to a wrong optimum. (zoo's own engines keep it.)

    Args:
        model: A Pyro model; the guide takes its arguments.
        rank: Columns of F, 1 to D; None: sqrt(D), rounded.
        init_scale: First value of every scale.
        init: Where loc starts: one of Pyro's `init_to_...` functions. F starts at random, with rows of length .5:
            at F = 0 its gradient vanishes.
        point: Sites that get a point estimate and no part in the covariance.

    Returns:
        A Pyro guide with parameters "low_rank.loc", "low_rank.scale", "low_rank.factor" ("<site>.point") and the
        auxiliary site "_low_rank".

    Raises:
        ValueError: For init_scale <= 0 and a rank below 1; at the first call for a rank above D, unknown names in
            `point`, discrete sites, supports without a bijection and sites in a subsampled plate.

    Source: Thome, "Stochastic variational inference"; Ong, Nott & Smith 2018.
    """
    check_scale(init_scale)
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int) or rank < 1):
        raise ValueError(f"rank must be a whole number, at least 1, got {rank!r}. For rank 0 use 'normal'.")

    def draw(start: Tensor) -> Tensor:
        size = len(start)
        columns = max(1, round(size**0.5)) if rank is None else rank
        if columns > size:
            raise ValueError(f"rank must be at most the {size} coordinates, got {columns}. For all use 'full_rank'.")

        def factor() -> Tensor:
            return 0.5 / columns**0.5 * torch.randn(size, columns, dtype=start.dtype).to(start.device)

        loc = pyro.param("low_rank.loc", start.clone)
        scale = pyro.param(
            "low_rank.scale", lambda: torch.full_like(start, init_scale), constraint=constraints.positive
        )
        spread = scale.unsqueeze(-1) * pyro.param("low_rank.factor", factor)
        q = dist.LowRankMultivariateNormal(loc, spread, scale.square())
        return pyro.sample("_low_rank", q, infer={"is_auxiliary": True})

    return over_all_sites(model, draw, init=init, point=point)
