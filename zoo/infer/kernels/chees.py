"""ChEES-HMC: Hamiltonian Monte Carlo whose trajectory length many chains learn together.

    ChEES(T) = E[(|q_T - E q|^2 - |q_0 - E q|^2)^2] / 4,    q in coordinates in which the mass is the unit matrix
    d ChEES / d log T ~ mean_c a_c t (|q'_c - m'|^2 - |q_c - m|^2) (q'_c - m') . v'_c / mean_c a_c

the squared change of the squared distance from the mean: autocorrelation of the squares is what HMC is worst at.
Chain c starts at q_c and ends, after time t, at the proposal q'_c with velocity v'_c; a_c is its acceptance
probability, m and m' the means over chains. Adam climbs log T; the step size is tuned to a harmonic mean
acceptance of .651. T begins at one leapfrog step: beyond its first maximum the criterion is nearly flat, and a
climb from above wanders there. Trajectories are those of `hmc` with jitter 1, t = 2 T u: here T is the mean time,
half of the longest. After warm-up T is fixed, so draws are a Markov chain's.

Source: Hoffman, Radul & Sountsov 2021, "An adaptive-MCMC scheme for setting trajectory lengths in HMC".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Setup
from zoo.infer.kernels import hmc
from zoo.infer.kernels.hmc import State, init, position_of, step
from zoo.infer.mass import Mass, velocity, whitened

__all__ = ["CHAINS", "LEAST_CHAINS", "STATS", "TARGET_ACCEPT", "State", "init", "position_of", "setup", "step"]

TARGET_ACCEPT = 0.651
STATS = hmc.STATS
CHAINS = 16
LEAST_CHAINS = 4
RATE = 0.025
DECAY = 0.95


def setup(dim: int, *, max_steps: int = 1000) -> Setup:
    """Noise and constants.

    Args:
        dim: Number of coordinates.
        max_steps: At most so many leapfrog steps a trajectory.
    """
    return hmc.setup(dim, length=1.0, jitter=1.0, max_steps=max_steps)


class Climb(NamedTuple):
    """Adam on log T without first moment, and the average of log T that is kept."""

    log_length: float
    square: float = 0.0
    average: float = 0.0
    time: int = 0


def begin(length: float) -> Climb:
    """A climb that starts at a length."""
    return Climb(math.log(length))


def mean_accept(accept: Tensor) -> float:
    """The harmonic mean over chains (chain,): one chain that rejects everything is not averaged away."""
    return float(1 / (1 / accept.double().clamp(min=1e-10)).mean())


def slope(state: State, speed: Tensor, mass: Mass, step_size: float) -> float:
    """d ChEES / d log T of the module's docstring, from the trajectories that have just ended.

    Args:
        state: The chains.
        speed: Whitened velocities (chain, dim) at the ends.
        mass: M.
        step_size: e.
    """
    weight = torch.where(torch.isfinite(state.at).all(-1).all(-1), state.chance, 0.0)
    end = torch.nan_to_num(state.at)
    before, after = whitened(state.start[:, 0], mass).double(), whitened(end[:, 0], mass).double()
    share = weight / weight.sum().clamp(min=1e-12)
    before, after = before - before.mean(0), after - (share[:, None] * after).sum(0)
    speed = torch.nan_to_num(speed).double()
    change = (after**2).sum(-1) - (before**2).sum(-1)
    time = state.steps * step_size
    return float((share * time * change * (after * speed).sum(-1)).sum())


def tune(climb: Climb, state: State, mass: Mass, step_size: float, max_steps: int) -> Climb:
    """One step of Adam up the slope, after each iteration of warm-up."""
    speed = whitened(velocity(state.at[:, 1], mass), mass)
    return climbed(climb, slope(state, speed, mass, step_size), step_size, max_steps)


def climbed(climb: Climb, rise: float, step_size: float, max_steps: int) -> Climb:
    """One step of Adam on log T; T stays below `max_steps` / 2 leapfrog steps.

    No lower limit: a step size that is only being tried in warm-up must not drag T up with it, and a trajectory
    has one leapfrog step anyway. T rises some 2.5 % an iteration: a short warm-up leaves it short.
    """
    if not math.isfinite(rise):
        return climb
    time = climb.time + 1
    square = DECAY * climb.square + (1 - DECAY) * rise**2
    moved = climb.log_length + RATE * rise / (math.sqrt(square / (1 - DECAY**time)) + 1e-30)
    moved = min(moved, math.log(step_size * max_steps / 2))
    weight = time**-0.5
    return Climb(moved, square, weight * moved + (1 - weight) * climb.average, time)
