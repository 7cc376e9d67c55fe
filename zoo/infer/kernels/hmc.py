"""Hamiltonian Monte Carlo: a trajectory of a given length, accepted or refused as a whole.

    H(q, p) = -lp(q) + p^T M^-1 p / 2,    p ~ N(0, M)
    n = ceil(length (1 + jitter (2 u - 1)) / e) leapfrog steps of size e, u on (0, 1)
    the end, its momentum flipped, is accepted with probability min(1, exp(H_0 - H_n))

The leapfrog map keeps volume and, with the flip, is its own inverse, so no other factor enters. jitter=0 is the
fixed length of the lecture: a length near a period of the target then hardly moves (on N(0, I) a length of 2 pi
comes back to its start). u is the van der Corput sequence of the iteration, the same for all chains: chains in
step with each other end together. length = pi / 2 is a quarter of a period of N(0, I), where q_n is independent
of q_0; with jitter=1 lengths up to pi are taken.

Slide prints a = max(ratio, 1) and W + eta p with unit mass (Ambrogioni); this computes min(1, ratio) and
q + e M^-1 p.

Source: Ambrogioni, "Hamiltonian Monte Carlo"; Neal 2011, sections 3 and 4.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, where
from zoo.infer.leapfrog import ValueAndGrad, leapfrog
from zoo.infer.mass import Mass, kinetic
from zoo.infer.mass import momentum as momentum_of

TARGET_ACCEPT = 0.8
STATS = ("lp", "energy", "accept", "steps", "diverging")
MAX_ENERGY_ERROR = 1000.0


class State(NamedTuple):
    """The chains, each somewhere inside its current trajectory. Scalars are float64, counters int64.

    Attributes:
        start: (chain, 2, dim) position and gradient of the draw the trajectory started from.
        start_e: (chain, 2) its lp and its energy with the momentum drawn.
        draw: (chain, 2, dim) the last draw: position and gradient.
        draw_lp: (chain,) its lp.
        at: (chain, 3, dim) where the trajectory is: position, momentum, gradient.
        chance: (chain,) min(1, exp(H_0 - H_n)) of the last trajectory.
        steps, planned: (chain,) leapfrog steps taken and to take.
        diverged: (chain,) whether H - H_0 has passed 1,000 or is not finite.
        fresh: (chain,) whether the chain stands between two trajectories.
        completed: (chain,) iterations completed in this block.
    """

    start: Tensor
    start_e: Tensor
    draw: Tensor
    draw_lp: Tensor
    at: Tensor
    chance: Tensor
    steps: Tensor
    planned: Tensor
    diverged: Tensor
    fresh: Tensor
    completed: Tensor


def setup(dim: int, *, length: float = math.pi / 2, jitter: float = 1.0, max_steps: int = 1000) -> Setup:
    """Noise, constants and the length of a trajectory.

    Args:
        dim: Number of coordinates.
        length: Integration time; with jitter twice this at most, on average this.
        jitter: 0: every trajectory has this length; 1: evenly spread over (0, 2 length).
        max_steps: At most so many leapfrog steps a trajectory.
    """
    if not (isinstance(length, (int, float)) and 0 < length < math.inf):
        raise ValueError(f"length must be a positive number, got {length!r}. Usual: 1.57 (a quarter period).")
    if not (isinstance(jitter, (int, float)) and 0 <= jitter <= 1):
        raise ValueError(f"jitter must lie between 0 and 1, got {jitter!r}. 0 is a fixed length.")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a whole number, at least 1, got {max_steps!r}.")
    noise = {"momentum": ("normal", (dim,)), "uniform": ("uniform", ()), "fraction": ("sequence", ())}
    constants = {"jitter": torch.tensor(float(jitter), dtype=torch.float64), "max_steps": torch.tensor(max_steps)}
    return Setup(noise, constants, {"length": float(length)})


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at rest at positions (chain, dim) with their log densities (chain,) and gradients (chain, dim)."""
    here = torch.stack([position, grad], 1)
    none = torch.zeros(len(position), dtype=torch.int64, device=position.device)
    no = torch.zeros(len(position), dtype=torch.bool, device=position.device)
    return State(
        start=here, start_e=torch.stack([lp, lp], 1), draw=here, draw_lp=lp,
        at=torch.stack([position, torch.zeros_like(position), grad], 1), chance=torch.zeros_like(lp),
        steps=none, planned=none, diverged=no, fresh=~no, completed=none,
    )  # fmt: skip


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.draw[:, 0]


def planned_steps(length: Tensor, step_size: Tensor, jitter: Tensor, fraction: Tensor, most: Tensor) -> Tensor:
    """ceil(length (1 + jitter (2 u - 1)) / e), at least 1 and at most `most`; fraction u (chain,)."""
    time = length.double() * (1 + jitter * (2 * fraction - 1))
    # A length that is a whole number of steps must not become one more by rounding.
    count = torch.ceil(time / step_size.double() * (1 - 1e-6))
    return torch.minimum(count.clamp(1, 1e9), most.double()).long()


def _begin(s: State, p: Tensor, planned: Tensor, mass: Mass, starting: Tensor) -> State:
    """Sets the chains that start a trajectory off with momenta p (chain, dim)."""
    energy = -s.draw_lp + kinetic(p, mass)
    return s._replace(
        start=where(starting, s.draw, s.start),
        start_e=where(starting, torch.stack([s.draw_lp, energy], 1), s.start_e),
        at=where(starting, torch.stack([s.draw[:, 0], p, s.draw[:, 1]], 1), s.at),
        steps=where(starting, 0, s.steps),
        planned=where(starting, planned, s.planned),
        diverged=s.diverged & ~starting,
        fresh=s.fresh & ~starting,
    )


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    length: Tensor,
    jitter: Tensor,
    max_steps: Tensor,
) -> tuple[State, Draw]:
    """One leapfrog step of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (chain, dim).
        noise: "momentum" (iteration, chain, dim), "uniform" and "fraction" (iteration, chain).
        step_size, length, jitter, max_steps: Scalars.
        mass: M.
        stop: Scalar int64.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["momentum"].shape[0] - 1)
    planned = planned_steps(length, step_size, jitter, noise["fraction"][index, row], max_steps)
    p = momentum_of(noise["momentum"][index, row], mass)
    s = _begin(s, p, planned, mass, s.fresh & (s.completed < stop))
    active = ~s.fresh
    at, lp = leapfrog(s.at, value_and_grad, step_size, mass)
    energy = -lp + kinetic(at[:, 1], mass)
    error = torch.nan_to_num(energy - s.start_e[:, 1], nan=torch.inf)
    s = s._replace(
        at=where(active, at, s.at), steps=s.steps + active, diverged=s.diverged | (active & (error > MAX_ENERGY_ERROR))
    )
    # A point without a finite energy ends the trajectory: from either end it is refused.
    done = active & ((s.steps >= s.planned) | ~torch.isfinite(error))
    chance = (-error).clamp(max=0).exp()
    take = done & (noise["uniform"][index, row] < chance)
    s = s._replace(
        draw=where(take, at[:, ::2], s.draw),
        draw_lp=where(take, lp, s.draw_lp),
        chance=where(done, chance, s.chance),
        fresh=s.fresh | done,
        completed=s.completed + done,
    )
    energy = torch.where(take, energy, s.start_e[:, 1])
    depth = torch.zeros_like(s.steps)
    new = (s.draw[:, 0].clone(), s.draw_lp.clone())
    return s, Draw(done, s.completed - 1, *new, energy, chance, depth, s.steps + 0, s.diverged | False)
