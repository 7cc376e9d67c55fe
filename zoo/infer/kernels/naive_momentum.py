"""Naive momentum Monte Carlo: momentum SGD with noise put on top. Wrong, to be seen wrong.

    p' = (1 - b) p - b g(W) + sigma n,    W' = W + eta p'

On U = a W^2 / 2 the variance of W is (2 - b) eta sigma^2 / (a b^2 (4 - 2 b - eta a b)), where 1 / a is right: no
choice of sigma is right for every a, so not for a target of several widths (Lyapunov's
equation). Friction and noise belong together (`sghmc`), or a Metropolis step on the momentum too (`hmc`).

Source: Ambrogioni, "Momentum Monte Carlo"; Chen, Fox & Guestrin 2014, section 3.1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, batch_noise, number, one_step, where
from zoo.infer.mass import Mass, slope, spread

TARGET_ACCEPT = None
STATS = ("diverging",)
BIASED = "momentum with noise on top has no posterior as its law: use 'sghmc' or 'hmc'"


class State(NamedTuple):
    """The chains: position, momentum (chain, dim), iterations completed in this block (chain,)."""

    position: Tensor
    momentum: Tensor
    completed: Tensor


def setup(
    dim: int, *, friction: float = 0.1, sigma: float = 1.0, batch_size: int | None = None, sampling: str = "epochs"
) -> Setup:
    """Noise and constants.

    Args:
        dim: Number of coordinates.
        friction: b, above 0 and at most 1.
        sigma: sd of the noise put on the momentum.
        batch_size: M; None: all rows.
        sampling: As for `sgld`.
    """
    number("friction", friction, 0, 1, ".1")
    number("sigma", sigma, 0, float("inf"), "1")
    numbers = {"friction": friction, "sigma": sigma}
    constants = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Setup({"kick": ("normal", (dim,)), **batch_noise(batch_size, sampling)}, constants, {}, biased=BIASED)


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at rest at positions (chain, dim)."""
    none = torch.zeros(len(position), dtype=torch.int64, device=position.device)
    return State(position, torch.zeros_like(position), none)


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """eta from a leapfrog step that works."""
    return size**2 / 10


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    friction: Tensor,
    sigma: Tensor,
) -> tuple[State, Draw]:
    """One step of every chain that has not yet completed `stop` iterations; step_size is eta, friction b."""
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["kick"].shape[0] - 1)
    active = s.completed < stop
    _, grad = value_and_grad(s.position, noise["rows"][index, row] if "rows" in noise else None)
    b = friction.to(step_size)
    p = (1 - b) * s.momentum + b * slope(grad, mass) + sigma.to(step_size) * noise["kick"][index, row]
    position = s.position + spread(step_size * p, mass)
    finite = active & torch.isfinite(position).all(-1)
    lost = active & ~finite
    p = where(finite, p, where(lost, torch.zeros_like(p), s.momentum))
    s = State(where(finite, position, s.position), p, s.completed + active)
    none = torch.zeros(s.completed.shape, dtype=torch.float64, device=s.position.device)
    return s, one_step(active, s.completed, s.position, none, none + 1, lost, none)
