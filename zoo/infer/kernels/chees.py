"""ChEES-HMC: Hamiltonian Monte Carlo whose trajectory length many chains learn together.

    ChEES(T) = E[(|q_T - E q|^2 - |q_0 - E q|^2)^2] / 4,    q in coordinates in which the mass is the unit matrix
    d ChEES / d log T ~ mean_c a_c t (|q'_c - m_c|^2 - |q_c - m_c|^2) (q'_c - m_c) . v'_c

the squared change of the squared distance from the mean: autocorrelation of the squares is what HMC is worst at.
Chain c starts at q_c and ends, after time t, at the proposal q'_c with velocity v'_c; a_c is its acceptance
probability, m_c is where the chain has been on average lately: over all chains it would be no centre of anything
where they sit in different modes (a network's units permuted), and distances between modes would drown the rest.
Adam climbs log T, at first in large strides; the step size is tuned to a harmonic mean acceptance of .651. T begins
at one leapfrog step: beyond its first maximum the criterion is nearly flat, and a climb from above wanders there.
Trajectories are those of `hmc` with jitter j = 1/2, t = T (1/2 + u). A normal coordinate of frequency w is correlated
with its draw before by r(w T) on average, its square by (1 + r(2 w T)) / 2, r(x) = cos(x) sin(j x) / (j x). The first
maximum of the criterion is w T = 1.43, with correlations of .12 and .17; beyond it r stays below .22, so that no
period is met. The j = 1 of the source has .35 and .39 at its own, 1.12: draws worth .48 and .44 independent ones where
j = 1/2 gives .78 and .71, for 1.3 times the steps. After warm-up T is fixed, so draws are a Markov chain's.

Source: Hoffman, Radul & Sountsov 2021, "An adaptive-MCMC scheme for setting trajectory lengths in HMC".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.infer import trajectory
from zoo.infer.kernel import Draw, Setup, ValueAndGrad
from zoo.infer.kernels import hmc
from zoo.infer.kernels.hmc import State, init, position_of
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import Mass, kinetic, velocity, whitened
from zoo.infer.mass import momentum as momentum_of
from zoo.infer.trajectory import Dynamics

__all__ = ["CHAINS", "LEAST_CHAINS", "STATS", "TARGET_ACCEPT", "State", "init", "position_of", "setup", "step"]

TARGET_ACCEPT = 0.651
STATS = hmc.STATS
CHAINS = 16
LEAST_CHAINS = 4
# Adam's rate falls from FAST to RATE over some SOON iterations: a network needs trajectories of hundreds of steps, and
# from one step at 2.5 % an iteration they would take most of warm-up to reach.
RATE, FAST, SOON = 0.025, 0.1, 50.0
DECAY = 0.95


def setup(dim: int, *, jitter: float = 0.5, max_steps: int = 1000) -> Setup:
    """Noise and constants.

    Args:
        dim: Number of coordinates.
        jitter: j: trajectories are evenly spread over T (1 - j) to T (1 + j).
        max_steps: At most so many leapfrog steps a trajectory.
    """
    return hmc.setup(dim, length=1.0, jitter=jitter, max_steps=max_steps)


def step(s: State, value_and_grad: ValueAndGrad, noise: dict[str, Tensor], **numbers: Any) -> tuple[State, Draw]:
    """One leapfrog step of every chain, see `zoo.infer.trajectory.step`."""
    return trajectory.step(Dynamics(momentum_of, kinetic, leapfrog, _rise), s, value_and_grad, noise, **numbers)


def _rise(state: State, mass: Mass) -> Tensor:
    return rise(state, whitened(velocity(state.at[:, 1], mass), mass), mass)


class Climb(NamedTuple):
    """Adam on log T without first moment, the average of log T that is kept, and the recent mean of log step size.

    `time` counts steps of the climb, `seen` those since its slope was last in other units.
    """

    log_length: float
    square: float = 0.0
    average: float = 0.0
    time: int = 0
    seen: int = 0
    log_step: float = 0.0


def begin(length: float) -> Climb:
    """A climb that starts at a length."""
    return Climb(math.log(length))


def rescaled(climb: Climb, by: float) -> Climb:
    """The same climb with another mass, where the unit of time is another (log T grows by `by`), and that of slopes."""
    log_length, average, log_step = (value + by for value in (climb.log_length, climb.average, climb.log_step))
    return climb._replace(log_length=log_length, average=average, log_step=log_step, square=0.0, seen=0)


def mean_accept(accept: Tensor) -> float:
    """The harmonic mean over chains of (chain, iteration): one that rejects everything is not averaged away."""
    return float((1 / accept.clamp(min=1e-10).reciprocal().mean(0)).mean())


def rise(state: State, speed: Tensor, mass: Mass) -> Tensor:
    """t / e (|q' - m|^2 - |q - m|^2) (q' - m) . v' of the module's docstring, (chain,), of trajectories just ended.

    Args:
        state: The chains.
        speed: v', whitened velocities (chain, dim) at the ends.
        mass: M.
    """
    before = whitened(state.start[:, 0] - state.centre, mass).double()
    after = whitened(state.at[:, 0] - state.centre, mass).double()
    change = (after**2 - before**2).sum(-1)
    # An end that is no number is refused for certain, and says nothing.
    return torch.where(state.chance > 0, state.steps * change * (after * speed).sum(-1), 0.0)


def slope(rise: Tensor, accept: Tensor, step_size: float) -> float:
    """d ChEES / d log T times the mean acceptance: the mean over chains of a e `rise`, all (chain,).

    Not divided by it: trajectories of a step size that is only tried and that no chain accepts are to say next to
    nothing, or Adam would remember their size for a hundred iterations.
    """
    return float((accept * rise).mean()) * step_size


def tune(climb: Climb, rise: Tensor, accept: Tensor, step_size: float, max_steps: int) -> Climb:
    """Steps of Adam up the slope, one for each iteration of warm-up since the last; rise, accept (chain, iteration)."""
    for told, chance in zip(rise.unbind(1), accept.unbind(1), strict=True):
        climb = climbed(climb, slope(told, chance, step_size), step_size, max_steps)
    return climb


def climbed(climb: Climb, rise: float, step_size: float, max_steps: int) -> Climb:
    """One step of Adam on log T; T stays below `max_steps` / 2 leapfrog steps of the recent mean size.

    Of the mean size: one that is only being tried in warm-up may be a thousand times too small, and must not drag T
    down with it. No lower limit: a trajectory has one leapfrog step anyway.
    """
    if not math.isfinite(rise):
        return climb
    time, seen = climb.time + 1, climb.seen + 1
    log_step = climb.log_step + max(0.05, 1 / time) * (math.log(step_size) - climb.log_step)
    square = DECAY * climb.square + (1 - DECAY) * rise**2
    rate = RATE + (FAST - RATE) * math.exp(-climb.time / SOON)
    moved = climb.log_length + rate * rise / (math.sqrt(square / (1 - DECAY**seen)) + 1e-30)
    moved = min(moved, log_step + math.log(max_steps / 2))
    weight = time**-0.5
    average = weight * moved + (1 - weight) * climb.average
    return climb._replace(log_length=moved, square=square, average=average, time=time, seen=seen, log_step=log_step)
