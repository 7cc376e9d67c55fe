"""Bayesian logistic regression: two classes, a linear logit.

    w    ~ N(0, prior_scale^2)           (d,)
    b    ~ N(0, prior_scale^2)           (); left out by bias=False (x then carries its own ones)
    f_i  = x_i w + b                     (n,)   logits
    y_i  ~ Bernoulli(sigmoid(f_i))       (n,)   0/1; labels -1/+1 are mapped, and said

Compare: f, and the mean of y (the probability). No closed form: the posterior is a product of sigmoids.

Slide prints the likelihood as prod p(y_i = 1 | x_i, w) and the predictive as sum_s sigmoid(w_s x) (Thome),
the logistic loss as y sigma + (1 - y)(1 - sigma) and the Normal prior as exp(-(t - mu)^2 / s^2) (Yandex);
this computes prod p(y_i | x_i, w), (1 / S) sum_s sigmoid(w_s x), log p(y_i | x_i, w) =
y log sigma + (1 - y) log(1 - sigma) and exp(-(t - mu)^2 / (2 s^2)).

Source: Thome, "Bayesian logistic regression"; Bishop 2006, section 4.5.
"""

from __future__ import annotations

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.checks import switch
from zoo.core.priors import weights
from zoo.core.problem import Data
from zoo.data import labels, toy

CLASSIFY = True
prepare = labels.binary


def data(seed: int = 0, n: int = 100, d: int = 2) -> Data:
    """Two overlapping blobs."""
    return toy.blobs(seed, n, d)


def model(
    x: Tensor, y: Tensor | None = None, *, prior_scale: float = 1.0, bias: bool = True, prior: str = "normal"
) -> Tensor:
    switch("bias", bias)
    w = pyro.sample("w", weights(prior, prior_scale, (x.shape[-1],), x))  # (d,)
    f = x @ w
    if bias:
        f = f + pyro.sample("b", weights(prior, prior_scale, (), x))  # ()
    f = pyro.deterministic("f", f)  # (n,)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(logits=f), obs=y)  # (n,)
    return f
