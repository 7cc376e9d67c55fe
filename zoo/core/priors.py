"""Priors over weights by kind: one function for every model that has weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
from torch import Tensor

from .checks import positive
from .words import nearest


def _normal(zeros: Tensor, scale: Any) -> Any:
    """w ~ N(0, scale^2)."""
    return dist.Normal(zeros, scale)


# A kind is a function (zeros, scale) -> a distribution with the shape, dtype and device of `zeros`.
KINDS: dict[str, Callable[[Tensor, Any], Any]] = {"normal": _normal}


def weights(kind: str, scale: Any, shape: Sequence[int], like: Tensor) -> Any:
    """The prior of one weight tensor: independent entries, one event.

        normal    p(w) = prod N(w_ij | 0, scale^2)

    Args:
        kind: One of `KINDS`.
        scale: The prior's scale (an sd for `normal`), a number or a tensor that broadcasts to `shape`.
        shape: Shape of the weights: () or (h,) for biases, (in, out) for matrices.
        like: A tensor whose device and dtype the prior follows.

    Returns:
        A Pyro distribution with event shape `shape`.

    Raises:
        ValueError: For an unknown kind, or a scale that is no positive number.
    """
    positive("prior_scale", scale)
    if kind not in KINDS:
        raise ValueError(nearest(str(kind), KINDS, "prior"))
    return KINDS[kind](like.new_zeros(tuple(shape)), scale).to_event(len(shape))


def layer_scales(prior_scale: Any, alpha: Any, layers: int) -> list[Any]:
    """One prior scale a layer from a number or a sequence of scales, or of precisions alpha = 1 / scale^2.

    Args:
        prior_scale: A number for all layers or one a layer.
        alpha: None, or precisions in the same form; then `prior_scale` stays at its default 1.
        layers: Number of weight layers.

    Raises:
        ValueError: If both are given, a sequence has another length, or a number is not positive and finite.
    """
    if alpha is not None and not (isinstance(prior_scale, (int, float)) and prior_scale == 1.0):
        raise ValueError(f"give prior_scale or alpha (= 1 / scale^2), got both: {prior_scale!r}, {alpha!r}.")
    given = prior_scale if alpha is None else alpha
    what = "prior_scale" if alpha is None else "alpha"
    several = isinstance(given, Sequence) and not isinstance(given, str)
    each = list(given) if several else [given] * layers
    if len(each) != layers:
        raise ValueError(f"{what} must be one number or {layers}, one a weight layer, got {len(each)}.")
    for i, scale in enumerate(each):
        positive(f"{what}[{i}]" if several else what, scale)
    return each if alpha is None else [precision**-0.5 for precision in each]


def shrink(scaling: str, fan_in: int) -> float:
    """The factor on a weight matrix's prior scale: 1 / sqrt(fan_in) for "fan_in", 1 for "none".

    Raises:
        ValueError: For another scaling.
    """
    if scaling not in ("fan_in", "none"):
        raise ValueError(f"scaling must be 'fan_in' or 'none', got {scaling!r}.")
    return max(fan_in, 1) ** -0.5 if scaling == "fan_in" else 1.0
