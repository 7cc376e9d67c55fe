"""Dropout as a variational family: every weight matrix has its rows switched off at random."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from guides.matrices import Layer, atoms, by_input, noise, over_matrices, weight

NO_DENSITY = (
    "a draw diag(z) M of dropout is one of finitely many atoms, so q has no density and its KL is infinite: what is "
    "maximised is an objective, no bound of the evidence"
)


def bernoulli_dropout(
    model: Callable[..., Any],
    rate: float | Sequence[float] | Callable[..., Any] = 0.5,
    sites: Sequence[str] | None = None,
    mask: str = "row",
    *,
    where: str = "all",
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
) -> Callable[..., dict[str, Tensor]]:
    """Gal and Ghahramani's q: W = diag(z) M, z_i ~ Bernoulli(1 - p), for every weight matrix of a Pyro model.

    objective = E_z[log p(y | W)] - sum_matrices (1 - p) |M|^2 / (2 s^2) - sum_points |m|^2 / (2 s^2)

    for priors N(0, s^2), taken from the model's own trace; for N(a, s^2) and others see `guides.matrices.atoms`:
    in general E_z[-log p(z M)] takes the place of the penalty. It is what training with dropout and weight decay
    maximises, and is no bound: q consists of atoms, and KL(q, prior) is infinite. It is the limit of the mixture
    (`guides.mixture`) in which each row of K weights has sd s_q -> 0, less two constants that do not depend on M:
    K / 2 (s_q^2 / s^2 - 1 - log(s_q^2 / s^2)) - H(p) a row, H the entropy of a coin, which grows without limit, and
    the log normalisers of Normal priors that no other latent changes.

    z has one entry for each input of a layer: along axis -2 of a site with event_dim 2, (in, out), and along axis 1
    of kernels with event_dim 4, (out, in, height, width). All other sites are points. p is the probability to drop;
    M is not scaled up: V = (1 - p) M is the weight of a network with torch.nn.Dropout.

    In stock Pyro fit it with Trace_ELBO, which returns minus the objective at one z for all rows: every matrix is
    Delta(z M, log_density=log p(z M) + penalty). TraceMeanField_ELBO ignores that log density.

    Slide prints Bernoulli(p_i), p the probability to keep, and W = M diag(z), dropped columns of W x (Gal); this
    computes p the probability to drop and W = diag(z) M, dropped rows of x W.

    Args:
        model: A Pyro model; the guide takes its arguments.
        rate: p of all layers, or one a layer in the model's order, 0 <= p < 1; 0 is a point estimate. Or a function
            of the model's keyword arguments that returns those.
        sites: The matrices to mask; None: all real sites of event_dim 2 and 4. Others are points.
        mask: "row": while zoo trains, each row of the data has a mask of its own, as in practice; the gradient has
            the same mean and less variance. "draw": one mask for all rows of a step. Draws always share one.
        where: "all": before every weight layer, the input layer included, as in the lecture; "inner": all but the
            model's first; "conv": kernels only. The others keep their place in `rate` and have p = 0.
        bias: "normal" gives the sites that are left a Normal, as `guides.normal` does, and their KL.
        point: Sites that are points whatever `bias` says.
        init: Where parameters start, one of Pyro's `init_to_...`; None: M Glorot-uniform, biases 0.
        init_scale: First sd of the Normals.

    Returns:
        A Pyro guide with parameters "<site>.weight", "<site>.point" and auxiliary sites "_<site>.noise".

    Raises:
        ValueError: For p outside [0, 1); at the first call for another number of rates than layers, a model without
            matrices, a `where` that means none of them, and unknown names.

    Source: Gal, "q(omega): Bernoulli approximate variational inference is dropout"; Thome, "MC dropout";
        Gal & Ghahramani 2016.
    """
    return over_matrices(
        model, _dropped, rate=checked_rate(rate), sites=sites, bias=bias, point=point,
        init=init, init_scale=init_scale, mask=mask, where=where, no_density=NO_DENSITY, what="bernoulli_dropout",
    )  # fmt: skip


def _dropped(layer: Layer) -> Any:
    """Delta(z M) with the objective's log density."""
    p, m = layer.rate, weight(layer)
    z = keep(layer, p, layer.inputs[-1:]) if p > 0 else m.new_ones(layer.inputs)
    return atoms(layer, m, by_input(layer, z), 1 - p, 1 - p)


def keep(layer: Layer, p: float, shape: Sequence[int]) -> Tensor:
    """z (..., *shape) of zeros and ones, 0 with probability p: whether a standard normal lies above its quantile."""
    e = noise(layer, shape)
    return (e > NormalDist().inv_cdf(p)).to(e.dtype)


def checked_rate(rate: Any) -> Any:
    """The rates, each with 0 <= p < 1; functions of the model's keywords are checked when they answer.

    Raises:
        ValueError: For another p, and for what is no number.
    """
    if callable(rate) and not isinstance(rate, Tensor):
        function: Callable[..., Any] = rate

        @functools.wraps(function)
        def checked(**kwargs: Any) -> Any:
            return checked_rate(function(**kwargs))

        return checked
    each = torch.as_tensor(rate).tolist() if isinstance(rate, Tensor) or hasattr(rate, "tolist") else rate
    several = isinstance(each, Sequence) and not isinstance(each, str)
    for p in each if several else (each,):
        number = float(p) if isinstance(p, (int, float)) and not isinstance(p, bool) else math.nan
        if not 0 <= number < 1:
            raise ValueError(
                f"rate is the probability to drop, 0 <= p < 1, got {p!r}. Try 0.1; 0 is the point estimate."
            )
    return each
