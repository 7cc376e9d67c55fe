"""Original units: the one place where the standardising of y is undone.

    y = y_loc + y_scale z,   E y = y_loc + y_scale E z,   var y = y_scale^2 var z,   log p(y) = log p(z) - log y_scale

z is y as the model sees it; y_loc and y_scale stand in `Data.info`. Inputs, parameters and their log densities
stay in the model's units; predictions, targets and their log likelihoods leave in the original ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import constraints

from .problem import Data

# Beyond so many sds from 0, float32 (7 digits) rounds a difference of y visibly: 1e3 leaves four digits of an sd.
FAR = 1e3
# Squares of larger scales leave float32.
LARGE = 1e15


class Units(NamedTuple):
    """How far and how large y is in its original units.

    Args:
        loc: () or (k,), float64.
        scale: () or (k,), float64.
        shifts: Whether f is in the units of y: true where y's support is the whole line. A log rate is not.
    """

    loc: Tensor
    scale: Tensor
    shifts: bool

    @property
    def wide(self) -> bool:
        """Whether float32 would lose y's digits."""
        far = (self.loc.abs() > FAR * self.scale) | (self.scale > LARGE) | (self.scale < 1 / LARGE)
        return bool(far.any())


def base(fn: Any) -> Any:
    """A distribution without the wrappers of plates, masks and events."""
    while type(fn).__name__ in ("Independent", "ExpandedDistribution", "MaskedDistribution"):
        fn = fn.base_dist
    return fn


def family_of(fn: Any) -> str:
    """The family of a distribution: "Normal", or "MixtureSameFamily of Normal"."""
    inner = base(fn)
    name = type(inner).__name__
    return f"{name} of {family_of(inner.component_distribution)}" if name == "MixtureSameFamily" else name


def of(data: Any, family: str) -> Units | None:
    """The units of y, or None where predictions are to be left alone: no y_scale in info, classes, counts.

    Args:
        data: The problem's data.
        family: The family of y's distribution, see `family_of`.

    Raises:
        ValueError: For y_loc and y_scale that are no numbers, or a scale that is not positive.
    """
    info = data.info if isinstance(data, Data) else {}
    if not {"y_loc", "y_scale"} & set(info):
        return None
    support = getattr(getattr(dist, family.rpartition(" of ")[2], None), "support", None)
    if _is_discrete(support):
        return None
    loc, scale = _number(info, "y_loc", 0.0), _number(info, "y_scale", 1.0)
    if not bool((scale > 0).all()):
        raise ValueError(f"info['y_scale'] must be positive, got {info['y_scale']}. Give the sd of the original y.")
    return Units(loc, scale, support is constraints.real or support is constraints.real_vector)


def _is_discrete(support: Any) -> bool:
    try:
        return bool(getattr(support, "is_discrete", False))
    except NotImplementedError:  # a mixture knows only when it is made
        return False


def _number(info: dict[str, Any], name: str, default: float) -> Tensor:
    try:
        value = torch.as_tensor(info.get(name, default), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"info['{name}'] must be a number or one for each target, got {info[name]!r}.") from None
    return value[0] if value.dim() and len(value) == 1 else value


def targets(units: Units | None, z: Tensor) -> Tensor:
    """y_loc + y_scale z, float64 where float32 would lose digits; z itself where there are no units.

    Args:
        units: Of the problem.
        z: (..., m) or (..., m, k).
    """
    if units is None:
        return z
    z = z.double() if units.wide else z
    return units.loc.to(z) + units.scale.to(z) * z


def predictions(units: Units | None, out: dict[str, Tensor], y: str, f: str) -> dict[str, Tensor]:
    """y, mean, var and, where it is in the units of y, f in original units; other sites as they are.

    Args:
        units: Of the problem.
        out: {name: (chain, draw, m, ...)}.
        y: What the target is called.
        f: What the noise-free output is called.
    """
    if units is None:
        return out
    # A net may call several numbers a row f (a mean and a log sd, say): then it is not in the units of y.
    moved = {y, "mean"} | ({f} if units.shifts and f in out and y in out and out[f].shape == out[y].shape else set())
    new = {name: targets(units, value) for name, value in out.items() if name in moved}
    if "var" in out:
        var = out["var"].double() if units.wide else out["var"]
        new["var"] = units.scale.to(var) ** 2 * var
    return out | new


def log_densities(units: Units | None, terms: Tensor, shape: torch.Size) -> Tensor:
    """log p(z) - log y_scale, once for each target in a term.

    Args:
        units: Of the problem.
        terms: (chain, draw, ...), a term for each entry of the distribution's batch.
        shape: Of the observed value: the terms' own without (chain, draw), then the event's.
    """
    if units is None:
        return terms
    logs = units.scale.log().expand(shape)
    event = len(shape) - (terms.dim() - 2)
    return terms - (logs.sum(tuple(range(-event, 0))) if event else logs).to(terms)
