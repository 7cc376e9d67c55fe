"""Rows of a climb that will never arrive: seen on the way, so that a search for what is not there ends in seconds.

ray       log pi(u + t v) >= log pi(u) for t = 1, 100, ... 10^12, v the coordinates that are far out: weights
          of separable data under a flat prior, say
collapse  a bounded site nears its border, and log pi goes on rising with every step: the noise of a curve that
          goes through every point
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .density import Density, is_real

FAR = 5.0  # a coordinate further out than this may be on its way to infinity
DEEP = 9.0  # and a bounded site (a sd, a rate) this far: 1e-4
LENGTHS = (1.0, 1e2, 1e4, 1e6, 1e9, 1e12)
MOVED, PAYS = 0.1, 1.0  # a collapse goes on at this pace: coordinates moved between two questions, nats for each

Lost = Callable[[Tensor, Tensor, Tensor], Tensor]


def outwards(u: Tensor) -> Tensor:
    """The coordinates that are far out, others 0."""
    return torch.where(u.abs() >= FAR, u, torch.zeros_like(u))


def watch(target: Density, jacobian: bool) -> tuple[Lost, dict[int, str]]:
    """What a descent asks now and then: (x, f, active rows) -> rows to give up; and why, by row, for collapses."""
    bounded = _bounded(target)
    why: dict[int, str] = {}
    before: dict[str, Tensor] = {}

    def lost(x: Tensor, f: Tensor, active: Tensor) -> Tensor:
        away = torch.zeros_like(active)
        for r in active.nonzero()[:, 0].tolist():
            away[r] = rises_for_ever(target, x[r], -f[r], jacobian)
        rate = torch.zeros_like(x)
        if before:
            moved = x.abs() - before["x"].abs()
            rate = torch.where(moved > MOVED, (before["f"] - f).unsqueeze(-1) / moved, rate)
            steady = bounded & (x.abs() >= DEEP) & (before["rate"] >= PAYS) & (rate >= PAYS)
            for r in (steady.any(-1) & active & ~away).nonzero()[:, 0].tolist():
                away[r], why[r] = True, _collapse(target, steady[r])
        before.update(x=x, f=f, rate=rate)
        return away

    return lost, why


def rises_for_ever(target: Density, u: Tensor, value: Tensor, jacobian: bool) -> bool:
    """Whether the density does not fall along the ray through the far coordinates of u, however far."""
    ray = outwards(u)
    if not bool((ray != 0).any()):
        return False
    points = torch.stack([u + length * ray for length in LENGTHS])
    return not bool((target.log_prob(points, jacobian) < value).any())


def _bounded(target: Density) -> Tensor:
    """Which coordinates belong to sites with a border."""
    parts = [
        torch.full((b.stop - b.start,), not is_real(target.sites.latent[b.name].fn.support)) for b in target.blocks
    ]
    return torch.cat(parts).to(target.device)


def _collapse(target: Density, steady: Tensor) -> str:
    names = [b.name for b in target.blocks if bool(steady[b.start : b.stop].any())]
    return (
        f"no maximum in sight: {', '.join(names)} -> the border of its support and the density rises with it (the "
        "fit goes through every point)"
    )
