"""The exact posterior, where a model knows it: independent draws and the log evidence.

    theta ~ p(theta | y),    log p(y, theta) - log p(theta | y) = log p(y)  at every draw

Source: Thome, "Bayesian linear regression: the posterior is Gaussian"; Bishop 2006, sections 2.1 and 3.3.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import torch
from torch import Tensor

from guides.supports import unconstrain
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Exact, Problem
from zoo.core.randomness import seeded
from zoo.core.sites import Site, sites
from zoo.infer.density import density
from zoo.infer.seeds import block_seed

Draws = dict[str, Tensor]


def fit(problem: Problem, *, seed: int = 0, draws: int = 1000, chains: int = 1, rows: int | None = None) -> Posterior:
    """Draws from the posterior that the model's own `exact` states.

    Args:
        problem: A problem whose model has `exact`.
        seed: For the draws.
        draws: Draws a chain.
        chains: Independent sets of draws.
        rows: Condition on the first rows only (0: the prior); None: all.

    Returns:
        kind "iid"; stats lp and logq (chain, draw), whose difference is the log evidence; settings
        log_evidence and rows. With rows=0 there is no lp of y: lp is then logq.

    Raises:
        ValueError: If the model has no `exact`, or rows is not between 0 and n.
    """
    if problem.exact is None:
        raise ValueError(
            f"model '{problem.name}' has no exact posterior (no `exact` in its file). "
            "Methods that work on it: prior, map, laplace, svi, nuts, hmc, chees."
        )
    answer = _answer(problem, rows)
    problem = _first_rows(problem, rows)
    latent = sites(problem).latent
    position, jacobian = unconstrained(latent, _draw(answer, latent, problem, chains * draws, seed))
    # Back from the positions, so that a theta that rounds to 1 lies inside its support.
    values = {name: _transform(site)(position[name]) for name, site in latent.items()}
    log_q = log_posterior(answer, values) + jacobian
    log_p = log_q if rows == 0 else _log_p(problem, position)
    shape = (chains, draws)
    return Posterior(
        problem,
        "exact",
        "iid",
        {name: value.reshape(shape + value.shape[1:]) for name, value in values.items()},
        stats={"lp": log_p.reshape(shape), "logq": log_q.reshape(shape)},
        exact=answer,
        settings={"log_evidence": answer.log_evidence, "rows": rows},
    )


def _answer(problem: Problem, rows: int | None) -> Exact:
    """What the model knows, after the first rows if asked."""
    exact: Any = problem.exact
    if rows is None:
        return exact(problem.data, **problem.hyper)
    n = problem.tensor.shape[0]
    if not 0 <= rows <= n:
        raise ValueError(f"rows must be between 0 and the {n} rows of the data, got {rows}.")
    if "rows" not in inspect.signature(exact).parameters:
        raise ValueError(f"the exact of model '{problem.name}' takes no rows. Give it zoo.Data of those rows.")
    return exact(problem.data, rows=rows, **problem.hyper)


def _first_rows(problem: Problem, rows: int | None) -> Problem:
    """The problem on the first rows only: a posterior of other data says so by its hash."""
    if rows is None or not isinstance(problem.data, Data) or rows == len(problem.data.x):
        return problem
    data = problem.data
    # No rows: Data wants at least one; without its y nothing is learned from it.
    y = None if rows == 0 or data.y is None else data.y[:rows]
    return dataclasses.replace(problem, data=dataclasses.replace(data, x=data.x[: max(rows, 1)], y=y))


def factors(answer: Exact) -> list[tuple[tuple[str, ...], Any]]:
    """[(sites, their distribution)], independent of each other: joint entries first, then the other sites."""
    together = [(key, fn) for key, fn in answer.posterior.items() if isinstance(key, tuple)]
    inside = {name for key, _ in together for name in key}
    return together + [((n,), fn) for n, fn in answer.posterior.items() if isinstance(n, str) and n not in inside]


def _draw(answer: Exact, latent: dict[str, Site], problem: Problem, count: int, seed: int) -> Draws:
    """`count` joint draws {site: (count, *shape)} in the problem's dtype."""
    independent, like = factors(answer), problem.tensor
    if {name for key, _ in independent for name in key} != set(latent):
        known = ", ".join(map(str, answer.posterior))
        raise ValueError(f"exact must give the posterior of every latent site ({', '.join(latent)}), got {known}.")
    values: Draws = {}
    # Of its own: with the seed itself the draws would be the numbers of a prediction's noise.
    with seeded(block_seed(seed, 0, 0, "exact"), like.device):
        for key, fn in independent:
            flat = fn.sample((count,)).to(like).reshape(count, -1)
            pieces = flat.split([math.prod(latent[n].shape) for n in key], 1)
            values |= {n: piece.reshape((count, *latent[n].shape)) for n, piece in zip(key, pieces, strict=True)}
    return {name: values[name] for name in latent}


def log_posterior(answer: Exact, values: Draws) -> Tensor:
    """log p(theta | y) (count,) of draws, in the sites' own spaces."""
    total = torch.zeros((), dtype=torch.float64)
    for key, fn in factors(answer):
        count = len(values[key[0]])
        flat = torch.cat([values[name].reshape(count, -1) for name in key], 1).to(torch.float64)
        total = total.to(flat) + fn.log_prob(flat.reshape((count, *fn.event_shape))).reshape(count, -1).sum(-1)
    return total


def _transform(site: Site) -> Any:
    return unconstrain(site.fn.support, site.name)


def unconstrained(latent: dict[str, Site], values: Draws) -> tuple[Draws, Tensor]:
    """Unconstrained coordinates of the values, and log |d theta / d u| of each; supports must be fixed."""
    position, jacobian = {}, torch.zeros((), dtype=torch.float64)
    for name, value in values.items():
        transform, count = _transform(latent[name]), len(value)
        position[name] = transform.inv(value)
        terms = transform.log_abs_det_jacobian(position[name], value).reshape(count, -1)
        jacobian = jacobian.to(value.device) + terms.sum(-1, dtype=torch.float64)
    return position, jacobian


def _log_p(problem: Problem, position: Draws) -> Tensor:
    """The unconstrained log density (count,), in pieces of about 10^7 numbers."""
    target = density(problem)
    flat = torch.cat([position[b.name].reshape(-1, b.coordinates.numel()) for b in target.blocks], 1)
    piece = max(1, 10**7 // max(1, problem.tensor.shape[0]))
    return torch.cat([target.log_prob(part) for part in flat.split(piece)])
