"""A Bayesian neural network for classes: one logit for two of them, a score each for more.

    w_l   ~ N(0, s_l^2 / fan_in)         (in, out)   l = 1 ... L;  scaling="none": N(0, s_l^2)
    b_l   ~ N(0, s_l^2)                  (out,)      other priors: zoo.core.priors
    h_0   = x,  h_l = activation(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L
    y_i   ~ Bernoulli(sigmoid(f_i))      two classes: f (n,), y (n,) of 0 and 1
    y_i   ~ Categorical(softmax(f_i))    k > 2 classes: f (n, k), y (n,) of 0 ... k - 1

k = classes; `zoo.load` reads it off the data. hidden=50 is one hidden layer, hidden=(50, 50) two. prior_scale is
one s, or one for each weight layer; alpha = 1 / s^2 may be given instead; prior_scale="learned" adds
scale_l ~ HalfNormal(1), (), a layer, with w_l = scale_l w_l_raw.

Compare: f, and the mean of y (the probabilities). Hidden units permute and flip sign, so weights are not
identifiable.

Slide prints the predictive as sum_s sigmoid(f^w_s(x)) (Thome, moons); this computes (1 / S) sum_s.

Source: Thome, "Bayesian neural networks: moons"; Neal 1996, chapter 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.activations import activation_function
from zoo.core.checks import whole, widths
from zoo.core.problem import Data
from zoo.core.scales import shrink, weight_sites
from zoo.data import labels, toy

CLASSIFY = True
prepare = labels.whole_numbers
complete = labels.with_classes


def data(seed: int = 0, n: int = 100, noise: float = 0.2) -> Data:
    """Two half moons that reach into each other."""
    return toy.moons(seed, n, noise)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    classes: int = 2,
    hidden: int | Sequence[int] = 50,
    prior: str = "normal",
    prior_scale: float | str | Sequence[float | str] = 1.0,
    alpha: float | Sequence[float] | None = None,
    prior_options: Mapping[str, Any] | None = None,
    scaling: str = "fan_in",
    activation: str = "tanh",
) -> Tensor:
    two = whole("classes", classes) == 2
    sizes = (x.shape[-1], *widths("hidden", hidden), 1 if two else classes)
    layers = [str(i) for i in range(1, len(sizes))]
    weight = weight_sites(x, layers, prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    act = activation_function(activation)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes)):
        w = weight("w", (fan_in, width), i, shrink(scaling, fan_in))  # (in, out)
        b = weight("b", (width,), i)  # (out,)
        h = (act(h) if i else h) @ w + b
    f = pyro.deterministic("f", h.squeeze(-1) if two else h)  # (n,) or (n, k)
    if two and y is not None:
        y = y.to(f.dtype)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(logits=f) if two else dist.Categorical(logits=f), obs=y)  # (n,)
    return f
