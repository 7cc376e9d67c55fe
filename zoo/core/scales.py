"""`weight_sites`: how a model samples its weights, one prior scale a layer, given or learned.

    given      w ~ prior(scale)                                                  (shape)
    learned    scale ~ HalfNormal(1),  w_raw ~ prior(1),  w = scale w_raw        non-centred

Non-centred: the posterior of (scale, w_raw) has no funnel where the data say little of a layer, which neither
samplers nor Gaussian guides can follow. `w` is then a deterministic site, and predictions carry it.

Source: Neal 1996, chapter 1; Betancourt & Girolami 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
from torch import Tensor

from .checks import positive
from .priors import weights

LEARNED = "learned"


def layer_scales(prior_scale: Any, alpha: Any, layers: int) -> list[Any]:
    """One prior scale a layer from a number or a sequence of scales, or of precisions alpha = 1 / scale^2.

    Args:
        prior_scale: A number for all layers or one a layer; "learned" stands as it is.
        alpha: None, or precisions in the same form; then `prior_scale` stays at its default 1.
        layers: Number of weight layers.

    Raises:
        ValueError: If both are given, a sequence has another length, or a number is not positive and finite.
    """
    if alpha is not None and not (isinstance(prior_scale, (int, float)) and prior_scale == 1.0):
        raise ValueError(f"give prior_scale or alpha (= 1 / scale^2), got both: {prior_scale!r}, {alpha!r}.")
    given = prior_scale if alpha is None else alpha
    what = "prior_scale" if alpha is None else "alpha"
    given = given.tolist() if isinstance(given, np.ndarray) else given
    several = isinstance(given, Sequence) and not isinstance(given, str)
    each = list(given) if several else [given] * layers
    if len(each) != layers:
        count = "one number" if layers == 1 else f"one number or {layers}, one a weight layer"
        raise ValueError(f"{what} must be {count}, got {len(each)}.")
    for i, scale in enumerate(each):
        _check(f"{what}[{i}]" if several else what, scale, learnable=alpha is None)
    return each if alpha is None else [precision**-0.5 for precision in each]


def _check(name: str, scale: Any, learnable: bool) -> None:
    if learnable and isinstance(scale, str):
        if scale != LEARNED:
            raise ValueError(f"{name} must be a positive number or 'learned', got {scale!r}. Set {name}=0.5, say.")
    else:
        positive(name, scale)


def shrink(scaling: str, fan_in: int) -> float:
    """The factor on a weight matrix's prior scale: 1 / sqrt(fan_in) for "fan_in", 1 for "none".

    Raises:
        ValueError: For another scaling.
    """
    if scaling not in ("fan_in", "none"):
        raise ValueError(f"scaling must be 'fan_in' or 'none', got {scaling!r}.")
    return max(fan_in, 1) ** -0.5 if scaling == "fan_in" else 1.0


def weight_sites(
    like: Tensor,
    layers: Sequence[str],
    *,
    prior: str = "normal",
    prior_scale: Any = 1.0,
    alpha: Any = None,
    prior_options: Mapping[str, Any] | None = None,
) -> Callable[..., Tensor]:
    """A function that samples a layer's weights: `weight(name, shape, layer=0, shrink=1.0)`.

        scale_l given:    name ~ prior(shrink scale_l)
        scale_l learned:  scale_l ~ HalfNormal(1),  name_raw ~ prior(1),  name = shrink scale_l name_raw

    Args:
        like: A tensor whose device and dtype the weights follow.
        layers: What is put behind a site's name, a layer each: ("",) gives w, b and scale; ("1", "2") gives w1, b1,
            scale1, ...
        prior: One of `zoo.core.priors.KINDS`.
        prior_scale: A scale, or one a layer; "learned" for a latent one.
        alpha: 1 / scale^2 in the same form, instead of prior_scale.
        prior_options: Of the prior, see `zoo.core.priors.weights`.

    Returns:
        The function; learned scales are sampled here, once a layer.

    Raises:
        ValueError: For an unknown prior, a scale out of range, or a scale for `uniform`, which has none.
    """
    scales = layer_scales(prior_scale, alpha, len(layers))
    _refuse_scale_of_uniform(prior, prior_scale, alpha)
    learned = [
        pyro.sample(f"scale{suffix}", dist.HalfNormal(like.new_ones(()))) if isinstance(scale, str) else None
        for suffix, scale in zip(layers, scales, strict=True)
    ]

    def weight(name: str, shape: Sequence[int], layer: int = 0, shrink: float = 1.0) -> Tensor:
        name, scale = name + layers[layer], learned[layer]
        if scale is None:
            return pyro.sample(name, weights(prior, shrink * scales[layer], shape, like, prior_options))
        raw = pyro.sample(f"{name}_raw", weights(prior, 1.0, shape, like, prior_options))
        return pyro.deterministic(name, raw * scale * shrink, event_dim=len(shape))

    return weight


def _refuse_scale_of_uniform(prior: str, prior_scale: Any, alpha: Any) -> None:
    plain = isinstance(prior_scale, (int, float)) and prior_scale == 1.0
    if prior == "uniform" and not (alpha is None and plain):
        name, value = ("prior_scale", prior_scale) if alpha is None else ("alpha", alpha)
        raise ValueError(f"{name} means nothing to prior='uniform', which is flat, got {value!r}. Leave it out.")
