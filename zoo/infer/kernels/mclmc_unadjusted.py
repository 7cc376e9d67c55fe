"""MCLMC without Metropolis adjustment: one long path at constant speed that slowly forgets its direction. Biased.

    one step of size e of `mclmc`, then
    u <- (u + nu z) / |u + nu z|,    nu = sqrt((exp(2 e / L) - 1) / d),    z ~ N(0, I)

L is the length over which the direction is forgotten, sqrt(d) in coordinates in which the mass is the unit matrix.
Nothing corrects the integrator's error: the bias is set by the variance of the energy error of a step, dH, which the
step size is tuned to hold at 5e-4 for each dimension: for a normal dH of mean half its variance v,
    E min(1, exp(-dH)) = 2 Phi(-sqrt(v) / 2),    v = 5e-4 d
is the acceptance that it is tuned to, though all is accepted.

Source: Robnik, De Luca, Silverstein & Seljak 2023, "Microcanonical Hamiltonian Monte Carlo"; Robnik & Seljak 2024,
"Fluctuation without dissipation".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, number, one_step, or_infinite, where
from zoo.infer.kernels import chees
from zoo.infer.kernels.mclmc import CHAINS, LEAST_CHAINS, check_dim, first_step, integrate, kinetic
from zoo.infer.mass import Mass

__all__ = [
    "CHAINS", "LEAST_CHAINS", "STATS", "TARGET_ACCEPT", "State", "first_step", "init", "position_of", "setup", "step",
]  # fmt: skip

TARGET_ACCEPT = 0.9
STATS = ("lp", "accept", "diverging")
WAY_IN = chees
MAX_ENERGY_ERROR = 1000.0
VARIANCE = 5e-4
BIASED = "no accept step: the integrator's error stays in the law: raise target_accept, or use 'mclmc'"


class State(NamedTuple):
    """The chains: at (chain, 3, dim) position, direction u, gradient; lp and iterations completed (chain,)."""

    at: Tensor
    lp: Tensor
    completed: Tensor


def setup(dim: int, *, length: float | None = None) -> Setup:
    """Noise, constants and the acceptance to tune to.

    Args:
        dim: Number of coordinates, at least 2.
        length: L, in units of the mass; None: sqrt(dim).
    """
    check_dim(dim)
    length = dim**0.5 if length is None else number("length", length, 0, float("inf"), "sqrt(dim)")
    target = math.erfc(math.sqrt(VARIANCE * dim / 8))
    constants = {"length": torch.tensor(length, dtype=torch.float64)}
    return Setup({"turn": ("normal", (dim,))}, constants, {}, target, BIASED)


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at positions (chain, dim), directions along the gradient (the first turns make them random)."""
    u = grad / grad.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(grad.dtype).tiny)
    u = torch.where(u.norm(dim=-1, keepdim=True) > 0.5, u, torch.eye(1, u.shape[1]).to(u))
    none = torch.zeros(len(position), dtype=torch.int64, device=position.device)
    return State(torch.stack([position, u, grad], 1), lp, none)


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.at[:, 0]


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    length: Tensor,
) -> tuple[State, Draw]:
    """One step of every chain that has not yet completed `stop` iterations of the block.

    A step whose energy error passes 1,000 is not taken; the direction is turned round.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (chain, dim).
        noise: "turn" (iteration, chain, dim).
        step_size, length: e and L, scalars.
        mass: Its square root whitens.
        stop: Scalar int64.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["turn"].shape[0] - 1)
    active = s.completed < stop
    at, lp = integrate(s.at, value_and_grad, step_size, mass)
    error = or_infinite(-lp + kinetic(at[:, 1], mass) + s.lp)
    good = error.abs() < MAX_ENERGY_ERROR
    at = where(good, at, s.at * s.at.new_tensor([1.0, -1.0, 1.0])[:, None])
    nu = ((torch.exp(2 * step_size / length.to(step_size)) - 1) / at.shape[2]).sqrt()
    u = at[:, 1] / at[:, 1].norm(dim=-1, keepdim=True) + nu * noise["turn"][index, row]
    at = torch.stack([at[:, 0], u / u.norm(dim=-1, keepdim=True), at[:, 2]], 1)
    s = State(where(active, at, s.at), where(active & good, lp, s.lp), s.completed + active)
    chance = (-error).clamp(max=0).exp()
    return s, one_step(active, s.completed, s.at[:, 0], s.lp, chance, ~good, -s.lp)
