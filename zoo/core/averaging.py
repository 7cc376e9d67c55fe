"""Averaged weights in the place of averaged predictions: one pass through the network of E_q[W].

E_q[W] = (1 - p) M    of dropout, W = diag(z) M
E_q[W] = mean of the draws    of any other q
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from .posterior import Posterior


def averaged(posterior: Posterior, rates: Mapping[str, float], *, dropped: bool = True) -> Posterior:
    """The posterior of one point a chain, whose `predict` is the network of averaged weights.

    Args:
        posterior: Draws of a network's weights.
        rates: {site: p} of the sites that were fitted with dropout: their M is read off the draws exactly, since each
            draw of a weight is 0 or M. Sites not named here take the mean of their draws.
        dropped: False leaves out the factor 1 - p: the network without masks, unscaled.

    Returns:
        `Posterior` of kind "members", without stats.

    Raises:
        ValueError: For rates of unknown sites.
    """
    if unknown := [name for name in rates if name not in posterior.draws]:
        raise ValueError(f"rates must name sites of the posterior {list(posterior.draws)}, got {unknown}.")
    draws = {}
    for name, value in posterior.draws.items():
        p = rates.get(name, 0.0)
        point = _without_masks(value) if p > 0 else value.mean(1)
        draws[name] = (point * (1 - p) if dropped else point).unsqueeze(1)
    return dataclasses.replace(
        posterior, method="averaged", kind="members", draws=draws, weights=None, stats={}, exact=None, warmup=None
    )


def _without_masks(value: Tensor) -> Tensor:
    """M (chain, *shape) of draws (chain, draw, *shape) that are 0 or M; 0 where a weight was never kept."""
    high, low = value.amax(1), value.amin(1)
    return torch.where(high > 0, high, low)
