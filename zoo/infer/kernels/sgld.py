"""SGLD: stochastic gradient Langevin dynamics. Gradient descent with noise of the right size, and no accept step.

    theta' = theta - (h_t / 2) grad[ -(N / M) sum_{j in S} log p(y_j | theta) - log p(theta) ] + sqrt(h_t) n
    h_t = a (b + t)^-gamma,    draws weighted by h_t

in coordinates in which the mass is the unit matrix: a fixed diagonal preconditioner, learned in warm-up, h in units
of it (mass="unit": the lecture's theta). step_size is h at t = 0, a = step_size b^gamma. With .5 < gamma <= 1 the
weighted averages tend to the posterior's (sum h_t infinite, sum h_t^2 finite); on the way there, the draws are
wider. With gamma = 0, a constant step, they never arrive: on N(0, 1/a) their variance is 1 / (a (1 - h a / 4)), and
a gradient whose own noise has variance V adds (h^2 / 4) V to the h injected at each step.

Slide prints theta - eta grad + sqrt(eta) n, and a sum over S of N-scaled terms without 1/M (Ambrogioni): those
sample p^2, and p^(2 M) with the prior counted M times. This computes the formula above; `printed_sgld` runs theirs.

Source: Ambrogioni, "Stochastic gradient Langevin dynamics"; Welling & Teh 2011.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, batch_noise, number, one_step, where
from zoo.infer.mass import Mass, slope, spread

TARGET_ACCEPT = None
STATS = ("diverging",)
CONSTANT = (
    "a constant step h samples a wider law, by a factor 1 / (1 - h/4) on a Gaussian in the mass's units, and gradient "
    "noise widens it further: lower step_size, or let it decrease (gamma=.55)"
)


class State(NamedTuple):
    """The chains: position (chain, dim), iterations completed in this block (chain,)."""

    position: Tensor
    completed: Tensor


def setup(
    dim: int, *, gamma: float = 0.55, b: float = 1000.0, batch_size: int | None = None, sampling: str = "epochs"
) -> Setup:
    """Noise, batches and schedule.

    Args:
        dim: Number of coordinates.
        gamma: h_t = step_size (1 + t / b)^-gamma; above .5 and at most 1, or 0 for a constant step.
        b: Iterations over which the step decreases by a factor 2^-gamma.
        batch_size: M; None: all rows, without gradient noise.
        sampling: "epochs" (shuffled, every row once an epoch) or "replacement" (rows drawn independently).
    """
    if gamma != 0 and not (isinstance(gamma, (int, float)) and 0.5 < gamma <= 1):
        raise ValueError(f"gamma must lie above .5 and be at most 1, or be 0 (a constant step), got {gamma!r}.")
    number("b", b, 0, float("inf"), "1000")
    noise = {"langevin": ("normal", (dim,)), **batch_noise(batch_size, sampling)}
    constants = {"gamma": torch.tensor(gamma, dtype=torch.float64), "b": torch.tensor(b, dtype=torch.float64)}
    return Setup(noise, constants, {"clock": 0.0}, biased="" if gamma else CONSTANT)


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at positions (chain, dim)."""
    return State(position, torch.zeros(len(position), dtype=torch.int64, device=position.device))


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """h from a leapfrog step that works: size^2 / 10, and at most .2 M / n.

    In units of the posterior's sds the noise of a minibatch's gradient has a variance near n / M, so that at
    h = .2 M / n it adds 5 % to the noise injected.
    """
    return min(size**2 / 10, 0.2 * share) if share < 1 else size**2 / 10


def schedule(step_size: Tensor, t: Tensor, gamma: Tensor, b: Tensor) -> Tensor:
    """h_t = step_size (1 + t / b)^-gamma, for t = 0, 1, ..."""
    return step_size * (1 + t / b) ** -gamma


def weights(t: Tensor, tuned: dict[str, float], constants: dict[str, Tensor]) -> Tensor | None:
    """h of the steps that led to the draws after t iterations; None where it is constant."""
    gamma, b = constants["gamma"].cpu().double(), constants["b"].cpu().double()
    return None if not gamma else schedule(torch.tensor(tuned["step_size"], dtype=torch.float64), t - 1, gamma, b)


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    clock: Tensor,
    gamma: Tensor,
    b: Tensor,
    drift: float | Tensor = 0.5,
) -> tuple[State, Draw]:
    """One step of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) and rows -> log densities (chain,), gradients (chain, dim).
        noise: "langevin" (iteration, chain, dim), and "rows" (iteration, chain, M) for minibatches.
        step_size, gamma, b: Scalars of the schedule.
        mass: The preconditioner.
        stop: Scalar int64.
        clock: Iterations of sampling before this block.
        drift: 1/2; anything else is wrong.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["langevin"].shape[0] - 1)
    active = s.completed < stop
    _, grad = value_and_grad(s.position, noise["rows"][index, row] if "rows" in noise else None)
    h = schedule(step_size, clock + s.completed, gamma, b).to(step_size).unsqueeze(-1)
    moved = s.position + spread(drift * h * slope(grad, mass) + h.sqrt() * noise["langevin"][index, row], mass)
    finite = torch.isfinite(moved).all(-1)
    s = State(where(active & finite, moved, s.position), s.completed + active)
    none = torch.zeros(s.completed.shape, dtype=torch.float64, device=s.position.device)
    return s, one_step(active, s.completed, s.position, none, none + 1, ~finite, none)
