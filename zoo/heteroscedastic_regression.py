"""A network with two heads: the mean of y, and its noise, which depends on x.

    w_l   ~ N(0, s_l^2 / fan_in)         (in, out)   l = 1 ... L;  scaling="none": N(0, s_l^2)
    b_l   ~ N(0, s_l^2)                  (out,)      other priors: zoo.core.priors
    h_0   = x,  h_l = activation(h_(l-1) w_l + b_l),  (f, a) = h_(L-1) w_L + b_L
    noise = least_noise + log(1 + exp(a))            (n,) or (n, k), deterministic: softplus
    y_i   ~ N(f_i, noise_i^2)            (n,) or (n, k)

The last layer has 2 k columns: k of the means f, then k of a. hidden=() is no hidden layer: both heads are linear
in x. Softplus grows like a where exp(a) overflows, and at the prior's centre noise is log 2, like the HalfNormal(1)
of bnn_regression. least_noise keeps one row, met exactly, from a density without bound.

prior_scale is one s, or one for each weight layer; alpha = 1 / s^2 may be given instead; prior_scale="learned"
adds scale_l ~ HalfNormal(1), (), a layer, with w_l = scale_l w_l_raw.

var y = E noise^2 + var f: the first is aleatoric, the second epistemic; `zoo.uncertainty` gives them apart. noise
is in the units that the model computes in (a table's standardised ones); predicted var is in y's own.

Compare: f and noise. Hidden units permute and flip sign, so weights are not identifiable.

Source: Yandex, "Linear regression: mu and sigma heads"; Leal-Taixe, "Aleatoric and epistemic uncertainty"; Nix &
Weigend 1994; Kendall & Gal 2017.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor
from torch.nn.functional import softplus

from zoo.core.activations import activation_function
from zoo.core.checks import positive, whole, widths
from zoo.core.problem import Data
from zoo.core.scales import shrink, weight_sites
from zoo.data import labels, toy

prepare = labels.real
COMPARE = ("f", "noise")


def data(seed: int = 0, n: int = 200) -> Data:
    """y = sin(x) + x + N(0, noise(x)), noise from .1 on the left to .7 on the right."""
    return toy.noisier_to_the_right(seed, n)


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
    least_noise: float = 0.001,
    outputs: int = 1,
) -> Tensor:
    sizes = (x.shape[-1], *widths("hidden", hidden), 2 * whole("outputs", outputs))
    positive("least_noise", least_noise)
    layers = [str(i) for i in range(1, len(sizes))]
    weight = weight_sites(x, layers, prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    act = activation_function(activation)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes)):
        w = weight("w", (fan_in, width), i, shrink(scaling, fan_in))  # (in, out)
        b = weight("b", (width,), i)  # (out,)
        h = (act(h) if i else h) @ w + b
    mean, a = (h[:, 0], h[:, 1]) if outputs == 1 else h.chunk(2, -1)
    f = pyro.deterministic("f", mean)  # (n,) or (n, k)
    noise = pyro.deterministic("noise", least_noise + softplus(a))  # (n,) or (n, k)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, noise).to_event(f.dim() - 1), obs=y)  # (n,) or (n, k)
    return f
