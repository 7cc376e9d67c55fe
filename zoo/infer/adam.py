"""Adam as a pure function, and the learning rate that `svi` gives it.

    m' = b1 m + (1 - b1) g,   v' = b2 v + (1 - b2) g^2
    x' = x + lr (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + eps)        (uphill: g is the gradient to follow)

Source: Kingma & Ba 2015, algorithm 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

B1, B2, EPS = 0.9, 0.999, 1e-8


class Pace(NamedTuple):
    """What changes from step to step and is not data: learning rate, 1 - b1^t, 1 - b2^t; tensors (step,)."""

    lr: Tensor
    first: Tensor
    second: Tensor


def adam(x: Tensor, m: Tensor, v: Tensor, grad: Tensor, pace: Pace) -> tuple[Tensor, Tensor, Tensor]:
    """One step uphill; `pace` holds scalars. Returns x', m', v'."""
    m = B1 * m + (1 - B1) * grad
    v = B2 * v + (1 - B2) * grad * grad
    return x + pace.lr * (m / pace.first) / ((v / pace.second).sqrt() + EPS), m, v


def schedule(steps: int, lr: float, like: Tensor) -> Pace:
    """Constant for the first half of the steps, then half a cosine down to lr / 100.

    Adam's own jitter does not shrink while lr stands; the tail brings it below the noise of the estimates.
    """
    rates = [lr * (0.01 + 0.99 * (1 + math.cos(math.pi * _late(t, steps))) / 2) for t in range(steps)]
    first = [1 - B1 ** (t + 1) for t in range(steps)]
    second = [1 - B2 ** (t + 1) for t in range(steps)]
    return Pace(*(torch.tensor(v, dtype=torch.float64).to(like) for v in (rates, first, second)))


def _late(t: int, steps: int) -> float:
    """How far step t is into the second half, 0 to 1."""
    half = steps / 2
    return max(0.0, (t + 1 - half) / half)
