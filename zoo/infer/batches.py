"""Minibatches of one size: shuffled epochs laid end to end and cut, so that no batch is short.

Every row comes once an epoch; a batch that crosses the end of an epoch takes its rest from the next one.
Averaged over whole epochs, n / M times the sum over a batch of M rows is the sum over all n rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .seeds import block_seed


def batch_rows(n: int, size: int, *, seed: int, restart: int, first: int, count: int) -> Tensor:
    """Rows of the batches first ... first + count - 1, (count, size).

    Args:
        n: Rows of the data.
        size: Rows of a batch, at most n.
        seed, restart: Which shuffles.
        first, count: Which batches of the endless stream; any piece may be asked for at any time.
    """
    begin, end = first * size, (first + count) * size
    epochs = range(begin // n, -(-end // n))
    stream = torch.cat([_shuffle(n, seed, restart, epoch) for epoch in epochs])
    offset = begin - epochs[0] * n
    return stream[offset : offset + end - begin].reshape(count, size)


def _shuffle(n: int, seed: int, restart: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(block_seed(seed, restart, epoch, "rows"))
    return torch.randperm(n, generator=generator)
