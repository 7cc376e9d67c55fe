"""Concrete dropout: the probability to drop is learned, through a mask that is nearly 0 or 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import torch
from pyro.distributions import constraints
from torch import Tensor

from guides.bernoulli_dropout import NO_DENSITY, checked_rate
from guides.matrices import Layer, atoms, by_input, noise, over_matrices, weight
from guides.options import positive


def concrete_dropout(
    model: Callable[..., Any],
    rate: float | Sequence[float] | Callable[..., Any] = 0.1,
    sites: Sequence[str] | None = None,
    temperature: float = 0.1,
    mask: str = "row",
    *,
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
) -> Callable[..., dict[str, Any]]:
    """Dropout whose p, one a layer, climbs the objective too.

    W = diag(z) M,    z_i = 1 - sigmoid((logit p + logit u_i) / temperature),    u_i ~ U(0, 1)
    objective = E_z[log p(y | W)] - sum_matrices [ (1 - p) |M|^2 / (2 s^2) - K H(p) ] - sum_points |m|^2 / (2 s^2)

    K the inputs of a layer, H(p) = -p log p - (1 - p) log(1 - p): the entropy of the masks, which does depend on p
    and holds it off 0 (where nothing is dropped) unless the data ask for it. The penalty is that of masks of 0 and 1.
    Without data M goes to 0 and p to 1/2. For temperature -> 0, z is a mask of 0 and 1.

    Args:
        model: A Pyro model; the guide takes its arguments.
        rate: Where p starts, 0 < p < 1: a number, or one a layer; or a function of the model's keyword arguments.
        sites: The matrices; None: all real sites of event_dim 2 and 4.
        temperature: How far z is from 0 and 1.
        mask: As for `bernoulli_dropout`.
        bias, point, init, init_scale: As for `bernoulli_dropout`.

    Returns:
        A Pyro guide with parameters "<site>.weight", "<site>.rate" (1,), "<site>.point".

    Raises:
        ValueError: For a temperature that is not positive, p outside (0, 1), and as for `bernoulli_dropout`.

    Source: Gal, Hron & Kendall 2017.
    """
    positive("temperature", temperature, "Try 0.1.")

    def family(layer: Layer) -> Any:
        return _relaxed(layer, temperature)

    return over_matrices(
        model, family, rate=checked_rate(rate), sites=sites, bias=bias, point=point,
        init=init, init_scale=init_scale, mask=mask, no_density=NO_DENSITY, what="concrete_dropout",
    )  # fmt: skip


def _relaxed(layer: Layer, temperature: float) -> Any:
    """Delta(z M) with the objective's log density."""
    if layer.rate == 0:
        raise ValueError("rate must start above 0, got 0, from where p cannot move. Try 0.1, or use bernoulli_dropout.")
    m, start = weight(layer), layer.rate
    p = pyro.param(
        f"{layer.latent.name}.rate",
        lambda: m.detach().new_full((*layer.inputs[:-1], 1), start),
        constraint=constraints.unit_interval,
        event_dim=1,
    )
    e = noise(layer, layer.inputs[-1:])
    # u = Phi(e); 1 - Phi(e) = Phi(-e) keeps the digits that a subtraction would lose.
    logit_u = torch.special.ndtr(e).log() - torch.special.ndtr(-e).log()
    z = torch.sigmoid(-(torch.logit(p) + logit_u) / temperature)
    kept = by_input(layer, 1 - p)
    return atoms(layer, m, by_input(layer, z), kept, kept, extra=-layer.inputs[-1] * entropy(p).squeeze(-1))


def entropy(p: Tensor) -> Tensor:
    """H(p) of a coin, in nats."""
    return -torch.special.xlogy(p, p) - torch.special.xlogy(1 - p, 1 - p)
