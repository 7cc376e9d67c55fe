"""Linear-Gaussian models in closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Conjugate(NamedTuple):
    """The exact posterior of theta (p, k) in Y = X theta + noise, columns independent with one covariance.

    Args:
        mean: (p, k).
        root: (p, p) with covariance = root root^T.
        log_evidence: log p(Y | X), summed over columns.
    """

    mean: Tensor
    root: Tensor
    log_evidence: Tensor

    @property
    def covariance(self) -> Tensor:
        """(p, p), of each column."""
        return self.root @ self.root.T


def linear_gaussian(x: Tensor, y: Tensor, prior_scale: float, noise: float) -> Conjugate:
    """theta | Y for Y ~ N(X theta, noise^2), theta ~ N(0, prior_scale^2).

        A = I / prior_scale^2 + X^T X / noise^2,    theta | Y ~ N(A^-1 X^T Y / noise^2, A^-1)
        log p(Y) = sum over columns of  - n/2 log(2 pi noise^2) - p log prior_scale - 1/2 log |A|
                   - 1/2 (|Y - X m|^2 / noise^2 + |m|^2 / prior_scale^2),    m the posterior mean

    Args:
        x: (n, p), n = 0 allowed: the answer is then the prior.
        y: (n, k).
        prior_scale: Prior sd of every entry.
        noise: Known sd of y given x.
    """
    (n, p), k = x.shape, y.shape[1]
    # QR of the stacked system: A = R^T R without squaring the condition number of X.
    stacked = torch.cat([x / noise, torch.eye(p, dtype=x.dtype, device=x.device) / prior_scale])
    q, r = torch.linalg.qr(stacked)
    root = torch.linalg.solve_triangular(r, torch.eye(p, dtype=x.dtype, device=x.device), upper=True)
    mean = root @ (q[:n].T @ (y / noise))
    log_det = 2 * r.diagonal().abs().log().sum()
    misfit = ((y - x @ mean) / noise).square().sum() + (mean / prior_scale).square().sum()
    constant = k * (n / 2 * math.log(2 * math.pi * noise**2) + p * math.log(prior_scale))
    return Conjugate(mean, root, -constant - k * log_det / 2 - misfit / 2)
