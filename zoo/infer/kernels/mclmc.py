"""MCLMC with Metropolis adjustment: trajectories at constant speed, whatever the energy.

    q' = u,    u' = (I - u u^T) grad lp(q) / (d - 1),    |u| = 1

has exp(lp) dq du, u uniform on the sphere, as its law. A step of size e is q half, u whole, q half replaced by
leapfrog's u half, q whole, u half; u moves along its exact path for a constant gradient g:
    delta = e |g| / (d - 1),  e_g = g / |g|,  r = cosh delta + (e_g . u) sinh delta
    u <- [u + e_g (sinh delta + (e_g . u) (cosh delta - 1))] / r
in coordinates in which the mass is the unit matrix. Each half changes the volume of phase space by r^(1 - d), so
with the momentum p = |p| u, |p| <- r |p|, the energy is
    H(q, p) = -lp(q) + (d - 1) log |p|
and the end of a trajectory is accepted with probability min(1, exp(H_0 - H_n)), its u flipped. u is drawn anew for
each trajectory. The length of a trajectory is learned as in `chees`, its number of steps jittered likewise; the
step size is tuned to accept .9. A step may be some sqrt(d) times longer than leapfrog's, since speed is 1 and not
sqrt(d). Far from the mass constant speed comes in slowly: the first part of warm-up is that of `chees`. At least
two coordinates: on a line constant speed cannot know the density.

Source: Robnik, Cohn-Gordon & Seljak 2025, "Metropolis adjusted microcanonical Hamiltonian Monte Carlo"; Robnik, De
Luca, Silverstein & Seljak 2023 (the dynamics); Ver Steeg & Galstyan 2021 (the update of u).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zoo.infer import trajectory
from zoo.infer.kernel import Draw, Setup, ValueAndGrad
from zoo.infer.kernels import chees, hmc
from zoo.infer.kernels.chees import begin, mean_accept, rescaled, rise, tune
from zoo.infer.mass import Mass, slope, spread
from zoo.infer.trajectory import Dynamics, State, init, position_of

__all__ = [
    "CHAINS", "LEAST_CHAINS", "STATS", "TARGET_ACCEPT", "State", "begin", "first_step", "init", "mean_accept",
    "position_of", "rescaled", "setup", "step", "tune",
]  # fmt: skip

TARGET_ACCEPT = 0.9
STATS = ("lp", "accept", "steps", "diverging")  # no energy: E-BFMI is about momenta of random size
CHAINS = 16
LEAST_CHAINS = 4
WAY_IN = chees


def setup(dim: int, *, max_steps: int = 1000) -> Setup:
    """Noise and constants.

    Args:
        dim: Number of coordinates, at least 2.
        max_steps: At most so many steps a trajectory.
    """
    check_dim(dim)
    return hmc.setup(dim, length=1.0, jitter=0.5, max_steps=max_steps)


def check_dim(dim: int) -> None:
    """Raises ValueError for a single coordinate."""
    if dim < 2:
        raise ValueError(
            "microcanonical dynamics turn on a sphere of directions and need at least 2 coordinates, got 1. Use 'nuts'."
        )


def first_step(size: float, dim: int, share: float) -> float:
    """sqrt(dim) of a leapfrog step's size: speed 1 instead of sqrt(dim)."""
    return size * dim**0.5


def direction(normal: Tensor, mass: Mass) -> Tensor:
    """Uniform on the unit sphere, (chain, dim), of standard normals."""
    return normal / normal.norm(dim=-1, keepdim=True)


def kinetic(p: Tensor, mass: Mass) -> Tensor:
    """(d - 1) log |p| of momenta (chain, dim), float64."""
    return (p.shape[-1] - 1) * p.double().norm(dim=-1).log()


def turned(p: Tensor, grad: Tensor, time: Tensor) -> Tensor:
    """p after moving u = p / |p| for a time along a constant whitened gradient, |p| grown by r; all (chain, dim).

    delta is capped at 40, so that a steep gradient does not overflow: there the trajectory has diverged anyway.
    """
    size = p.norm(dim=-1, keepdim=True)
    steep = grad.norm(dim=-1, keepdim=True)
    u, e = p / size, grad / steep.clamp(min=torch.finfo(p.dtype).tiny)
    delta = (time * steep / (p.shape[-1] - 1)).clamp(max=40.0)
    along = (e * u).sum(-1, keepdim=True)
    sinh, cosh = delta.sinh(), delta.cosh()
    return size * (u + e * (sinh + along * (cosh - 1)))


def integrate(at: Tensor, value_and_grad: ValueAndGrad, step: Tensor, mass: Mass) -> tuple[Tensor, Tensor]:
    """One step of the module's docstring; `at` (chain, 3, dim) position, whitened momentum, gradient."""
    q, p, g = at.unbind(1)
    p = turned(p, slope(g, mass), step / 2)
    q = q + step * spread(p / p.norm(dim=-1, keepdim=True), mass)
    lp, g = value_and_grad(q)
    p = turned(p, slope(g, mass), step / 2)
    return torch.stack([q, p, g], 1), lp


def step(s: State, value_and_grad: ValueAndGrad, noise: dict[str, Tensor], **numbers: Any) -> tuple[State, Draw]:
    """One step of every chain, see `zoo.infer.trajectory.step`."""
    return trajectory.step(Dynamics(direction, kinetic, integrate, _rise), s, value_and_grad, noise, **numbers)


def _rise(state: State, mass: Mass) -> Tensor:
    return rise(state, direction(state.at[:, 1], mass), mass)
