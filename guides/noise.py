"""Scalar noise as a function of standard normals, with its moments: what multiplies weights in `multiplicative`.

z = F^-1(Phi(e)),    e ~ N(0, 1),    F the distribution function of the noise
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

NODES = 20_001


def quantile(fn: Any) -> Callable[[Tensor], Tensor] | None:
    """e -> z for a Normal, for noise of finitely many values, and where torch knows F^-1; else None.

    Args:
        fn: A scalar distribution, or a transformed one.
    """
    if isinstance(fn, dist.Normal):
        return lambda e: fn.loc + fn.scale * e
    if is_discrete(fn):
        return _table(fn)
    try:
        fn.icdf(torch.tensor(0.5))
    except NotImplementedError:
        return None

    def inverse(e: Tensor) -> Tensor:
        edge = torch.finfo(e.dtype).eps / 2  # Phi(e) rounds to 1 beyond 5.4 in float32
        return fn.icdf(torch.special.ndtr(e).clamp(edge, 1 - edge))

    return inverse


def _base(fn: Any) -> tuple[Any, list[Any]]:
    """The distribution under transforms, and those."""
    transforms = list(fn.transforms) if isinstance(fn, torch.distributions.TransformedDistribution) else []
    return (fn.base_dist if transforms else fn), transforms


def is_discrete(fn: Any) -> bool:
    """Whether the noise has atoms."""
    return bool(_base(fn)[0].support.is_discrete)


def _values(fn: Any) -> tuple[Tensor, Tensor]:
    """The values (k,) of discrete noise and their probabilities."""
    base, transforms = _base(fn)
    if not base.has_enumerate_support:
        raise ValueError(
            f"noise must be continuous or take finitely many values, got {type(base).__name__}. Try Bernoulli."
        )
    values = base.enumerate_support()
    chance = base.log_prob(values).exp()
    for transform in transforms:
        values = transform(values)
    return values, chance


def _table(fn: Any) -> Callable[[Tensor], Tensor]:
    """Every value takes its probability's share of the line of e."""
    values, chance = _values(fn)
    edges = torch.special.ndtri(chance.double().cumsum(0)[:-1])

    def look_up(e: Tensor) -> Tensor:
        z = values[0].to(e).expand(e.shape)
        for edge, value in zip(edges, values[1:], strict=True):
            z = torch.where(e > edge.to(e), value.to(e), z)
        return z

    return look_up


def moments(fn: Any) -> tuple[float, float]:
    """E z and E z^2: the distribution's own, by its values, or by its quantiles on a fine grid."""
    if is_discrete(fn):
        values, chance = (part.double() for part in _values(fn))
        return float(chance @ values), float(chance @ values.square())
    try:
        return float(fn.mean), float(fn.variance + fn.mean**2)
    except NotImplementedError:
        pass
    function = quantile(fn)
    if function is None:
        raise ValueError(f"noise must know its mean and variance, got {type(fn).__name__}. Try Normal, Gamma, Uniform.")
    u = (torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES
    z = function(torch.special.ndtri(u)).double()
    return float(z.mean()), float(z.square().mean())


def check_noise(fn: Any) -> tuple[float, float]:
    """E z and E z^2 of noise that may multiply weights.

    Raises:
        TypeError: For what is no distribution.
        ValueError: Unless it is scalar, with mean 1 and finite variance.
    """
    if not isinstance(fn, dist.Distribution):
        raise TypeError(f"noise must be a Pyro distribution, got {type(fn).__name__}. Try dist.Normal(1., 1.).")
    if tuple(fn.shape()) != ():
        raise ValueError(f"noise must be of a single number, got shape {tuple(fn.shape())}. Try dist.Normal(1., 1.).")
    mean, square = moments(fn)
    if not (abs(mean - 1) < 1e-3 and math.isfinite(square)):
        raise ValueError(
            f"noise must have mean 1 and a finite variance, got mean {mean:.4g}, mean square {square:.4g}. Scale it: "
            "dist.TransformedDistribution(noise, AffineTransform(0., 1 / mean))."
        )
    return mean, square
