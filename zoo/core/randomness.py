"""Random numbers that depend on a seed only and leave no mark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def seeded(seed: int, device: Any = "cpu") -> Iterator[None]:
    """Seeds torch's generators of the CPU and of `device` inside the block; puts them back as found."""
    device = torch.device(device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed, which would seed every device of the machine and leave those seeded.
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
