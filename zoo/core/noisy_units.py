"""A layer whose activations are draws, a ~ N(mu(x), s(x)^2), and what follows it, with the draws integrated out.

One linear output of Gaussian activations is Gaussian:      w . a + b ~ N(w . mu + b, sum_u w_u^2 s_u^2)
K draws of any other:                                       p(y | x) = E (1 / K) sum_k p(y | f(a_k))
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
from torch import Tensor
from torch.nn.functional import logsigmoid

from .checks import positive


def gaussian_output(mu: Tensor, s: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (n,) and variance (n,) of w . a + b, a ~ N(mu, s^2).

    Args:
        mu, s: (n, units).
        w, b: (units, 1) and (1,).
    """
    return (mu @ w + b).squeeze(-1), (s.square() @ w.square()).squeeze(-1)


def mixture(f: Tensor, noise: Any, classes: int) -> tuple[Tensor, Any]:
    """f without noise, and y's distribution: that of K draws f_k of the output, each as likely.

    Args:
        f: (n, K), or (n, K, classes) for more than two classes.
        noise: sd of y given f_k in a regression.
        classes: 0, 2 or more.

    Returns:
        (n,) means, logits of the mean probability, or (n, classes) logs of the mean probabilities; and the
        distribution.
    """
    if classes == 0:
        positive("noise", noise)
        each = dist.Categorical(logits=f.new_zeros(f.shape))
        return f.mean(1), dist.MixtureSameFamily(each, dist.Normal(f, noise))
    if classes == 2:  # log mean p - log mean (1 - p)
        logit = logsigmoid(f).logsumexp(1) - logsigmoid(-f).logsumexp(1)
        return logit, dist.Bernoulli(logits=logit)
    scores = f.log_softmax(-1).logsumexp(1) - math.log(f.shape[1])
    return scores, dist.Categorical(logits=scores)
