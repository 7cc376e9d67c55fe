"""Metropolis trajectories: many integrator steps, then the end is accepted or refused as a whole.

What `hmc`, `chees` and `mclmc` share; they differ in `Dynamics`: how momenta are drawn, what energy they carry, and
what one step of the integrator is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .kernel import Draw, ValueAndGrad, or_infinite, where
from .mass import Mass

MAX_ENERGY_ERROR = 1000.0
# A chain's centre is the mean of so many draws: enough to be one, few enough to follow a chain on its way in.
LATELY = 50


class Dynamics(NamedTuple):
    """What moves a trajectory.

    Attributes:
        momentum: Standard normals (chain, dim), mass -> momenta (chain, dim), symmetric about 0.
        kinetic: Momenta (chain, dim), mass -> their energy (chain,) float64, even in the momentum.
        integrate: (at, value_and_grad, step size, mass) -> new `at`, log densities (chain,): reversible, and it keeps
            exp(lp - kinetic) dq dp up to the change of lp - kinetic.
        rise: (state, mass) -> (chain,), where the length of trajectories is learned from those that have just ended.
    """

    momentum: Callable[[Tensor, Mass], Tensor]
    kinetic: Callable[[Tensor, Mass], Tensor]
    integrate: Callable[[Tensor, ValueAndGrad, Tensor, Mass], tuple[Tensor, Tensor]]
    rise: Callable[[State, Mass], Tensor] | None = None


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
        centre: (chain, dim) where the chain has been lately: the mean of some `LATELY` draws.
        seen: (chain,) draws in that mean.
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
    centre: Tensor
    seen: Tensor


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at rest at positions (chain, dim) with their log densities (chain,) and gradients (chain, dim)."""
    here = torch.stack([position, grad], 1)
    none = torch.zeros(len(position), dtype=torch.int64, device=position.device)
    no = torch.zeros(len(position), dtype=torch.bool, device=position.device)
    return State(
        start=here, start_e=torch.stack([lp, lp], 1), draw=here, draw_lp=lp,
        at=torch.stack([position, torch.zeros_like(position), grad], 1), chance=torch.zeros_like(lp),
        steps=none, planned=none, diverged=no, fresh=~no, completed=none, centre=position, seen=none,
    )  # fmt: skip


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.draw[:, 0]


def _begin(s: State, p: Tensor, energy: Tensor, planned: Tensor, starting: Tensor) -> State:
    """Sets the chains that start a trajectory off with momenta p (chain, dim)."""
    return s._replace(
        start=where(starting, s.draw, s.start),
        start_e=where(starting, torch.stack([s.draw_lp, energy], 1), s.start_e),
        at=where(starting, torch.stack([s.draw[:, 0], p, s.draw[:, 1]], 1), s.at),
        steps=where(starting, 0, s.steps),
        planned=where(starting, planned, s.planned),
        diverged=s.diverged & ~starting,
        fresh=s.fresh & ~starting,
    )


def planned_steps(length: Tensor, step_size: Tensor, jitter: Tensor, fraction: Tensor, most: Tensor) -> Tensor:
    """ceil(length (1 + jitter (2 u - 1)) / e), at least 1 and at most `most`; fraction u (chain,)."""
    time = length.double() * (1 + jitter * (2 * fraction - 1))
    # A length that is a whole number of steps must not become one more by rounding.
    count = torch.ceil(time / step_size.double() * (1 - 1e-6))
    return torch.minimum(count.clamp(1, 1e9), most.double()).long()


def step(
    dynamics: Dynamics,
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
    """One integrator step of every chain that has not yet completed `stop` iterations of the block.

    Args:
        dynamics: What moves the chains: of a kernel always the same.
        s: The chains.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (chain, dim).
        noise: "momentum" (iteration, chain, dim), "uniform" and "fraction" (iteration, chain).
        step_size, mass: Of the integrator.
        stop: Scalar int64.
        length, jitter, max_steps: Scalars, see `planned_steps`.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["momentum"].shape[0] - 1)
    p = dynamics.momentum(noise["momentum"][index, row], mass)
    energy = -s.draw_lp + dynamics.kinetic(p, mass)
    planned = planned_steps(length, step_size, jitter, noise["fraction"][index, row], max_steps)
    s = _begin(s, p, energy, planned, s.fresh & (s.completed < stop))
    active = ~s.fresh
    at, lp = dynamics.integrate(s.at, value_and_grad, step_size, mass)
    energy = -lp + dynamics.kinetic(at[:, 1], mass)
    error = or_infinite(energy - s.start_e[:, 1])
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
    s, rise = _told(dynamics, s, mass, done)
    new = (s.draw[:, 0].clone(), s.draw_lp.clone())
    return s, Draw(done, s.completed - 1, *new, energy, chance, depth, s.steps + 0, s.diverged | False, rise)


def _told(dynamics: Dynamics, s: State, mass: Mass, done: Tensor) -> tuple[State, Tensor]:
    """What the trajectories that have just ended tell of their length, the chains' centres having one more draw."""
    if dynamics.rise is None:
        return s, torch.zeros_like(s.chance)
    seen = s.seen + done
    weight = torch.where(done, 1 / seen.double().clamp(1, LATELY), 0.0).to(s.centre)[:, None]
    s = s._replace(centre=s.centre + weight * (s.draw[:, 0] - s.centre), seen=seen)
    return s, dynamics.rise(s, mass)
