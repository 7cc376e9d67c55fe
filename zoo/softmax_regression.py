"""Bayesian softmax regression: k classes, a linear score for each.

    w     ~ N(0, prior_scale^2)          (d, k)   other priors: zoo.core.priors
    b     ~ N(0, prior_scale^2)          (k,); left out by bias=False (x then carries its own ones)
    f_i   = x_i w + b                    (n, k)   scores
    y_i   ~ Categorical(softmax(f_i))    (n,)     0 ... k - 1

k = classes; `zoo.load` reads it off the data. alpha = 1 / prior_scale^2 may be given instead;
prior_scale="learned" adds scale ~ HalfNormal(1), ().

Compare: the mean of y (the probabilities), and f. Adding one number to all k scores of a row changes no
probability: only the prior holds that direction, and prior="uniform" leaves it open.

Slide prints softmax as exp(s_i) / sum_k exp(s_k) (Thome); this computes exp(s_ik) / sum_j exp(s_ij).

Source: Thome, "Classification: softmax"; Bishop 2006, section 4.3.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import pyro.distributions as dist
from torch import Tensor

from zoo.core.checks import switch, whole
from zoo.core.problem import Data
from zoo.core.scales import weight_sites
from zoo.data import labels, toy

CLASSIFY = True
prepare = labels.whole_numbers
complete = labels.with_classes


def data(seed: int = 0, n: int = 150, classes: int = 3) -> Data:
    """Overlapping blobs around a circle, one a class."""
    return toy.wheel(seed, n, classes)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    classes: int = 3,
    prior: str = "normal",
    prior_scale: float | str = 1.0,
    alpha: float | None = None,
    prior_options: Mapping[str, Any] | None = None,
    bias: bool = True,
) -> Tensor:
    switch("bias", bias)
    k = whole("classes", classes)
    weight = weight_sites(x, ("",), prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    f = x @ weight("w", (x.shape[-1], k))  # (d, k)
    if bias:
        f = f + weight("b", (k,))  # (k,)
    f = pyro.deterministic("f", f)  # (n, k)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Categorical(logits=f), obs=y)  # (n,)
    return f
