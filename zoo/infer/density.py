"""`density(problem)`: any Pyro model as a log density over flat unconstrained positions (chain, dim).

    log pi(u) = sum_sites log p(site | theta) + log |d theta / d u|,    theta = t(u)

with t the bijection each site's support has at that point. Chains are a batch dimension, not processes.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from pyro.distributions import constraints
from torch import Tensor

from guides.supports import unconstrain
from zoo.core.handlers import LogProb, Record, Unconstrained, Values, pyro_state
from zoo.core.over_draws import pixels_of, rows_of
from zoo.core.problem import Problem
from zoo.core.randomness import untouched
from zoo.core.sites import Sites, sites

from .centred import Centred, Intercept, later_log_prob, with_mean
from .subsample import on_rows

log = logging.getLogger("zoo")
# Positions, and positions x rows, evaluated at once where no gradient is needed: bounds memory.
CHUNK, ROWS = 128, 60_000


_RANDOM = (
    "model '{}' gives another log density each time: it draws numbers of its own (a subsampled plate, torch.randn, "
    "numpy). Use all rows, and sample statements for all that is random."
)


class Block(NamedTuple):
    """Where a site lies in a position: columns start to stop, shape of its coordinates, of its value."""

    name: str
    start: int
    stop: int
    coordinates: torch.Size
    shape: torch.Size


class Density:
    """The log density of a problem over unconstrained positions.

    Attributes:
        dim: Number of unconstrained coordinates.
        blocks: One `Block` for each latent site, in the order the model samples them.
        sites: `Sites` of the model.
        engine: "eager" (chains by vmap) or "loop" (one chain at a time).
        temperature: T of p(y, theta)^(1 / T); the Jacobian is not tempered.
        intercept: The site whose coordinates are the mean of f, see `zoo.infer.centred`; None: no such site.
    """

    def __init__(self, problem: Problem, engine: str = "eager", temperature: float = 1.0) -> None:
        if engine not in ("eager", "loop"):
            raise ValueError(f"engine must be 'eager' or 'loop', got {engine!r}.")
        self.problem, self.engine, self.temperature = problem, engine, temperature
        self.intercept: Intercept | None = None
        self.sites: Sites = sites(problem)
        if not self.sites.latent:
            raise ValueError(f"model '{problem.name}' has no latent site. Add a pyro.sample without obs.")
        like = problem.tensor
        self.dtype, self.device = like.dtype, like.device
        self.blocks: tuple[Block, ...] = self._lay_out()
        self.dim = self.blocks[-1].stop

    def with_intercept(self, intercept: Intercept | None) -> Density:
        """The same density with the mean of f as coordinates of this site."""
        other = copy.copy(self)
        other.intercept = intercept
        return other

    def _lay_out(self) -> tuple[Block, ...]:
        blocks, start = [], 0
        for name, site in self.sites.latent.items():
            coordinates = site.unconstrained_shape
            blocks.append(Block(name, start, start + coordinates.numel(), coordinates, site.shape))
            start += coordinates.numel()
        return tuple(blocks)

    # -- one position ---------------------------------------------------------------------------------------

    def split(self, position: Tensor) -> dict[str, Tensor]:
        """Position (..., dim) -> {site: unconstrained coordinates (..., *coordinates)}."""
        # By one split, whose slope is one concatenation; that of a slice fills all of the position, for each slice.
        lead, parts = position.shape[:-1], position.split([b.stop - b.start for b in self.blocks], -1)
        return {b.name: part.reshape((*lead, *b.coordinates)) for b, part in zip(self.blocks, parts, strict=True)}

    def at(self, position: Tensor) -> Unconstrained:
        """The handler that answers the model's latent sites as a position (dim,) says."""
        if self.intercept is not None:
            return Centred(self.split(position), self.sites.sequential, self.intercept)
        return Unconstrained(self.split(position), self.sites.sequential)

    def log_density(
        self, position: Tensor, jacobian: bool = True, arguments: Any = None, rows: Tensor | None = None
    ) -> Tensor:
        """log pi of one position (dim,), a float64 scalar; differentiable and vmap-safe if the model is.

        Args:
            position: (dim,).
            jacobian: False leaves out log |d theta / d u|: log p(y, theta) of the constrained values.
            arguments: (args, kwargs) of the model instead of the problem's own.
            rows: A batch (M,) of rows instead of all, see `zoo.infer.subsample`.

        The caller holds `pyro_state(validate=False)`.
        """
        args, kwargs = arguments = self.problem.arguments() if arguments is None else arguments
        scale = 1.0
        if rows is not None:
            scale = args[0].shape[0] / rows.shape[0]
            args, kwargs = on_rows(arguments, rows)
        later = self.intercept.site if self.intercept else ""
        with LogProb(self.problem.names["plate"], scale, jacobian, later) as log_prob, self.at(position) as point:
            self.problem.model(*args, **kwargs)
        log_prob.sites.update(later_log_prob(point))
        total = log_prob.total if self.temperature == 1.0 else log_prob.total / self.temperature
        return total + point.log_jacobian if jacobian else total

    # -- many positions -------------------------------------------------------------------------------------

    def _check(self, position: Tensor) -> None:
        wanted = f"(chain, {self.dim}) {self.dtype} on {self.device}"
        got = f"{tuple(position.shape)} {position.dtype} on {position.device}"
        right = (
            position.dim() == 2
            and position.shape[1] == self.dim
            and position.dtype == self.dtype
            and position.device == self.device
        )
        if not right:
            raise ValueError(f"position must be {wanted}, got {got}. Convert it with position.to(...).")

    def log_prob(self, position: Tensor, jacobian: bool = True) -> Tensor:
        """log pi (chain,) in float64 of positions (chain, dim)."""
        self._check(position)
        with pyro_state(validate=False), torch.no_grad():
            return self._batched(lambda u: self.log_density(u, jacobian), position)

    def value_and_grad(
        self, position: Tensor, rows: Tensor | None = None, jacobian: bool = True
    ) -> tuple[Tensor, Tensor]:
        """log pi (chain,) in float64 and its gradient (chain, dim) in the position's dtype.

        Args:
            position: (chain, dim).
            rows: A batch of rows for each chain (chain, M); None: all rows.
            jacobian: As for `log_density`.
        """
        self._check(position)
        with pyro_state(validate=False):
            if self.engine == "loop":
                return self._loop_gradient(position, jacobian, rows)
            gradient = torch.func.grad_and_value(lambda u, batch: self.log_density(u, jacobian, None, batch))
            with torch.no_grad():  # but for the position's: a model may hold parameters of its own
                grads, values = torch.func.vmap(gradient, (0, None if rows is None else 0))(position, rows)
            return values, grads

    def _loop_gradient(self, position: Tensor, jacobian: bool, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        values, grads = [], []
        for chain, start in enumerate(position):
            point = start.detach().requires_grad_(True)
            with torch.enable_grad():
                value = self.log_density(point, jacobian, None, None if rows is None else rows[chain])
                (grad,) = torch.autograd.grad(value, point)
            values.append(value.detach())
            grads.append(grad)
        return torch.stack(values), torch.stack(grads)

    def _batched(self, function: Callable[[Tensor], Any], position: Tensor) -> Any:
        """Maps a function of one position over the first axis, by this density's engine."""
        if self.engine == "eager":
            arguments = self.problem.arguments()
            each = rows_of(arguments) * pixels_of(arguments)
            return torch.func.vmap(function, chunk_size=max(1, min(CHUNK, ROWS // each)))(position)
        rows = [function(row) for row in position]
        if isinstance(rows[0], dict):
            return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        return torch.stack(rows)

    # -- spaces ---------------------------------------------------------------------------------------------

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        """Positions (..., dim) -> {site: values (..., *shape)} in the sites' own spaces."""
        lead = position.shape[:-1]

        def values(u: Tensor) -> dict[str, Tensor]:
            args, kwargs = self.problem.arguments()
            with self.at(u) as point:
                self.problem.model(*args, **kwargs)
            return {b.name: point.values[b.name] for b in self.blocks}

        with pyro_state(validate=False), torch.no_grad():
            if self.intercept is None and all(is_real(self.sites.latent[b.name].fn.support) for b in self.blocks):
                return self.split(position)
            flat = self._batched(values, position.reshape(-1, self.dim))
        return {b.name: flat[b.name].reshape((*lead, *b.shape)) for b in self.blocks}

    def unconstrain(self, values: Mapping[str, Tensor]) -> Tensor:
        """{site: values (..., *shape)} -> positions (..., dim); the inverse of `constrain`."""
        missing = [b.name for b in self.blocks if b.name not in values]
        if missing:
            raise ValueError(f"values must name every latent site; missing {missing}.")
        lead = values[self.blocks[0].name].shape[: -len(self.blocks[0].shape) or None]
        rows = {b.name: values[b.name].reshape((-1, *b.shape)) for b in self.blocks}
        count = rows[self.blocks[0].name].shape[0]
        with pyro_state(validate=False), torch.no_grad():
            flat = [self._coordinates({n: v[i] for n, v in rows.items()}) for i in range(count)]
        return torch.stack(flat).to(dtype=self.dtype, device=self.device).reshape(*lead, self.dim)

    def _coordinates(self, values: Mapping[str, Tensor]) -> Tensor:
        """One point's unconstrained coordinates (dim,), each support taken at that point."""
        args, kwargs = self.problem.arguments()
        with Record() as record, Values(values):
            self.problem.model(*args, **kwargs)
        parts = []
        for b in self.blocks:
            msg = record.sites[b.name]
            parts.append(unconstrain(msg["fn"].support, b.name).inv(msg["value"]).reshape(-1))
        position = torch.cat(parts)
        return position if self.intercept is None else with_mean(position, record.sites, self.intercept)


def is_real(support: Any) -> bool:
    """Whether a support is the whole real line (or independent copies of it)."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is constraints.real


def density(problem: Problem, engine: str = "auto", temperature: float = 1.0) -> Density:
    """The density of a problem, on the fastest engine its model allows.

    Args:
        problem: The problem.
        engine: "auto" (eager unless vmap refuses the model), "eager" or "loop".
        temperature: See `Density`.

    Raises:
        ValueError: If the model has no latent site, a discrete latent or an unsupported support.
    """
    if engine != "auto":
        return Density(problem, engine, temperature)
    result = Density(problem, "eager", temperature)
    chains = 2 if result.sites.rows <= ROWS else 1  # of very many rows each chain takes its memory
    probe = torch.zeros(chains, result.dim, dtype=result.dtype, device=result.device)
    try:
        value, _ = result.value_and_grad(probe)
        _check_same(result, probe, value)
    except (RuntimeError, NotImplementedError) as error:
        log.info(
            "model '%s' does not vectorise over chains (%s); chains run one after another (engine 'loop')",
            problem.name,
            str(error).splitlines()[0],
        )
        result = Density(problem, "loop", temperature)
        _check_loop(result)
    return result


def _check_same(target: Density, probe: Tensor, value: Tensor) -> None:
    """Refuses a density that numpy or Python draw numbers for: vmap cannot see it, and a graph would freeze one."""
    again = target.log_prob(probe)
    if not torch.allclose(again, value, rtol=1e-5, atol=1e-5, equal_nan=True):
        raise ValueError(_RANDOM.format(target.problem.name))


def _check_loop(target: Density) -> None:
    """Refuses what vmap would have: a density that is random, and one whose gradient is cut off by .item().

    Compares two values at one point; and the slope along one direction with a finite difference, at three points,
    since at one of them a model may have a kink.
    """
    name, generator = target.problem.name, torch.Generator().manual_seed(0)
    points = (torch.rand(3, target.dim, generator=generator, dtype=torch.float64) * 2 - 1).to(target.problem.tensor)
    signs = torch.ones_like(points)
    signs[:, 1::2] = -1
    with untouched(target.device):
        values, grads = target.value_and_grad(points)
        again, up, down = (target.log_prob(points + size * signs) for size in (0.0, 1e-3, -1e-3))
    finite = torch.isfinite(values)
    if not torch.equal(values[finite], again[finite]):
        raise ValueError(_RANDOM.format(name))
    slopes, differences = (grads * signs).sum(1).double(), (up - down) / 2e-3
    room = 0.2 * (slopes.abs() + differences.abs()) + 1e-2 * (1 + values.abs())
    if bool(finite.any()) and bool(((slopes - differences).abs() > room)[finite].all()):
        raise ValueError(
            f"model '{name}' has slope {float(differences[finite][0]):.4g} where its gradient says "
            f"{float(slopes[finite][0]):.4g}: .item(), .detach() or numpy cuts a latent off. Keep latents as tensors "
            "all the way to the log density."
        )
