"""What the numbers of images mean: bytes 0 ... 255, or shares of full brightness in [0, 1]."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

log = logging.getLogger("zoo")
HIGHEST = 255  # of a byte


def divisor(name: str, *parts: Tensor | None) -> float:
    """255 where all parts together are bytes, and says so; else 1.

        y -> y / 255    for whole numbers 0 ... 255 some of which lie above 127, or above 1 where their type is uint8

    One answer for all parts: a dark test set is divided like the images that it belongs to.

    Args:
        name: What to call the numbers.
        parts: Tensors of any shape and dtype; None and tensors without numbers are left out.
    """
    ends = extremes(*parts)
    if ends is None:
        return 1.0
    low, high = ends
    found = [v for v in parts if v is not None and v.numel()]
    least = 1 if all(v.dtype == torch.uint8 for v in found) else HIGHEST // 2
    if low < 0 or not least < high <= HIGHEST or not all(_whole(v) for v in found):
        return 1.0
    log.info("%s: numbers 0 ... %g are read as bytes and divided by %d", name, high, HIGHEST)
    return float(HIGHEST)


def extremes(*parts: Tensor | None) -> tuple[float, float] | None:
    """The smallest and largest number of all parts; None where there are none, or none that can be read."""
    found = [v for v in parts if v is not None and v.numel() and v.device.type != "meta"]
    return (min(float(v.min()) for v in found), max(float(v.max()) for v in found)) if found else None


def _whole(v: Tensor) -> bool:
    return not v.is_floating_point() or bool((v == v.round()).all())
