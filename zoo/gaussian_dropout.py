"""Gaussian dropout: the Bayesian neural network of the lecture, with multiplicative Gaussian noise (MGN) as its q.

    w_l ~ N(0, 1 / l^2)                 (in, out)    l = length_scale
    b_l ~ N(0, 1 / l^2)                 (out,)
    h_0 = x,  h_l = relu(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L              (n,) or (n, k)
    y_i ~ N(f_i, noise^2)               classes=0: regression, tau = 1 / noise^2
    y_i ~ Bernoulli(sigmoid(f_i))       classes=2;  Categorical(softmax(f_i)) for more

    q:  w_l = diag(z_l) M_l,  z_l ~ N(1, alpha_l), alpha = p / (1 - p), before every weight layer;  b_l a point

p = .5 is the poster's N(1, 1). The model is that of mc_dropout, word for word, and so is the variance that the noise
gives a linear unit: only q differs. `svi` with guide_options={"noise": "weight"} gives each weight a factor of its
own, and with bias="normal" a true bound. where="inner" leaves the input alone; kind="moons" loads classes.

Compare: f. With a factor for each unit what q maximises is no bound: see `guides.gaussian_dropout`.

Source: Gal, "Multiplicative Gaussian noise: N(1, 1)"; Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov 2014.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor

from guides.gaussian_dropout import gaussian_dropout
from zoo.core.checks import positive, widths
from zoo.core.outcome import outcome, outputs_of
from zoo.core.problem import Data
from zoo.core.rates import drop_rates
from zoo.data import either

prepare = either.prepare
complete = either.complete


def data(seed: int = 0, n: int = 100, kind: str = "sin_x_plus_x") -> Data:
    """y = sin(x) + x + N(0, .1), or two half moons."""
    return either.generated(kind, seed, n)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    p: float | Sequence[float] = 0.1,
    where: str = "all",
    hidden: int | Sequence[int] = 50,
    length_scale: float = 1.0,
    noise: float | None = 0.1,
    classes: int = 0,
) -> Tensor:
    sizes = (x.shape[-1], *widths("hidden", hidden), outputs_of(classes))
    drop_rates(p, where, len(sizes) - 1)  # of q; the model has none
    positive("length_scale", length_scale)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes), start=1):
        w = pyro.sample(f"w{i}", dist.Normal(x.new_zeros(fan_in, width), 1 / length_scale).to_event(2))  # (in, out)
        b = pyro.sample(f"b{i}", dist.Normal(x.new_zeros(width), 1 / length_scale).to_event(1))  # (out,)
        h = (h.relu() if i > 1 else h) @ w + b
    f = pyro.deterministic("f", h if classes > 2 else h.squeeze(-1))  # (n,) or (n, k)
    if noise is None and not classes:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", outcome(f, noise, classes), obs=y if classes > 2 or y is None else y.to(f.dtype))  # (n,)
    return f


def guide(
    model: Callable[..., Any],
    *,
    noise: str = "unit",
    mask: str | None = None,
    bias: str = "point",
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Tensor]]:
    """q: N(1, alpha) noise at the model's own p and where."""

    def rates(p: Any = 0.1, where: str = "all", hidden: Any = 50, **_: Any) -> list[float]:
        return drop_rates(p, where, len(widths("hidden", hidden)) + 1)

    return gaussian_dropout(model, rates, noise=noise, mask=mask, bias=bias, point=point)
