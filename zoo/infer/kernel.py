"""What a kernel is: pure functions over positions (chain, dim), driven by one loop.

A kernel file holds
    TARGET_ACCEPT                       the acceptance its step size is tuned to; None: it has none
    STATS                               which fields of `Draw` mean something for it
    CHAINS, LEAST_CHAINS                optional: its usual and its smallest number of chains (4 and 1)
    WAY_IN                              optional: the kernel that begins its warm-up, far from where the mass is
    setup(dim, *, own options)          -> Setup: its noise, constants and further tuned numbers; refuses bad options
    init(position, lp, grad, constants) -> State
    position_of(state)                  the chains' present positions (chain, dim)
    step(state, value_and_grad, noise, *, step_size, mass, stop, **tuned, **constants) -> (State, Draw)
    first_step(size, dim, share)        optional: a step size to begin with, from a leapfrog step size that works
                                        and the share M / n of the rows that a batch has
    tune(...), mean_accept(accept)      optional, see `zoo.infer.warmup`
    settle(state, gradient, tuned, mass, constants)
                                        optional: the state that sampling begins with, after warm-up;
                                        gradient(position) gives a new batch's gradient each time
    weights(t, tuned, constants)        optional: weights of the draws after t = 1, 2, ... iterations
State is a flat NamedTuple of tensors with a leading chain axis, one of them `completed`. A call of `step` moves
every chain that has completed fewer than `stop` iterations of the current block by one unit of work (a leapfrog
step), so chains need not wait for each other. Randomness comes in as `noise`: one block of iterations,
(iteration, chain, ...); minibatches too, as rows: `value_and_grad(position, rows)`. A tuned number called `clock`
holds how many iterations of sampling lie before the block (0 in warm-up).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .subsample import SAMPLING

ValueAndGrad = Callable[..., tuple[Tensor, Tensor]]


class Setup(NamedTuple):
    """What a kernel needs beside the density.

    Attributes:
        noise: {name: (kind, shape of one iteration of one chain)}, see `zoo.infer.noise`.
        constants: {name: tensor}, further arguments of `step`.
        tuned: {name: number}, further arguments of `step` that warm-up may change.
        target: The acceptance to tune to, where it depends on dim or options.
        biased: Why its draws are not from the posterior, however long it runs; "" if they are.
    """

    noise: dict[str, tuple[str, tuple[int, ...]]]
    constants: dict[str, Tensor]
    tuned: dict[str, float]
    target: float | None = None
    biased: str = ""


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
        rise: (chain,) what a trajectory tells of how long trajectories should be, see `zoo.infer.kernels.chees`; 0 of a
            kernel that does not learn that.
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
    rise: Tensor


def one_step(
    active: Tensor, completed: Tensor, position: Tensor, lp: Tensor, accept: Tensor, diverging: Tensor, energy: Tensor
) -> Draw:
    """The draw of a kernel whose every call completes an iteration of the active chains.

    Args:
        active: (chain,) which chains moved.
        completed: (chain,) iterations completed, this one included.
        position, lp, accept, diverging, energy: As in `Draw`.
    """
    none = torch.zeros_like(completed)
    return Draw(
        active.clone(), completed - 1, position.clone(), lp.clone(), energy.clone(), accept.clone(), none, none + 1,
        diverging.clone(), torch.zeros_like(lp),
    )  # fmt: skip


def batch_noise(batch_size: int | None, sampling: str, each: tuple[int, ...] = ()) -> dict[str, Any]:
    """The noise "rows" of a kernel that works on minibatches, {} where it uses all rows.

    Args:
        batch_size: M, or None.
        sampling: "epochs" (shuffled, every row once an epoch: neighbouring batches are negatively correlated) or
            "replacement" (rows drawn independently: gradient noise n^2 / M times the rows' variance).
        each: Leading shape: how many batches one iteration needs.

    Raises:
        ValueError: For an unknown way of sampling.
    """
    if sampling not in SAMPLING:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLING)}, got {sampling!r}.")
    return {} if batch_size is None else {"rows": (sampling, (*each, batch_size))}


def number(name: str, value: Any, low: float, high: float, usual: str) -> float:
    """An option that must be a number with low < value <= high.

    Raises:
        ValueError: If it is not.
    """
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and low < value <= high
    if not right:
        limits = f"above {low:g}" + (f", at most {high:g}" if high < float("inf") else "")
        raise ValueError(f"{name} must be a number {limits}, got {value!r}. Usual: {usual}.")
    return float(value)


def or_infinite(error: Tensor) -> Tensor:
    """An energy error, +inf where it is no finite number: such a point, lp = +inf among them, is refused from any."""
    # Told apart one by one: nan_to_num makes the largest finite number of an inf that it is told nothing of.
    return torch.nan_to_num(error, nan=torch.inf, posinf=torch.inf, neginf=torch.inf)


def where(mask: Tensor, new: Any, old: Tensor) -> Tensor:
    """`new` for the chains of the mask (chain,), `old` for the others; any trailing axes."""
    return torch.where(mask.reshape(-1, *[1] * (old.dim() - 1)), new, old)
