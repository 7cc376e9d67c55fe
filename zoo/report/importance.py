"""`log_marginal`: log p(y_i) with the row's own latents integrated out, by importance sampling.

    log p(y_i | x_i) >= E log (1 / K) sum_k p(y_i | z_k, w_k) p(z_k) / q(z_k | y_i, x_i),    z_k ~ q

K = 1 is the bound of the fit; it rises with K, and the gap closes like 1 / K.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.checks import check_seed, whole
from zoo.core.likelihoods import log_likelihood
from zoo.core.local import local_sites
from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.tensors import to_numpy

from .row_terms import row_terms


def log_marginal(posterior: Posterior, x: Any = None, y: Any = None, *, draws: int = 100, seed: int = 0) -> Tensor:
    """The K-sample importance-weighted bound of log p(y_i | x_i), (chain, m), in nats.

    What held-out rows of such a model are compared by: its `log_likelihood` is conditional on latents that new rows do
    not have. w_k runs through the fit's draws, so that the posterior of the weights is averaged over, too. A model
    without latents of rows gives log (1 / S) sum_s p(y_i | w_s), exactly; draws that have weights count by them, and
    a chain whose weights are all 0 has NaN.

    Args:
        posterior: A fit by svi with the model's own guide.
        x: Inputs (m, d), or None for a model without; without x and y: the training data.
        y: Targets (m, ...).
        draws: K.
        seed: For z.

    Raises:
        ValueError: For fits whose guide infers no row's latents, and rows that do not fit the model.

    Source: Burda, Grosse & Salakhutdinov 2016.
    """
    check_posteriors("log_marginal", posterior)
    whole("draws", draws), check_seed(seed)
    if not local_sites(posterior.problem):
        terms = log_likelihood(posterior, x, y).double()
        if posterior.weights is None:
            return terms.logsumexp(1) - math.log(terms.shape[1])
        share = posterior.weights.to(terms)
        return (terms + share.log()[:, :, None]).logsumexp(1) - share.sum(1, keepdim=True).log()
    found = row_terms(posterior, x, y, draws=draws, seed=seed)
    log_weights = [terms.log_likelihood + terms.log_prior - terms.log_q for terms in found]
    return torch.stack([each.logsumexp(0) - math.log(len(each)) for each in log_weights])


def integrated(posterior: Posterior, x: Any, y: Tensor) -> NDArray[np.float64]:
    """log p(y_i) (m,), chains averaged, for scores; NaN where the fit has no guide that infers rows' latents.

    Args:
        posterior: A fit of a model whose rows have latents.
        x: (m, d), or None for the training data.
        y: (m, ...).
    """
    try:
        found = log_marginal(posterior, x, None if x is None else y)
    except ValueError:
        return np.full(len(y), np.nan)
    return to_numpy(found.logsumexp(0) - math.log(len(found)))
