"""Metropolis-Hastings that accepts by a minibatch: wrong, to be seen wrong. `mh` is the right one.

    q' = q + e D z;    accepted with probability min(1, p_S(q') / p_S(q)),
    log p_S(q) = (N / M) sum_{j in S} log p(y_j | q) + log p(q)

The estimate of the log ratio is unbiased, its exponential and the min are not: the noise accepts too often where it
should refuse, and the law is wider than the posterior. How wide depends on the noise, (N^2 / M) times the variance of
the rows' log ratios.

Source: Ambrogioni, "Metropolis-Hastings on minibatches"; Bardenet, Doucet & Holmes 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, batch_noise, one_step, or_infinite, where
from zoo.infer.kernels import mh
from zoo.infer.kernels.mh import State, first_step, init, log_ratio, position_of
from zoo.infer.mass import Mass, spread

__all__ = ["STATS", "TARGET_ACCEPT", "State", "first_step", "init", "position_of", "setup", "step"]

TARGET_ACCEPT = mh.TARGET_ACCEPT
STATS = ("accept",)
BIASED = "acceptance by a minibatch samples a wider law than the posterior: use 'mh' or 'mala' on all rows"


def setup(dim: int, *, batch_size: int = 10, sampling: str = "epochs") -> Setup:
    """Noise and batches.

    Args:
        dim: Number of coordinates.
        batch_size: M.
        sampling: As for `sgld`.
    """
    right = mh.setup(dim)
    return right._replace(noise={**right.noise, **batch_noise(batch_size, sampling)}, biased=BIASED)


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
) -> tuple[State, Draw]:
    """One proposal of every chain; both ends are scored on the same rows, "rows" (iteration, chain, M) of the noise."""
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["uniform"].shape[0] - 1)
    active = s.completed < stop
    rows = noise["rows"][index, row]
    position = s.position + step_size * spread(noise["proposal"][index, row], mass)
    old, new = value_and_grad(s.position, rows)[0], value_and_grad(position, rows)[0]
    chance = (-or_infinite(-log_ratio(old, new))).clamp(max=0).exp()
    take = active & (noise["uniform"][index, row] < chance)
    s = State(where(take, position, s.position), torch.where(take, new, old), s.completed + active)
    return s, one_step(active, s.completed, s.position, s.lp, chance, ~active & active, -s.lp)
