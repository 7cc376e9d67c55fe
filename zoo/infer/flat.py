"""Maxima that are not single: a line through two of them along which the density does not change.

A common shift of all classes' weights changes no softmax, so that under a flat prior every point of a line is as
probable as any other. Where a climb then ends is where it began, and says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .density import Density

APART = 0.05  # nearer ends are one maximum
LEVEL = 1e-7  # nats between points of a line that is called flat


def flat_directions(
    target: Density, position: Tensor, value: Tensor, among: Sequence[int], jacobian: bool
) -> list[str]:
    """The sites that can move together without any change of the density, as two of the ends show.

        |log pi(u_r + t (u_s - u_r)) - log pi(u_r)| < 1e-7    for t = -1, 1/2, 1, 2

    Args:
        target: The density.
        position: Where each restart ended, (restart, dim).
        value: Its log density there, (restart,).
        among: Restarts that ended at a maximum.
        jacobian: As in the climb.

    Returns:
        Names, () where every end is a single maximum.
    """
    for s in among[1:]:
        r, step = among[0], position[s] - position[among[0]]
        if float(step.abs().max()) < APART:
            continue
        line = torch.stack([position[r] + t * step for t in (-1.0, 0.5, 1.0, 2.0)])
        if bool(((target.log_prob(line, jacobian) - value[r]).abs() < LEVEL).all()):
            least = 0.01 * float(step.abs().max())
            return [b.name for b in target.blocks if float(step[b.start : b.stop].abs().max()) > least]
    return []
