"""Modes of a log density, from several starts and in float64, and the checks that each is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor

from zoo.core.explained import ModelFails
from zoo.core.problem import Problem
from zoo.core.sites import sites

from .corners import settle
from .density import Density, density, is_real
from .flat import flat_directions
from .fold import fold
from .graph import trace
from .known import Untraceable
from .lbfgs import ITERATIONS, Descent, Function, lbfgs
from .runaway import FAR, outwards, watch
from .starts import starts

MOST = 2000  # coordinates that are probed one by one


Show = Callable[..., None]


class Modes(NamedTuple):
    """Where each restart ended: position (restart, dim) and log density (restart,), float64.

    `trouble` {restart: why this is no interior mode}; `kinks` {restart: sites whose slope jumps there};
    `reason` the search was ended early, or "".
    """

    target: Density
    position: Tensor
    value: Tensor
    trouble: dict[int, str]
    kinks: dict[int, list[str]]
    reason: str
    iterations: int


def find_modes(
    problem: Problem,
    *,
    jacobian: bool,
    restarts: int,
    seed: int,
    stop: Callable[[], str],
    show: Show,
    descend: Callable[..., Descent] = lbfgs,
    steps: int = ITERATIONS,
) -> Modes:
    """Climbs the log density from `restarts` points of U(-2, 2), all at once.

    Args:
        problem: The problem; it is climbed in float64, whose rounding leaves 1e-6 of a log density of 1e4.
        jacobian: True: the density of the unconstrained coordinates; False: log p(y, theta) itself.
        restarts: Number of starts.
        seed: Restart r's start depends on (seed, r) only.
        stop: Ends the search early when it says so.
        show: Told of the iterations done and of the best log density.
        descend: `lbfgs`, or another with its arguments.
        steps: At most so many iterations.
    """
    target = density(double(problem))
    # One start more where a flat prior may leave a line of maxima: one end alone could not show it.
    start = starts(target, restarts if jacobian or not _improper(target) else max(restarts, 2), seed)
    lost, collapsed = watch(target, jacobian)
    function = _downhill(target, start, jacobian)
    ended = descend(function, start, iterations=steps, stop=stop, show=show, lost=lost)
    if not jacobian and descend is lbfgs and not stop():
        ended = _at_corners(target, function, ended, collapsed)
    return judged(target, ended, collapsed, jacobian, restarts, stop)


def judged(
    target: Density,
    ended: Descent,
    collapsed: Mapping[int, str],
    jacobian: bool,
    restarts: int,
    stop: Callable[[], str],
) -> Modes:
    """Which ends of a search are modes; of those that are not, why."""
    trouble, kinks = dict(collapsed), {}
    for r in range(len(ended.x)):
        if r in trouble:
            continue
        if why := _trouble(target, ended.x[r], -ended.f[r], jacobian, bool(ended.rested[r])):
            trouble[r] = why
        elif _uphill(target, ended.x[r], -ended.f[r], ended.grad[r], jacobian):
            trouble[r] = "the search did not come to rest: bring the inputs to one scale, or use more restarts"
        elif sites := _kinks(target, ended.x[r], -ended.f[r], ended.grad[r], jacobian):
            kinks[r] = sites
    if not jacobian:
        trouble |= _not_single(target, ended, [r for r in range(len(ended.x)) if r not in trouble], jacobian)
    trouble = {r: why for r, why in trouble.items() if r < restarts}
    kinks = {r: names for r, names in kinks.items() if r < restarts}
    reason = "" if bool(ended.rested[:restarts].all()) else stop()
    return Modes(target, ended.x[:restarts], -ended.f[:restarts], trouble, kinks, reason, ended.iterations)


def _improper(target: Density) -> bool:
    return any(_is_flat(site.fn) for site in target.sites.latent.values())


def _not_single(target: Density, ended: Descent, among: list[int], jacobian: bool) -> dict[int, str]:
    """{restart: why} of ends that lie on a line of equally probable points."""
    names = flat_directions(target, ended.x, -ended.f, among, jacobian)
    if not names:
        return {}
    why = (
        f"no single maximum: {' and '.join(names)} can move without any change of the density (a flat direction), so "
        "the point says nothing of them; what is computed from them may be determined. Give them a proper prior"
    )
    return dict.fromkeys(among, why)


def _at_corners(target: Density, function: Function, ended: Descent, collapsed: Mapping[int, str]) -> Descent:
    """The end of a descent in the space of the priors, whose zeros may be corners (a Laplace prior's)."""
    alive = torch.isfinite(ended.f) & (ended.x.abs() < FAR).all(-1)
    alive[list(collapsed)] = False
    return settle(function, lambda x: -target.value_and_grad(x, jacobian=False)[1], ended, alive, lbfgs)


def double(problem: Problem) -> Problem:
    """The problem in float64, or the reason why its model cannot follow there."""
    exact = problem.to(dtype=torch.float64)
    try:
        sites(exact)
    except ModelFails as error:
        if problem.tensor.dtype == torch.float64:
            raise
        raise ValueError(
            f"modes are climbed in float64, where {str(error).rpartition('; it was given')[0]}. Build "
            "its tensors from the data (x.new_zeros), or put its modules in float64: module.double()."
        ) from None
    return exact


def _downhill(target: Density, example: Tensor, jacobian: bool) -> Function:
    """x (restart, dim) -> minus the log density and its gradient; traced once where the model allows it."""

    def plain(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = target.value_and_grad(x, jacobian=jacobian)
        return -value, -grad

    if target.engine == "loop":
        return plain

    def function(x: Tensor) -> tuple[Tensor, ...]:
        gradient = torch.func.grad_and_value(lambda u: -target.log_density(u, jacobian))
        grad, value = torch.func.vmap(gradient)(x)
        return value, grad

    try:
        graph = fold(trace(function, (example,)))
    except Untraceable:
        return plain

    def traced(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            value, grad = graph(x)
        return value, grad

    return traced


# -- is it a mode? -------------------------------------------------------------------------------------------


def _trouble(target: Density, u: Tensor, value: Tensor, jacobian: bool, rested: bool) -> str:
    """Why a position is no interior mode, or ""."""
    away = _escaping(target, u, value, jacobian)
    if away and all(_is_flat(target.sites.latent[name].fn) for name in away):
        data = " (separable data)" if _classifies(target) else ""
        return f"the likelihood has no maximum: weights grow without bound{data}: {', '.join(away)}"
    if away:
        return "no interior maximum: " + ", ".join(_limit(target, u, name) for name in away)
    if not bool(torch.isfinite(value)):
        return "no maximum: the density is not bounded"
    return "" if rested else _restless(target, u)


def _escaping(target: Density, u: Tensor, value: Tensor, jacobian: bool) -> list[str]:
    """Sites that the density drives to infinity: further out, alone or together, it does not fall."""
    far = (u.abs() >= FAR).nonzero()[:MOST, 0]
    if not len(far):
        return []
    out = outwards(u)
    single = torch.zeros(len(far), len(u), dtype=u.dtype, device=u.device)
    single[torch.arange(len(far)), far] = 1.0
    # One further on is nothing at 1e19: there a thousandth of the way is.
    rays = torch.cat([out.unsqueeze(0), single * u, single * u.sign() * (1e-3 * u.abs()).clamp(min=1.0)])
    further = target.log_prob(u + rays, jacobian)
    flat = ~(further < value)  # NaN, past the last number, counts as not falling
    if bool(flat[0]):
        return [b.name for b in target.blocks if bool((out[b.start : b.stop] != 0).any())]
    moving = set(far[flat[1:].reshape(2, -1).any(0) | _at_rounding(target, u, far)].tolist())
    return [b.name for b in target.blocks if moving & set(range(b.start, b.stop))]


def _at_rounding(target: Density, u: Tensor, far: Tensor) -> Tensor:
    """Which of the far coordinates (m,) say nothing any more: one further out their sites' values are the same.

    A density without bound at a border rises as far as the border can be told from its neighbours. There a
    transform ends, and so does the rise: it looks like a mode.
    """
    aside = torch.zeros(len(far), len(u), dtype=u.dtype, device=u.device)
    aside[torch.arange(len(far)), far] = u[far].sign()
    here, on, back = (target.constrain(at) for at in (u.unsqueeze(0), u + aside, u - aside))
    out = torch.zeros_like(far, dtype=torch.bool)
    for b in target.blocks:
        if is_real(target.sites.latent[b.name].fn.support):
            continue
        old, new, before = (v[b.name].reshape(len(v[b.name]), -1) for v in (here, on, back))
        rounding = 4 * torch.finfo(old.dtype).eps * old.abs()
        # The end may lie a hair before the place where the transform does.
        same = ((new - old).abs() <= torch.maximum(rounding, 1e-9 * (old - before).abs())).all(-1)
        out |= same & (far >= b.start) & (far < b.stop)
    return out


def _restless(target: Density, u: Tensor) -> str:
    """A search that ran out of steps, or diverged, and the flat weights that were far out by then."""
    flat = [b for b in target.blocks if _is_flat(target.sites.latent[b.name].fn)]
    growing = [b.name for b in flat if bool((u[b.start : b.stop].abs() >= FAR).any())]
    if growing:
        return f"the search did not come to rest: {', '.join(growing)} were still growing; give them a proper prior"
    return "the search did not come to rest: take more steps, or a smaller lr"


def _is_flat(fn: Any) -> bool:
    """Whether a prior is improper: what grows then is the likelihood."""
    while not isinstance(fn, dist.ImproperUniform) and hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return isinstance(fn, dist.ImproperUniform) and is_real(fn.support)


def _classifies(target: Density) -> bool:
    return all(site.fn.support.is_discrete for site in target.sites.observed.values())


def _limit(target: Density, u: Tensor, name: str) -> str:
    """Where a site goes as its far coordinates go on for ever."""
    if is_real(target.sites.latent[name].fn.support):
        return f"{name} grows without bound (separable data, or too flat a prior)"
    out = torch.where(u.abs() >= FAR, 700 * u.sign(), u)
    limit = target.constrain(out.unsqueeze(0))[name][0].reshape(-1)
    if limit.numel() > 1:
        return f"{name} -> the border of its support"
    number = float(limit[0])
    return f"{name} -> {'infinity' if number > 1e100 else f'{round(number, 6):g}'}"


def _uphill(target: Density, u: Tensor, value: Tensor, grad: Tensor, jacobian: bool) -> bool:
    """Whether a step along one coordinate still gains: the search took for rounding what was bad scaling."""
    steep = (grad.abs() > 1e-2).nonzero()[:MOST, 0]
    if not len(steep):
        return False
    step = torch.zeros(len(steep), len(u), dtype=u.dtype, device=u.device)
    step[torch.arange(len(steep)), steep] = -grad[steep].sign() * (1 + u[steep].abs())
    tried = torch.cat([u + size * step for size in (1e-6, 1e-4, 1e-2, 1.0)])
    gain = target.log_prob(tried, jacobian) - value
    return bool((gain > 1e-3 + 1e-9 * value.abs()).any())


def _kinks(target: Density, u: Tensor, value: Tensor, grad: Tensor, jacobian: bool) -> list[str]:
    """Sites where the slope jumps: it is not 0, and yet the density falls to both sides."""
    steep = (grad.abs() > 1e-2).nonzero()[:MOST, 0]
    if not len(steep):
        return []
    h = 1e-5 * (1 + u[steep].abs())
    step = torch.zeros(len(steep), len(u), dtype=u.dtype, device=u.device)
    step[torch.arange(len(steep)), steep] = h
    fall = torch.stack([value - target.log_prob(u + side * step, jacobian) for side in (1, -1)])
    kinked = set(steep[(fall > 0.01 * grad[steep].abs() * h).all(0)].tolist())
    return [b.name for b in target.blocks if kinked & set(range(b.start, b.stop))]


def describe(modes: Modes) -> str:
    """The outcome of a search in one line, or ""."""
    if modes.reason:
        return f"{modes.reason} after {modes.iterations} iterations, before the modes were reached"
    if not modes.trouble:
        return ""
    why = sorted(set(modes.trouble.values()))
    which = f" ({len(modes.trouble)} of {len(modes.value)} restarts)" if len(modes.value) > 1 else ""
    return "; ".join(why) + which
