"""Independent draws of every latent from the prior; y is not looked at.

    theta ~ p(theta),    lp = log p(theta) + log |d theta / d u|

Source: Gal, "Modern deep learning through Bayesian eyes: functions from the prior"; Neal 1996, chapter 2.
"""

from __future__ import annotations

from typing import Any

import pyro
import torch
from torch import Tensor

from guides.supports import unconstrain
from zoo.core.explained import ModelFails, explained
from zoo.core.handlers import Record, Values, pyro_state, scaled_log_prob, store_as_found
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.core.randomness import seeded
from zoo.core.sites import Site, is_improper, sites
from zoo.core.tensors import parameters
from zoo.infer.seeds import block_seed

Draws = dict[str, Tensor]


def fit(problem: Problem, *, seed: int = 0, draws: int = 1000, chains: int = 1) -> Posterior:
    """Draws every latent site from its prior.

    Args:
        problem: Any problem whose priors are proper; its y may be missing.
        seed: For the draws.
        draws: Draws a chain.
        chains: Independent sets of draws.

    Returns:
        kind "iid"; stats lp (chain, draw).

    Raises:
        ValueError: For an improper prior, naming the site; for a model without latent sites.
    """
    with store_as_found():
        values, lp = _drawn(problem, seed, chains * draws)
    shape = (chains, draws)
    return Posterior(
        problem,
        "prior",
        "iid",
        {name: value.reshape(shape + value.shape[1:]) for name, value in values.items()},
        stats={"lp": lp.reshape(shape)},
    )


def _drawn(problem: Problem, seed: int, count: int) -> tuple[Draws, Tensor]:
    latent = sites(problem).latent
    if not latent:
        raise ValueError(f"model '{problem.name}' has no latent site. Add a pyro.sample without obs.")
    for name in [name for name, site in latent.items() if is_improper(site.fn)]:
        raise ValueError(
            f"site '{name}' has an improper prior (ImproperUniform), which cannot be drawn from. "
            "Give it a proper one (a wide Normal), or use nuts, which needs only the posterior to be proper."
        )
    # Of its own: a prediction with the same seed must not draw its noise from the same numbers.
    with seeded(block_seed(seed, 0, 0, "prior"), problem.tensor.device):
        draw = _at_once if _independent(problem, latent) else _one_by_one
        return draw(problem, latent, count)


def _trace(problem: Problem) -> dict[str, Any]:
    """One run of the model with nothing observed."""
    args, kwargs = problem.inputs()
    blind = problem.model if isinstance(problem.data, Data) else pyro.poutine.uncondition(problem.model)
    with (
        explained(problem, "fails at draws of its prior"),
        pyro_state(validate=False),
        torch.no_grad(),
        Record() as record,
    ):
        blind(*args, **kwargs)
    return record.sites


def _independent(problem: Problem, latent: dict[str, Site]) -> bool:
    """Whether no latent's distribution depends on another latent, so that all draws can be made at once.

    Seen from two runs at different values, whose distributions must be the same; a model that branches on a
    value could agree by chance, but vmap refuses it.
    """
    first, second = _trace(problem), _trace(problem)
    if first.keys() != second.keys():
        return False
    for name in latent:
        one, two = first[name], second[name]
        if not _plain(one):
            return False
        pairs = zip(parameters(one["fn"]), parameters(two["fn"]), strict=False)
        if not all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs):
            return False
    return _vectorises(problem, {name: msg["value"] for name, msg in first.items()}, second)


def _plain(msg: Any) -> bool:
    """Whether a site counts as it stands; a scale or mask that is a tensor may differ from entry to entry."""
    scale, mask = msg["scale"], msg["mask"]
    return not isinstance(scale, Tensor) and scale == 1.0 and (mask is None or mask is True)


def _vectorises(problem: Problem, values: Draws, others: dict[str, Any]) -> bool:
    both = {name: torch.stack([value, others[name]["value"]]) for name, value in values.items()}

    def run(point: Draws) -> Tensor:
        with Values(point):
            _trace(problem)
        return problem.tensor.new_zeros(())

    try:
        torch.func.vmap(run)(both)
    except (RuntimeError, NotImplementedError, ModelFails):
        return False
    return True


def _at_once(problem: Problem, latent: dict[str, Site], count: int) -> tuple[Draws, Tensor]:
    """All draws in one call a site."""
    values, lp = {}, torch.zeros((), dtype=torch.float64)
    for name, site in latent.items():
        values[name] = site.fn.sample((count,))
        terms = site.fn.log_prob(values[name])
        lp = lp.to(terms.device) + _per_draw(terms) + _per_draw(_log_jacobian(site.fn, name, values[name]))
    return values, lp


def _one_by_one(problem: Problem, latent: dict[str, Site], count: int) -> tuple[Draws, Tensor]:
    """One run of the model a draw: for priors that depend on other latents."""
    kept: dict[str, list[Tensor]] = {name: [] for name in latent}
    lp = []
    for _ in range(count):
        trace = _trace(problem)
        for name in latent:
            kept[name].append(trace[name]["value"])
        with pyro_state(validate=False):
            terms = [scaled_log_prob(trace[n]) + _sum(_log_jacobian(trace[n]["fn"], n, kept[n][-1])) for n in latent]
        lp.append(torch.stack(terms).sum())
    return {name: torch.stack(drawn) for name, drawn in kept.items()}, torch.stack(lp)


def _log_jacobian(fn: Any, name: str, value: Tensor) -> Tensor:
    transform = unconstrain(fn.support, name)
    return transform.log_abs_det_jacobian(transform.inv(value), value)


def _sum(terms: Tensor) -> Tensor:
    return terms.sum(dtype=torch.float64)


def _per_draw(terms: Tensor) -> Tensor:
    return terms.reshape(len(terms), -1).sum(-1, dtype=torch.float64)
