"""Dropout rates of a network's weight layers, from one number and a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .checks import widths

WHERE = ("all", "inner")
P = 0.1
HIDDEN = 50


def drop_rates(p: Any, where: str, layers: int, convolutions: int = 0) -> list[float]:
    """The probability to drop an input of each weight layer.

    where="all":      before every weight layer, the data's inputs included
    where="inner":    hidden units only: the first layer has p = 0
    where="conv":     input channels of kernels only; refused for a network without

    Args:
        p: 0 <= p < 1 for all layers, or one a layer.
        where: "all", "inner" or "conv".
        layers: Number of weight layers.
        convolutions: How many of them, the first ones, are kernels.

    Raises:
        ValueError: For p outside [0, 1), another number of rates than layers, another word, and one that means none of
            the layers.
    """
    names = ", ".join(f"w{i + 1}" for i in range(layers))
    if (where == "conv" and not convolutions) or (where == "inner" and layers == 1):
        need = "kernels" if where == "conv" else "a hidden layer"
        raise ValueError(f"where={where!r} needs {need}, the weight layers are {names}. Use where='all'.")
    if where not in WHERE and where != "conv":
        also = "'all', 'inner' or 'conv'" if convolutions else "'all' or 'inner'"
        raise ValueError(f"where must be {also}, got {where!r}. Use where='all' for all weight layers.")
    if hasattr(p, "shape") and not isinstance(p, (int, float)):
        raise ValueError(f"p must be a number or a list of them, got {type(p).__name__}. Give p.tolist().")
    each = list(p) if isinstance(p, Sequence) and not isinstance(p, str) else [p] * layers
    if len(each) != layers:
        raise ValueError(f"p must be one number or {layers}, one a weight layer, got {len(each)}.")
    for rate in each:
        if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 <= rate < 1:
            raise ValueError(f"p is the probability to drop, 0 <= p < 1, got {rate!r}. Try p=0.1.")
    if where == "conv":
        return [*each[:convolutions], *[0.0] * (layers - convolutions)]
    return [0.0, *each[1:]] if where == "inner" else each


def rates_of(p: Any = P, where: str = "all", hidden: Any = HIDDEN, **_: Any) -> list[float]:
    """`drop_rates` of a network, from the keyword arguments of its model; raises as that does."""
    return drop_rates(p, where, len(widths("hidden", hidden)) + 1)
