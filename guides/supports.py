"""From every support to the real line: the one table of unconstraining transforms.

`unconstrain(support, site)` returns a bijection t from unconstrained real coordinates to the support. torch's
`biject_to` knows most; it lacks lower_cholesky, positive_definite and mixtures, which stand here.
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.distributions import biject_to, transforms


class VectorToLowerCholesky(dist.TransformModule):
    """v (k (k + 1) / 2,) -> L (k, k), row by row, with exp on the diagonal.

    log |dL / dv| = sum of the diagonal's entries before exp.
    """

    domain = constraints.real_vector
    codomain = constraints.lower_cholesky
    bijective = True

    def _call(self, v: Tensor) -> Tensor:
        k = _side(v.shape[-1])
        rows, columns = torch.tril_indices(k, k, device=v.device)
        # Gather from a padded vector instead of writing in place, which vmap would refuse.
        place = torch.full((k, k), v.shape[-1], device=v.device)
        place[rows, columns] = torch.arange(v.shape[-1], device=v.device)
        full = torch.cat([v, torch.zeros_like(v[..., :1])], -1)[..., place]
        eye = torch.eye(k, dtype=torch.bool, device=v.device)
        return torch.where(eye, full.exp(), full)

    def _inverse(self, matrix: Tensor) -> Tensor:
        k = matrix.shape[-1]
        eye = torch.eye(k, dtype=torch.bool, device=matrix.device)
        logged = torch.where(eye, torch.where(eye, matrix, 1.0).log(), matrix)
        rows, columns = torch.tril_indices(k, k, device=matrix.device)
        return logged[..., rows, columns]

    def log_abs_det_jacobian(self, v: Tensor, matrix: Tensor) -> Tensor:
        return torch.diagonal(matrix, dim1=-2, dim2=-1).log().sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> torch.Size:
        k = _side(shape[-1])
        return torch.Size((*shape[:-1], k, k))

    def inverse_shape(self, shape: tuple[int, ...]) -> torch.Size:
        k = shape[-1]
        return torch.Size((*shape[:-2], k * (k + 1) // 2))


class VectorToPositiveDefinite(VectorToLowerCholesky):
    """v -> L L^T with L as in `VectorToLowerCholesky`.

    log |d(L L^T) / dL| = k log 2 + sum_i (k - i) log L_ii with i = 0 ... k - 1, times that of L.
    """

    codomain = constraints.positive_definite

    def _call(self, v: Tensor) -> Tensor:
        factor = super()._call(v)
        return factor @ factor.mT

    def _inverse(self, matrix: Tensor) -> Tensor:
        return super()._inverse(torch.linalg.cholesky(matrix))

    def log_abs_det_jacobian(self, v: Tensor, matrix: Tensor) -> Tensor:
        k = matrix.shape[-1]
        logs = torch.diagonal(super()._call(v), dim1=-2, dim2=-1).log()
        powers = torch.arange(k, 0, -1, dtype=v.dtype, device=v.device) + 1
        return k * math.log(2.0) + (powers * logs).sum(-1)


def _side(length: int) -> int:
    k = (math.isqrt(8 * length + 1) - 1) // 2
    if k * (k + 1) // 2 != length:
        raise ValueError(f"A triangle has 1, 3, 6, 10, ... entries, got {length}.")
    return k


def is_real(support: Any) -> bool:
    """Whether a support is the whole real line, coordinate by coordinate."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is constraints.real or support is constraints.real_vector


def unconstrain(support: Any, site: str) -> transforms.Transform:
    """The bijection from unconstrained coordinates to `support`.

    Args:
        support: A torch or Pyro constraint.
        site: The name of the site, for the error.

    Raises:
        ValueError: For a discrete support, and for one without a bijection (a sphere, say).
    """
    if isinstance(support, constraints.independent):
        base = unconstrain(support.base_constraint, site)
        return transforms.IndependentTransform(base, support.reinterpreted_batch_ndims)
    if hasattr(support, "base_constraint"):  # a mixture's support, which torch keeps private
        return unconstrain(support.base_constraint, site)
    if support.is_discrete:
        raise ValueError(
            f"site '{site}' is discrete ({support}); only continuous latents are inferred. Sum it out of the model "
            "(dist.MixtureSameFamily, say), or give it to the model as data."
        )
    if support is constraints.lower_cholesky:
        return VectorToLowerCholesky()
    if support is constraints.positive_definite:
        return VectorToPositiveDefinite()
    try:
        return biject_to(support)
    except NotImplementedError:
        raise ValueError(
            f"site '{site}' has support {support}, which has no bijection from unconstrained coordinates. "
            "Write the site with another parameterisation (a direction as a normalised Normal, say)."
        ) from None
