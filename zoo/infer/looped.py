"""The "loop" engine of variational fits: any guide Pyro can run, one particle after another.

Its draws are Pyro's own (`rsample`), its parameters lie in a param store that exists only while it runs, and
seeds take the place of standard normals: a particle is a function of (parameters, seed), as it is a function
of (parameters, normals) under "vmap".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro
import torch
from torch import Tensor

from zoo.core.problem import Problem
from zoo.core.randomness import seeded

from .drawn import finish, fixed_sites
from .elbo import Terms, combine, is_choice, run
from .prepared import ALL, Batch, Layout, Messages, Prepared, arguments, check_batch, check_sites, quiet
from .score import Detached, check_score, log_q, of_elbo
from .seeds import block_seed


class Looped:
    """Same functions as `Variational`, on Pyro's own param store and draws."""

    engine = "loop"
    noise_size = 1
    by_row = False

    def __init__(self, problem: Problem, prepared: list[Prepared], *, gradient: str = "pathwise") -> None:
        first = prepared[0]
        self.problem, self.score = problem, gradient == "score"
        self.guide = Detached()(first.guide) if self.score else first.guide
        self.plate = problem.names["plate"]
        self.analytic = bool(getattr(first.guide, "mean_field", False)) and not self.score
        self.no_density = str(getattr(first.guide, "no_density", ""))
        self.leaves = first.params
        self.layout = Layout({n: v.shape for n, v in first.params.items()}, first.constraints, {})
        self.start = torch.stack([torch.cat([v.detach().reshape(-1) for v in p.params.values()]) for p in prepared])
        self.points = self._points()

    def _run(self, seed: int, given: Any) -> tuple[Messages, Messages]:
        args, kwargs = given
        store = pyro.get_param_store()
        store.set_state({"params": dict(self.leaves), "constraints": dict(self.layout.constraints)})
        with seeded(seed, self.start.device):
            return run(self.problem.model, self.guide, args, kwargs)

    def noise_for(self, rows: int | None) -> int:
        """One seed, whatever the batch."""
        return self.noise_size

    def _put(self, flat: Tensor) -> None:
        """Writes parameters into the leaves: modules inside the guide hold the very same tensors."""
        with torch.no_grad():
            for name, value in self.layout.split(flat).items():
                self.leaves[name].copy_(value)

    def _points(self) -> tuple[str, ...]:
        with quiet(), torch.no_grad():
            (q1, p1), (q2, _) = self._run(1, self.problem.arguments()), self._run(2, self.problem.arguments())
        check_sites(q1, p1)
        stuck = [n for n, m in q1.items() if is_choice(m) and not m["fn"].has_rsample and not m["infer"].get("given")]
        if self.score:
            check_score(q1, self.no_density)
        elif stuck:
            raise ValueError(
                f"the guide's sites {stuck} cannot be reparameterised, so the ELBO has no pathwise gradient. "
                "Use gradient='score', or a continuous family with rsample."
            )
        return fixed_sites(self.guide, q1, q2, p1)

    def gradient(self, params: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0) -> tuple[Tensor, Terms]:
        """As `Variational.gradient`; noise (restart, particle, 1) are seeds."""
        grads, rows = [], []
        for r, flat in enumerate(params):
            self._put(flat)
            given = arguments(self.problem, *batch.of(r))
            with torch.enable_grad():
                each, scores = zip(*(self._particle(int(seed), given, scale) for seed in noise[r, :, 0]), strict=True)
                all_terms = Terms(*(torch.stack(values) for values in zip(*each, strict=True)))
                terms = Terms(*(values.mean() for values in all_terms))
                target = of_elbo(all_terms.elbo, torch.stack(scores)) if self.score else terms.elbo
                leaves = list(self.leaves.values())
                found = torch.autograd.grad(target, leaves, allow_unused=True)
            pairs = zip(found, leaves, strict=True)
            grads.append(torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for g, p in pairs]))
            rows.append([value.detach() for value in terms])
        return torch.stack(grads), Terms(*(torch.stack(values) for values in zip(*rows, strict=True)))

    def _particle(self, seed: int, given: Any, scale: float) -> tuple[Terms, Tensor]:
        """The terms and, where the gradient needs it, log q."""
        q, p = self._run(seed, given)
        terms = combine(q, p, self.plate, scale, self.analytic, self.points)
        return terms, log_q(q) if self.score else torch.zeros_like(terms.elbo)

    def _terms(self, seed: int, given: Any, scale: float) -> Terms:
        return self._particle(seed, given, scale)[0]

    def estimate(self, flat: Tensor, noise: Tensor) -> Terms:
        """ELBO terms (draw,) on all data, one for each seed (draw, 1)."""
        with quiet(), torch.no_grad():
            self._put(flat)
            rows = [self._terms(int(seed), self.problem.arguments(), 1.0) for seed in noise[:, 0]]
        return Terms(*(torch.stack(values) for values in zip(*rows, strict=True)))

    def draw(
        self, flat: Tensor, noise: Tensor, batch: Batch = ALL, scale: float = 1.0
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Values {site: (draw, *shape)}, lp (draw,) and logq (draw,), one for each seed (draw, 1)."""
        given = arguments(self.problem, *batch.of(0))
        with quiet(), torch.no_grad():
            self._put(flat)
            rows = [finish(*self._run(int(s), given), self.points, self.plate, scale) for s in noise[:, 0]]
        values = {name: torch.stack([row[0][name] for row in rows]) for name in rows[0][0]}
        return values, torch.stack([row[1] for row in rows]), torch.stack([row[2] for row in rows])

    def check_batch(self, rows: int) -> None:
        """Refuses a guide that is tied to all rows of the data."""
        check_batch(lambda given: self._run(0, given), self.problem, rows)

    def noise(
        self, seed: int, restart: int, block: int, shape: Sequence[int], purpose: str = "svi", rows: int | None = None
    ) -> Tensor:
        """Seeds (*shape, 1), a function of (seed, restart, block, purpose) only."""
        generator = torch.Generator().manual_seed(block_seed(seed, restart, block, purpose))
        return torch.randint(2**62, (*shape, 1), generator=generator)
