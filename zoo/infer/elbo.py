"""The evidence lower bound as a pure function of guide parameters and base noise.

    ELBO = E_q[log p(y | theta)] - KL(q, prior),    theta = g(parameters, noise),    noise ~ N(0, I)

Nothing here is random: the guide's parameters and the standard normals behind its draws are arguments, so the
function can be differentiated, mapped over particles and restarts, and traced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import torch
from pyro.distributions import Delta
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence, transform_to

from zoo.core.handlers import Record, Values, in_plate, is_deterministic, is_replica, scaled_log_prob


class Terms(NamedTuple):
    """One estimate of the ELBO and its two parts, float64 scalars: elbo = expected_log_likelihood - kl."""

    elbo: Tensor
    expected_log_likelihood: Tensor
    kl: Tensor


class Parameters(Messenger):
    """Answers `pyro.param` with constrain(unconstrained value): the store is not read.

    Args:
        unconstrained: {name: tensor}.
        constraints: {name: constraint} of those parameters.
    """

    def __init__(self, unconstrained: Mapping[str, Tensor], constraints: Mapping[str, Any]) -> None:
        super().__init__()
        self.unconstrained, self.constraints = unconstrained, constraints

    def _pyro_param(self, msg: Any) -> None:
        name = msg["name"]
        if name in self.unconstrained:
            msg["value"] = transform_to(self.constraints[name])(self.unconstrained[name])
            msg["done"] = True


# -- the bound ---------------------------------------------------------------------------------------------


def is_choice(msg: Any) -> bool:
    """Whether a guide's message is a draw (not an observation, not a deterministic value)."""
    return not msg["is_observed"] and not is_deterministic(msg)


def _base_normal(fn: Any) -> Normal | None:
    while isinstance(fn, Independent):
        fn = fn.base_dist
    return fn if isinstance(fn, Normal) else None


def _plain(msg: Any) -> bool:
    return msg["mask"] is None and not isinstance(msg["scale"], Tensor) and msg["scale"] == 1.0


def site_kl(q: Any, p: Any, analytic: bool, point: bool = False) -> Tensor:
    """KL of one site: closed form between Normals where allowed, else log q - log p at the draw.

    `point`: it has no spread. Then replicates of what was seen must not count: a q integrates their density to 1,
    while a point would take it as evidence for whatever makes that density high, such as a small noise.

    A q may state its KL itself, as an attribute of its distribution.
    """
    if analytic and _plain(q) and _plain(p):
        if hasattr(q["fn"], "kl"):
            return q["fn"].kl.sum(dtype=torch.float64)
        ours, prior = _base_normal(q["fn"]), _base_normal(p["fn"])
        if ours is not None and prior is not None:
            return kl_divergence(ours, prior).sum(dtype=torch.float64)
    if point and is_replica(p):
        return -scaled_log_prob(p, replicas=False)
    return _log_q(q) - scaled_log_prob(p)


def _log_q(msg: Any) -> Tensor:
    """log q of the guide's own draw: a Delta's is at its atom, which need not be looked up."""
    fn = msg["fn"]
    if isinstance(fn, Delta) and _plain(msg):
        return fn.log_density.expand(fn.batch_shape).sum(dtype=torch.float64)
    return scaled_log_prob(msg)


def combine(
    guide: Mapping[str, Any],
    model: Mapping[str, Any],
    plate: str,
    scale: Any,
    analytic: bool,
    points: Collection[str] = (),
) -> Terms:
    """The ELBO's terms from the messages of a guide run and of the model replayed on it.

    Args:
        guide: {site: message} of the guide.
        model: {site: message} of the model with the guide's values.
        plate: The data plate: its sites, likelihood and local KL, count `scale` times.
        scale: n / rows of this batch; the prior of everything outside the plate counts once.
        analytic: Use the closed form of KL where there is one.
        points: Sites that the guide gives no spread.
    """
    likelihood, kl = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for name, msg in model.items():
        factor = scale if in_plate(msg, plate) else 1.0
        if is_deterministic(msg):
            continue
        if msg["is_observed"]:
            likelihood = likelihood + factor * scaled_log_prob(msg)
        else:
            kl = kl + factor * site_kl(guide[name], msg, analytic, name in points)
    for name, msg in guide.items():
        if name not in model and is_choice(msg):  # auxiliary: the normals behind a transformed or joint draw
            kl = kl + (scale if in_plate(msg, plate) else 1.0) * scaled_log_prob(msg)
    return Terms(likelihood - kl, likelihood, kl)


def run(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    args: Any,
    kwargs: Any,
    value: Callable[[Any], Any] = lambda msg: msg["value"],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Messages of the guide, and of the model on the guide's values. Handlers outside answer the guide.

    `value`: a message of the guide -> what the model gets.
    """
    with Record() as q:
        guide(*args, **kwargs)
    values = {name: value(msg) for name, msg in q.sites.items() if is_choice(msg)}
    with Record() as p, Values(values):
        model(*args, **kwargs)
    return q.sites, p.sites
