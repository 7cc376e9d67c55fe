"""A problem and its guide as functions of flat tensors: what `svi` maximises and draws from.

Two engines serve it. "vmap": guide parameters and standard normals are arguments of a pure function, mapped
over particles and restarts. "loop" (zoo.infer.looped): one particle at a time with Pyro's own draws, for
guides that are no function of standard normals or that hide parameters in modules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pyro.distributions import Delta
from torch import Tensor

from zoo.core.base_noise import BaseNoise
from zoo.core.handlers import Record, Values
from zoo.core.problem import Problem
from zoo.core.randomness import seeded

from .drawn import finish, fixed_sites
from .elbo import Parameters, Terms, combine, is_choice, run
from .large import few_rows
from .prepared import (
    ALL,
    Batch,
    Guide,
    Layout,
    Messages,
    Prepared,
    arguments,
    check_batch,
    check_sites,
    own_parameters,
    quiet,
)
from .product import Product
from .rows import terms_by_row, why_not
from .score import Detached, check_score, log_q, of_elbo
from .seeds import block_seed

logger = logging.getLogger("zoo")


def _one_for_all(reason: str, asked: bool) -> None:
    """Says why there is one noise for all rows of a step; an error where noise a row was asked for."""
    if asked:
        raise ValueError(f"noise_per='row' is not possible: {reason}. Use noise_per='batch'.")
    logger.info("svi: one noise for all rows of a step, because %s", reason)


def _factored(msg: Any) -> Any:
    """What the model gets of a guide's message: a product of a row's factors and M unmultiplied."""
    factors = getattr(msg["fn"], "factors", None)
    return msg["value"] if factors is None else Product(*factors)


class Variational:
    """The pure engine: everything as a function of (flat parameters, flat noise).

    Args:
        problem: The problem.
        prepared: The guide at each restart's start.
        gradient: "pathwise" or "score".
        noise_per: "batch", "row", or None: the guide's own choice.

    Attributes:
        start: (restart, size) first parameters.
        noise_size: Standard normals that one draw of the guide consumes.
        points: Sites that the guide gives no spread.
        no_density: Why log q and the ELBO mean nothing for this guide, or "".
        by_row: Whether a step takes noise for each row of its batch, (particle, row, noise_size).

    Raises:
        ValueError: Where the gradient or noise a row that is asked for is not defined.
    """

    engine = "vmap"

    def __init__(
        self, problem: Problem, prepared: list[Prepared], *, gradient: str = "pathwise", noise_per: str | None = None
    ) -> None:
        first = prepared[0]
        self.problem, self.guide, self.score = problem, first.guide, gradient == "score"
        self.plate = problem.names["plate"]
        self.analytic = bool(getattr(first.guide, "mean_field", False))
        self.along = bool(getattr(first.guide, "along_draws", False))
        self.no_density = str(getattr(first.guide, "no_density", ""))
        self.asked_row = noise_per == "row"
        self.by_row = self._can_row(noise_per)
        self.unmultiplied = self.by_row
        shapes = {name: value.shape for name, value in first.params.items()}
        self.layout = Layout(shapes, first.constraints, own_parameters(first))
        self.start = torch.stack([torch.cat([v.detach().reshape(-1) for v in p.params.values()]) for p in prepared])
        self.noise_size, self.points = self._probe()
        self._sizes: dict[int | None, int] = {None: self.noise_size}

    def _can_row(self, noise_per: str | None) -> bool:
        wanted = bool(getattr(self.guide, "by_row", False)) if noise_per is None else noise_per == "row"
        if not wanted or self.score:
            return False
        if reason := why_not(self.problem):
            _one_for_all(reason, self.asked_row)
        return not reason

    def _probe(self) -> tuple[int, tuple[str, ...]]:
        """How much noise a draw takes, and which sites do not move with it. Raises Unanswerable."""
        params, draws = self.start[0], []
        args, kwargs = self.problem.arguments()
        with quiet(), torch.no_grad(), seeded(0, params.device):
            for _ in range(2):
                with BaseNoise(None, params) as noise, self._parameters(params):
                    draws.append(run(self.problem.model, self._with(params), args, kwargs))
        check_sites(*draws[0])
        (q1, p1), (q2, _) = draws
        if self.score:
            check_score(q1, self.no_density)
        return noise.used, fixed_sites(self.guide, q1, q2, p1)

    def noise_for(self, rows: int | None) -> int:
        """Standard normals that one draw of the guide consumes on a batch; None: on all rows."""
        if rows not in self._sizes:
            data: Any = self.problem.data
            given, flat = arguments(self.problem, data.x[:rows], data.y[:rows]), self.start[0]
            with quiet(), torch.no_grad(), seeded(0, flat.device):
                with BaseNoise(None, flat) as noise, self._parameters(flat):
                    self._with(flat)(*given[0], **given[1])
            self._sizes[rows] = noise.used
        return self._sizes[rows]

    def _parameters(self, flat: Tensor) -> Parameters:
        return Parameters(self.layout.split(flat), self.layout.constraints)

    def _with(self, flat: Tensor) -> Guide:
        """The guide, reading the parameters it keeps in itself from `flat`."""
        if not self.layout.attributes:
            return self.guide
        values = self.layout.split(flat)
        own = {attribute: values[name] for name, attribute in self.layout.attributes.items()}
        module: Any = self.guide
        return lambda *args, **kwargs: torch.func.functional_call(module, own, args, kwargs)

    def _run(
        self,
        flat: Tensor,
        noise: Tensor,
        given: Any,
        value: Callable[[Any], Any] = lambda msg: msg["value"],
        guide: Guide | None = None,
    ) -> tuple[Messages, Messages]:
        args, kwargs = given
        with BaseNoise(noise), self._parameters(flat):
            return run(self.problem.model, guide or self._with(flat), args, kwargs, value)

    def _by_row(
        self, flat: Tensor, noise: Tensor, x: Tensor | None, y: Tensor | None, scale: Any, along: bool
    ) -> Terms:
        data: Any = self.problem.data

        def one(e: Tensor, row: Tensor, target: Tensor) -> Terms:
            given = arguments(self.problem, row, target)
            q, p = self._run(flat, e, given, _factored if self.unmultiplied else lambda msg: msg["value"])
            q = self._along_draws(flat, q, given) if along else q
            return combine(q, p, self.plate, 1.0, self.analytic, self.points)

        return terms_by_row(one, noise, data.x if x is None else x, data.y if y is None else y, scale)

    def _along_draws(self, flat: Tensor, q: Messages, given: Any) -> Messages:
        """The guide's messages on the same draws, with parameters that carry no gradient."""
        args, kwargs = given
        drawn = {n: m["value"] for n, m in q.items() if is_choice(m) and not isinstance(m["fn"], Delta)}
        with self._parameters(flat.detach()), Values(drawn), Record() as again:
            self.guide(*args, **kwargs)
        return again.sites

    def terms(
        self, flat: Tensor, noise: Tensor, x: Tensor | None, y: Tensor | None, scale: Any, *, along: bool = False
    ) -> Terms:
        """One restart's ELBO, averaged over particles. flat (size,), noise (particle, noise_size).

        noise (particle, row, noise_size): every row with its own, see `zoo.infer.rows`.

        `along`: differentiate log q along the draws only. What is left out, its derivative by the parameters at a
        fixed draw, has mean 0; without it the gradient of a q that is exact is 0 for every draw.

        Source: Roeder, Wu & Duvenaud 2017, "Sticking the landing".
        """
        if noise.dim() == 3:
            return self._by_row(flat, noise, x, y, scale, along)

        def one(row: Tensor) -> Terms:
            given = arguments(self.problem, x, y)
            q, p = self._run(flat, row, given)
            if along:
                q = self._along_draws(flat, q, given)
            return combine(q, p, self.plate, scale, self.analytic, self.points)

        if noise.shape[0] == 1:
            return one(noise[0])
        return Terms(*(value.mean() for value in torch.func.vmap(one)(noise)))

    def scored(
        self, flat: Tensor, noise: Tensor, x: Tensor | None, y: Tensor | None, scale: Any
    ) -> tuple[Tensor, Terms]:
        """As `terms`, and before them a scalar whose gradient is the score estimate, see `zoo.infer.score`."""
        given = arguments(self.problem, x, y)
        guide = Detached()(self._with(flat))

        def one(row: Tensor) -> tuple[Terms, Tensor]:
            q, p = self._run(flat, row, given, guide=guide)
            return combine(q, p, self.plate, scale, False, self.points), log_q(q)

        terms, scores = torch.func.vmap(one)(noise)
        return of_elbo(terms.elbo, scores), Terms(*(value.mean() for value in terms))

    def gradient(self, params: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0) -> tuple[Tensor, Terms]:
        """Gradient of the ELBO (restart, size) and its terms (restart,).

        Args:
            params: (restart, size).
            noise: (restart, particle, noise_for(rows)) or (restart, particle, row, noise_size).
            batch: Rows of the data, the same for all restarts or one set for each; None: all of them.
            scale: n / rows.

        The caller holds `quiet()`.
        """

        def value(flat: Tensor, e: Tensor, x: Tensor | None, y: Tensor | None) -> tuple[Tensor, Terms]:
            if self.score:
                return self.scored(flat, e, x, y, scale)
            terms = self.terms(flat, e, x, y, scale, along=self.along)
            return terms.elbo, terms

        function = torch.func.grad(value, has_aux=True)
        if len(params) == 1:
            grad, terms = function(params[0], noise[0], *batch.of(0))
            return grad.unsqueeze(0), Terms(*(term.unsqueeze(0) for term in terms))
        axis = None if batch.shared else 0
        return torch.func.vmap(function, in_dims=(0, 0, axis, axis))(params, noise, batch.x, batch.y)

    def estimate(self, flat: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0) -> Terms:
        """ELBO terms (draw,) on all data or a batch, one for each row of noise (draw, noise_for(rows))."""
        with quiet(), torch.no_grad():
            return torch.func.vmap(lambda row: self.terms(flat, row.unsqueeze(0), *batch.of(0), scale))(noise)

    def draw(
        self, flat: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Values {site: (draw, *shape)}, lp and logq (draw,) for each row of noise; of a batch lp is an estimate."""
        given = arguments(self.problem, *batch.of(0))

        def one(row: Tensor) -> Any:
            return finish(*self._run(flat, row, given), self.points, self.plate, scale)

        with quiet(), torch.no_grad():
            return torch.func.vmap(one)(noise)

    def check_vmap(self) -> None:
        """Takes one gradient and two draws as the ascent will; raises what vmap has against guide or model."""
        batch, scale, rows = few_rows(self.problem, self.layout.size, self.check_batch)
        with quiet():
            self.gradient(self.start, self.noise(0, 0, 0, (len(self.start), 2), rows=rows), batch, scale)
            if self.by_row:
                self._check_rows(batch, scale, rows)
        self.draw(self.start[0], self.noise(0, 0, 0, (2,), rows=rows), batch, scale)

    def _check_rows(self, batch: Batch, scale: float, rows: int | None) -> None:
        """Falls back where rows on their own, all with one noise, do not add up to the whole."""
        flat, noise = self.start[0], self.noise(0, 0, 0, (1,), rows=rows)
        whole = self.terms(flat, noise, *batch.of(0), scale).elbo
        each = noise.unsqueeze(1).expand(1, rows or len(self.problem.tensor), -1)
        for self.unmultiplied in (True, False):
            try:
                if torch.allclose(self.terms(flat, each, *batch.of(0), scale).elbo, whole, rtol=1e-4, atol=1e-3):
                    return
            except (RuntimeError, TypeError, AttributeError, NotImplementedError):
                continue
        _one_for_all("the model cannot be evaluated row by row", self.asked_row)
        self.by_row = False

    def check_batch(self, rows: int) -> None:
        """Refuses a guide that is tied to all rows of the data."""
        noise = self.start.new_zeros(self.noise_size)
        check_batch(lambda given: self._run(self.start[0], noise, given), self.problem, rows)

    def noise(
        self, seed: int, restart: int, block: int, shape: Sequence[int], purpose: str = "svi", rows: int | None = None
    ) -> Tensor:
        """Standard normals (*shape, noise_for(rows)), a function of (seed, restart, block, purpose) only."""
        generator = torch.Generator().manual_seed(block_seed(seed, restart, block, purpose))
        like = self.start
        return torch.randn(*shape, self.noise_for(rows), generator=generator, dtype=like.dtype).to(like.device)
