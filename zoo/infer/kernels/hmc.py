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
from typing import Any

import torch
from torch import Tensor

from zoo.infer import trajectory
from zoo.infer.kernel import Draw, Setup, ValueAndGrad
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import kinetic
from zoo.infer.mass import momentum as momentum_of
from zoo.infer.trajectory import Dynamics, State, init, position_of

__all__ = ["STATS", "TARGET_ACCEPT", "State", "init", "position_of", "setup", "step"]

TARGET_ACCEPT = 0.8
STATS = ("lp", "energy", "accept", "steps", "diverging")


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


def step(s: State, value_and_grad: ValueAndGrad, noise: dict[str, Tensor], **numbers: Any) -> tuple[State, Draw]:
    """One leapfrog step of every chain, see `zoo.infer.trajectory.step`."""
    return trajectory.step(Dynamics(momentum_of, kinetic, leapfrog), s, value_and_grad, noise, **numbers)
