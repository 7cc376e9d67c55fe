"""The mass matrix of Hamiltonian kernels: diagonal, low rank plus diagonal, or dense, in one form.

    M^-1 = D A A D,    D = diag(scale),    A = I + U (diag(stretch) - I) U^T,    U^T U = I

scale (dim,) are sds; the columns of U (dim, k) are directions in which the scaled coordinates are stretched by
`stretch` (k,). Diagonal: k = 0. Dense: k = dim. Unit: M = I. Prior: scale is the prior's, see
`zoo.infer.prior_width`. Neither of these two is learned,
but for the scale of a mean of f (`zoo.infer.centred`). A and its inverse cost O(k dim), and no matrix is ever
inverted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

KINDS = ("diagonal", "low_rank", "dense", "unit", "prior")
FIXED = ("unit", "prior")
# Directions of a low-rank mass: those in which the scaled draws vary more or less than this factor.
NOTABLE = 2.0
MOST_DENSE = 4000


class Mass(NamedTuple):
    """M, by `scale` (dim,), `vectors` U (dim, k) and `stretch` (k,)."""

    scale: Tensor
    vectors: Tensor
    stretch: Tensor


def unit(like: Tensor, rank: int = 0) -> Mass:
    """M = I with room for `rank` directions, in the dtype and on the device of `like` (dim,)."""
    dim = like.shape[0]
    return Mass(torch.ones_like(like), torch.eye(dim, rank).to(like), like.new_ones(rank))


def rank_of(kind: str, dim: int, rank: int = 10) -> int:
    """How many directions a kind of mass has room for.

    Raises:
        ValueError: For an unknown kind, and for "dense" beyond 4,000 coordinates.
    """
    if kind not in KINDS:
        raise ValueError(f"mass must be one of {', '.join(KINDS)}, got {kind!r}.")
    if kind == "dense" and dim > MOST_DENSE:
        raise ValueError(f"mass='dense' serves up to {MOST_DENSE} coordinates, got {dim}. Use mass='low_rank'.")
    return {"diagonal": 0, "low_rank": min(rank, dim), "dense": dim}.get(kind, 0)


def _stretched(x: Tensor, mass: Mass, by: Tensor) -> Tensor:
    if not mass.vectors.shape[1]:
        return x
    return x + ((x @ mass.vectors) * (by - 1)) @ mass.vectors.T


def momentum(normal: Tensor, mass: Mass) -> Tensor:
    """p = D^-1 A^-1 z ~ N(0, M) of standard normals z (chain, dim)."""
    return _stretched(normal, mass, 1 / mass.stretch) / mass.scale


def velocity(p: Tensor, mass: Mass) -> Tensor:
    """M^-1 p of momenta (..., dim)."""
    return _stretched(p * mass.scale, mass, mass.stretch**2) * mass.scale


def spread(normal: Tensor, mass: Mass) -> Tensor:
    """D A z ~ N(0, M^-1) of standard normals z (chain, dim): steps of the size of the target's sds."""
    return _stretched(normal, mass, mass.stretch) * mass.scale


def slope(grad: Tensor, mass: Mass) -> Tensor:
    """A D g: the gradient (chain, dim) in coordinates in which M = I."""
    return _stretched(grad * mass.scale, mass, mass.stretch)


def whitened(position: Tensor, mass: Mass) -> Tensor:
    """A^-1 D^-1 q: coordinates in which M = I, for positions (or differences of them) (..., dim)."""
    return _stretched(position / mass.scale, mass, 1 / mass.stretch)


def kinetic(p: Tensor, mass: Mass) -> Tensor:
    """p^T M^-1 p / 2 of momenta (chain, dim), in float64."""
    return 0.5 * (p * velocity(p, mass)).sum(-1, dtype=torch.float64)


def stretched(draws: Tensor, kind: str, mass: Mass) -> Mass:
    """The mass with the directions in which scaled draws of one window vary more, or less, than 1 within chains.

    The eigenvalues e of their correlations become (n e + dim / 5) / (n + dim / 5), n draws of all chains, so that
    few draws of many coordinates stretch little; low rank keeps the directions with the largest |log e|.

    Args:
        draws: (chain, iteration, dim) of one window.
        kind: "low_rank" or "dense".
        mass: Its scale and its number of directions are kept.
    """
    centred = (draws.double() - draws.double().mean(1, keepdim=True)).flatten(0, 1)
    count, free = len(centred), max(len(centred) - len(draws), 1)
    _, singular, rows = torch.linalg.svd(centred / mass.scale.double() / free**0.5, full_matrices=False)
    room = draws.shape[2] / 5
    stretch = (count * singular**2 + room) / (count + room)
    vectors, roots = _directions(stretch, rows, kind, mass)
    return mass._replace(vectors=vectors, stretch=roots)


def _directions(values: Tensor, rows: Tensor, kind: str, like: Mass) -> tuple[Tensor, Tensor]:
    """The most notable directions (dim, rank) and the roots of their eigenvalues; the rest stretch by 1."""
    rank = like.vectors.shape[1]
    order = values.log().abs().argsort(descending=True)[:rank]
    values, vectors = values[order], rows[order].T
    if kind == "low_rank":
        values = torch.where(values.log().abs() > torch.tensor(NOTABLE).log(), values, 1.0)
    full, stretch = torch.zeros_like(like.vectors), torch.ones_like(like.stretch)
    full[:, : len(order)], stretch[: len(order)] = vectors.to(full), values.sqrt().to(stretch)
    return full, stretch
