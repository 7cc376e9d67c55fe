"""What svi does otherwise for large networks: more than 50,000 parameters, where passes over memory cost the time.

    m' = m + (1 - b1) (g - m),   v' = b2 v + (1 - b2) g^2
    x' = x + (lr / (1 - b1^t)) m' / (sqrt(v') / sqrt(1 - b2^t) + eps)

That is `zoo.infer.adam` in seven passes where it takes twenty, outside of the graph that holds the gradient. Restarts
run one after another: mapped, each convolution would become one of as many groups. What is tried before the ascent is
tried on a few rows, and what is measured after it on as many as the time allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core.problem import Data, Problem
from zoo.core.sites import sites

from .adam import B1, B2, EPS
from .engine import MOST_COORDINATES
from .fold import fold
from .graph import trace
from .prepared import ALL, Batch
from .rows import why_not
from .stream import CAP
from .track import Tensors, row_of

log = logging.getLogger("zoo")
FEW_ROWS = 4
LP_WORK, LP_ROWS = 10_000_000_000, 100  # draws x rows x parameters that lp may take, and the least rows for it
Step = Callable[..., Tensors]


def is_large(problem: Problem, size: int) -> bool:
    """Whether a fit of so many parameters is treated as large: for that its rows must be independent."""
    return size > MOST_COORDINATES and not why_not(problem)


def few_rows(
    problem: Problem, size: int, check_batch: Callable[[int], None] | None = None
) -> tuple[Batch, float, int | None]:
    """The rows to try things on: some of a large fit's, with their weight n / rows and their number; else all.

    Args:
        problem: The problem.
        size: Parameters of its guide.
        check_batch: Raises ValueError where the guide is tied to the rows of all data.
    """
    data = problem.data
    if size <= MOST_COORDINATES or not isinstance(data, Data) or len(data.x) <= FEW_ROWS:
        return ALL, 1.0, None
    if not _some_for_all(problem, check_batch):
        return ALL, 1.0, None
    return Batch(data.x[:FEW_ROWS], data.y[:FEW_ROWS]), len(data.x) / FEW_ROWS, FEW_ROWS  # type: ignore[index]


def _some_for_all(problem: Problem, check_batch: Callable[[int], None] | None) -> bool:
    """Whether some rows can stand for all: rows have no latents of their own, or an encoder infers those of any."""
    if not why_not(problem):
        return True
    found = sites(problem)
    local = any(site.local for site in found.latent.values())
    if check_batch is None or not local or not all(site.local for site in found.observed.values()):
        return False
    try:
        check_batch(FEW_ROWS)
    except ValueError:
        return False
    return True


def draws_that_fit(fit: Any, draws: int) -> int:
    """How many draws of each restart to take: all, or as many as hold 1e8 values, which is said."""
    values = len(fit.start) * sum(site.shape.numel() for site in sites(fit.problem).latent.values())
    most = max(2, CAP // max(1, values))
    if draws <= most:
        return draws
    log.warning(
        "svi: %d draws of %d numbers are more than %g values: %d are taken. Ask for no more than that: draws=%d.",
        draws, values, CAP, most, most,
    )  # fmt: skip
    return most


def measured_rows(fit: Any, draws: int) -> tuple[Batch, float, int | None]:
    """The rows that each draw's lp is measured on, n / rows, and their number; None: all.

    The draws of a large network ask for a pass over all data each. Where that is too much, lp is estimated by evenly
    spaced rows, and that is said; nothing that needs lp - logq exactly is then possible, so logq is left out.
    """
    data, size = fit.problem.data, fit.layout.size
    if not is_large(fit.problem, size) or not isinstance(data, Data):
        return ALL, 1.0, None
    n, rows = len(data.x), max(LP_ROWS, LP_WORK // (draws * len(fit.start) * size))
    if rows >= n:
        return ALL, 1.0, None
    log.info("svi: lp of the draws is estimated by %d of the %d rows", rows, n)
    places = torch.linspace(0, n - 1, rows).round().long().to(data.x.device)
    return Batch(data.x[places], data.y[places]), n / rows, rows  # type: ignore[index]


def large_step(fit: Any, rows: int | None, scale: float, example: Tensors) -> Step:
    """The step of `zoo.infer.steps.make_step`, of a graph of one restart's gradient and Adam outside of it.

    Args:
        fit: The problem and its guide.
        rows: Rows of a batch; None: all data.
        scale: n / rows.
        example: The step's arguments.
    """

    def gradient(params: Tensor, noise: Tensor, *data: Tensor) -> Tensors:
        grad, terms = fit.gradient(params, noise, Batch(data[0], data[1], shared=rows is None) if data else ALL, scale)
        return (grad, *terms)

    def pieces(noise: Tensor, data: Tensors) -> list[Tensors]:
        """Noise and rows of each restart."""
        own = [data if rows is None else tuple(part[r : r + 1] for part in data) for r in range(len(noise))]
        return [(noise[r : r + 1], *own[r]) for r in range(len(noise))]

    graph = fold(trace(gradient, (example[0][:1], *pieces(example[4], example[6:])[0])))

    def step(params: Tensor, m: Tensor, v: Tensor, good: Tensor, noise: Tensor, pace: Tensor, *data: Tensor) -> Tensors:
        each = [graph(params[r : r + 1], *piece) for r, piece in enumerate(pieces(noise, data))]
        grad, *terms = each[0] if len(each) == 1 else map(torch.cat, zip(*each, strict=True))
        moved = (*_adam(params, m, v, grad, *pace.tolist()), params)
        finite = torch.isfinite(terms[0]) & torch.isfinite(moved[1].sum(-1))  # a sum with NaN or infinity in it is none
        if not finite.all():
            keep, old = finite.unsqueeze(-1), (params, torch.full_like(m, torch.nan), v, good)
            moved = tuple(torch.where(keep, new, was) for new, was in zip(moved, old, strict=True))
        return (*moved, row_of(finite, terms))

    return step


def _adam(x: Tensor, m: Tensor, v: Tensor, grad: Tensor, lr: float, first: float, second: float) -> Tensors:
    m = torch.lerp(m, grad, 1 - B1)
    v = (v * B2).addcmul_(grad, grad, value=1 - B2)
    below = v.sqrt().div_(second**0.5).add_(EPS)
    return torch.addcdiv(x, m, below, value=lr / first, out=below), m, v  # no fresh memory: its pages cost a pass
