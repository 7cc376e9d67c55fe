"""Drives a kernel's `step` on targets whose density is a formula, and keeps every point that it visits.

Chains of several step sizes run side by side, although a kernel has one for all of them: a step of size e on p(q)
is a step of size 1 on p(e z) in the coordinates z = q / e,

    leapfrog    z + p + grad_z lp(e z) / 2,   times e:   q + e p + (e^2 / 2) grad lp(q)

and likewise with e = sqrt(h) where a kernel's formula has h in front of the gradient and sqrt(h) before the noise.
Ratios of densities, kinetic energies and so acceptance are the same in z.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.infer.kernel import Draw, Setup
from zoo.infer.mass import Mass, unit
from zoo.infer.noise import BLOCK, noise_block
from zoo.infer.threads import running_on

Array = NDArray[Any]
Columns = tuple[Tensor, ...]


class Record(NamedTuple):
    """One chain as it ran.

    Attributes:
        draws: (draw + 1, 2) where it began and its draws; a refused proposal repeats the draw before it.
        visited: (draw,) how many points each iteration visited.
        path: (sum of visited, 2) these points, in the order visited; the last of an iteration is its proposal
            (`nuts` takes any of them).
        error: (sum of visited,) their energy errors.
        forward: (sum of visited,) whether the point was reached forwards in time.
        chance: (draw,) acceptance statistic in [0, 1].
    """

    draws: Array
    visited: Array
    path: Array
    error: Array
    forward: Array
    chance: Array


class _Density:
    """Log densities of chains, each with a target and a scale of its own; remembers what it was asked last."""

    def __init__(self, targets: Sequence[Any], scale: Tensor) -> None:
        self.targets, self.scale = targets, scale
        self.last: tuple[Tensor, Tensor, Tensor]

    def __call__(self, z: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z (chain, 2) -> log p(scale z) (chain,) and its gradient in z (chain, 2), by autograd."""
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            q = z * self.scale
            lp = q.new_zeros(len(q))
            for target in dict.fromkeys(self.targets):
                own = torch.tensor([other is target for other in self.targets])
                lp = torch.where(own, target.log_density(q), lp)
            (grad,) = torch.autograd.grad(lp.sum(), z)
        self.last = (z.detach(), lp.detach(), grad)
        return self.last[1:]


def setup_of(sampler: Any, length: int) -> Setup:
    """The kernel's setup for two coordinates and step size 1; a trajectory takes exactly `length` steps, if any."""
    setup: Setup = sampler.kernel.setup(2, **sampler.OPTIONS)
    if "length" not in setup.tuned:
        return setup
    fixed = {**setup.constants, "jitter": torch.zeros_like(setup.constants["jitter"])}
    return setup._replace(tuned={**setup.tuned, "length": float(length)}, constants=fixed)


def _reached(sampler: Any, old: Any, new: Any, draw: Draw, asked: tuple[Tensor, Tensor, Tensor], mass: Mass) -> Columns:
    """The point (chain, 2) that one call of `step` reached, and its energy error (chain,)."""
    if not hasattr(sampler, "error"):
        return draw.position, 0 * asked[1]
    error = torch.nan_to_num(sampler.error(old, new, asked, mass), nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    return asked[0], error


def _calls(
    sampler: Any, setup: Setup, density: _Density, start: Tensor, draws: int, seeds: Sequence[int]
) -> Iterator[Columns]:
    """What each call of `step` did, (chain, ...): iteration, active, point, error, forward, done, draw, chance."""
    start = start / density.scale
    one, mass = start.new_tensor(1.0), unit(start[0])
    state = sampler.kernel.init(start, *density(start), setup.constants)
    for first in range(0, draws, BLOCK):
        # Each chain's noise from its own seed alone.
        parts = [noise_block(setup.noise, seed=s, block=first // BLOCK, chains=1, like=start) for s in seeds]
        noise = {name: torch.cat([part[name] for part in parts], 1) for name in setup.noise}
        tuned = {name: start.new_tensor(first if name == "clock" else value) for name, value in setup.tuned.items()}
        stop = torch.tensor(min(BLOCK, draws - first))
        state = state._replace(completed=torch.zeros_like(state.completed))
        while bool((state.completed < stop).any()):
            old = state
            state, draw = sampler.kernel.step(
                old, density, noise, step_size=one, mass=mass, stop=stop, **tuned, **setup.constants
            )
            point, error = _reached(sampler, old, state, draw, density.last, mass)
            forward = getattr(state, "forward", torch.ones_like(draw.done))
            active, iteration = old.completed < stop, old.completed + first
            yield iteration, active, point, error, forward, draw.done, draw.position, draw.accept


def _of_chain(start: Array, columns: Sequence[Array], draws: int, scale: float) -> Record:
    """The record of one chain from its columns (call, ...) of `_calls`."""
    iteration, active, point, error, forward, done, position, chance = columns
    return Record(
        draws=np.concatenate([start[None], scale * position[done]]),
        visited=np.bincount(iteration[active], minlength=draws),
        path=scale * point[active],
        error=error[active],
        forward=forward[active],
        chance=chance[done],
    )


def record(
    sampler: Any,
    targets: Sequence[Any],
    sizes: Sequence[float],
    length: int,
    *,
    draws: int,
    seeds: Sequence[int],
    start: Array | None = None,
) -> list[Record]:
    """Runs chains side by side.

    Args:
        sampler: A file of `samplers`.
        targets: Each chain's file of `targets`.
        sizes: Each chain's step size.
        length: Steps of a trajectory, where the sampler leaves it open.
        draws: Iterations.
        seeds: Each chain's seed; what the other chains do changes nothing for it.
        start: Each chain's beginning (chain, 2); None: that of its target.
    """
    steps = [size**0.5 if sampler.SIZE == "h" else size for size in sizes]
    density = _Density(targets, torch.tensor(steps, dtype=torch.float64)[:, None])
    starts = np.array([target.START for target in targets], dtype=np.float64) if start is None else start
    with running_on(1):
        calls = list(_calls(sampler, setup_of(sampler, length), density, torch.from_numpy(starts), draws, seeds))
    columns = [torch.stack(column).numpy() for column in zip(*calls, strict=True)]
    return [_of_chain(starts[i], [column[:, i] for column in columns], draws, steps[i]) for i in range(len(targets))]
