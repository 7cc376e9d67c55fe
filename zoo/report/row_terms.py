"""The terms of a bound row by row, where every row has latents of its own and the fit's guide infers them.

    log p(y_i | z_i, w),    log p(z_i | w),    log q(z_i | y_i),    KL(q(z_i | y_i) || p(z_i | w))

z_i is drawn from q, w runs through the fit's draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro.distributions import Delta
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from zoo.core import units
from zoo.core.checks import check_seed, whole
from zoo.core.handlers import Record, Values, in_plate, is_data, is_deterministic, pyro_state, scaled_log_prob
from zoo.core.likelihoods import masked_log_prob
from zoo.core.local import NOISE, RowNoise, at, codes, guide_messages, guide_of, local_sites, of_chain
from zoo.core.posterior import Posterior
from zoo.core.predictive import seeded, target_of
from zoo.core.problem import Problem
from zoo.core.quantities import point_sites
from zoo.infer.elbo import is_choice, site_kl

ROWS = 60_000  # rows x draws at once
Draws = dict[str, Tensor]


class RowTerms(NamedTuple):
    """Terms (draw, m) of each row, and `weights` (draw,): KL of all other sites' q, or of points minus log prior."""

    log_likelihood: Tensor
    log_prior: Tensor
    log_q: Tensor
    kl: Tensor
    weights: Tensor


def row_terms(posterior: Posterior, x: Any, y: Any, *, draws: int, seed: int) -> list[RowTerms]:
    """The terms of each chain at these rows, z drawn `draws` times.

    Args:
        posterior: A fit by svi whose guide infers rows' latents.
        x: (m, d), or None where the model has no inputs; with y None: the training data.
        y: (m, ...).
        draws: How many z for each row.
        seed: For them.

    Raises:
        ValueError: For other fits, rows that do not fit the model, and draws and seeds that are none.
    """
    draws, seed = whole("draws", draws), check_seed(seed)
    guide = guide_of(posterior)
    problem = posterior.problem if x is None and y is None else at(posterior.problem, x, y)
    local, like, out = local_sites(problem), problem.tensor, []
    with pyro_state(validate=False), torch.no_grad(), seeded(seed, like.device):
        for chain in range(posterior.shape[0]):
            fixed, moving = _weights(posterior, chain, local)
            one = _of_draw(guide, problem, of_chain(posterior, chain), fixed)
            size = _noise_size(guide, problem, of_chain(posterior, chain), fixed | {n: v[0] for n, v in moving.items()})
            parts = []
            for some in torch.arange(draws).split(max(1, ROWS // len(like))):
                drawn = {n: v[some % len(v)] for n, v in moving.items()}
                noise = torch.randn(len(some), size, dtype=like.dtype, device=like.device)
                parts.append(torch.func.vmap(one)(drawn | {NOISE: noise}))
            out.append(_in_units(problem, RowTerms(*map(torch.cat, zip(*parts, strict=True)))))
    return out


def _weights(posterior: Posterior, chain: int, local: tuple[str, ...]) -> tuple[Draws, Draws]:
    """Sites that are the same in every draw {site: value}, and the others {site: (draw, *shape)}, shuffled."""
    points = point_sites(posterior)
    own = {n: v[chain] for n, v in posterior.draws.items() if n not in local}
    order = torch.randperm(posterior.shape[1])
    return {n: own[n][0] for n in own if n in points}, {n: v[order] for n, v in own.items() if n not in points}


def _noise_size(guide: Any, problem: Problem, params: Draws, values: Draws) -> int:
    rows = RowNoise(None, problem.names["plate"], (), problem.tensor)
    guide_messages(guide, problem, params, values, rows)
    return rows.used


def _of_draw(guide: Any, problem: Problem, params: Draws, fixed: Draws) -> Callable[[Draws], tuple[Tensor, ...]]:
    """A draw's values and noise -> its `RowTerms`."""
    plate = problem.names["plate"]
    args, kwargs = problem.arguments()

    def one(value: Draws) -> tuple[Tensor, ...]:
        values = fixed | {n: v for n, v in value.items() if n != NOISE}
        q = guide_messages(guide, problem, params, values, RowNoise(value[NOISE], plate))
        with Record() as record, Values(values | codes(q, plate)):
            problem.model(*args, **kwargs)
        p = record.sites
        rows = [n for n, m in q.items() if in_plate(m, plate) and is_choice(m)]
        seen = [_log_prob(m) for m in p.values() if is_data(m) and in_plate(m, plate)]
        log_p, log_q = _sum([_log_prob(p[n]) for n in rows]), _sum([_log_prob(q[n]) for n in rows])
        others = [n for n, m in p.items() if not m["is_observed"] and not is_deterministic(m) and n not in rows]
        weights = [_weight_kl(q[n], p[n]) for n in others]
        kl = _sum([_kl(q[n], p[n]) for n in rows])
        return _sum(seen), log_p, log_q, kl, _sum(weights) if weights else kl.new_zeros((), dtype=torch.float64)

    return one


def _weight_kl(q: Any, p: Any) -> Tensor:
    """KL of a site outside the plate; minus the log prior of a point."""
    return -scaled_log_prob(p, replicas=False) if isinstance(q["fn"], Delta) else site_kl(q, p, True)


def _log_prob(msg: Any) -> Tensor:
    return masked_log_prob(msg).double()


def _sum(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum(0)


def _kl(q: Any, p: Any) -> Tensor:
    """KL of each row: closed form between Normals, else log q - log p at the draw."""
    ours, prior = q["fn"], p["fn"]
    while isinstance(ours, Independent) and isinstance(prior, Independent):
        ours, prior = ours.base_dist, prior.base_dist
    if isinstance(ours, Normal) and isinstance(prior, Normal):
        each = kl_divergence(ours, prior).double()
        return each.flatten(1).sum(1) if each.dim() > 1 else each
    return _log_prob(q) - _log_prob(p)


def _in_units(problem: Problem, terms: RowTerms) -> RowTerms:
    """The log likelihood as a density in y's original units."""
    scale, _ = target_of(problem)
    data: Any = problem.data
    in_units = units.log_densities(scale, terms.log_likelihood.unsqueeze(0), data.y.shape).squeeze(0)
    return terms._replace(log_likelihood=in_units)
