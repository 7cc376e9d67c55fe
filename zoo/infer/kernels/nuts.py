"""NUTS: the no-U-turn sampler, multinomial, iterative, all chains in one tensor function.

Leapfrog of step e on H(q, p) = -lp(q) + p^T M^-1 p / 2:
    p <- p + (e/2) grad lp(q);    q <- q + e M^-1 p;    p <- p + (e/2) grad lp(q)
A trajectory doubles forward or backward in time with probability 1/2 each. Within the new half a leaf replaces the
half's candidate with probability w / (sum of w so far), w = exp(H_0 - H); the half's candidate replaces the draw
with probability min(1, W_new / W_old), W sums of w. Doubling ends at a U-turn of any aligned sub-tree, with
    rho = sum of p - (p_first + p_last) / 2,    U-turn: rho^T M^-1 p_first <= 0 or rho^T M^-1 p_last <= 0,
at depth `max_depth`, or where H - H_0 > 1000 (divergence); a half that U-turned or diverged is dropped whole.

Sub-trees are checked against O(max_depth) stored momenta instead of by recursion: leaf n (from 0) of a half is
stored, if n is even, in slot popcount(n), and, if n is odd, checked against the slots of the aligned sub-trees
that end at n. One uniform number serves a whole half: after each comparison it is rescaled to be uniform again.

Source: Ambrogioni II, "Hamiltonian Monte Carlo"; Hoffman & Gelman 2014; Betancourt 2017 (multinomial, rho);
Phan, Pradhan & Jankowiak 2019 (iterative).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad, or_infinite, where
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import Mass, kinetic, velocity
from zoo.infer.mass import momentum as momentum_of

TARGET_ACCEPT = 0.8
STATS = ("lp", "energy", "accept", "depth", "steps", "diverging")
MAX_ENERGY_ERROR = 1000.0


class State(NamedTuple):
    """The chains, each somewhere inside its current trajectory. Scalars are float64, counters int64.

    Tensors are packed, since a compiled graph's cost grows with the number of its tensors.

    Attributes:
        best, best_e: (chain, 2, dim), (chain, 2): the draw so far: position and gradient; lp and energy.
        half, half_e: The same of the half being built.
        ends: (chain, 2, 3, dim): the trajectory's backward and forward end, each position, momentum, gradient.
        at: (chain, 3, dim): the end that is being extended.
        sums: (chain, 2, dim): sums of momenta of the trajectory and of the half.
        weights: (chain, 2): log sums of exp(H_0 - H) of the trajectory and of the half.
        kept: (chain, max_depth, 2, dim): stored leaves: their momentum, and the half's sum up to them.
        energy_0: (chain,) H_0.
        uniform: (chain,) the half's uniform number.
        accept, steps: (chain,) sum of min(1, exp(H_0 - H)) and number of leaves of this trajectory.
        depth, leaf: (chain,) completed doublings; number of the half's next leaf.
        forward: (chain,) direction of the half.
        fresh: (chain,) whether the chain stands between two trajectories.
        completed: (chain,) iterations completed in this block.
    """

    best: Tensor
    best_e: Tensor
    half: Tensor
    half_e: Tensor
    ends: Tensor
    at: Tensor
    sums: Tensor
    weights: Tensor
    kept: Tensor
    energy_0: Tensor
    uniform: Tensor
    accept: Tensor
    steps: Tensor
    depth: Tensor
    leaf: Tensor
    forward: Tensor
    fresh: Tensor
    completed: Tensor


def setup(dim: int, *, max_depth: int = 10) -> Setup:
    """Noise and constants: the momentum; direction, leaf and half choices of each doubling.

    Args:
        dim: Number of coordinates.
        max_depth: At most 2^max_depth - 1 leapfrog steps a draw, 1 to 15.
    """
    if isinstance(max_depth, bool) or not isinstance(max_depth, int) or not 1 <= max_depth <= 15:
        raise ValueError(f"max_depth must be a whole number from 1 to 15, got {max_depth!r}. Usual: 10.")
    noise = {"momentum": ("normal", (dim,)), "choice": ("uniform", (max_depth, 3))}
    return Setup(noise, {"slots": leaf_slots(max_depth)}, {})


def init(position: Tensor, lp: Tensor, grad: Tensor, constants: dict[str, Tensor]) -> State:
    """Chains at rest at positions (chain, dim) with their log densities (chain,) and gradients (chain, dim)."""
    chains, dim = position.shape
    max_depth = len(constants["slots"]).bit_length() - 1
    best = torch.stack([position, grad], 1)
    at = torch.stack([position, torch.zeros_like(position), grad], 1)
    pair = torch.stack([lp, torch.zeros_like(lp)], 1)
    nothing = torch.zeros_like(lp)
    none = torch.zeros(chains, dtype=torch.int64, device=position.device)
    yes = torch.ones(chains, dtype=torch.bool, device=position.device)
    return State(
        best=best, best_e=pair, half=best, half_e=pair, ends=torch.stack([at, at], 1), at=at,
        sums=torch.zeros_like(best), weights=torch.zeros_like(pair), kept=position.new_zeros(chains, max_depth, 2, dim),
        energy_0=nothing, uniform=nothing, accept=nothing, steps=none, depth=none, leaf=none,
        forward=yes, fresh=yes, completed=none,
    )  # fmt: skip


def position_of(state: State) -> Tensor:
    """The chains' present positions (chain, dim)."""
    return state.best[:, 0]


def turning(rho: Tensor, first: Tensor, last: Tensor, mass: Mass) -> Tensor:
    """The U-turn criterion of the module's docstring; rho (..., dim) the plain sum of momenta."""
    along = velocity(rho - (first + last) / 2, mass)
    return ((along * first).sum(-1) <= 0) | ((along * last).sum(-1) <= 0)


def _begin(s: State, momentum: Tensor, mass: Mass, starting: Tensor) -> State:
    """Draws momenta for the chains that start a trajectory."""
    p = momentum_of(momentum, mass)
    energy = -s.best_e[:, 0] + kinetic(p, mass)
    end = torch.stack([s.best[:, 0], p, s.best[:, 1]], 1)
    return s._replace(
        ends=where(starting, end[:, None], s.ends),
        sums=where(starting, p[:, None], s.sums),
        weights=where(starting, 0.0, s.weights),
        best_e=where(starting, torch.stack([s.best_e[:, 0], energy], 1), s.best_e),
        energy_0=where(starting, energy, s.energy_0),
        accept=where(starting, 0.0, s.accept),
        steps=where(starting, 0, s.steps),
        depth=where(starting, 0, s.depth),
        leaf=where(starting, 0, s.leaf),
        fresh=s.fresh & ~starting,
    )


def _begin_half(s: State, choice: Tensor) -> State:
    """Chains at leaf 0 choose a direction and start from that end. choice (chain, 3): this doubling's numbers."""
    starting = ~s.fresh & (s.leaf == 0)
    forward = where(starting, choice[:, 0] < 0.5, s.forward)
    end = where(forward, s.ends[:, 1], s.ends[:, 0])
    empty = torch.stack([s.sums[:, 0], torch.zeros_like(s.sums[:, 0])], 1)
    weights = torch.stack([s.weights[:, 0], torch.full_like(s.weights[:, 0], -torch.inf)], 1)
    return s._replace(
        forward=forward,
        at=where(starting, end, s.at),
        sums=where(starting, empty, s.sums),
        weights=where(starting, weights, s.weights),
        uniform=where(starting, choice[:, 1], s.uniform),
    )


def _add_leaf(s: State, at: Tensor, lp: Tensor, mass: Mass, active: Tensor) -> tuple[State, Tensor]:
    """Adds the leaf `at` to the half: its weight, the multinomial choice; also returns who diverged."""
    energy = -lp + kinetic(at[:, 1], mass)
    error = or_infinite(energy - s.energy_0)
    weight = torch.where(torch.isfinite(error), -error, -torch.inf)
    total = torch.logaddexp(s.weights[:, 1], weight)
    chance = torch.where(weight == -torch.inf, 0.0, (weight - total).exp())
    take = s.uniform < chance
    # Given the comparison's result the number is uniform on what is left; rescaled it serves the next leaf.
    rest = torch.where(take, s.uniform / chance, (s.uniform - chance) / (1 - chance))
    return s._replace(
        at=where(active, at, s.at),
        half=where(active & take, at[:, ::2], s.half),
        half_e=where(active & take, torch.stack([lp, energy], 1), s.half_e),
        sums=where(active, torch.stack([s.sums[:, 0], s.sums[:, 1] + at[:, 1]], 1), s.sums),
        weights=where(active, torch.stack([s.weights[:, 0], total], 1), s.weights),
        uniform=where(active, rest, s.uniform),
        accept=where(active, s.accept + (-error).clamp(max=0).exp(), s.accept),
        steps=s.steps + active,
    ), active & (error > MAX_ENERGY_ERROR)


def _check_subtrees(s: State, slots: Tensor, mass: Mass, active: Tensor) -> tuple[State, Tensor]:
    """Stores the leaf if its number is even; says whether any aligned sub-tree that ends at it has turned.

    slots (2^max_depth, 2): see `leaf_slots`.
    """
    low, high = slots[s.leaf].unbind(-1)
    slot = torch.arange(s.kept.shape[1], device=s.leaf.device)
    even = s.leaf % 2 == 0
    p, total = s.at[:, 1], s.sums[:, 1]
    first, before = s.kept.unbind(2)
    turned = turning(total[:, None] - before + first, first, p[:, None], mass)
    checked = ~even[:, None] & (slot >= low[:, None]) & (slot <= high[:, None])
    store = (active & even)[:, None] & (slot == high[:, None])
    kept = torch.where(store[..., None, None], torch.stack([p, total], 1)[:, None], s.kept)
    return s._replace(kept=kept), active & (turned & checked).any(-1)


def leaf_slots(max_depth: int) -> Tensor:
    """(2^max_depth, 2): for leaf n the slots popcount(n >> 1) - trailing ones of n + 1, and popcount(n >> 1).

    The aligned sub-trees that end at an odd leaf n begin at n with its last 1, 2, ... trailing ones cleared; those
    beginnings were stored in consecutive slots, the last of which is the second number.
    """
    rows = []
    for n in range(2**max_depth):
        high = (n >> 1).bit_count()
        ones = (~n & (n + 1)).bit_length() - 1
        rows.append((high - ones + 1, high))
    return torch.tensor(rows)


def _merge(s: State, uniform: Tensor, mass: Mass, whole: Tensor) -> tuple[State, Tensor]:
    """Joins a `whole` half to the trajectory; also returns whose trajectory has turned now."""
    take = whole & (uniform < (s.weights[:, 1] - s.weights[:, 0]).clamp(max=0).exp())
    end = torch.arange(2, device=s.forward.device) == s.forward[:, None]
    ends = torch.where((whole[:, None] & end)[..., None, None], s.at[:, None], s.ends)
    total = s.sums[:, 0] + s.sums[:, 1]
    weight = torch.logaddexp(s.weights[:, 0], s.weights[:, 1])
    return s._replace(
        best=where(take, s.half, s.best),
        best_e=where(take, s.half_e, s.best_e),
        ends=ends,
        sums=where(whole, torch.stack([total, s.sums[:, 1]], 1), s.sums),
        weights=where(whole, torch.stack([weight, s.weights[:, 1]], 1), s.weights),
        depth=s.depth + whole,
        leaf=where(whole, 0, s.leaf),
    ), whole & turning(total, ends[:, 0, 1], ends[:, 1, 1], mass)


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    slots: Tensor,
) -> tuple[State, Draw]:
    """One leapfrog step of every chain that has not yet completed `stop` iterations of the block.

    Args:
        s: The chains.
        value_and_grad: Positions (chain, dim) -> log densities (chain,) float64 and gradients (chain, dim).
        noise: "momentum" (iteration, chain, dim) and "choice" (iteration, chain, max_depth, 3).
        step_size: Scalar.
        mass: M.
        stop: Scalar int64.
        slots: `leaf_slots(max_depth)`.
    """
    row = torch.arange(s.completed.shape[0], device=s.completed.device)
    index = s.completed.clamp(max=noise["momentum"].shape[0] - 1)
    max_depth = noise["choice"].shape[2]
    s = _begin(s, noise["momentum"][index, row], mass, s.fresh & (s.completed < stop))
    choice = noise["choice"][index, row, s.depth.clamp(max=max_depth - 1)]
    s = _begin_half(s, choice)
    active = ~s.fresh
    signed = torch.where(s.forward, step_size, -step_size)[:, None]
    at, lp = leapfrog(s.at, value_and_grad, signed, mass)
    s, diverging = _add_leaf(s, at, lp, mass, active)
    s, turned = _check_subtrees(s, slots, mass, active)
    kept = active & ~diverging & ~turned
    last = (s.leaf + 1) >> s.depth == 1
    s = s._replace(leaf=s.leaf + (kept & ~last))
    s, end = _merge(s, choice[:, 2], mass, kept & last)
    done = (active & ~kept) | end | (active & (s.depth >= max_depth))
    accept = s.accept / s.steps.clamp(min=1)
    lp, energy = s.best_e.unbind(1)
    s = s._replace(fresh=s.fresh | done, completed=s.completed + done)
    none = torch.zeros_like(lp)
    return s, Draw(done, s.completed - 1, s.best[:, 0], lp, energy, accept, s.depth, s.steps, diverging, none)
