"""Bayesian logistic regression: two classes, a linear logit.

    w    ~ N(0, prior_scale^2)           (d,)   other priors: zoo.core.priors
    b    ~ N(0, prior_scale^2)           (); left out by bias=False (x then carries its own ones)
    f_i  = x_i w + b                     (n,)   logits
    y_i  ~ Bernoulli(sigmoid(f_i))       (n,)   0/1; labels -1/+1 are mapped, and said

alpha = 1 / prior_scale^2 may be given instead; prior_scale="learned" adds scale ~ HalfNormal(1), ().
With prior="uniform" on separable data nothing holds the weights: the likelihood has no maximum, and map says so.

Compare: f, and the mean of y (the probability). No closed form: the posterior is a product of sigmoids.

Slide prints the likelihood as prod p(y_i = 1 | x_i, w) and the predictive as sum_s sigmoid(w_s x) (Thome),
the logistic loss as y sigma + (1 - y)(1 - sigma) and the Normal prior as exp(-(t - mu)^2 / s^2) (Yandex);
this computes prod p(y_i | x_i, w), (1 / S) sum_s sigmoid(w_s x), log p(y_i | x_i, w) =
y log sigma + (1 - y) log(1 - sigma) and exp(-(t - mu)^2 / (2 s^2)).

Source: Thome, "Bayesian logistic regression"; Bishop 2006, section 4.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.checks import switch
from zoo.core.problem import Data
from zoo.core.scales import weight_sites
from zoo.data import labels, toy

CLASSIFY = True
prepare = labels.binary


def data(seed: int = 0, n: int = 100, d: int = 2) -> Data:
    """Two overlapping blobs."""
    return toy.blobs(seed, n, d)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    prior: str = "normal",
    prior_scale: float | str = 1.0,
    alpha: float | None = None,
    prior_options: Mapping[str, Any] | None = None,
    bias: bool = True,
) -> Tensor:
    switch("bias", bias)
    weight = weight_sites(x, ("",), prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    f = x @ weight("w", (x.shape[-1],))  # (d,)
    if bias:
        f = f + weight("b", ())  # ()
    f = pyro.deterministic("f", f)  # (n,)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(logits=f), obs=y)  # (n,)
    return f
