"""What becomes of a guide's draw once its fit is done: values, log density, log q; and which sites never move."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guides.supports import unconstrain
from zoo.core.handlers import in_plate, is_deterministic, scaled_log_prob

from .elbo import is_choice
from .prepared import Guide, Messages


def finish(
    q: Messages, p: Messages, points: Sequence[str], plate: str = "", scale: float = 1.0
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """A draw's values, its log density and log q, both in unconstrained space.

    lp = log p(y, theta) + log |dtheta / du|, logq = log q(theta) + log |dtheta / du| over the sites that have
    a density (not points). Points that replicate what was seen count for nothing. What lies inside `plate` counts
    `scale` times: of a batch lp is then an estimate.
    """
    values: dict[str, Tensor] = {}
    factors = {n: scale if scale != 1 and in_plate(m, plate) else 1.0 for n, m in p.items()}
    kept = [(n, m) for n, m in p.items() if not is_deterministic(m)]
    terms = [factors[n] * scaled_log_prob(m, replicas=n not in points) for n, m in kept]
    lp = torch.stack(terms).sum()
    logq = torch.zeros_like(lp) + sum(scaled_log_prob(m) for n, m in q.items() if is_choice(m) and n not in points)
    for name, msg in p.items():
        if msg["is_observed"] or is_deterministic(msg):
            continue
        values[name] = msg["value"]
        transform = unconstrain(msg["fn"].support, name)
        u = transform.inv(msg["value"])
        log_det = transform.log_abs_det_jacobian(u, msg["value"]).sum(dtype=torch.float64)
        lp = lp + log_det
        logq = logq if name in points else logq + log_det
    return values, lp, logq


def fixed_sites(guide: Guide, q1: Messages, q2: Messages, p: Messages) -> tuple[str, ...]:
    """Sites that have the same value in two runs of a guide; a guide may name in `random_sites` those that vary."""
    both = [n for n, m in q1.items() if is_choice(m) and n in p and n not in getattr(guide, "random_sites", ())]
    return tuple(n for n in both if torch.equal(q1[n]["value"], q2[n]["value"]))
