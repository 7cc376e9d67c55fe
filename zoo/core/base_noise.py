"""Draws as functions of standard normals: nothing random happens inside vmap or a compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import (
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
    TransformedDistribution,
)


class Unanswerable(ValueError):
    """A distribution that is no function of standard normals."""


def reparameterise(fn: Any, take: Callable[[torch.Size], Tensor]) -> Tensor:
    """A draw of `fn` as a function of standard normals.

    Normal: loc + scale e. MultivariateNormal: loc + L e. LowRankMultivariateNormal: loc + W e1 + sqrt(D) e2.
    Delta: its value. Independent, masked and transformed distributions: those of their base.

    Args:
        fn: The distribution.
        take: shape -> standard normals of that shape; called once for each block of noise.

    Raises:
        Unanswerable: For any other family.
    """
    if isinstance(fn, pyro.distributions.Delta):
        return fn.v.expand(fn.shape())
    if isinstance(fn, Normal):
        return fn.loc + fn.scale * take(fn.batch_shape)
    if isinstance(fn, MultivariateNormal):
        return fn.loc + (fn.scale_tril @ take(fn.loc.shape).unsqueeze(-1)).squeeze(-1)
    if isinstance(fn, LowRankMultivariateNormal):
        factor = fn.cov_factor
        low = (factor @ take(fn.loc.shape[:-1] + factor.shape[-1:]).unsqueeze(-1)).squeeze(-1)
        return fn.loc + low + fn.cov_diag.sqrt() * take(fn.loc.shape)
    if isinstance(fn, (Independent, pyro.distributions.MaskedDistribution)):
        return reparameterise(fn.base_dist, take)
    if isinstance(fn, TransformedDistribution):
        value = reparameterise(fn.base_dist, take)
        for transform in fn.transforms:
            value = transform(value)
        return value
    raise Unanswerable(f"{type(fn).__name__} is no function of standard normals.")


class BaseNoise(Messenger):
    """Answers sample sites from one flat vector of standard normals, in the order they come.

    Args:
        noise: (size,), or None to draw fresh ones and count how many are used.
    """

    def __init__(self, noise: Tensor | None, like: Tensor | None = None) -> None:
        super().__init__()
        self.noise, self.like, self.used = noise, like, 0

    def _take(self, shape: torch.Size) -> Tensor:
        start, self.used = self.used, self.used + shape.numel()
        if self.noise is None:
            return torch.randn(shape, dtype=self.like.dtype, device=self.like.device)  # type: ignore[union-attr]
        return self.noise[start : self.used].reshape(shape)

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"] or msg["done"] or site_is_subsample(msg):
            return
        msg["value"], msg["done"] = reparameterise(msg["fn"], self._take), True
