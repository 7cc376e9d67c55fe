"""L-BFGS for a batch of starts: every row descends on its own, all of them share each evaluation.

    d = -H g by the two-loop recursion over the last `MEMORY` pairs (s, y) = (x' - x, g' - g)
    step a: f(x + a d) <= f + C1 a g.d   and   g(x + a d).d >= C2 g.d,   by bisection (weak Wolfe)

The weak Wolfe conditions are what keeps the method going at kinks (a Laplace prior's zero), where the
gradient does not vanish at the minimum.

Source: Nocedal & Wright 2006, algorithm 7.4; Lewis & Overton 2013, algorithm 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

MEMORY = 30
C1, C2 = 1e-4, 0.9
BISECTIONS = 50
PATIENCE = 10  # iterations over which a gain is judged
ROUNDING = 1e-16
ITERATIONS = 10_000

Function = Callable[[Tensor], tuple[Tensor, Tensor]]


class Descent(NamedTuple):
    """Where each row ended: x (row, dim), f (row,), its gradient (row, dim), and whether it came to rest."""

    x: Tensor
    f: Tensor
    grad: Tensor
    rested: Tensor
    iterations: int


class _Pairs:
    """The last `MEMORY` pairs of every row; a row whose pair has no positive curvature keeps none of it."""

    def __init__(self) -> None:
        self.s: list[Tensor] = []
        self.y: list[Tensor] = []
        self.rho: list[Tensor] = []

    def add(self, s: Tensor, y: Tensor) -> None:
        curvature = (s * y).sum(-1, keepdim=True)
        good = curvature > 1e-12 * y.norm(dim=-1, keepdim=True) * s.norm(dim=-1, keepdim=True)
        self.s.append(s)
        self.y.append(y)
        self.rho.append(torch.where(good, 1 / curvature, torch.zeros_like(curvature)))
        if len(self.s) > MEMORY:
            del self.s[0], self.y[0], self.rho[0]

    def forget(self, rows: Tensor) -> None:
        """Starts these rows anew, with steepest descent."""
        self.rho = [torch.where(rows.unsqueeze(-1), torch.zeros_like(rho), rho) for rho in self.rho]

    def direction(self, grad: Tensor) -> Tensor:
        """-H grad, (row, dim)."""
        q, kept = grad, []
        scale = 1 / grad.norm(dim=-1, keepdim=True).clamp(min=1.0)
        for s, y, rho in zip(reversed(self.s), reversed(self.y), reversed(self.rho), strict=True):
            a = rho * (s * q).sum(-1, keepdim=True)
            q = q - a * y
            kept.append(a)
        for y, rho in zip(self.y, self.rho, strict=True):  # the newest good pair sets the scale
            gamma = 1 / (rho * (y * y).sum(-1, keepdim=True))
            scale = torch.where(rho > 0, gamma, scale)
        q = q * scale
        for s, y, rho, a in zip(self.s, self.y, self.rho, reversed(kept), strict=True):
            q = q + s * (a - rho * (y * q).sum(-1, keepdim=True))
        return -q


def _search(function: Function, x: Tensor, f: Tensor, grad: Tensor, d: Tensor, active: Tensor) -> tuple[Tensor, ...]:
    """Weak Wolfe by bisection for the active rows; (x', f', gradient', found). Others stay."""
    slope = (grad * d).sum(-1)
    low, high, a = torch.zeros_like(f), torch.full_like(f, float("inf")), torch.ones_like(f)
    best: tuple[Tensor, ...] = (x, f, grad)
    found = ~active
    for _ in range(BISECTIONS):
        at = torch.where(found.unsqueeze(-1), best[0], x + a.unsqueeze(-1) * d)
        value, gradient = function(at)
        sunk = (value <= f + C1 * a * slope) & torch.isfinite(gradient).all(-1)
        flat = sunk & ((gradient * d).sum(-1) >= C2 * slope)
        take = ~found & sunk
        best = tuple(torch.where(take.reshape(-1, *[1] * (new.dim() - 1)), new, old)
                     for new, old in zip((at, value, gradient), best, strict=True))  # fmt: skip
        found = found | flat
        if bool(found.all()):
            break
        high = torch.where(sunk, high, a)
        low = torch.where(sunk, a, low)
        a = torch.where(torch.isinf(high), 2 * a, (low + high) / 2)
    return *best, found | (best[1] < f)


def _steepest(f: Tensor, grad: Tensor) -> Tensor:
    """The direction to begin with: -grad, at most of length 1, unless that promises less than the rounding of f.

    Then a step that promises a thousandth of f: where f is 1e40, a unit step says nothing on where the minimum is.
    """
    square = grad.square().sum(-1, keepdim=True)
    size = (1 + f.abs()).unsqueeze(-1)
    unit = square.sqrt().clamp(min=1.0).reciprocal()
    long = 1e-3 * size / square.clamp(min=torch.finfo(grad.dtype).tiny)
    return -grad * torch.where(unit * square <= ROUNDING * size, long, unit)


def lbfgs(
    function: Function,
    start: Tensor,
    *,
    iterations: int = ITERATIONS,
    tolerance: float = 1e-10,
    stop: Callable[[], str] = lambda: "",
    show: Callable[..., None] = lambda done, text: None,
) -> Descent:
    """Minimises a function of each row of `start`.

    Args:
        function: x (row, dim) -> values (row,), gradients (row, dim); +inf or NaN where it has no value.
        start: (row, dim), of finite value.
        iterations: At most so many.
        tolerance: A row is at rest when ten iterations lower f by at most tolerance (1 + |f|).
        stop: Ends the descent early when it says so.
        show: Told of every tenth iteration and the best value so far.
    """
    x = start
    f, grad = function(x)
    pairs, history = _Pairs(), [f]
    rested, stuck = torch.zeros_like(f, dtype=torch.bool), torch.zeros_like(f, dtype=torch.bool)
    count = 0
    while count < iterations and not bool(rested.all()) and not stop():
        count += 1
        d = pairs.direction(grad)
        uphill = (d * grad).sum(-1) >= 0
        d = torch.where((uphill | stuck | (count == 1)).unsqueeze(-1), _steepest(f, grad), d)
        # What a full step promises is below the rounding of f.
        rested = rested | ((d * grad).sum(-1).abs() <= ROUNDING * (1 + f.abs()))
        x_new, f_new, grad_new, found = _search(function, x, f, grad, d, ~rested)
        rested = rested | (stuck & ~found) | ~torch.isfinite(f_new)
        stuck = ~found & ~rested
        pairs.add(x_new - x, grad_new - grad)
        pairs.forget(stuck)
        x, f, grad = x_new, f_new, grad_new
        history.append(f)
        if count % PATIENCE == 0:
            show(count, f"{float(-f.min()):.6g}")
        if count >= PATIENCE:
            gain = history[-PATIENCE - 1 if count > PATIENCE else 0] - f
            rested = rested | (gain <= tolerance * (1 + f.abs()))
    return Descent(x, f, grad, rested, count)
