"""Sites that were moved: computed from what was sampled instead, and wanted in the draws.

Under pyro.infer.reparam's LocScaleReparam(0) a model samples theta_decentered ~ N(0, 1) and computes theta = loc +
scale theta_decentered; under prior_scale="learned" it samples w_raw and computes w = scale w_raw. Whoever wrote the
model asks for theta, whoever reads its formula for w.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .handlers import Record, Values, is_computed, is_deterministic, pyro_state
from .posterior import Posterior
from .randomness import untouched

CHUNK = 1000
RAW = ("_raw", "_decentered")


def _wanted(name: str, msg: Any, latent: Mapping[str, Tensor]) -> bool:
    """Whether a computed site stands for a latent: one of reparam's, or the w of a w_raw."""
    return not is_deterministic(msg) or f"{name}_raw" in latent


def with_computed(posterior: Posterior) -> Posterior:
    """The posterior with the sites that stand for latents among its draws, each at that draw's latents."""
    problem, (chains, kept) = posterior.problem, posterior.shape
    args, kwargs = problem.arguments()

    def one(values: dict[str, Tensor]) -> dict[str, Tensor]:
        with Record() as record, Values(values):
            problem.model(*args, **kwargs)
        moved = {n: m for n, m in record.sites.items() if is_computed(m) and _wanted(n, m, values)}
        return {n: m["value"] for n, m in moved.items()}

    flat = {n: v.reshape(-1, *v.shape[2:]) for n, v in posterior.draws.items()}
    with pyro_state(validate=False), torch.no_grad(), untouched(problem.tensor.device):
        if not one({n: v[0] for n, v in flat.items()}):
            return posterior
        try:
            out = torch.func.vmap(one, chunk_size=CHUNK)(flat)
        except (RuntimeError, NotImplementedError):
            rows = [one({n: v[i] for n, v in flat.items()}) for i in range(chains * kept)]
            out = {n: torch.stack([row[n] for row in rows]) for n in rows[0]}
    found = {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}
    return dataclasses.replace(posterior, draws=posterior.draws | found)


def as_written(draws: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The draws without those that another stands for: w without w_raw, theta without theta_decentered."""
    return {n: v for n, v in draws.items() if not any(n.endswith(end) and n.removesuffix(end) in draws for end in RAW)}
