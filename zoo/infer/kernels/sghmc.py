"""SGHMC: Hamiltonian dynamics with friction, so that noisy gradients do no harm.

    v' = (1 - alpha) v - eta g(theta) + sqrt(2 (alpha - beta) eta) n,    theta' = theta + v'
    beta = eta V / 2,    V the variance of the minibatch gradient's own noise

in coordinates in which the mass is the unit matrix (learned in warm-up); eta is the step size, alpha the friction.
What the gradient's noise heats, beta leaves out of the injected noise. On N(0, 1/a) the variance is
1 / (a (1 - eta a / (2 (2 - alpha)))) for every V, if beta is right; with beta = 0 noise adds to it. alpha = 1 and
no gradient noise is SGLD with h = 2 eta. No accept step: biased by its step size.

V is estimated at the end of warm-up from 32 minibatches at each chain's position, pooled over chains.

Source: Ambrogioni, "Stochastic gradient Hamiltonian Monte Carlo"; Chen, Fox & Guestrin 2014, eq. 15.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, batch_noise, number, one_step, where
from zoo.infer.mass import Mass, slope, spread

log = logging.getLogger("zoo")
TARGET_ACCEPT = None
STATS = ("diverging",)
BATCHES = 32
BIASED = (
    "no accept step: on a Gaussian the variance is 1 / (1 - eta / (2 (2 - friction))) times the right one in the "
    "mass's units, eta the step_size: lower it"
)


class State(NamedTuple):
    """The chains: position, velocity (chain, dim), noise variance V (chain, dim), iterations completed (chain,)."""

    position: Tensor
    velocity: Tensor
    variance: Tensor
    completed: Tensor


def setup(
    dim: int, *, friction: float = 0.1, gradient_noise: float | None = None, batch_size: int | None = None,
    sampling: str = "replacement",
) -> Setup:  # fmt: skip
    """Noise, batches and constants.

    Args:
        dim: Number of coordinates.
        friction: alpha, above 0 and at most 1: the velocity forgets itself in about 1 / alpha steps.
        gradient_noise: V, in the mass's units; None: estimated, 0 where all rows are used.
        batch_size: M; None: all rows.
        sampling: "replacement" (rows drawn independently) or "epochs" (shuffled, every row once an epoch). The errors
            of an epoch's batches sum to 0, so they heat less than beta leaves out: draws are then too narrow, by a
            tenth of the sd where an epoch is short beside the time 1 / sqrt(eta) of an oscillation.
    """
    number("friction", friction, 0, 1, ".1")
    if gradient_noise is not None and gradient_noise != 0:
        number("gradient_noise", gradient_noise, 0, float("inf"), "None (estimated), or 0")
    noise = {"kick": ("normal", (dim,)), **batch_noise(batch_size, sampling)}
    given = float("nan") if gradient_noise is None and batch_size is not None else float(gradient_noise or 0.0)
    numbers = {"friction": friction, "given": given}
    constants = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Setup(noise, constants, {}, biased=BIASED)


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at rest at positions (chain, dim)."""
    variance = torch.zeros_like(position) + torch.nan_to_num(constants["given"], nan=0.0).to(position)
    none = torch.zeros(len(position), dtype=torch.int64, device=position.device)
    return State(position, torch.zeros_like(position), variance, none)


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.position


def first_step(size: float, dim: int, share: float) -> float:
    """eta from a leapfrog step that works: size^2 / 20, and at most .04 M / n, where beta is near .02."""
    return min(size**2 / 20, 0.04 * share) if share < 1 else size**2 / 20


def settle(
    s: State, gradient: Callable[[Tensor], Tensor], tuned: dict[str, float], mass: Mass, constants: dict[str, Tensor]
) -> State:
    """V, where it was not given: the variance of the whitened gradients of 32 minibatches, pooled over chains.

    Logs where beta exceeds the friction: noise then cannot be left out, only less of it injected.

    Raises:
        ValueError: If a noise was given and the gradient has none: what is left out would be missing.
    """
    if constants["given"] > 0 and torch.equal(gradient(s.position), gradient(s.position)):
        raise ValueError(
            f"gradient_noise={float(constants['given']):g} is that of minibatches, and the gradient of all rows has "
            "none. Give a batch_size, or leave gradient_noise out."
        )
    if torch.isfinite(constants["given"]):
        variance = constants["given"].expand(s.position.shape[1])
    else:
        grads = torch.stack([slope(gradient(s.position), mass) for _ in range(BATCHES)])
        variance = grads.double().var(0).mean(0)
    share = float(tuned["step_size"] * variance.max() / 2 / constants["friction"])
    if share > 1:
        log.warning(
            "sghmc: gradient noise of this size alone is %.3g times what a friction of %.3g takes away, so none is "
            "injected, and draws have the wrong width. Lower step_size, raise batch_size or friction.",
            share, float(constants["friction"]),
        )  # fmt: skip
    return s._replace(variance=variance.to(s.position).expand_as(s.position).clone())


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    friction: Tensor,
    given: Tensor,
) -> tuple[State, Draw]:
    """One step of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) and rows -> log densities (chain,), gradients (chain, dim).
        noise: "kick" (iteration, chain, dim), and "rows" (iteration, chain, M) for minibatches.
        step_size, friction: eta and alpha, scalars.
        mass: The preconditioner.
        stop: Scalar int64.
        given: V as given, NaN where it is estimated; the state's is used.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["kick"].shape[0] - 1)
    active = s.completed < stop
    _, grad = value_and_grad(s.position, noise["rows"][index, row] if "rows" in noise else None)
    friction = friction.to(step_size)
    injected = 2 * (friction - step_size * s.variance / 2).clamp(min=0) * step_size
    kick = step_size * slope(grad, mass) + injected.sqrt() * noise["kick"][index, row]
    velocity = (1 - friction) * s.velocity + kick
    position = s.position + spread(velocity, mass)
    finite = active & torch.isfinite(position).all(-1)
    lost = active & ~finite
    moved = where(finite, velocity, where(lost, torch.zeros_like(velocity), s.velocity))
    s = State(where(finite, position, s.position), moved, s.variance.clone(), s.completed + active)
    none = torch.zeros(s.completed.shape, dtype=torch.float64, device=s.position.device)
    return s, one_step(active, s.completed, s.position, none, none + 1, lost, none)
