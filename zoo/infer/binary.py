"""Binary cross-entropy with one exponential: of what torch writes under vmap, two, a logarithm, and both stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

# From here on softplus(f) is f to every digit of float64.
THRESHOLD = 40.0
_OPTIONS = ("weight", "size_average", "reduce", "pos_weight")


class OneExponential(TorchFunctionMode):
    """While it is active, binary cross-entropy of logits f is traced in the form of one exponential.

    -log Bernoulli(y | f) = softplus(-f) + (1 - y) f, elementwise. With weights or a reduction it is left as it is.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """`func(*args, **kwargs)`, or the form above in its place."""
        kwargs = kwargs or {}
        plain = kwargs.get("reduction") == "none" and all(kwargs.get(name) is None for name in _OPTIONS)
        if func is F.binary_cross_entropy_with_logits and len(args) == 2 and plain:
            f, y = args
            if f.shape == y.shape and f.dtype == y.dtype:  # else torch's own complaint
                return F.softplus(-f, threshold=THRESHOLD) + (1 - y) * f
        return func(*args, **kwargs)
