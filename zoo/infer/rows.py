"""The ELBO with noise of its own for each row of the data: a mask a row, as in practice.

    (n / M) sum_{i in batch} log p(y_i | theta_i) - mean_i KL_i,    theta_i = g(parameters, noise_i)

The same expectation as with one theta for all rows, since rows are independent given theta, and less variance:
the rows' noises average out. (Over all parameters together: a single one's may grow, where its terms of one theta
cancel between rows.) A row's theta is a draw of its own, so a matrix W costs a vector-matrix product a row.

Source: Thome, "Stochastic variational inference, Algorithm 1"; Kingma, Salimans & Welling 2015.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from zoo.core.problem import Data, Problem
from zoo.core.sites import sites

from .elbo import Terms

Row = Callable[[Tensor, Tensor, Tensor], Terms]


def terms_by_row(one: Row, noise: Tensor, x: Tensor, y: Tensor, scale: float) -> Terms:
    """The terms averaged over particles.

    Args:
        one: (noise (size,), x (1, d), y (1, ...)) -> the terms of that row alone, unscaled.
        noise: (particle, row, size).
        x, y: The batch's rows.
        scale: n / M.
    """

    def particle(e: Tensor) -> Terms:
        each = torch.func.vmap(one)(e, x.unsqueeze(1), y.unsqueeze(1))
        likelihood, kl = scale * each.expected_log_likelihood.sum(), each.kl.mean()
        return Terms(likelihood - kl, likelihood, kl)

    if noise.shape[0] == 1:
        return particle(noise[0])
    return Terms(*(value.mean() for value in torch.func.vmap(particle)(noise)))


def why_not(problem: Problem) -> str:
    """Why a problem cannot be evaluated row by row, or "" where it can."""
    if not isinstance(problem.data, Data) or problem.data.y is None:
        return "the data are no zoo.Data with y"
    found = sites(problem)
    if local := [name for name, site in found.latent.items() if site.local]:
        return f"latent '{local[0]}' has a value for every row already"
    outside = [name for name, site in found.observed.items() if not site.local]
    return f"observed site '{outside[0]}' lies outside the data plate" if outside else ""
