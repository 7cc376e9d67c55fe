"""A problem and its guide as functions of flat tensors: what `svi` maximises and draws from.

Two engines serve it. "vmap": guide parameters and standard normals are arguments of a pure function, mapped
over particles and restarts. "loop" (zoo.infer.looped): one particle at a time with Pyro's own draws, for
guides that are no function of standard normals or that hide parameters in modules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from guides.supports import unconstrain
from zoo.core.handlers import is_deterministic, pyro_state, scaled_log_prob
from zoo.core.problem import Problem
from zoo.core.randomness import seeded

from .elbo import BaseNoise, Parameters, Terms, combine, is_choice, run
from .noise import block_seed

Messages = dict[str, Any]
Guide = Callable[..., Any]


class Layout(NamedTuple):
    """Where each guide parameter lies in a flat vector of unconstrained values."""

    shapes: dict[str, torch.Size]
    constraints: dict[str, Any]
    attributes: dict[str, str]  # parameters that the guide, a module, reads from itself: {name: attribute}

    @property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes.values())

    def split(self, flat: Tensor) -> dict[str, Tensor]:
        """(size,) -> {name: tensor}."""
        parts = flat.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.reshape(s) for (name, s), part in zip(self.shapes.items(), parts, strict=True)}


@contextlib.contextmanager
def quiet(validate: bool = False) -> Iterator[None]:
    """Pyro's handlers to ourselves, with an empty param store; both put back as found."""
    with pyro_state(validate=validate), pyro.get_param_store().scope({"params": {}, "constraints": {}}):
        yield


class Batch(NamedTuple):
    """Rows of the data: x (rows, d) for all restarts, or (restart, rows, d); None: the problem's own."""

    x: Tensor | None = None
    y: Tensor | None = None
    shared: bool = True

    def of(self, restart: int) -> tuple[Tensor | None, Tensor | None]:
        """One restart's rows."""
        if self.shared or self.x is None or self.y is None:
            return self.x, self.y
        return self.x[restart], self.y[restart]


ALL = Batch()


class _Plain(Messenger):
    """Names of parameters that code reads from a module itself: their pyro.param only announces them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def _pyro_param(self, msg: Any) -> None:
        if len(msg["args"]) > 1 and isinstance(msg["args"][1], torch.nn.Parameter):
            self.names.add(msg["name"])


class Prepared(NamedTuple):
    """A guide that has run once: its parameters (`plain` ones live in modules), and that run's messages."""

    guide: Guide
    params: dict[str, Tensor]
    constraints: dict[str, Any]
    plain: set[str]


def prepare(guide: Guide, problem: Problem, seed: int) -> Prepared:
    """Runs a fresh guide once, so that it makes its parameters, under a seed and with Pyro's validation on.

    Raises:
        ValueError: If guide and model do not have the same latent sites, naming them.
    """
    args, kwargs = problem.arguments()
    with quiet(validate=True), seeded(seed, problem.tensor.device), torch.no_grad():
        with _Plain() as plain:
            q, p = run(problem.model, guide, args, kwargs)
        state = pyro.get_param_store().get_state()
        params, constraints = dict(state["params"]), dict(state["constraints"])
    check_sites(q, p)
    return Prepared(guide, params, constraints, plain.names)


def arguments(problem: Problem, x: Tensor | None, y: Tensor | None) -> Any:
    """The model's arguments on a batch; None: all data."""
    args, kwargs = problem.arguments()
    return ((x, y), kwargs) if x is not None else (args, kwargs)


def check_sites(q: Messages, p: Messages) -> None:
    """Guide and model must have the same latent sites, of the same shapes."""
    wanted = [n for n, m in p.items() if not m["is_observed"] and not is_deterministic(m)]
    missing = [n for n in wanted if n not in q]
    extra = [n for n, m in q.items() if is_choice(m) and n not in p and not m["infer"].get("is_auxiliary")]
    if missing or extra:
        raise ValueError(
            f"the guide must sample the model's latent sites {wanted}; missing {missing}, unknown {extra}. "
            "Mark helper sites of the guide with infer={'is_auxiliary': True}."
        )
    for name in wanted:
        got, shape = tuple(q[name]["value"].shape), tuple(p[name]["fn"].shape())
        if got != shape:
            raise ValueError(
                f"the guide gives site '{name}' shape {got}, the model wants {shape}. "
                "A q with parameters for single rows needs batch_size=None."
            )


def finish(q: Messages, p: Messages, points: Sequence[str]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """A draw's values, its log density and log q, both in unconstrained space.

    lp = log p(y, theta) + log |dtheta / du|, logq = log q(theta) + log |dtheta / du| over the sites that have
    a density (not points).
    """
    values: dict[str, Tensor] = {}
    lp = torch.stack([scaled_log_prob(m) for m in p.values() if not is_deterministic(m)]).sum()
    logq = torch.zeros_like(lp) + sum(
        scaled_log_prob(m) for n, m in q.items() if is_choice(m) and n not in points
    )
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


class Variational:
    """The pure engine: everything as a function of (flat parameters, flat noise).

    Attributes:
        start: (restart, size) first parameters.
        noise_size: Standard normals that one draw of the guide consumes.
        points: Sites that the guide gives no spread.
    """

    engine = "vmap"

    def __init__(self, problem: Problem, prepared: list[Prepared]) -> None:
        first = prepared[0]
        self.problem, self.guide = problem, first.guide
        self.plate = problem.names["plate"]
        self.analytic = bool(getattr(first.guide, "mean_field", False))
        shapes = {name: value.shape for name, value in first.params.items()}
        self.layout = Layout(shapes, first.constraints, own_parameters(first))
        self.start = torch.stack(
            [torch.cat([v.detach().reshape(-1) for v in p.params.values()]) for p in prepared]
        )
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
        (q1, _), (q2, _) = draws
        fixed = [n for n, m in q1.items() if is_choice(m) and torch.equal(m["value"], q2[n]["value"])]
        return noise.used, tuple(fixed)

    def _with(self, flat: Tensor) -> Guide:
        """The guide, reading the parameters it keeps in itself from `flat`."""
        if not self.layout.attributes:
            return self.guide
        values = self.layout.split(flat)
        own = {attribute: values[name] for name, attribute in self.layout.attributes.items()}
        module: Any = self.guide
        return lambda *args, **kwargs: torch.func.functional_call(module, own, args, kwargs)

    def _run(self, flat: Tensor, noise: Tensor, given: Any) -> tuple[Messages, Messages]:
        args, kwargs = given
        with BaseNoise(noise), Parameters(self.layout.split(flat), self.layout.constraints):
            return run(self.problem.model, self._with(flat), args, kwargs)

    def terms(self, flat: Tensor, noise: Tensor, x: Tensor | None, y: Tensor | None, scale: Any) -> Terms:
        """One restart's ELBO, averaged over particles. flat (size,), noise (particle, noise_size)."""

        def one(row: Tensor) -> Terms:
            q, p = self._run(flat, row, arguments(self.problem, x, y))
            return combine(q, p, self.plate, scale, self.analytic)

        if noise.shape[0] == 1:
            return one(noise[0])
        return Terms(*(value.mean() for value in torch.func.vmap(one)(noise)))

    def gradient(
        self, params: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0
    ) -> tuple[Tensor, Terms]:
        """Gradient of the ELBO (restart, size) and its terms (restart,).

        Args:
            params: (restart, size).
            noise: (restart, particle, noise_size).
            batch: Rows of the data, the same for all restarts or one set for each; None: all of them.
            scale: n / rows.

        The caller holds `quiet()`.
        """

        def value(flat: Tensor, e: Tensor, x: Tensor | None, y: Tensor | None) -> tuple[Tensor, Terms]:
            terms = self.terms(flat, e, x, y, scale)
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

    def check_batch(self, rows: int) -> None:
        """Refuses a guide whose q of a local site is tied to the rows of all the data."""
        data = self.problem.data
        given = arguments(self.problem, data.x[:rows], data.y[:rows])  # type: ignore[union-attr, index]
        with quiet(), torch.no_grad():
            check_sites(*self._run(self.start[0], self.start.new_zeros(self.noise_size), given))

    def noise(
        self, seed: int, restart: int, block: int, shape: Sequence[int], purpose: str = "svi"
    ) -> Tensor:
        """Standard normals (*shape, noise_size), a function of (seed, restart, block, purpose) only."""
        generator = torch.Generator().manual_seed(block_seed(seed, restart, block, purpose))
        like = self.start
        return torch.randn(*shape, self.noise_size, generator=generator, dtype=like.dtype).to(like.device)


def own_parameters(prepared: Prepared) -> dict[str, str]:
    """{name in the store: attribute} of the parameters a guide module reads from itself, not by pyro.param.

    Raises:
        HiddenParameters: If a plain parameter belongs to a module that is not the guide.
    """
    if not prepared.plain:
        return {}
    if not isinstance(prepared.guide, torch.nn.Module):
        raise HiddenParameters(f"parameters {sorted(prepared.plain)} belong to modules inside the guide")
    names = {id(p): name for name, p in prepared.guide.named_parameters()}
    return {n: names[id(prepared.params[n])] for n in prepared.plain}


class HiddenParameters(ValueError):
    """Parameters that live in modules a guide closes over: no argument can replace them."""
