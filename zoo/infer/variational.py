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

from guides.supports import unconstrain
from zoo.core.handlers import Record, Values, is_deterministic, scaled_log_prob
from zoo.core.problem import Problem
from zoo.core.randomness import seeded

from .elbo import BaseNoise, Parameters, Terms, combine, is_choice, run
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
from .seeds import block_seed

logger = logging.getLogger("zoo")


def finish(q: Messages, p: Messages, points: Sequence[str]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """A draw's values, its log density and log q, both in unconstrained space.

    lp = log p(y, theta) + log |dtheta / du|, logq = log q(theta) + log |dtheta / du| over the sites that have
    a density (not points). Points that replicate what was seen count for nothing.
    """
    values: dict[str, Tensor] = {}
    terms = [scaled_log_prob(m, replicas=n not in points) for n, m in p.items() if not is_deterministic(m)]
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


def _can_row(problem: Problem) -> bool:
    reason = why_not(problem)
    if reason:
        logger.info("svi: one noise for all rows of a step, because %s", reason)
    return not reason


def _factored(msg: Any) -> Any:
    """What the model gets of a guide's message: a product of a row's factors and M unmultiplied."""
    factors = getattr(msg["fn"], "factors", None)
    return msg["value"] if factors is None else Product(*factors)


def fixed_sites(guide: Guide, q1: Messages, q2: Messages, p: Messages) -> tuple[str, ...]:
    """Sites that have the same value in two runs of a guide; a guide may name in `random_sites` those that vary."""
    both = [n for n, m in q1.items() if is_choice(m) and n in p and n not in getattr(guide, "random_sites", ())]
    return tuple(n for n in both if torch.equal(q1[n]["value"], q2[n]["value"]))


class Variational:
    """The pure engine: everything as a function of (flat parameters, flat noise).

    Attributes:
        start: (restart, size) first parameters.
        noise_size: Standard normals that one draw of the guide consumes.
        points: Sites that the guide gives no spread.
        no_density: Why log q and the ELBO mean nothing for this guide, or "".
        by_row: Whether a step takes noise for each row of its batch, (particle, row, noise_size).
    """

    engine = "vmap"

    def __init__(self, problem: Problem, prepared: list[Prepared]) -> None:
        first = prepared[0]
        self.problem, self.guide = problem, first.guide
        self.plate = problem.names["plate"]
        self.analytic = bool(getattr(first.guide, "mean_field", False))
        self.along = bool(getattr(first.guide, "along_draws", False))
        self.no_density = str(getattr(first.guide, "no_density", ""))
        self.by_row = bool(getattr(first.guide, "by_row", False)) and _can_row(problem)
        self.unmultiplied = self.by_row
        shapes = {name: value.shape for name, value in first.params.items()}
        self.layout = Layout(shapes, first.constraints, own_parameters(first))
        self.start = torch.stack([torch.cat([v.detach().reshape(-1) for v in p.params.values()]) for p in prepared])
        self.noise_size, self.points = self._probe()

    def _probe(self) -> tuple[int, tuple[str, ...]]:
        """How much noise a draw takes, and which sites do not move with it. Raises Unanswerable."""
        params, draws = self.start[0], []
        args, kwargs = self.problem.arguments()
        with quiet(), torch.no_grad(), seeded(0, params.device):
            for _ in range(2):
                with (
                    BaseNoise(None, params) as noise,
                    Parameters(self.layout.split(params), self.layout.constraints),
                ):
                    draws.append(run(self.problem.model, self._with(params), args, kwargs))
        check_sites(*draws[0])
        (q1, p1), (q2, _) = draws
        return noise.used, fixed_sites(self.guide, q1, q2, p1)

    def _with(self, flat: Tensor) -> Guide:
        """The guide, reading the parameters it keeps in itself from `flat`."""
        if not self.layout.attributes:
            return self.guide
        values = self.layout.split(flat)
        own = {attribute: values[name] for name, attribute in self.layout.attributes.items()}
        module: Any = self.guide
        return lambda *args, **kwargs: torch.func.functional_call(module, own, args, kwargs)

    def _run(
        self, flat: Tensor, noise: Tensor, given: Any, value: Callable[[Any], Any] = lambda msg: msg["value"]
    ) -> tuple[Messages, Messages]:
        args, kwargs = given
        with BaseNoise(noise), Parameters(self.layout.split(flat), self.layout.constraints):
            return run(self.problem.model, self._with(flat), args, kwargs, value)

    def _by_row(self, flat: Tensor, noise: Tensor, x: Tensor | None, y: Tensor | None, scale: Any) -> Terms:
        data: Any = self.problem.data

        def one(e: Tensor, row: Tensor, target: Tensor) -> Terms:
            given = arguments(self.problem, row, target)
            q, p = self._run(flat, e, given, _factored if self.unmultiplied else lambda msg: msg["value"])
            return combine(q, p, self.plate, 1.0, self.analytic, self.points)

        return terms_by_row(one, noise, data.x if x is None else x, data.y if y is None else y, scale)

    def _along_draws(self, flat: Tensor, q: Messages, given: Any) -> Messages:
        """The guide's messages on the same draws, with parameters that carry no gradient."""
        args, kwargs = given
        drawn = {n: m["value"] for n, m in q.items() if is_choice(m) and not isinstance(m["fn"], Delta)}
        with Parameters(self.layout.split(flat.detach()), self.layout.constraints), Values(drawn), Record() as again:
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
            return self._by_row(flat, noise, x, y, scale)

        def one(row: Tensor) -> Terms:
            given = arguments(self.problem, x, y)
            q, p = self._run(flat, row, given)
            if along:
                q = self._along_draws(flat, q, given)
            return combine(q, p, self.plate, scale, self.analytic, self.points)

        if noise.shape[0] == 1:
            return one(noise[0])
        return Terms(*(value.mean() for value in torch.func.vmap(one)(noise)))

    def gradient(self, params: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0) -> tuple[Tensor, Terms]:
        """Gradient of the ELBO (restart, size) and its terms (restart,).

        Args:
            params: (restart, size).
            noise: (restart, particle, noise_size) or (restart, particle, row, noise_size).
            batch: Rows of the data, the same for all restarts or one set for each; None: all of them.
            scale: n / rows.

        The caller holds `quiet()`.
        """

        def value(flat: Tensor, e: Tensor, x: Tensor | None, y: Tensor | None) -> tuple[Tensor, Terms]:
            terms = self.terms(flat, e, x, y, scale, along=self.along)
            return terms.elbo, terms

        function = torch.func.grad(value, has_aux=True)
        if len(params) == 1:
            grad, terms = function(params[0], noise[0], *batch.of(0))
            return grad.unsqueeze(0), Terms(*(term.unsqueeze(0) for term in terms))
        axis = None if batch.shared else 0
        return torch.func.vmap(function, in_dims=(0, 0, axis, axis))(params, noise, batch.x, batch.y)

    def estimate(self, flat: Tensor, noise: Tensor) -> Terms:
        """ELBO terms (draw,) on all data, one for each row of noise (draw, noise_size)."""
        with quiet(), torch.no_grad():
            return torch.func.vmap(lambda row: self.terms(flat, row.unsqueeze(0), None, None, 1.0))(noise)

    def draw(self, flat: Tensor, noise: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Values {site: (draw, *shape)}, lp (draw,) and logq (draw,) for each row of noise."""

        def one(row: Tensor) -> Any:
            return finish(*self._run(flat, row, self.problem.arguments()), self.points)

        with quiet(), torch.no_grad():
            return torch.func.vmap(one)(noise)

    def check_vmap(self) -> None:
        """Takes one gradient and two draws as the ascent will; raises what vmap has against guide or model."""
        with quiet():
            self.gradient(self.start, self.noise(0, 0, 0, (len(self.start), 2)))
            if self.by_row:
                self._check_rows()
        self.draw(self.start[0], self.noise(0, 0, 0, (2,)))

    def _check_rows(self) -> None:
        """Falls back where rows on their own, all with one noise, do not add up to the whole."""
        flat, noise = self.start[0], self.noise(0, 0, 0, (1,))
        whole = self.terms(flat, noise, None, None, 1.0).elbo
        data: Any = self.problem.data
        each = noise.unsqueeze(1).expand(1, len(data.x), -1)
        for self.unmultiplied in (True, False):
            try:
                if torch.allclose(self.terms(flat, each, None, None, 1.0).elbo, whole, rtol=1e-4, atol=1e-3):
                    return
            except (RuntimeError, TypeError, AttributeError, NotImplementedError):
                continue
        logger.info("svi: one noise for all rows of a step, because the model cannot be evaluated row by row")
        self.by_row = False

    def check_batch(self, rows: int) -> None:
        """Refuses a guide that is tied to all rows of the data."""
        noise = self.start.new_zeros(self.noise_size)
        check_batch(lambda given: self._run(self.start[0], noise, given), self.problem, rows)

    def noise(self, seed: int, restart: int, block: int, shape: Sequence[int], purpose: str = "svi") -> Tensor:
        """Standard normals (*shape, noise_size), a function of (seed, restart, block, purpose) only."""
        generator = torch.Generator().manual_seed(block_seed(seed, restart, block, purpose))
        like = self.start
        return torch.randn(*shape, self.noise_size, generator=generator, dtype=like.dtype).to(like.device)
