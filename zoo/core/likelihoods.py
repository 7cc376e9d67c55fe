"""Log likelihoods of a posterior's draws, row by row, vectorised over draws."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from . import units
from .handlers import Record, Values, is_data, pyro_state
from .local import local_sites
from .over_draws import over_draws
from .posterior import Posterior
from .predictive import flat_draws, known_as, seeded, target_of
from .problem import Data, Problem
from .sites import sites


def log_likelihoods(posterior: Posterior, x: Any = None, y: Tensor | None = None) -> dict[str, Tensor]:
    """{observed site: log p of each of its rows, (chain, draw, ...)} at (x, y) or at the training data."""
    problem = posterior.problem
    if x is not None and (local := local_sites(problem)):
        raise ValueError(
            f"log p(y | parameters) of new rows needs their own {', '.join(local)} integrated out, and the draws have "
            "the training rows'. Use zoo.log_marginal(posterior, x, y)."
        )
    arguments = _scored(problem, x, y)
    values, (chains, kept) = flat_draws(posterior, None)

    def one(value: dict[str, Tensor], given: Any) -> tuple[dict[str, Tensor], dict[str, torch.Size]]:
        with Record() as record, Values(value):
            problem.model(*given[0], **given[1])
        seen = {n: m for n, m in record.sites.items() if is_data(m)}
        return {n: masked_log_prob(m) for n, m in seen.items()}, {n: m["value"].shape for n, m in seen.items()}

    with pyro_state(validate=False), torch.no_grad(), seeded(0, problem.tensor.device):
        try:
            out, shapes = over_draws(one, values, arguments, known_as=known_as(problem, "log_likelihood"))
        except (RuntimeError, NotImplementedError):
            count = chains * kept
            rows = [one({n: v[i] for n, v in values.items()}, arguments) for i in range(count)]
            shapes = rows[0][1]
            out = {n: torch.stack([row[n] for row, _ in rows]) for n in rows[0][0]}
    terms = {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}
    shapes = {n: torch.Size([*out[n].shape[1:2], *shape[1:]]) for n, shape in shapes.items()}  # of all rows' pieces
    scale, target = target_of(problem)
    return {n: units.log_densities(scale, v, shapes[n]) if n == target else v for n, v in terms.items()}


def masked_log_prob(msg: Any) -> Tensor:
    """log p of each row; 0 for rows that the model masks. A scale is no part of it: it weighs rows in the fit."""
    terms = msg["fn"].log_prob(msg["value"])
    return terms if not isinstance(msg["mask"], Tensor) else torch.where(msg["mask"], terms, 0.0)


def _scored(problem: Problem, x: Any, y: Tensor | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The model's arguments with targets in place, checked against the inputs."""
    if (x is None) != (y is None) and isinstance(problem.data, Data):
        raise ValueError("log_likelihood needs both x and y, or neither for the training data.")
    if x is None:
        return problem.arguments()
    if isinstance(problem.data, Data):
        like = problem.tensor
        new: Any = Data(problem.inputs(x)[0][0], y).to(device=like.device, dtype=like.dtype)
    else:
        new = {**problem.data, **x}
    scored = dataclasses.replace(problem, data=new)
    sites(scored)  # with validation on: refuses labels outside the support and targets of another shape
    return scored.arguments()


def log_likelihood(posterior: Posterior, x: Any = None, y: Tensor | None = None) -> Tensor:
    """See `Posterior.log_likelihood`."""
    out = log_likelihoods(posterior, x, y)
    name = posterior.problem.names["y"]
    if name in out:
        return out[name]
    if len(out) == 1:
        return next(iter(out.values()))
    raise ValueError(f"the model observes {sorted(out)}; name the one to score: names={{'y': ...}}.")
