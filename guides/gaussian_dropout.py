"""Gaussian dropout: weights, or whole inputs of a layer, multiplied by N(1, alpha)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
import torch

from guides.bernoulli_dropout import checked_rate
from guides.matrices import Layer, atoms, by_input, noise, over_matrices, weight

NO_DENSITY = (
    "a draw diag(z) M has one factor for a whole row of weights, so q lies on lines, has no density, and its KL is "
    "infinite: what is maximised is an objective, no bound of the evidence"
)


def gaussian_dropout(
    model: Callable[..., Any],
    rate: float | Sequence[float] | Callable[..., Any] = 0.5,
    sites: Sequence[str] | None = None,
    noise: str = "weight",
    mask: str | None = None,
    *,
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
) -> Callable[..., dict[str, Any]]:
    """Multiplicative Gaussian noise of variance alpha = p / (1 - p), which a linear unit cannot tell from dropout.

    noise="weight":    q(w) = N(m, alpha m^2),  for priors N(0, s^2) exactly
                       KL = sum 1/2 [(1 + alpha) m^2 / s^2 - 1 - log(alpha m^2 / s^2)],    a true bound
    noise="unit":      W = diag(z) M,  z_i ~ N(1, alpha), one for each input of a layer; q lies on lines, KL is
                       infinite, and objective = E_z[log p(y | W)] - sum (1 + alpha) |M|^2 / (2 s^2)

    Dropout with p, its M divided by 1 - p, gives f of a linear unit the same mean and the same variance
    alpha sum m^2 x^2. rate=.5 is the poster's N(1, 1). All other sites are points, as in `bernoulli_dropout`; a fit
    with points is no bound either: bias="normal" makes one.

    The approximations of the KL by Kingma, Salimans & Welling and by Molchanov, Ashukha & Vetrov are of a log-uniform
    prior, which is improper, not of the model's own; they are not used here.

    Args:
        model: A Pyro model; the guide takes its arguments.
        rate: p of all layers, or one a layer in the model's order, 0 <= p < 1; or a function of the model's keyword
            arguments that returns those.
        sites: The matrices with noise; None: all real sites of event_dim 2 and 4.
        noise: "weight" or "unit".
        mask: "row": while zoo trains, each row of the data has noise of its own; "draw": one for all rows of a step.
            None: "row" for units, "draw" for weights.
        bias, point, init, init_scale: As for `bernoulli_dropout`.

    Returns:
        A Pyro guide with parameters "<site>.weight", "<site>.point".

    Raises:
        ValueError: As for `bernoulli_dropout`.

    Source: Gal, "q(omega): multiplicative Gaussian noise"; Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov
        2014, section 10.
    """
    if noise not in ("weight", "unit"):
        raise ValueError(f"noise must be 'weight' or 'unit', got {noise!r}. Leave it out for 'weight'.")
    units = noise == "unit"
    return over_matrices(
        model, _unit if units else _weight, rate=checked_rate(rate), sites=sites, bias=bias, point=point,
        init=init, init_scale=init_scale, mask=("row" if units else "draw") if mask is None else mask,
        no_density=NO_DENSITY if units else "", what="gaussian_dropout",
    )  # fmt: skip


def _weight(layer: Layer) -> Any:
    """N(m, alpha m^2) for each weight."""
    alpha, m = layer.rate / (1 - layer.rate), weight(layer)
    if alpha == 0:
        return atoms(layer, m, torch.ones_like(m), 1.0, 1.0)
    # A weight that is exactly 0 would have no density; a smaller sd's square would be 0, and the KL infinite.
    scale = (alpha**0.5 * m.abs()).clamp_min(torch.finfo(m.dtype).tiny ** 0.5)
    return dist.Normal(m, scale).to_event(layer.latent.value_dim)


def _unit(layer: Layer) -> Any:
    """diag(z) M, z_i ~ N(1, alpha)."""
    alpha, m = layer.rate / (1 - layer.rate), weight(layer)
    z = 1 + alpha**0.5 * noise(layer, layer.inputs[-1:]) if alpha > 0 else m.new_ones(layer.inputs)
    return atoms(layer, m, by_input(layer, z), 1.0, 1 + alpha)
