"""Priors over weights by kind: one function for every model that has weights.

    normal        N(w | 0, s^2)                                          penalty w^2 / (2 s^2): shrinks
    laplace       exp(-|w| / s) / (2 s)                                  penalty |w| / s: makes zeros
    mixture       pi N(w | 0, s^2) + (1 - pi) N(w | 0, (narrow s)^2)     Blundell's spike and slab
    student_t     t(w / s | df) / s                                      df=1: Cauchy; forgives a few large weights
    exponential   exp(-w / s) / s,  w >= 0                               weights that combine models
    uniform       1, improper                                            no prior: the MAP is maximum likelihood

s is the prior's scale, an sd only for `normal`.

Slide prints the Normal prior as exp(-(t - mu)^2 / s^2), its penalty as t^2 / s^2 (Yandex); this computes
exp(-(t - mu)^2 / (2 s^2)) and t^2 / (2 s^2).

Source: Yandex, "Priors: which of these weights would you prefer?"; Blundell et al. 2015, section 3.3.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from .checks import positive
from .words import nearest


class Flat(dist.ImproperUniform):
    """The improper density 1 over real numbers of a shape, on the device and in the dtype of its value."""

    def log_prob(self, value: Tensor) -> Tensor:
        return value.new_zeros(value.shape[: value.dim() - self.event_dim])


def _normal(zeros: Tensor, scale: Any) -> Any:
    return dist.Normal(zeros, scale)


def _laplace(zeros: Tensor, scale: Any) -> Any:
    return dist.Laplace(zeros, scale)


def _mixture(zeros: Tensor, scale: Any, *, pi: float = 0.5, narrow: float = math.exp(-6)) -> Any:
    share = zeros.new_tensor([pi, 1 - pi]).expand(*zeros.shape, 2)
    wide = torch.ones_like(zeros) * scale
    parts = dist.Normal(zeros.unsqueeze(-1), torch.stack([wide, wide * narrow], -1))
    return dist.MixtureSameFamily(dist.Categorical(share), parts)


def _student_t(zeros: Tensor, scale: Any, *, df: float = 3.0) -> Any:
    return dist.StudentT(zeros + df, zeros, scale)


def _exponential(zeros: Tensor, scale: Any) -> Any:
    return dist.Exponential(1 / (torch.ones_like(zeros) * scale))


# A kind is a function (zeros, scale, *, options) -> a distribution with the shape, dtype and device of `zeros`.
KINDS: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "laplace": _laplace,
    "mixture": _mixture,
    "student_t": _student_t,
    "exponential": _exponential,
    "uniform": lambda zeros, scale: Flat(dist.constraints.real, zeros.shape, ()),
}


def weights(kind: str, scale: Any, shape: Sequence[int], like: Tensor, options: Mapping[str, Any] | None = None) -> Any:
    """The prior of one weight tensor: independent entries, one event.

        log p(w) = sum_ij log p(w_ij | scale),    p one of the densities at the top of this file

    Args:
        kind: One of `KINDS`.
        scale: The prior's scale (an sd for `normal`; `uniform` has none), a number or a tensor that broadcasts to
            `shape`.
        shape: Shape of the weights: () or (h,) for biases, (in, out) for matrices.
        like: A tensor whose device and dtype the prior follows.
        options: Of the kind: pi (share of the wide part) and narrow (the narrow part's scale over the wide one's)
            for `mixture`, df for `student_t`.

    Returns:
        A Pyro distribution with event shape `shape`.

    Raises:
        ValueError: For an unknown kind or option, or a number that is out of range.
    """
    positive("prior_scale", scale)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(nearest(str(kind), KINDS, "prior"))
    options = _checked(kind, {} if options is None else options)
    return KINDS[kind](like.new_zeros(tuple(shape)), scale, **options).to_event(len(shape))


def _checked(kind: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(options, Mapping):
        raise ValueError(f"prior_options must be a dict, got {options!r}. Give prior_options={{'df': 1.0}}, say.")
    known = [p.name for p in inspect.signature(KINDS[kind]).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name, value in options.items():
        if not known:
            raise ValueError(f"prior_options: prior {kind!r} takes none, got {name!r}. Leave prior_options out.")
        if name not in known:
            raise ValueError(f"prior_options: {nearest(str(name), known, 'option')}")
        positive(f"prior_options[{name!r}]", value)
        if name == "pi" and not value < 1:
            raise ValueError(f"prior_options['pi'] must be a share between 0 and 1, got {value!r}. Set 'pi': 0.5, say.")
    return options
