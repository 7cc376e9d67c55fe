"""What the steps of an ascent are given: noise and batches, a block of steps at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.core.problem import Data

from .batches import batch_rows
from .looped import Looped
from .variational import Variational

Fit = Variational | Looped
Rows = Callable[[int], tuple[Any, ...]]
BLOCK, BLOCK_NUMBERS = 64, 2**22


class Source:
    """Noise and batches of every step, functions of (seed, restart, step) only.

    Attributes:
        beside: What a compiled step is given beside rows, see `zoo.infer.beside_rows`; (): its graph holds that.

    Args:
        fit: The problem and its guide.
        particles, batch_size: As for `climb`.
        seeds: (seed, restart) of each row of parameters.
        own: x (row, n, d) and y (row, n, ...) where every row has data of its own; None: the problem's, for all.
    """

    def __init__(
        self, fit: Fit, particles: int, batch_size: int | None, seeds: Sequence[tuple[int, int]],
        own: tuple[Tensor, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.fit, self.size, self.seeds, self.own = fit, batch_size, seeds, own
        data = fit.problem.data
        rows = len(data.x) if isinstance(data, Data) and batch_size is None else batch_size
        self.shape = (particles, rows) if fit.by_row and rows else (particles,)
        self.length = max(1, min(BLOCK, BLOCK_NUMBERS // max(1, math.prod(self.shape) * fit.noise_for(self.size))))
        self.data: Any = own or ((data.x, data.y) if isinstance(data, Data) else None)
        self.separate = rows if own else batch_size
        self.beside: tuple[Tensor, ...] = ()
        self.scale = 1.0 if batch_size is None else len(fit.problem.tensor) / batch_size

    def noise(self, index: int) -> Tensor:
        """Noise (step, row, particle, [row of data,] noise_size) of a block of steps."""
        shape = (self.length, *self.shape)
        return torch.stack([self.fit.noise(seed, r, index, shape, rows=self.size) for seed, r in self.seeds], 1)

    def rows(self, index: int) -> Rows:
        """i -> the data of step i: (x, y) of `Data`, then what is given beside rows."""
        rest = self.beside
        if self.data is None:
            return lambda i: rest
        x, y = self.data
        if self.size is None:
            return lambda i: (x, y, *rest)
        n = len(self.fit.problem.tensor)
        first = index * self.length
        drawn = [batch_rows(n, self.size, seed=s, restart=r, first=first, count=self.length) for s, r in self.seeds]
        places = torch.stack(drawn).to(x.device)
        if self.own is None:
            return lambda i: (x[places[:, i]], y[places[:, i]], *rest)
        row = torch.arange(len(places), device=x.device)[:, None]
        return lambda i: (x[row, places[:, i]], y[row, places[:, i]], *rest)
