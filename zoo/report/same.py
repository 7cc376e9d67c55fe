"""Whether two hyperparameters are the same: numbers, words, arrays and tensors, and lists of them."""

from __future__ import annotations

from typing import Any

import torch


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal; arrays and tensors by their shape and numbers, whatever their dtype."""
    if hasattr(a, "shape") or hasattr(b, "shape"):
        if not all(isinstance(v, (int, float)) or hasattr(v, "shape") for v in (a, b)):
            return False
        a, b = torch.as_tensor(a).cpu(), torch.as_tensor(b).cpu()
        return a.shape == b.shape and torch.equal(a.double(), b.double())
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
