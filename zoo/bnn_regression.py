"""A Bayesian neural network for regression.

    w_l   ~ N(0, s_l^2 / fan_in)         (in, out)   l = 1 ... L;  scaling="none": N(0, s_l^2)
    b_l   ~ N(0, s_l^2)                  (out,)
    noise ~ HalfNormal(1)                ()          or known: noise=.1
    h_0   = x,  h_l = activation(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L      (n,) or (n, k)
    y_i   ~ N(f_i, noise^2)              (n,) or (n, k)

hidden=50 is one hidden layer, hidden=(50, 50) two; outputs=k gives matrix targets. prior_scale is one s, or
one for each weight layer; alpha = 1 / s^2, the slides' precision, may be given instead.

"The lecture BNN" is scaling="none": every weight ~ N(0, 1), as on the poster. The default divides by the
fan-in, so that Var f does not grow with the width; as the width grows, f tends to a Gaussian process.

Compare: f. Hidden units permute and flip sign, so weights are not identifiable.

Slide prints p(w | X, Y) = prod p(w | x_i, y_i) (Thome), which counts the prior n times; this computes
p(w) prod p(y_i | x_i, w) / p(Y | X).

Source: Gal, "Modern deep learning through Bayesian eyes: w_i ~ N(0, I)"; Neal 1996, chapter 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.activations import activation_function
from zoo.core.checks import positive, whole, widths
from zoo.core.priors import layer_scales, shrink, weights
from zoo.core.problem import Data
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
    prior_scale: float | Sequence[float] = 1.0,
    alpha: float | Sequence[float] | None = None,
    scaling: str = "fan_in",
    activation: str = "tanh",
    noise: float | None = None,
    outputs: int = 1,
    prior: str = "normal",
) -> Tensor:
    sizes = (x.shape[-1], *widths("hidden", hidden), whole("outputs", outputs))
    scales = layer_scales(prior_scale, alpha, len(sizes) - 1)
    act = activation_function(activation)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes)):
        s = scales[i]
        sd = s * shrink(scaling, fan_in)
        w = pyro.sample(f"w{i + 1}", weights(prior, sd, (fan_in, width), x))  # (in, out)
        b = pyro.sample(f"b{i + 1}", weights(prior, s, (width,), x))  # (out,)
        h = (act(h) if i else h) @ w + b
    f = pyro.deterministic("f", h.squeeze(-1) if outputs == 1 else h)  # (n,) or (n, k)
    if noise is None:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    positive("noise", noise)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, noise).to_event(f.dim() - 1), obs=y)  # (n,) or (n, k)
    return f
