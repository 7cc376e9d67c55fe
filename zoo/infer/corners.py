"""The corners of a function of many coordinates: zeros at which its slope jumps, as under a Laplace prior.

    0 is the minimum along x_i   if   df/dx_i (0-) < 0 < df/dx_i (0+)

A descent by gradients comes near such zeros and stalls there: each step across one turns its slope round. So they
are set to 0 and held, the descent goes on in all other coordinates, where f is smooth, and so on until the set of
zeros stays. One that is held in vain is let go; f falls from round to round.

Source: Andrew & Gao 2007, section 3.2 (the same question of which zeros to leave).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .lbfgs import Descent, Function

NEAR = 1e-6  # a coordinate that stalled at a corner is closer to 0
STEP = 1e-7  # where the slopes of both sides are looked at
JUMP = 1e-2  # a smaller difference of them is none
CLOSER = 1e-3  # at this share of the step a jump is still there, where curvature's difference is gone
ROUNDS = 50


def settle(
    function: Function,
    slopes: Callable[[Tensor], Tensor],
    ended: Descent,
    alive: Tensor,
    descend: Callable[..., Descent],
) -> Descent:
    """Ends a descent at corners, with zeros that are 0.

    Args:
        function: x (row, dim) -> values (row,), gradients (row, dim).
        slopes: The gradients alone, of any number of rows.
        ended: Where the descent ended.
        alive: Rows to look at, (row,).
        descend: `lbfgs`, or another with its arguments.
    """
    x, best, held = ended.x, ended, torch.zeros_like(ended.x, dtype=torch.bool)
    for _ in range(ROUNDS):
        corner = _corners(slopes, x, (x.abs() <= NEAR) & alive.unsqueeze(-1))
        if bool((corner == held).all()):
            return best
        held = corner
        fixed = held | ~alive.unsqueeze(-1)
        found = descend(_without(function, fixed), x.masked_fill(held, 0.0))
        x = torch.where(alive.unsqueeze(-1), found.x, x)
        f, grad = function(x)
        rested = torch.where(alive, found.rested, ended.rested)
        best = Descent(x, f, grad, rested, best.iterations + found.iterations)
    return best


def _without(function: Function, fixed: Tensor) -> Function:
    """The function of the other coordinates alone: no slope along the fixed ones."""

    def free(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = function(x)
        return value, grad.masked_fill(fixed, 0.0)

    return free


def _corners(slopes: Callable[[Tensor], Tensor], x: Tensor, near: Tensor) -> Tensor:
    """Which of the coordinates near 0 have a minimum with a jump of the slope there, (row, dim)."""
    found = torch.zeros_like(near)
    at = x.masked_fill(near, 0.0)
    for row in near.any(-1).nonzero()[:, 0].tolist():
        which = near[row].nonzero()[:, 0]
        sides = [_sides(slopes, at[row], which, step) for step in (STEP, CLOSER * STEP)]
        minimum = torch.stack([(low < 0) & (high > 0) & (high - low > JUMP) for low, high in sides]).all(0)
        (far_low, far_high), (low, high) = sides
        found[row, which] = minimum & (high - low > 0.5 * (far_high - far_low))
    return found


def _sides(slopes: Callable[[Tensor], Tensor], at: Tensor, which: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """df/dx_i a step below and above a point, for each coordinate i of `which`."""
    aside = torch.zeros(len(which), len(at), dtype=at.dtype, device=at.device)
    aside[torch.arange(len(which)), which] = step
    low, high = (slopes(at + side * aside).gather(1, which.unsqueeze(-1))[:, 0] for side in (-1, 1))
    return low, high
