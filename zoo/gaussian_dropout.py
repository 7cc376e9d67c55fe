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

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from guides.gaussian_dropout import gaussian_dropout
from zoo.core.problem import Data
from zoo.core.rates import HIDDEN, P, rates_of
from zoo.core.relu_net import relu_net
from zoo.data import either

prepare = either.prepare
complete = either.complete
SAME_MODEL_AS = "mc_dropout"
OF_Q = ("p", "where")


def data(seed: int = 0, n: int = 100, kind: str = "sin_x_plus_x") -> Data:
    """y = sin(x) + x + N(0, .1), or two half moons."""
    return either.generated(kind, seed, n)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    p: float | Sequence[float] = P,
    where: str = "all",
    hidden: int | Sequence[int] = HIDDEN,
    length_scale: float = 1.0,
    noise: float | None = 0.1,
    classes: int = 0,
) -> Tensor:
    rates_of(p, where, hidden)  # of q; the model has none
    return relu_net(x, y, hidden=hidden, length_scale=length_scale, noise=noise, classes=classes)  # f (n,) or (n, k)


def guide(
    model: Callable[..., Any],
    *,
    noise: str = "unit",
    mask: str | None = None,
    bias: str = "point",
    point: Sequence[str] = (),
) -> Callable[..., dict[str, Tensor]]:
    """q: N(1, alpha) noise at the model's own p and where."""
    return gaussian_dropout(model, rates_of, noise=noise, mask=mask, bias=bias, point=point)
