"""`bound`: the three terms of the evidence lower bound of a model whose rows have latents of their own.

log p(y) >= sum_i E_q[log p(y_i | z_i, w)] - sum_i KL(q(z_i | y_i) || p(z_i)) - KL(q(w) || p(w))
            reconstruction                   kl                               weights
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zoo.core.posterior import Posterior, check_posteriors

from .row_terms import row_terms


def bound(posterior: Posterior, x: Any = None, y: Any = None, *, draws: int = 100, seed: int = 0) -> dict[str, Tensor]:
    """The terms of the bound at these rows; reconstruction - kl - log p(y_i) = -KL(q || p(z | y_i)) for each row.

    Args:
        posterior: A fit by svi with the model's own guide.
        x: Inputs (m, d), or None for a model without; without x and y: the training data.
        y: Targets (m, ...).
        draws: How many z for each row the reconstruction is averaged over.
        seed: For them.

    Returns:
        {"reconstruction": (chain, m), "kl": (chain, m), "weights": (chain,)}; "weights" is minus the log prior of
        those that are points, which bounds nothing.

    Raises:
        ValueError: For fits whose guide infers no row's latents, and rows that do not fit the model.

    Source: Leal-Taixe, "Variational autoencoder"; Kingma & Welling 2014.
    """
    check_posteriors("bound", posterior)
    found = row_terms(posterior, x, y, draws=draws, seed=seed)
    return {
        "reconstruction": torch.stack([terms.log_likelihood.mean(0) for terms in found]),
        "kl": torch.stack([terms.kl.mean(0) for terms in found]),
        "weights": torch.stack([terms.weights.mean() for terms in found]),
    }
