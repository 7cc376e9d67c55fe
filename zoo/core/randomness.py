"""Random numbers that depend on a seed only and leave no mark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .handlers import LOCK


@contextlib.contextmanager
def untouched(device: Any = "cpu") -> Iterator[None]:
    """Puts torch's generators of the CPU and of `device` back as found, whatever is drawn inside the block.

    Other threads' blocks wait: they would draw from this one's seed, and put that back as what they had found.
    """
    device = torch.device(device)
    with LOCK, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextlib.contextmanager
def seeded(seed: int, device: Any = "cpu") -> Iterator[None]:
    """Seeds torch's generators of the CPU and of `device` inside the block; puts them back as found."""
    device = torch.device(device)
    with untouched(device):
        # Not torch.manual_seed, which would seed every device of the machine and leave those seeded.
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
