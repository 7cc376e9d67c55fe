"""Monte Carlo dropout: the Bayesian neural network of the lecture, with dropout as its q.

    w_l ~ N(0, 1 / l^2)                 (in, out)    l = length_scale, the slide's prior MN(0, I / l^2, I)
    b_l ~ N(0, 1 / l^2)                 (out,)
    h_0 = x,  h_l = relu(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L              (n,) or (n, k)
    y_i ~ N(f_i, noise^2)               classes=0: regression, tau = 1 / noise^2
    y_i ~ Bernoulli(sigmoid(f_i))       classes=2;  Categorical(softmax(f_i)) for more

    q:  w_l = diag(z_l) M_l,  z_l ~ Bernoulli(1 - p_l) before every weight layer, the input included;  b_l a point

The model is that of bnn_regression and bnn_classification: only q, the file's `guide`, makes it dropout. `svi` fits
that q, `nuts` samples the posterior that it stands for. p is one probability to drop or one a layer;
where="inner" leaves the input alone. kind="moons" loads classes, the default is sin(x) + x.

Compare: f. What q maximises is no bound: see `guides.bernoulli_dropout`.

Slide prints x-hat W-hat for one masked layer (Thome), masking twice; this computes (x z) M = x (diag(z) M).

Source: Gal, "Dropout as a Bayesian approximation"; Thome, "MC dropout"; Gal & Ghahramani 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from guides.bernoulli_dropout import bernoulli_dropout
from zoo.core.problem import Data
from zoo.core.rates import HIDDEN, P, rates_of
from zoo.core.relu_net import relu_net
from zoo.data import either

prepare = either.prepare
complete = either.complete
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
    model: Callable[..., Any], *, mask: str = "row", bias: str = "point", point: Sequence[str] = ()
) -> Callable[..., dict[str, Tensor]]:
    """q: dropout at the model's own p and where."""
    return bernoulli_dropout(model, rates_of, mask=mask, bias=bias, point=point)
