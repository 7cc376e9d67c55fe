"""Any noise of mean 1 that multiplies weights: a stochastic regularisation of your own, as a variational family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro.distributions as dist
from torch import Tensor

from guides import gaussian_dropout
from guides.bernoulli_dropout import NO_DENSITY
from guides.matrices import Layer, atoms, by_input, over_matrices, weight
from guides.matrices import noise as drawn
from guides.noise import check_noise, is_discrete, quantile

PLACES = ("units", "weights", "connections")


def multiplicative(
    model: Callable[..., Any],
    noise: Any = None,
    on: str = "units",
    sites: Sequence[str] | None = None,
    mask: str | None = None,
    *,
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
) -> Callable[..., dict[str, Any]]:
    """W = z M with E z = 1: q(omega) = ?, answered by a distribution.

    on="units":          W = diag(z) M, one z for each input of a layer
    on="weights":        W_ij = z_ij M_ij, one draw for all rows of a step
    on="connections":    the same q; while zoo trains each row of the data draws its own, as DropConnect does
    objective            E_z[log p(y | W)] - sum_matrices E z^2 |M|^2 / (2 s^2) - sum_points |m|^2 / (2 s^2)

    Continuous noise on weights has a density, log q(W) = sum log p(z_ij) - log |M_ij|, and a true bound (with
    bias="normal"). Noise on units lies on lines, discrete noise on atoms: there KL is undefined, and the objective
    takes its place. Dropout is Bernoulli(1 - p) / (1 - p), MGN Normal(1, 1); DropConnect is dropout's noise on
    "connections". Other priors than N(0, s^2): see `guides.matrices.atoms`.

    Noise that torch has no inverse distribution function of (Gamma) runs by svi's engine "loop".

    Args:
        model: A Pyro model; the guide takes its arguments.
        noise: A scalar distribution of mean 1 and finite variance, continuous or of finitely many values; None:
            Normal(1, 1).
        on: "units", "weights" or "connections".
        sites: The matrices; None: all real sites of event_dim 2 and 4.
        mask: "draw" or "row", see `bernoulli_dropout`; None: "draw" for weights, else "row".
        bias, point, init, init_scale: As for `bernoulli_dropout`.

    Returns:
        A Pyro guide with parameters "<site>.weight", "<site>.point".

    Raises:
        TypeError: For noise that is no distribution.
        ValueError: For noise of another mean, an unknown `on`, and as for `bernoulli_dropout`.

    Source: Gal, "q(omega) = ?"; Wan, Zeiler, Zhang, LeCun & Fergus 2013.
    """
    noise = dist.Normal(1.0, 1.0) if noise is None else noise
    if on not in PLACES:
        raise ValueError(f"on must be 'units', 'weights' or 'connections', got {on!r}. Leave it out for 'units'.")
    moments, units, discrete = check_noise(noise), on == "units", is_discrete(noise)
    # Dropout's own noise at p = 0: points. (torch's Bernoulli(1) is 0 with probability 1e-7.)
    still = isinstance(noise, dist.Delta) or (discrete and moments[1] - moments[0] ** 2 < 1e-6)
    function = quantile(noise)

    def family(layer: Layer) -> Any:
        m = weight(layer)
        shape = layer.inputs[-1:] if units else layer.latent.value.shape[-layer.latent.value_dim :]
        if still:
            return atoms(layer, m, by_input(layer, m.new_ones(layer.inputs)), 1.0, 1.0)
        z = drawn(layer, shape, noise).to(m) if function is None else function(drawn(layer, shape))
        if units or discrete:
            return atoms(layer, m, by_input(layer, z) if units else z, *moments)
        return dist.Delta(z * m, _log_density(noise, z, m, layer.latent.value_dim), event_dim=layer.latent.value_dim)

    return over_matrices(
        model, family, rate=0.0 if still else None, sites=sites, bias=bias, point=point, init=init,
        init_scale=init_scale, mask=("draw" if on == "weights" else "row") if mask is None else mask,
        no_density=NO_DENSITY if discrete else gaussian_dropout.NO_DENSITY if units else "", what="multiplicative",
    )  # fmt: skip


def _log_density(noise: Any, z: Tensor, m: Tensor, event: int) -> Tensor:
    """log q(z m) = sum log p(z) - log |m|."""
    return (noise.log_prob(z) - m.abs().log()).sum(tuple(range(-event, 0)))
