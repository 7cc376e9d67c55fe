"""The score-function gradient of an expectation, for draws that are no differentiable function of the parameters.

    d/dphi E_q f = E_q[ (f(z_k) - b_k) d/dphi log q(z_k) + d/dphi f(z_k) ],    b_k = mean of f over the other particles

with every z_k held fixed; b is 0 where there is one particle. b_k does not depend on z_k, so it leaves the mean as it
is, and takes away what all particles share. For the ELBO f = log p(y, z) - log q(z); of the last term only what points
contribute is kept, since that of log q has mean 0.

It needs log q at a draw and nothing else: no rsample. Its price is variance, see examples/gradient_estimators.py.

Source: Yandex, "Reparameterization: many but not all"; Williams 1992; Kool, van Hoof & Welling 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pyro.distributions import Delta, MaskedDistribution
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from .elbo import is_choice

GRADIENTS = ("pathwise", "score")


def is_drawn(msg: Any) -> bool:
    """Whether a guide's message is a draw from a distribution that is no point."""
    return is_choice(msg) and not site_is_subsample(msg) and not isinstance(msg["fn"], Delta)


class Detached(Messenger):
    """Cuts a guide's draws off from its parameters; points keep their gradient."""

    def _pyro_post_sample(self, msg: Any) -> None:
        if is_drawn(msg):
            msg["value"] = msg["value"].detach()


def log_q(guide: Mapping[str, Any]) -> Tensor:
    """log q of a guide's draws, a float64 scalar, each counted once whatever its plate's scale.

    Args:
        guide: {site: message}.
    """
    each = [msg["fn"].log_prob(msg["value"]).sum(dtype=torch.float64) for msg in guide.values() if is_drawn(msg)]
    return torch.stack(each).sum()


def surrogate(f: Tensor, log_q: Tensor) -> Tensor:
    """A scalar whose gradient is the estimate.

        1/K sum_k [ (f_k - b_k) log q(z_k) + f_k ],    f_k - b_k without gradient

    Args:
        f: (particle,).
        log_q: (particle,), at draws that carry no gradient.
    """
    fixed, count = f.detach(), len(f)
    others = (fixed.sum() - fixed) / (count - 1) if count > 1 else torch.zeros_like(fixed)
    return ((fixed - others) * log_q + f).mean()


def of_elbo(elbo: Tensor, log_q: Tensor) -> Tensor:
    """`surrogate` of the ELBO (particle,), without the derivative of its own log q."""
    return surrogate(elbo + log_q - log_q.detach(), log_q)


def check_score(guide: Mapping[str, Any], no_density: str) -> None:
    """Refuses a guide whose draws have no log q.

    Args:
        guide: {site: message}.
        no_density: Why q has no density, or "".

    Raises:
        ValueError: For q without a density, noise whose density the guide hides, and guides that draw nothing.
    """
    if no_density:
        raise ValueError(f"gradient='score' needs log q, but {no_density}. Use gradient='pathwise'.")
    drawn = {name: msg for name, msg in guide.items() if is_drawn(msg)}
    hidden = [n for n, m in drawn.items() if isinstance(m["fn"], MaskedDistribution) or m["mask"] is not None]
    if hidden:
        raise ValueError(
            f"gradient='score' needs log q of every draw, and this guide masks that of '{hidden[0]}'. "
            "Use gradient='pathwise'."
        )
    if not drawn:
        raise ValueError("gradient='score' needs a guide that draws, this one has points only. Use 'pathwise'.")
