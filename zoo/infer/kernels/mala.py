"""MALA: a Langevin step as the proposal of Metropolis-Hastings (the Metropolis-adjusted Langevin algorithm).

    W' = W - h g(W) + sqrt(2 h) n,    g = grad R,    R = -log p(W, y),    n ~ N(0, I)
    accepted with probability min(1, a),    log a = -(R(W') - R(W)) + log q(W | W') - log q(W' | W)
    log q(W | W') - log q(W' | W) = -[ |W - W' + h g(W')|^2 - |W' - W + h g(W)|^2 ] / (4 h)

in coordinates in which the mass is the unit matrix (W / D, D the target's sds learned in warm-up); h is the step
size. Without the accept step the draws have the law of ULA: variance 1 / (a (1 - h a / 2)) where 1 / a is right.
On N(0, 1) a share of 1 - .2251 h^1.5 of the proposals is accepted as h -> 0. It is one leapfrog step of size
sqrt(2 h) of Hamiltonian Monte Carlo. Tuned to accept .574. The first part of warm-up is that of `chees`: single
steps come in slowly from afar.

Slide prints log a as a sum over the data of N-scaled R_j (Ambrogioni); this computes R(W') - R(W), the prior in it
once.

Source: Ambrogioni, "Metropolis-adjusted Langevin"; Roberts & Rosenthal 1998 (.574).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, one_step, or_infinite, where
from zoo.infer.kernels import chees
from zoo.infer.mass import Mass, slope, spread, whitened

TARGET_ACCEPT = 0.574
STATS = ("lp", "accept", "diverging")
WAY_IN = chees
MAX_ENERGY_ERROR = 1000.0


class State(NamedTuple):
    """The chains: position, grad (chain, dim), lp (chain,), iterations completed in this block (chain,)."""

    position: Tensor
    lp: Tensor
    grad: Tensor
    completed: Tensor


def setup(dim: int) -> Setup:
    """Noise: one normal a coordinate and one uniform number a proposal.

    Args:
        dim: Number of coordinates.
    """
    return Setup({"proposal": ("normal", (dim,)), "uniform": ("uniform", ())}, {}, {})


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at positions (chain, dim) with their log densities (chain,) and gradients (chain, dim)."""
    return State(position, lp, grad, torch.zeros(len(position), dtype=torch.int64, device=position.device))


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """h of a leapfrog step of this size: size^2 / 2."""
    return size**2 / 2


def log_q(to: Tensor, start: Tensor, grad: Tensor, h: Tensor, mass: Mass) -> Tensor:
    """log q(to | start) up to a constant, (chain,) float64: -|to - start - h grad lp(start)|^2 / (4 h), whitened."""
    away = whitened(to - start, mass) - h * slope(grad, mass)
    return -(away.double() ** 2).sum(-1) / (4 * h.double())


def log_ratio(old: tuple[Tensor, Tensor, Tensor], new: tuple[Tensor, Tensor, Tensor], h: Tensor, mass: Mass) -> Tensor:
    """log a of the module's docstring (chain,), antisymmetric in the two points (position, lp, grad)."""
    back, there = log_q(old[0], new[0], new[2], h, mass), log_q(new[0], old[0], old[2], h, mass)
    return new[1] - old[1] + back - there


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
) -> tuple[State, Draw]:
    """One proposal of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (chain, dim).
        noise: "proposal" (iteration, chain, dim), "uniform" (iteration, chain).
        step_size: h, a scalar.
        mass: D by its scale.
        stop: Scalar int64.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["uniform"].shape[0] - 1)
    active = s.completed < stop
    drift = step_size * slope(s.grad, mass) + (2 * step_size).sqrt() * noise["proposal"][index, row]
    position = s.position + spread(drift, mass)
    lp, grad = value_and_grad(position)
    old = (s.position, s.lp, s.grad)
    change = -or_infinite(-log_ratio(old, (position, lp, grad), step_size, mass))
    chance = change.clamp(max=0).exp()
    take = active & (noise["uniform"][index, row] < chance)
    s = State(
        where(take, position, s.position), where(take, lp, s.lp), where(take, grad, s.grad), s.completed + active
    )  # fmt: skip
    return s, one_step(active, s.completed, s.position, s.lp, chance, change < -MAX_ENERGY_ERROR, -s.lp)
