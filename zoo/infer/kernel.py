"""What a kernel is: pure functions over positions (chain, dim), driven by one loop.

A kernel file holds
    TARGET_ACCEPT             the acceptance its step size is tuned to
    shapes(dim, max_depth)    {name: ("normal" | "uniform", shape of one iteration of one chain)}: its noise
    constants(max_depth)      {name: tensor}: further arguments of `step`
    init(position, lp, grad, max_depth) -> State
    position_of(state)        the chains' present positions (chain, dim)
    step(state, value_and_grad, noise, *, step_size, inverse_mass, stop, **constants) -> (State, Draw)
State is a flat NamedTuple of tensors with a leading chain axis, one of them `completed`. A call of `step` moves
every chain that has completed fewer than `stop` iterations of the current block by one unit of work (an iteration;
for NUTS one leapfrog step), so chains need not wait for each other. Randomness comes in as `noise`: one block of
iterations, (iteration, chain, ...).
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
