"""HMC with minibatch gradients inside the trajectory: wrong, or useless, to be seen so. `hmc` is the right one.

    H(q, p) = -lp(q) + p^T M^-1 p / 2;  L leapfrog steps, each with the gradient of a new minibatch of M rows
    accept="full": the end is accepted with probability min(1, exp(H_0 - H_L)), H with all rows
    accept="none": the end is always taken

A trajectory with noisy gradients does not follow H. With the accept step on all rows its ends are refused the more
often the more coordinates there are, at any fixed M / N: the error is not one of the step size. (Even so the map is
not reversible unless the batches come in the reverse order: the law is only nearly right.) Without an accept step
the noise heats: the law is too wide. `sghmc` takes friction to it.

Source: Ambrogioni, "Hamiltonian Monte Carlo on minibatches"; Betancourt 2015, "The fundamental incompatibility of
scalable Hamiltonian Monte Carlo and naive data subsampling".
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, batch_noise, one_step, or_infinite, where
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import Mass, kinetic
from zoo.infer.mass import momentum as momentum_of

TARGET_ACCEPT = None
STATS = ("lp", "energy", "accept", "diverging")
ACCEPT = ("full", "none")
MAX_ENERGY_ERROR = 1000.0
BIASED = {
    "full": "minibatch gradients leave the energy's level sets: the more coordinates, the more trajectories are "
    "refused, and the law is only nearly right: use 'hmc' on all rows, or 'sghmc'",
    "none": "minibatch gradients heat the trajectory and nothing cools it: the law is too wide: use 'sghmc'",
}


class State(NamedTuple):
    """The chains: position (chain, dim), lp of all rows (chain,), iterations completed in this block (chain,)."""

    position: Tensor
    lp: Tensor
    completed: Tensor


def setup(
    dim: int, *, steps_each: int = 10, accept: str = "full", batch_size: int = 10, sampling: str = "epochs"
) -> Setup:
    """Noise, batches and constants.

    Args:
        dim: Number of coordinates.
        steps_each: L, leapfrog steps a trajectory, 1 to 100.
        accept: "full" (on all rows) or "none".
        batch_size: M.
        sampling: As for `sgld`.
    """
    if accept not in ACCEPT:
        raise ValueError(f"accept must be one of {', '.join(ACCEPT)}, got {accept!r}.")
    if isinstance(steps_each, bool) or not isinstance(steps_each, int) or not 1 <= steps_each <= 100:
        raise ValueError(f"steps_each must be a whole number from 1 to 100, got {steps_each!r}.")
    noise = {"momentum": ("normal", (dim,)), "uniform": ("uniform", ())}
    batches = batch_noise(batch_size, sampling, (steps_each + 1,))
    return Setup({**noise, **batches}, {"always": torch.tensor(accept == "none")}, {}, biased=BIASED[accept])


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at positions (chain, dim) with their log densities (chain,)."""
    return State(position, lp, torch.zeros(len(position), dtype=torch.int64, device=position.device))


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """Half of a leapfrog step that works."""
    return size / 2


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    always: Tensor,
) -> tuple[State, Draw]:
    """One trajectory of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) and rows -> log densities (chain,), gradients (chain, dim).
        noise: "momentum" (iteration, chain, dim), "uniform" (iteration, chain), "rows" (iteration, chain, L + 1, M).
        step_size: A scalar.
        mass: M.
        stop: Scalar int64.
        always: Whether every end is taken.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["uniform"].shape[0] - 1)
    active = s.completed < stop
    rows = noise["rows"][index, row]
    p = momentum_of(noise["momentum"][index, row], mass)
    at = torch.stack([s.position, p, value_and_grad(s.position, rows[:, 0])[1]], 1)
    for i in range(1, rows.shape[1]):
        at, _ = leapfrog(at, lambda q, batch=rows[:, i]: value_and_grad(q, batch), step_size, mass)
    lp = value_and_grad(at[:, 0])[0]
    before, after = -s.lp + kinetic(p, mass), -lp + kinetic(at[:, 1], mass)
    error = or_infinite(after - before)
    chance = (-error).clamp(max=0).exp()
    take = active & ((noise["uniform"][index, row] < chance) | (always & torch.isfinite(error)))
    s = State(where(take, at[:, 0], s.position), torch.where(take, lp, s.lp), s.completed + active)
    energy = torch.where(take, after, before)
    return s, one_step(active, s.completed, s.position, s.lp, chance, error > MAX_ENERGY_ERROR, energy)
