"""A battery of Pyro models, one for each support, and what their density must be, computed another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import constraints
from torch import Tensor

import zoo
from guides.supports import unconstrain

F64 = torch.float64


def _vector(n: int, value: float = 0.0) -> Tensor:
    return torch.full((n,), value, dtype=F64)


def _gauss(n: int) -> Any:
    return dist.Normal(_vector(n), _vector(n, 1.0))


def _ordered() -> Any:
    return dist.TransformedDistribution(_gauss(4).to_event(1), [dist.transforms.OrderedTransform()])


def _mixture(part: Any) -> Any:
    return dist.MixtureSameFamily(dist.Categorical(torch.tensor([0.3, 0.7], dtype=F64)), part)


# One prior a line; the site is "v".
PRIORS: dict[str, Callable[[], Any]] = {
    "real": lambda: dist.Normal(_vector(1)[0], 2.0),
    "positive": lambda: dist.LogNormal(_vector(1)[0], 0.7),
    "positive gamma": lambda: dist.Gamma(_vector(1, 2.0)[0], 3.0),
    "nonnegative": lambda: dist.HalfNormal(_vector(1, 1.5)[0]),
    "nonnegative exponential": lambda: dist.Exponential(_vector(1, 1.5)[0]),
    "half cauchy": lambda: dist.HalfCauchy(_vector(1, 2.0)[0]),
    "greater than": lambda: dist.Pareto(_vector(1, 2.0)[0], 3.0),
    "unit interval": lambda: dist.Beta(_vector(1, 2.0)[0], 3.0),
    "interval": lambda: dist.Uniform(_vector(1, -1.0)[0], 3.0),
    "simplex": lambda: dist.Dirichlet(_vector(4, 1.7)),
    "ordered": _ordered,
    "corr_cholesky": lambda: dist.LKJCholesky(4, _vector(1, 1.3)[0]),
    "corr_matrix": lambda: dist.LKJ(3, _vector(1, 1.3)[0]),
    "lower_cholesky": lambda: dist.ImproperUniform(constraints.lower_cholesky, (), (3, 3)),
    "positive_definite": lambda: dist.Wishart(_vector(1, 4.0)[0], torch.eye(3, dtype=F64)),
    "mixture": lambda: _mixture(dist.Normal(_vector(2), torch.tensor([0.1, 1.0], dtype=F64))),
    "mixture positive": lambda: _mixture(dist.LogNormal(_vector(2), torch.tensor([0.5, 1.0], dtype=F64))),
    "mixture unit interval": lambda: _mixture(dist.Beta(_vector(2, 2.0), torch.tensor([3.0, 1.5], dtype=F64))),
    "improper": lambda: dist.ImproperUniform(constraints.real, (), (3,)),
    "improper positive": lambda: dist.ImproperUniform(constraints.positive, (), (2,)),
    "multivariate normal": lambda: dist.MultivariateNormal(_vector(3), torch.eye(3, dtype=F64) * 2),
    "independent positive": lambda: dist.LogNormal(_vector(6).reshape(2, 3), 1.0).to_event(2),
    "independent nonnegative": lambda: dist.HalfNormal(_vector(6, 1.0).reshape(2, 3)).to_event(1),
    "independent unit interval": lambda: dist.Beta(_vector(3, 2.0), 1.5).to_event(1),
    "independent simplex": lambda: dist.Dirichlet(_vector(6, 1.7).reshape(2, 3)).to_event(1),
    "independent mixture": lambda: dist.MixtureSameFamily(
        dist.Categorical(torch.full((3, 2), 0.5, dtype=F64)),
        dist.LogNormal(torch.zeros(3, 2, dtype=F64), 1.0),
    ).to_event(1),
}


def problem(name: str) -> zoo.Problem:
    """A Problem whose one latent `v` has the named prior, seen through the sum of its entries."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        v = pyro.sample("v", PRIORS[name]())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x[:, 0] * v.sum(), 1.0), obs=y)

    return zoo.Problem(name, model, rows(F64))


def rows(dtype: torch.dtype, n: int = 5) -> zoo.Data:
    """n rows of one feature."""
    x = torch.linspace(-1, 1, n, dtype=dtype)[:, None]
    return zoo.Data(x, 0.4 * x[:, 0] + 0.1)


def free_coordinates(value: Tensor, support: Any) -> Tensor:
    """The coordinates of a value that its density is a density over, flat.

    A simplex of k has k - 1; a correlation matrix its entries below the diagonal; a triangular or symmetric
    matrix those on it too.
    """
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    if support is constraints.simplex:
        return value[..., :-1].reshape(-1)
    below = {
        constraints.corr_cholesky: -1,
        constraints.corr_matrix: -1,
        constraints.lower_cholesky: 0,
        constraints.positive_definite: 0,
    }
    if support in below:
        k = value.shape[-1]
        i, j = torch.tril_indices(k, k, below[support])
        return value[..., i, j].reshape(-1)
    return value.reshape(-1)


def log_det(support: Any, u: Tensor) -> Tensor:
    """log |d value / d u| of the bijection to `support` at u, from autograd's Jacobian."""
    transform = unconstrain(support, "v")
    jacobian = torch.autograd.functional.jacobian(lambda flat: _free(transform, flat, u.shape, support), u.reshape(-1))
    return torch.linalg.slogdet(jacobian).logabsdet


def _free(transform: Any, flat: Tensor, shape: torch.Size, support: Any) -> Tensor:
    return free_coordinates(transform(flat.reshape(shape)), support)


def reference(problem: zoo.Problem, blocks: Any, sites: Any, position: Tensor, *, by_autograd: bool = True) -> Tensor:
    """log p(y, theta) of Pyro's own trace plus the Jacobians, at one position (dim,).

    Args:
        problem: The problem.
        blocks: Where each site lies in the position.
        sites: {site: its distribution}; only for supports that do not depend on other latents.
        position: (dim,), float64.
        by_autograd: Jacobians from autograd; False: from the bijections' own formulas, differentiable twice.
    """
    values, jacobian = {}, position.new_zeros(())
    for block in blocks:
        u = position[block.start : block.stop].reshape(block.coordinates)
        support = sites[block.name].fn.support
        transform = unconstrain(support, block.name)
        values[block.name] = transform(u)
        own = transform.log_abs_det_jacobian(u, values[block.name])
        jacobian = jacobian + (log_det(support, u) if by_autograd else own.sum())
    args, kwargs = problem.arguments()
    trace = poutine.trace(poutine.condition(problem.model, values)).get_trace(*args, **kwargs)
    return trace.log_prob_sum() + jacobian
