"""Metropolis-Hastings by a random walk.

    q' = q + e D z,    z ~ N(0, I);    accepted with probability min(1, p(q') / p(q))

D are the target's sds, learned in warm-up, e the step size. The proposal is symmetric, so no other factor enters.
Tuned to accept .234 of its proposals (.44 of one coordinate), which is best for many independent coordinates: then
e is near 2.4 / sqrt(dim). It needs no gradient.

Slide prints a = max(ratio, 1) (Ambrogioni); this computes min(1, ratio).

Source: Ambrogioni, "Metropolis-Hastings"; Metropolis and others 1953; Roberts, Gelman & Gilks 1997 (.234).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, one_step, or_infinite, where
from zoo.infer.mass import Mass, spread

TARGET_ACCEPT = 0.234
STATS = ("lp", "accept")


class State(NamedTuple):
    """The chains: position (chain, dim), lp (chain,), iterations completed in this block (chain,)."""

    position: Tensor
    lp: Tensor
    completed: Tensor


def setup(dim: int) -> Setup:
    """Noise and the acceptance to tune to.

    Args:
        dim: Number of coordinates.
    """
    return Setup({"proposal": ("normal", (dim,)), "uniform": ("uniform", ())}, {}, {}, 0.44 if dim == 1 else None)


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at positions (chain, dim) with their log densities (chain,)."""
    return State(position, lp, torch.zeros(len(position), dtype=torch.int64, device=position.device))


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """2.4 / sqrt(dim) of a leapfrog step's size at most: a leapfrog step that works is some sds long at most."""
    return min(size, 1.0) * 2.4 / dim**0.5


def log_ratio(lp: Tensor, new_lp: Tensor) -> Tensor:
    """log p(q') - log p(q): the log of the acceptance ratio, antisymmetric in the two."""
    return new_lp - lp


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
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (unused).
        noise: "proposal" (iteration, chain, dim), "uniform" (iteration, chain).
        step_size: e, a scalar.
        mass: D by its scale.
        stop: Scalar int64.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["uniform"].shape[0] - 1)
    active = s.completed < stop
    position = s.position + step_size * spread(noise["proposal"][index, row], mass)
    lp, _ = value_and_grad(position)
    lp = -or_infinite(-lp)
    chance = log_ratio(s.lp, lp).clamp(max=0).exp()
    take = active & (noise["uniform"][index, row] < chance)
    s = State(where(take, position, s.position), torch.where(take, lp, s.lp), s.completed + active)
    return s, one_step(active, s.completed, s.position, s.lp, chance, ~active & active, -s.lp)
