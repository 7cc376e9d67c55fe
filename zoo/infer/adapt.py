"""Warm-up: step size by dual averaging, diagonal mass in windows, both shared by all chains."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from .density import Density
from .kernel import or_infinite
from .leapfrog import leapfrog
from .mass import Mass, kinetic, momentum

# Chains x coordinates x rows up to which a gradient's cost is its call's.
AT_ONCE = 2**22
LONGEST = 8


class DualAveraging(NamedTuple):
    """State of dual averaging on log step size.

    H_t = (1 - 1/(t + 10)) H_{t-1} + (target - accept_t) / (t + 10)
    log e_t = mu - sqrt(t) / .05 H_t,    log e_bar_t = t^-.75 log e_t + (1 - t^-.75) log e_bar_{t-1}

    mu = log(10 e_0) of a step size e_0 that is a guess, since small ones are dear; log e_0 of one that was learned.

    Source: Hoffman & Gelman 2014, section 3.2 (gamma = .05, t0 = 10, kappa = .75, mu = log(10 e_0)).
    """

    mu: float
    time: int = 0
    error: float = 0.0
    log_step: float = 0.0
    log_average: float = 0.0


def restart(step_size: float, boldness: float = 10.0) -> DualAveraging:
    """Dual averaging that begins at a step size, and tries some `boldness` times as large ones."""
    return DualAveraging(mu=math.log(boldness * step_size), log_step=math.log(step_size))


def update(state: DualAveraging, accept: float, target: float) -> DualAveraging:
    """One step of dual averaging after iterations with mean acceptance statistic `accept`."""
    time = state.time + 1
    error = state.error + (target - accept - state.error) / (time + 10)
    log_step = state.mu - math.sqrt(time) / 0.05 * error
    weight = time**-0.75
    return DualAveraging(state.mu, time, error, log_step, weight * log_step + (1 - weight) * state.log_average)


def now(state: DualAveraging) -> float:
    """The step size to use next."""
    return math.exp(min(max(state.log_step, -50.0), 50.0))


def average(state: DualAveraging) -> float:
    """The averaged step size, to keep after warm-up."""
    return math.exp(min(max(state.log_average, -50.0), 50.0))


def pooled(accept: Tensor, recent: Tensor) -> tuple[float, Tensor]:
    """The acceptance to tune to, of all chains, and each chain's recent one.

    The mean over chains, but at most four times that of the chain that moves least: a mean of .8 is also that of
    16 chains of which three stand still for ever, at a step size that is too large for where they are.

    Args:
        accept: (chain, iteration) acceptance statistics, float64.
        recent: (chain,) averages so far, decaying over some 20 iterations; ones to begin with.
    """
    values = []
    for one in accept.unbind(1):
        recent = recent + 0.05 * (one - recent)
        values.append(min(float(one.mean()), 4 * float(recent.min())))
    return sum(values) / len(values), recent


class Spread(NamedTuple):
    """Running mean and sum of squared deviations of each chain, (chain, dim), in float64."""

    seen: int
    mean: Tensor
    squares: Tensor


def no_spread(like: Tensor, chains: int) -> Spread:
    """Nothing seen yet; `like` is (dim,)."""
    zero = torch.zeros(chains, *like.shape, dtype=torch.float64, device=like.device)
    return Spread(0, zero, zero)


def add(spread: Spread, positions: Tensor) -> Spread:
    """More positions of every chain, (chain, iteration, dim).

    Source: Chan, Golub & LeVeque 1983 (sums of squares of two parts as those of the whole).
    """
    more, count = positions.double(), positions.shape[1]
    seen, mean = spread.seen + count, more.mean(1)
    delta = mean - spread.mean
    squares = ((more - mean[:, None]) ** 2).sum(1) + delta**2 * (spread.seen * count / seen)
    return Spread(seen, spread.mean + delta * (count / seen), spread.squares + squares)


def scale(spread: Spread, before: Tensor) -> Tensor:
    """The sds of a diagonal mass (dim,), M^-1 = diag(scale^2): variances within chains, pooled and shrunk.

    v = n / (n + 5) * mean over chains of var + 1e-3 * 5 / (n + 5) * before^2, n draws of all chains, before = 1 in the
    first window as in Stan. Later windows shrink to what is known by then: to 1e-3 itself they would hold weights of
    sd .001 back at .004. Within chains: chains in different modes (a net's units permuted) must not inflate the scale
    each of them moves on.
    """
    chains = spread.mean.shape[0]
    n = spread.seen * chains
    variance = spread.squares.sum(0) / max(n - chains, 1)
    return (n / (n + 5) * variance + 1e-3 * 5 / (n + 5) * before.double() ** 2).sqrt().to(before)


def windows(warmup: int) -> tuple[int, set[int]]:
    """When the mass matrix is learned: after the first number of iterations, renewed at each of the others.

    1,000 iterations: 75 to settle, windows of 25, 50, 100, 200 and 500, and 50 for the step size alone. Shorter
    warm-ups than 150 settle for 15 %, learn in one window, keep 10 % at the end; below 20 the mass stays 1.

    Source: the Stan reference manual, "HMC algorithm parameters".
    """
    if warmup < 20:
        return warmup, set()
    first, last = (75, 50) if warmup >= 150 else (int(0.15 * warmup), int(0.1 * warmup))
    stop, width, at = warmup - last, 25 if warmup >= 150 else warmup, first
    ends = set()
    while at < stop:
        # A window whose successor, twice as long, would not fit takes all that is left.
        at = at + width if at + 3 * width <= stop else stop
        ends.add(at)
        width *= 2
    return first, ends


def stride(done: int, since: int, ends: Iterable[int]) -> int:
    """How many iterations chains may do before what they taught is learned, all at one step size.

    One at first; later a quarter of those since the step size was begun anew, at most 8, since it changes the less the
    more it has seen: a mean of 8 acceptances teaches what 8 did, chains need not wait for each other's deepest tree at
    each of them, and nor for Python. Ends where anything else begins.

    Args:
        done: Iterations of warm-up done.
        since: Those since the step size was begun anew.
        ends: Iterations that none may go beyond.
    """
    return min([max(1, min(since // 4, LONGEST)), *(end - done for end in ends if end > done)])


def reasonable_step(density: Density, position: Tensor, mass: Mass, normal: Tensor, start: float) -> float:
    """A step size at which one leapfrog step is accepted with mean probability near .8, by doubling or halving.

    Of a small model a gradient's cost is its call's, however many rows it has: then several sizes are tried at once.

    Args:
        density: The density.
        position: (chain, dim).
        mass: M.
        normal: Standard normals (chain, dim).
        start: The step size to begin with.
    """
    lp, grad = density.value_and_grad(position)
    at = torch.stack([position, momentum(normal, mass), grad], 1)
    before, known = -lp + kinetic(at[:, 1], mass), dict[float, bool]()
    at_once = 3 if density.engine == "eager" and position.numel() * density.sites.rows <= AT_ONCE else 1

    def small(size: float, others: tuple[float, ...]) -> bool:
        if size not in known:
            sizes = [size, *others][:at_once]
            known.update(zip(sizes, _accepted(density, at, before, mass, sizes), strict=True))
        return known[size]

    up = small(start, (start / 2, start * 2))
    size = start
    for _ in range(60):
        following = size * 2 if up else size / 2
        # Upwards one by one: some way beyond what is accepted a model may fail.
        if small(following, () if up else (following / 2, following / 4)) != up:
            return size if up else following
        size = following
    return size


def _accepted(density: Density, at: Tensor, before: Tensor, mass: Mass, sizes: list[float]) -> list[bool]:
    """If steps of each size from `at` (chain, 3, dim), of energies `before`, are accepted with over .8 on average."""
    each = at.new_tensor(sizes).repeat_interleave(len(at))[:, None]
    new, lp = leapfrog(at.repeat(len(sizes), 1, 1), density.value_and_grad, each, mass)
    error = or_infinite(-lp + kinetic(new[:, 1], mass) - before.repeat(len(sizes)))
    chance = (-error).clamp(max=0).exp().reshape(len(sizes), -1)
    return [mean > 0.8 for mean in chance.mean(1).tolist()]
