"""The bar of the evidence: ELBO(q) + KL(q, posterior) = log p(y), whatever q is.

Training moves the border inside the bar and never its length. Both parts are computed on their own: the ELBO from
the model's joint density, the KL from the posterior that the model's `exact` states.

    KL(N(m, S), N(mu, C)) = ( tr C^-1 S + (mu - m)^T C^-1 (mu - m) - k + log |C| - log |S| ) / 2

Source: Thome, "Evidence lower bound"; Bishop 2006, eq. 9.70.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from zoo.core.problem import Exact, Problem
from zoo.core.sites import sites
from zoo.infer.ascent import climb
from zoo.infer.methods.exact import factors, log_posterior, unconstrained
from zoo.infer.methods.svi import set_up
from zoo.infer.step_source import Fit

PARTICLES = 20_000
NODES = 64


class Moment(NamedTuple):
    """One moment of training: steps done, ELBO and KL(q, posterior) there in nats, and the log evidence."""

    step: int
    elbo: float
    kl: float
    log_evidence: float


def evidence_bar(
    problem: Problem,
    guide: Any = "normal",
    moments: int = 5,
    steps: int = 2000,
    seed: int = 0,
    *,
    lr: float = 0.02,
    particles: int = 4,
    guide_options: dict[str, Any] | None = None,
) -> list[Moment]:
    """Trains a guide in float64 and stops the clock at some moments, later ones further apart.

    A Gaussian q and a Gaussian posterior: the KL is the closed form above, and the ELBO is the mean over the
    2 k points m +- sqrt(k) L_j, exact because its integrand is quadratic. Otherwise both are means over q: by
    quadrature for one latent number, else over 20,000 draws.

    Args:
        problem: A problem with `exact`, whose latent sites are all in it.
        guide: As for `svi`.
        moments: How many, the first before any step and the last after all; at least 2.
        steps, seed, lr, particles, guide_options: As for `svi`.

    Returns:
        One `Moment` (step, elbo, kl, log_evidence) for each.

    Raises:
        ValueError: If the model has no `exact`, and for guides that have no density (points).
    """
    exact = problem.exact
    if exact is None:
        raise ValueError(f"the bar needs a model with `exact`; '{problem.name}' has none. Try linear_regression.")
    if moments < 2 or steps < moments - 1:
        raise ValueError(f"moments must be from 2 to steps + 1 = {steps + 1}, got {moments}.")
    problem = problem.to(dtype=torch.float64)
    fit = set_up(problem, guide, guide_options or {}, (), 1, seed)
    if fit.no_density:
        raise ValueError(f"the bar needs a q with a density: {fit.no_density}. Try guide='normal'.")
    if fit.points or fit.engine != "vmap":
        raise ValueError(f"the bar needs a guide that is a function of standard normals, got {guide!r}. Try 'normal'.")
    at = {round(steps * (i / (moments - 1)) ** 2) for i in range(moments)}
    # Squares may round to one number where there are few steps: the next free ones, then.
    at |= set([k for k in range(steps + 1) if k not in at][: moments - len(at)])
    kept: dict[int, Tensor] = {}

    def watch(done: int, params: Tensor) -> None:
        if done in at:
            kept[done] = params[0].clone()

    climb(fit, steps=steps, lr=lr, particles=particles, batch_size=None, seed=seed, engine="eager", watch=watch)
    answer = exact(problem.data, **problem.hyper)
    return [Moment(step, *_bar(fit, flat, answer), answer.log_evidence) for step, flat in sorted(kept.items())]


def _bar(fit: Fit, flat: Tensor, answer: Exact) -> tuple[float, float]:
    """(ELBO, KL) of q at these parameters."""
    ours, right = _gaussian(fit, flat), _joint(fit, answer)
    if ours is not None and right is not None:
        points = _sigma_points(fit.noise_size)
        return float(fit.estimate(flat, points).elbo.mean()), float(kl_divergence(ours, right))
    points, weights = _nodes(fit)
    values, lp, logq = fit.draw(flat, points)
    jacobian = unconstrained(sites(fit.problem).latent, values)[1]
    return float(weights @ (lp - logq)), float(weights @ (logq - jacobian - log_posterior(answer, values)))


# -- Gaussians ----------------------------------------------------------------------------------------------


def _flat(fit: Fit, flat: Tensor, noise: Tensor) -> Tensor:
    """Draws of q (draw, k), the sites end to end in the model's order."""
    return torch.cat([value.reshape(len(noise), -1) for value in fit.draw(flat, noise)[0].values()], 1)


def _gaussian(fit: Fit, flat: Tensor) -> MultivariateNormal | None:
    """q as a Gaussian, if its draws are an affine function of their noise; else None."""
    size = fit.noise_size
    probe = torch.linspace(-2, 2, size, dtype=flat.dtype) + 0.5
    points = torch.cat([torch.zeros(1, size), torch.eye(size), probe[None]]).to(flat)
    found = _flat(fit, flat, points)
    mean, root = found[0], found[1:-1] - found[0]
    if not torch.allclose(mean + probe @ root, found[-1], rtol=1e-9, atol=1e-9):
        return None
    return MultivariateNormal(mean, root.T @ root)


def _joint(fit: Fit, answer: Exact) -> MultivariateNormal | None:
    """The exact posterior of all sites in the model's order, if it is Gaussian; else None."""
    shapes = {name: site.shape.numel() for name, site in sites(fit.problem).latent.items()}
    ends = dict(zip(shapes, np.cumsum(list(shapes.values())).tolist(), strict=True))
    size = sum(shapes.values())
    mean, covariance = torch.zeros(size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    for names, fn in factors(answer):
        moments = _moments(fn)
        if moments is None:
            return None
        where = torch.cat([torch.arange(ends[n] - shapes[n], ends[n]) for n in names])
        mean[where] = moments[0]
        covariance[where[:, None], where] = moments[1]
    return MultivariateNormal(mean, covariance)


def _moments(fn: Any) -> tuple[Tensor, Tensor] | None:
    while isinstance(fn, Independent):
        fn = fn.base_dist
    if isinstance(fn, MultivariateNormal):
        return fn.loc.reshape(-1), fn.covariance_matrix
    if isinstance(fn, Normal):
        return fn.loc.reshape(-1), fn.variance.reshape(-1).diag()
    return None


def _sigma_points(size: int) -> Tensor:
    """2 k points whose mean is the expectation of any quadratic of k standard normals."""
    axes = math.sqrt(size) * torch.eye(size, dtype=torch.float64)
    return torch.cat([axes, -axes])


# -- other posteriors ---------------------------------------------------------------------------------------


def _nodes(fit: Fit) -> tuple[Tensor, Tensor]:
    """Points and weights of the standard normal that q is a function of."""
    if fit.noise_size == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        return torch.from_numpy(nodes)[:, None], torch.from_numpy(weights / math.sqrt(2 * math.pi))
    return fit.noise(0, 0, 0, (PARTICLES,), "bar"), torch.full((PARTICLES,), 1 / PARTICLES, dtype=torch.float64)
