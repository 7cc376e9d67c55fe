"""What a kernel is: pure functions over positions (chain, dim), driven by one loop.

A kernel file holds
    TARGET_ACCEPT                       the acceptance its step size is tuned to
    STATS                               which fields of `Draw` mean something for it
    CHAINS, LEAST_CHAINS                optional: its usual and its smallest number of chains (4 and 1)
    setup(dim, *, own options)          -> Setup: its noise, constants and further tuned numbers; refuses bad options
    init(position, lp, grad, constants) -> State
    position_of(state)                  the chains' present positions (chain, dim)
    step(state, value_and_grad, noise, *, step_size, mass, stop, **tuned, **constants) -> (State, Draw)
    tune(...), mean_accept(accept)      optional, see `zoo.infer.warmup`
State is a flat NamedTuple of tensors with a leading chain axis, one of them `completed`. A call of `step` moves
every chain that has completed fewer than `stop` iterations of the current block by one unit of work (a leapfrog
step), so chains need not wait for each other. Randomness comes in as `noise`: one block of iterations,
(iteration, chain, ...).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Setup(NamedTuple):
    """What a kernel needs beside the density.

    Attributes:
        noise: {name: ("normal" | "uniform" | "sequence", shape of one iteration of one chain)}.
        constants: {name: tensor}, further arguments of `step`.
        tuned: {name: number}, further arguments of `step` that warm-up may change.
    """

    noise: dict[str, tuple[str, tuple[int, ...]]]
    constants: dict[str, Tensor]
    tuned: dict[str, float]


class Draw(NamedTuple):
    """What the chains that completed an iteration in this call produced; rows of the others mean nothing.

    Attributes:
        done: (chain,) whether this chain completed an iteration.
        iteration: (chain,) which iteration of the block that was. No field may be a tensor of the old state itself
            (the compiled engine writes the new state over it).
        position, lp: (chain, dim), (chain,) the new state and its log density.
        energy: (chain,) potential + kinetic energy of the new state, with the momentum it was reached with.
        accept: (chain,) acceptance statistic in [0, 1], for tuning the step size.
        depth, steps: (chain,) tree depth and number of leapfrog steps.
        diverging: (chain,) whether the energy error passed the limit.
    """

    done: Tensor
    iteration: Tensor
    position: Tensor
    lp: Tensor
    energy: Tensor
    accept: Tensor
    depth: Tensor
    steps: Tensor
    diverging: Tensor


def where(mask: Tensor, new: Any, old: Tensor) -> Tensor:
    """`new` for the chains of the mask (chain,), `old` for the others; any trailing axes."""
    return torch.where(mask.reshape(-1, *[1] * (old.dim() - 1)), new, old)
