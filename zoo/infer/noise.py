"""Noise for samplers, in blocks: a block's numbers depend on (seed, chain, block) and on nothing else.

So chain c draws the same numbers however many chains or cores there are, and a run that resumes at a block's
beginning needs no saved generator. (`torch.randn(4, 3)` is not the head of `torch.randn(64, 3)`: one generator a
chain.)
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

BLOCK = 64
Shapes = dict[str, tuple[str, tuple[int, ...]]]


def block_seed(seed: int, chain: int, block: int, purpose: str = "noise") -> int:
    """A 63-bit seed that differs for every (seed, chain, block, purpose)."""
    digest = hashlib.blake2b(f"{purpose}:{seed}:{chain}:{block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def van_der_corput(count: int, start: int) -> Tensor:
    """Terms start, start + 1, ... of the base-2 van der Corput sequence 1/2, 1/4, 3/4, 1/8, ...: (count,) in (0, 1).

    Any stretch of it is spread more evenly over (0, 1) than random numbers are.
    """
    return torch.tensor([int(f"{i:b}"[::-1], 2) / 2 ** i.bit_length() for i in range(start + 1, start + count + 1)])


def _one(kind: str, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype, block: int) -> Tensor:
    if kind == "sequence":
        return van_der_corput(shape[0], block * BLOCK).double()
    if kind == "normal":
        return torch.randn(shape, generator=generator, dtype=dtype)
    # float64: a uniform number that is rescaled after each comparison loses a bit at each.
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def noise_block(shapes: Shapes, *, seed: int, block: int, chains: int, like: Tensor) -> dict[str, Tensor]:
    """One block of noise, {name: (BLOCK, chain, *shape)}.

    Args:
        shapes: {name: ("normal" | "uniform" | "sequence", shape for one iteration of one chain)}. Normals come in the
            dtype of `like`, uniforms on [0, 1) in float64; a sequence is the same for all chains.
        seed, block, chains: What the numbers depend on.
        like: Carries dtype and device. Numbers are drawn on the CPU, so that they are the same on every device.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in shapes}
    for chain in range(chains):
        generator = torch.Generator().manual_seed(block_seed(seed, chain, block))
        for name, (kind, shape) in shapes.items():
            parts[name].append(_one(kind, (BLOCK, *shape), generator, like.dtype, block))
    return {name: torch.stack(rows, 1).to(like.device) for name, rows in parts.items()}
