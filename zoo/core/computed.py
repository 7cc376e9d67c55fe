"""Sites that `pyro.infer.reparam` moved: computed from what was sampled instead, and wanted in the draws.

Under LocScaleReparam(0) a model samples theta_decentered ~ N(0, 1) and computes theta = loc + scale
theta_decentered; whoever wrote the model asks for theta.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from .handlers import Record, Values, is_computed, is_deterministic, pyro_state
from .posterior import Posterior

CHUNK = 1000


def with_computed(posterior: Posterior) -> Posterior:
    """The posterior with the reparameterised sites among its draws, each at that draw's latents."""
    problem, (chains, kept) = posterior.problem, posterior.shape
    args, kwargs = problem.arguments()

    def one(values: dict[str, Tensor]) -> dict[str, Tensor]:
        with Record() as record, Values(values):
            problem.model(*args, **kwargs)
        moved = {n: m for n, m in record.sites.items() if is_computed(m) and not is_deterministic(m)}
        return {n: m["value"] for n, m in moved.items()}

    flat = {n: v.reshape(-1, *v.shape[2:]) for n, v in posterior.draws.items()}
    with pyro_state(validate=False), torch.no_grad(), torch.random.fork_rng(devices=[]):
        if not one({n: v[0] for n, v in flat.items()}):
            return posterior
        try:
            out = torch.func.vmap(one, chunk_size=CHUNK)(flat)
        except (RuntimeError, NotImplementedError):
            rows = [one({n: v[i] for n, v in flat.items()}) for i in range(chains * kept)]
            out = {n: torch.stack([row[n] for row in rows]) for n in rows[0]}
    found = {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}
    return dataclasses.replace(posterior, draws=posterior.draws | found)
