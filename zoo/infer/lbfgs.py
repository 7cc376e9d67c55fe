"""L-BFGS for a batch of starts: every row descends on its own, all of them share each evaluation.

    d = -H g, H from the last `MEMORY` pairs (s, y) = (x' - x, g' - g)
    step a: f(x + a d) <= f + C1 a g.d   and   g(x + a d).d >= C2 g.d,   by bisection (weak Wolfe)

The weak Wolfe conditions are what keeps the method going at kinks (a Laplace prior's zero), where the
gradient does not vanish at the minimum.

Source: Byrd, Nocedal & Schnabel 1994, theorem 2.2; Nocedal & Wright 2006, section 7.2;
    Lewis & Overton 2013, algorithm 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

MEMORY = 30
C1, C2 = 1e-4, 0.9
BISECTIONS = 50
PATIENCE = 10  # iterations over which a gain is judged
ROUNDING = 1e-16
ITERATIONS = 5_000
WATCH = 50  # iterations between two questions whether a row will ever arrive

Function = Callable[[Tensor], tuple[Tensor, Tensor]]


class Descent(NamedTuple):
    """Where each row ended: x (row, dim), f (row,), its gradient (row, dim), and whether it came to rest."""

    x: Tensor
    f: Tensor
    grad: Tensor
    rested: Tensor
    iterations: int


class _Pairs:
    """The last `MEMORY` pairs of every row, each scaled to |s| = 1; one without positive curvature is kept as zeros.

        H = gamma I + [S, gamma Y] [[R^-T (D + gamma Y^T Y) R^-1, -R^-T], [-R^-1, 0]] [S^T; gamma Y^T]

    with R the upper triangle of S^T Y, D its diagonal, gamma = s.y / y.y of the newest good pair. All rows share
    a dozen operations, where the two-loop recursion takes some a pair.
    """

    def __init__(self, like: Tensor) -> None:
        self.s = self.y = like.unsqueeze(1)[:, :0]  # (row, pair, dim)
        self.sy = self.yy = like.new_zeros(len(like), 0, 0)  # (row, pair, pair)
        self.gamma = torch.full_like(like[:, :1], torch.nan)

    def add(self, s: Tensor, y: Tensor) -> None:
        length = s.norm(dim=-1, keepdim=True)
        curvature = (s * y).sum(-1, keepdim=True)
        good = curvature > 1e-12 * y.norm(dim=-1, keepdim=True) * length
        s, y = (torch.where(good, v / length, torch.zeros_like(v)) for v in (s, y))
        self.gamma = torch.where(good, (s * y).sum(-1, keepdim=True) / (y * y).sum(-1, keepdim=True), self.gamma)
        kept = slice(max(0, self.s.shape[1] - MEMORY + 1), None)
        self.s, self.y = (torch.cat([old[:, kept], new.unsqueeze(1)], 1) for old, new in ((self.s, s), (self.y, y)))
        self.sy, self.yy = (functional.pad(old[:, kept, kept], (0, 1, 0, 1)) for old in (self.sy, self.yy))
        self.sy[:, :, -1] = torch.einsum("rmd,rd->rm", self.s, y)
        self.yy[:, :, -1] = self.yy[:, -1, :] = torch.einsum("rmd,rd->rm", self.y, y)

    def forget(self, rows: Tensor) -> None:
        """Starts these rows anew, with steepest descent."""
        if bool(rows.any()):
            for kept in (self.s, self.y, self.sy, self.yy):
                kept[rows] = 0.0
            self.gamma[rows] = torch.nan

    def direction(self, grad: Tensor) -> Tensor:
        """-H grad, (row, dim)."""
        first = 1 / grad.norm(dim=-1, keepdim=True).clamp(min=1.0)
        gamma = torch.where(self.gamma.isnan(), first, self.gamma)
        if not self.s.shape[1]:
            return -gamma * grad
        s_g, y_g = (torch.einsum("rmd,rd->rm", pairs, grad) for pairs in (self.s, self.y))
        d = self.sy.diagonal(dim1=1, dim2=2)
        r = self.sy + torch.diag_embed((d == 0).to(d))  # a pair of zeros has no say
        p = torch.linalg.solve_triangular(r, s_g.unsqueeze(-1), upper=True).squeeze(-1)
        inner = d * p + gamma * (torch.einsum("rmn,rn->rm", self.yy, p) - y_g)
        q = torch.linalg.solve_triangular(r.mT, inner.unsqueeze(-1), upper=False).squeeze(-1)
        h = gamma * grad + torch.einsum("rmd,rm->rd", self.s, q) - gamma * torch.einsum("rmd,rm->rd", self.y, p)
        return -torch.where(torch.isfinite(h).all(-1, keepdim=True), h, first * grad)


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
    lost: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, f, active: torch.zeros_like(active),
) -> Descent:
    """Minimises a function of each row of `start`.

    Args:
        function: x (row, dim) -> values (row,), gradients (row, dim); +inf or NaN where it has no value.
        start: (row, dim), of finite value.
        iterations: At most so many.
        tolerance: A row is at rest when ten iterations lower f by at most tolerance (1 + |f|).
        stop: Ends the descent early when it says so.
        show: Told of every tenth iteration and the best value so far.
        lost: (x, f, active rows) -> rows to give up: they end where they are. Asked every `WATCH` iterations.
    """
    x = start
    f, grad = function(x)
    pairs, history = _Pairs(start), [f]
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
        if count % WATCH == 0 and not bool(rested.all()):
            rested = rested | lost(x, f, ~rested)
    return Descent(x, f, grad, rested, count)
