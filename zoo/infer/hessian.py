"""The Hessian of a log density: every column a derivative of the gradient, in chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.core.handlers import pyro_state

from .density import Density

CHUNK = 50  # columns at once: 5,000 weights then fit in less than a gigabyte


def hessian(target: Density, position: Tensor, jacobian: bool = True) -> Tensor:
    """Minus the second derivatives of the log density at one position (dim,): Laplace's precision (dim, dim).

    Forward over reverse where the model vectorises, else double backward, row by row.
    """
    with pyro_state(validate=False):
        rows = None
        if target.engine == "eager":
            try:
                rows = _forward_over_reverse(target, position, jacobian)
            except (RuntimeError, NotImplementedError):  # an operation without a forward derivative
                rows = None
        if rows is None:
            rows = _double_backward(target, position, jacobian)
    return -(rows + rows.mT) / 2


def _forward_over_reverse(target: Density, position: Tensor, jacobian: bool) -> Tensor:
    gradient = torch.func.grad(lambda u: target.log_density(u, jacobian))

    def column(direction: Tensor) -> Tensor:
        return torch.func.jvp(gradient, (position,), (direction,))[1]

    eye = torch.eye(len(position), dtype=position.dtype, device=position.device)
    with torch.no_grad():
        return torch.cat([torch.func.vmap(column)(part) for part in eye.split(CHUNK)])


def _double_backward(target: Density, position: Tensor, jacobian: bool) -> Tensor:
    point = position.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(target.log_density(point, jacobian), point, create_graph=True)
        rows = [
            torch.autograd.grad(g, point, retain_graph=True)[0]
            if g.requires_grad
            else torch.zeros_like(point)
            for g in grad
        ]
    return torch.stack(rows).detach()
