"""Noise for samplers, in blocks: a block's numbers depend on (seed, chain, block) and on nothing else.

So chain c draws the same numbers however many chains or cores there are, and a run that resumes at a block's
beginning needs no saved generator. (`torch.randn(4, 3)` is not the head of `torch.randn(64, 3)`: one generator a
chain.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .batches import batch_rows
from .seeds import block_seed
from .subsample import SAMPLING

BLOCK = 64
Shapes = dict[str, tuple[str, tuple[int, ...]]]


def van_der_corput(count: int, start: int) -> Tensor:
    """Terms start, start + 1, ... of the base-2 van der Corput sequence 1/2, 1/4, 3/4, 1/8, ...: (count,) in (0, 1).

    Any stretch of it is spread more evenly over (0, 1) than random numbers are.
    """
    return torch.tensor([int(f"{i:b}"[::-1], 2) / 2 ** i.bit_length() for i in range(start + 1, start + count + 1)])


def _one(kind: str, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    if kind == "normal":
        return torch.randn(shape, generator=generator, dtype=dtype)
    # float64: a uniform number that is rescaled after each comparison loses a bit at each.
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def _rows(kind: str, shape: tuple[int, ...], n: int, seed: int, chain: int, block: int) -> Tensor:
    """Batches of rows (BLOCK, *shape); the last axis of the shape is one batch."""
    count = BLOCK * math.prod(shape[:-1])
    if kind == "epochs":
        rows = batch_rows(n, shape[-1], seed=seed, restart=chain, first=block * count, count=count)
    else:
        generator = torch.Generator().manual_seed(block_seed(seed, chain, block, "rows"))
        rows = torch.randint(n, (count, shape[-1]), generator=generator)
    return rows.reshape(BLOCK, *shape)


def noise_block(shapes: Shapes, *, seed: int, block: int, chains: int, like: Tensor, n: int = 0) -> dict[str, Tensor]:
    """One block of noise, {name: (BLOCK, chain, *shape)}.

    Args:
        shapes: {name: (kind, shape for one iteration of one chain)}. Kinds: "normal" in the dtype of `like`;
            "uniform" on [0, 1) in float64; "sequence", van der Corput's, the same for all chains; rows of
            minibatches as "epochs" (every row once an epoch) or "replacement" (drawn independently).
        seed, block, chains: What the numbers depend on.
        like: Carries dtype and device. Numbers are drawn on the CPU, so that they are the same on every device.
        n: Rows of the data, where there are batches.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in shapes}
    sequence = van_der_corput(BLOCK, block * BLOCK).double()  # the same for all chains
    for chain in range(chains):
        generator = torch.Generator().manual_seed(block_seed(seed, chain, block))
        for name, (kind, shape) in shapes.items():
            if kind == "sequence":
                parts[name].append(sequence)
            elif kind in SAMPLING:
                parts[name].append(_rows(kind, shape, n, seed, chain, block))
            else:
                parts[name].append(_one(kind, (BLOCK, *shape), generator, like.dtype))
    return {name: torch.stack(rows, 1).to(like.device) for name, rows in parts.items()}
