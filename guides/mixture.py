"""The mixture of two Gaussians whose limit is dropout: each row of a weight matrix is near M's, or near 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from guides.bernoulli_dropout import checked_rate, keep
from guides.matrices import Layer, by_input, noise, over_matrices, weight
from guides.options import positive
from guides.rates import KERNEL


def mixture(
    model: Callable[..., Any],
    rate: float | Sequence[float] | Callable[..., Any] = 0.5,
    sites: Sequence[str] | None = None,
    scale: float = 0.05,
    on: str = "rows",
    mask: str = "draw",
    *,
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
) -> Callable[..., dict[str, Any]]:
    """The lecture's q, which has a density: dropout with a little Gaussian noise on every weight.

    on="rows":       q(W) = prod_rows [ (1 - p) N(w_i | m_i, scale^2 I) + p N(w_i | 0, scale^2 I) ]
    on="weights":    q(W) = prod_weights [ (1 - p) N(w | m, scale^2) + p N(w | 0, scale^2) ]

    A true bound where all sites have a density (bias="normal"); log q at the draw, by logaddexp. Between components
    that are apart its KL is `kl_apart`, so that for scale -> 0 the gradient of M is that of `bernoulli_dropout`:
    what is left of the KL is L2. A row has one mask: with one a weight it is DropConnect, which gives the outputs
    of a layer no correlation.

    Slide prints the mixture for each single weight w_ik (Thome), which is DropConnect; this computes one of rows.

    Args:
        model: A Pyro model; the guide takes its arguments.
        rate: p of all layers, or one a layer, 0 <= p < 1; or a function of the model's keyword arguments.
        sites: The matrices; None: all real sites of event_dim 2 and 4. A row of kernels is an input channel.
        scale: sd of both components.
        on: "rows" or "weights".
        mask: "draw": one draw for all data rows of a step; "row": while zoo trains, one for each.
        bias, point, init, init_scale: As for `bernoulli_dropout`.

    Returns:
        A Pyro guide with parameters "<site>.weight", "<site>.point".

    Raises:
        ValueError: For a scale that is not positive, and as for `bernoulli_dropout`.

    Source: Thome, "Dropout as variational inference: q"; Gal & Ghahramani 2016, appendix 3.
    """
    positive("scale", scale, "Try 0.05; for 0 use bernoulli_dropout.")
    if on not in ("rows", "weights"):
        raise ValueError(f"on must be 'rows' or 'weights', got {on!r}. Leave it out for 'rows'.")

    def family(layer: Layer) -> Any:
        return _mixed(layer, scale, rows=on == "rows")

    guide = over_matrices(
        model, family, rate=checked_rate(rate), sites=sites, bias=bias, point=point,
        init=init, init_scale=init_scale, mask=mask, what="mixture",
    )  # fmt: skip
    guide.random_sites = ()  # type: ignore[attr-defined]
    return guide


def _mixed(layer: Layer, scale: float, rows: bool) -> dist.Delta:
    """A draw with the mixture's log density."""
    p, m, event = layer.rate, weight(layer), layer.latent.value_dim
    shape = layer.latent.value.shape[-event:]
    if p == 0:
        z = torch.ones_like(m)
    elif rows:
        z = by_input(layer, keep(layer, p, layer.inputs[-1:]))
    else:
        z = keep(layer, p, shape)
    value = z * m + scale * noise(layer, shape, name="spread")
    near, off = (dist.Normal(loc, scale).log_prob(value) for loc in (m, torch.zeros_like(m)))
    if rows:
        axes = (-1,) if event != KERNEL else (-4, -2, -1)
        near, off = near.sum(axes), off.sum(axes)
    log_q = near if p == 0 else torch.logaddexp(near + math.log(1 - p), off + math.log(p))
    left = log_q.dim() - (value.dim() - event)
    return dist.Delta(value, log_q.sum(tuple(range(-left, 0))), event_dim=event)


def kl_apart(m: Tensor, scale: float, p: float, prior_scale: float = 1.0) -> Tensor:
    """KL of one row's mixture to N(0, t^2 I) where m is many `scale` from 0.

        (1 - p) |m|^2 / (2 t^2) + K / 2 (s^2 / t^2 - 1 - log(s^2 / t^2)) - H(p),    H(p) = -p log p - (1 - p) log(1 - p)

    Slide prints K (1 + log 2 pi) for the constant (Gal's appendix); this computes K / 2 (s^2 - 1 - log s^2) for t = 1.

    Args:
        m: The row (K,), or rows (..., K).
        scale: s.
        p: Probability to drop, inside (0, 1).
        prior_scale: t.
    """
    ratio = (scale / prior_scale) ** 2
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    square = (1 - p) * m.square().sum(-1) / (2 * prior_scale**2)
    return square + m.shape[-1] / 2 * (ratio - 1 - math.log(ratio)) - entropy
