"""A Bayesian neural network for regression.

    w_l   ~ N(0, s_l^2 / fan_in)         (in, out)   l = 1 ... L;  scaling="none": N(0, s_l^2)
    b_l   ~ N(0, s_l^2)                  (out,)      other priors: zoo.core.priors
    noise ~ HalfNormal(1)                ()          or known: noise=.1
    h_0   = x,  h_l = activation(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L      (n,) or (n, k)
    y_i   ~ N(f_i, noise^2)              (n,) or (n, k)

hidden=50 is one hidden layer, hidden=(50, 50) two; outputs=k gives matrix targets. prior_scale is one s, or
one for each weight layer; alpha = 1 / s^2, the slides' precision, may be given instead; prior_scale="learned"
adds scale_l ~ HalfNormal(1), (), a layer, with w_l = scale_l w_l_raw.

"The lecture BNN" is scaling="none": every weight ~ N(0, 1), as on the poster. The default divides by the
fan-in, so that Var f does not grow with the width; as the width grows, f tends to a Gaussian process.

Compare: f. Hidden units permute and flip sign, so weights are not identifiable.

Slide prints p(w | X, Y) = prod p(w | x_i, y_i) (Thome), which counts the prior n times; this computes
p(w) prod p(y_i | x_i, w) / p(Y | X).

Source: Gal, "Modern deep learning through Bayesian eyes: w_i ~ N(0, I)"; Neal 1996, chapter 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.activations import activation_function
from zoo.core.checks import positive, whole, widths
from zoo.core.problem import Data
from zoo.core.scales import shrink, weight_sites
from zoo.data import labels, toy

prepare = labels.real


def data(seed: int = 0, n: int = 100) -> Data:
    """y = sin(x) + x + N(0, .1)."""
    return toy.sin_x_plus_x(seed, n)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    hidden: int | Sequence[int] = 50,
    prior: str = "normal",
    prior_scale: float | str | Sequence[float | str] = 1.0,
    alpha: float | Sequence[float] | None = None,
    prior_options: Mapping[str, Any] | None = None,
    scaling: str = "fan_in",
    activation: str = "tanh",
    noise: float | None = None,
    outputs: int = 1,
) -> Tensor:
    sizes = (x.shape[-1], *widths("hidden", hidden), whole("outputs", outputs))
    layers = [str(i) for i in range(1, len(sizes))]
    weight = weight_sites(x, layers, prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    act = activation_function(activation)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes)):
        w = weight("w", (fan_in, width), i, shrink(scaling, fan_in))  # (in, out)
        b = weight("b", (width,), i)  # (out,)
        h = (act(h) if i else h) @ w + b
    f = pyro.deterministic("f", h.squeeze(-1) if outputs == 1 else h)  # (n,) or (n, k)
    if noise is None:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    positive("noise", noise)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, noise).to_event(f.dim() - 1), obs=y)  # (n,) or (n, k)
    return f
