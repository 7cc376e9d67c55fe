"""The Hessian of a log density: every column a derivative of the gradient, in chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.core.handlers import pyro_state

from .density import Density

CHUNK = 50  # columns at once: 5,000 weights then fit in less than a gigabyte


def hessian(target: Density, position: Tensor, jacobian: bool = True) -> Tensor:
    """Minus the second derivatives of the log density at one position (dim,): Laplace's precision (dim, dim).

    Reverse over reverse: many rows at once where the model vectorises, else one by one. (Forward over reverse
    would be cheaper, but torch's forward mode warns of torch.jit at its first use.)
    """
    with pyro_state(validate=False):
        rows = _together if target.engine == "eager" else _one_by_one
        found = rows(target, position, jacobian)
    return -(found + found.mT) / 2


def _together(target: Density, position: Tensor, jacobian: bool) -> Tensor:
    gradient = torch.func.grad(lambda u: target.log_density(u, jacobian))
    pull_back = torch.func.vjp(gradient, position)[1]
    eye = torch.eye(len(position), dtype=position.dtype, device=position.device)
    return torch.cat([torch.func.vmap(lambda row: pull_back(row)[0])(part) for part in eye.split(CHUNK)]).detach()


def _one_by_one(target: Density, position: Tensor, jacobian: bool) -> Tensor:
    point = position.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(target.log_density(point, jacobian), point, create_graph=True)
        rows = [
            torch.autograd.grad(g, point, retain_graph=True)[0] if g.requires_grad else torch.zeros_like(point)
            for g in grad
        ]
    return torch.stack(rows).detach()
