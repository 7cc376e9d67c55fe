"""Predictions of models whose rows have latents of their own, vectorised over draws (see `zoo.core.local`)."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from .base_noise import Unanswerable
from .handlers import Values, pyro_state
from .local import NOISE, RowNoise, at, codes, guide_messages, guide_of, of_chain
from .posterior import Posterior
from .predictive import conditioned, flat_draws, looped, seeded, vectorised
from .problem import Data, Problem
from .sites import sites

log = logging.getLogger("zoo")
MOST = 25_000_000  # numbers in one predicted array, unless more draws are asked for
Draws = dict[str, Tensor]


def predict_rows(
    posterior: Posterior, x: Any, local: tuple[str, ...], *, given: Any, seed: int, draws: int | None
) -> tuple[Draws, tuple[int, int]]:
    """{name: (S, m, ...)} and (chain, draw) they are of.

    Args:
        posterior: A fit.
        x: Inputs, or None.
        local: The latents of rows.
        given: Targets whose rows' latents come from the guide, or None: from their prior.
        seed: For all that is drawn.
        draws: How many draws; None: all that `MOST` allows.
    """
    guide = None if given is None else guide_of(posterior)
    problem = posterior.problem if given is None else at(posterior.problem, x, given)
    arguments = problem.inputs(x if given is None else None)
    values, (chains, kept) = flat_draws(posterior, _affordable(posterior, arguments) if draws is None else draws)
    values = {name: value for name, value in values.items() if name not in local}
    parts = []
    with pyro_state(validate=False), torch.no_grad(), seeded(seed, problem.tensor.device):
        for chain in range(chains):
            mine = {name: value[chain * kept : (chain + 1) * kept] for name, value in values.items()}
            rows = _Rows(problem, guide, {} if guide is None else of_chain(posterior, chain))
            parts.append(_of_chain(rows, mine, kept, arguments, local))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}, (chains, kept)


def _affordable(posterior: Posterior, arguments: Any) -> int | None:
    """How many draws are predicted where nobody said: None for all of them."""
    data, (chains, total) = posterior.problem.data, posterior.shape
    if not isinstance(data, Data):
        return None
    width = data.y[0].numel() if data.y is not None else 1
    each = max(1, len(arguments[0][0]) * width)
    if each * chains * total <= MOST:
        return None
    draws = chains * max(1, MOST // (each * chains))
    log.info("predictions of %d rows of %d numbers: %d of %d draws are used", len(arguments[0][0]), width, draws,
             chains * total)  # fmt: skip
    return draws


class _Rows:
    """How one chain's draws get their rows' latents: from the prior, or from the guide at given targets."""

    def __init__(self, problem: Problem, guide: Any, params: Draws) -> None:
        self.problem, self.guide, self.params = problem, guide, params
        self.plate = problem.names["plate"]
        self.free = () if guide is not None else (*sites(problem).observed, problem.names["y"])

    def answer(self, value: Draws) -> Any:
        """A handler for the model at these values, the noise of the rows among them."""
        rows = RowNoise(value[NOISE], self.plate, self.free)
        if self.guide is None:
            return rows
        known = {name: v for name, v in value.items() if name != NOISE}
        return Values(codes(guide_messages(self.guide, self.problem, self.params, known, rows), self.plate))

    def count(self, value: Draws, arguments: Any) -> int:
        """Standard normals that a draw's rows take."""
        rows = RowNoise(None, self.plate, self.free, self.problem.tensor)
        if self.guide is not None:
            guide_messages(self.guide, self.problem, self.params, value, rows)
        else:
            with Values(value), rows:
                conditioned(self.problem)(*arguments[0], **arguments[1])
        return rows.used


def _of_chain(rows: _Rows, values: Draws, draws: int, arguments: Any, local: tuple[str, ...]) -> Draws:
    """Predictions of one chain's draws {site: (draw, *shape)}, vectorised where the rows' latents allow it."""
    like = rows.problem.tensor
    try:
        count = rows.count({name: value[0] for name, value in values.items()}, arguments)
    except Unanswerable:  # a row's latent that is no function of normals
        if rows.guide is not None:
            raise
        return looped(rows.problem, values | {NOISE: like.new_empty(draws, 0)}, arguments, local)
    drawn = values | {NOISE: torch.randn(draws, count, dtype=like.dtype, device=like.device)}
    out = vectorised(rows.problem, drawn, arguments, local, rows.answer)
    if out is not None:
        return out
    return looped(rows.problem, drawn, arguments, local, *([rows.answer] if rows.guide is not None else []))
