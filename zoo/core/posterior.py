"""`Posterior`: what every method returns."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import Tensor

from .problem import Data, Exact, Problem

KINDS = ("markov", "iid", "members")


@dataclasses.dataclass(frozen=True)
class Posterior:
    """Draws of one method on one problem, with all that is needed to judge them.

    Args:
        problem: What was run, on the device and in the dtype it was run in. After `zoo.open` of a fit of a
            user's own model its `model` raises until one is given.
        method: The method's name.
        kind: "markov" (Monte Carlo errors by ArviZ), "iid" (sd / sqrt(draws)) or "members" (no such error).
        draws: {site: (chain, draw, *shape)} in the site's own space, and in the model's units: a table's weights
            are per standardised column. A chain is an independent run, restart or member.
        weights: (chain, draw), or None where all draws weigh the same.
        stats: {name: (chain, draw)}: always `lp` (log density in unconstrained space, Jacobian included);
            `logq` where q has a density (both of y as the model sees it, standardised); energy, accept, depth,
            steps, diverging of samplers.
        history: {name: (restart, step)} of an optimiser: elbo, expected_log_likelihood, kl.
        exact: What is known in closed form, or None.
        seconds: {"compile", "warmup", "sample"}.
        settings: Options, seed, device, dtype, threads, engine, versions, data hash: JSON-able.
        outcome: "ok", or what went wrong and what to try.
        params: {name: (restart, *shape)}, the guide's parameters where the model has latents of single rows: its
            encoder's weights, say.
        warmup: {"draws": {site: (chain, warmup, *shape)}, "stats": {name: (chain, warmup)}} of a sampler that
            was asked to keep its warm-up, else None.
    """

    problem: Problem
    method: str
    kind: str
    draws: dict[str, Tensor]
    weights: Tensor | None = None
    stats: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    history: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    exact: Exact | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    outcome: str = "ok"
    warmup: dict[str, dict[str, Tensor]] | None = None
    params: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}.")

    @property
    def ok(self) -> bool:
        """Whether the method did what it was asked."""
        return self.outcome == "ok"

    @property
    def shape(self) -> tuple[int, int]:
        """(chains, draws)."""
        first = next(iter(self.draws.values()))
        return first.shape[0], first.shape[1]

    def predict(
        self, x: Any = None, *, given: Tensor | None = None, seed: int = 0, draws: int | None = None
    ) -> dict[str, Tensor]:
        """Predictions at new inputs, one for each draw; never looks at the observed y.

        Inputs as tensors are in the units of `problem.data` (a table's are standardised); what is predicted of
        y is in y's original units wherever `info` has y_loc and y_scale (see `zoo.core.units`).

        Args:
            x: Inputs (m, d), or a dict for a model on a dict; None: the training inputs; a number: so many rows of a
                model without inputs (new images of a VAE, say). Where the data came from a table also raw rows, in
                original units: the path of a file, a pandas DataFrame or a dict of columns; they are encoded with the
                training table's means, scales and levels.
            given: Targets (m, ...) whose rows' latents are inferred by the guide first (a VAE's reconstruction);
                without it rows' latents are drawn from their prior, never taken from the training rows.
            seed: For the noise of y.
            draws: Use this many draws, evenly spread over all; None: all, and where rows have latents as many as
                give 2.5e7 numbers.

        Returns:
            {"f": (chain, draw, m, ...), "y": a draw of y given the parameters, "mean" and "var": of y given
            the parameters (class probabilities for a class label), and other deterministic sites (in the units
            that the model computes them in)}. float64 where y lies more than 1,000 sds from 0.
        """
        from .predictive import predict

        x = _so_many(self.problem, x) if isinstance(x, int) and not isinstance(x, bool) else x
        return predict(self, x, given=given, seed=seed, draws=draws)

    def reconstruct(self, y: Tensor, x: Any = None, *, seed: int = 0, draws: int | None = None) -> dict[str, Tensor]:
        """As `predict(x, given=y)`: rows' latents from the guide at y (m, ...), then f, y, mean, var of those rows."""
        if y is None:
            raise ValueError("targets y are needed, got None. predict(x) draws latents of rows from their prior.")
        return self.predict(x, given=y, seed=seed, draws=draws)

    def encode(self, y: Tensor, x: Any = None) -> dict[str, Tensor]:
        """Mean and sd of the guide's q(z | y, x) of each row, {"loc", "scale"}: (chain, m, latent) each.

        Args:
            y: Targets (m, ...).
            x: Inputs (m, d); None for a model without.
        """
        from .local import encode

        return encode(self, y, x)

    def log_likelihood(self, x: Any = None, y: Tensor | None = None) -> Tensor:
        """log p(y_i | parameters), (chain, draw, m), at (x, y) or at the training data.

        A density in y's original units: log y_scale less than that of the standardised y. Where rows have latents
        of their own it is conditional on them, at the training data only: `zoo.log_marginal` integrates them out.

        Args:
            x: Inputs as for `predict`; None: the training data.
            y: Targets (m,) or (m, k) in the units of `problem.data`; left out where x is a table that holds them.
        """
        from .likelihoods import log_likelihood

        if x is not None and y is None and isinstance(self.problem.data, Data):
            x, y = _with_targets(self.problem.data, x)
        return log_likelihood(self, x, y)

    def to_arviz(self, *, prior: bool = False, log_likelihood: bool = True, warmup: bool = False) -> Any:
        """An ArviZ object: InferenceData under ArviZ 0.x, DataTree under 1.x.

        Args:
            prior: Also carry the groups `prior` and `prior_predictive`.
            log_likelihood: Also carry the pointwise log likelihood (what az.loo needs).
            warmup: Also carry the groups `warmup_posterior` and `warmup_sample_stats`.
        """
        from zoo.report.arviz import to_arviz

        return to_arviz(self, prior=prior, log_likelihood=log_likelihood, warmup=warmup)

    def save(self, path: str | Path) -> Path:
        """Writes a netCDF file that `zoo.open` reads; returns its path. Written whole or not at all."""
        from zoo.report.files import save

        return save(self, path)

    def __repr__(self) -> str:
        chains, draws = self.shape
        seconds = sum(self.seconds.values())
        return (
            f"Posterior({self.problem.name}, {self.method}: {chains} x {draws} draws of "
            f"{', '.join(self.draws)}; {seconds:.1f} s; {self.outcome})"
        )


def _so_many(problem: Problem, count: int) -> Tensor:
    """Inputs of `count` rows of a model without any; ValueError for a model that has some."""
    data = problem.data
    if not isinstance(data, Data) or data.x[0].numel():
        raise ValueError(f"x must be inputs, got the number {count}: '{problem.name}' has some. Give x (m, d).")
    if count < 1:
        raise ValueError(f"x must be at least 1 row, got {count}. Give how many to draw.")
    return problem.tensor.new_empty(count, *data.x.shape[1:])


def _with_targets(data: Data, x: Any) -> tuple[Any, Tensor | None]:
    """The inputs and targets of a table's raw rows; other inputs as they are."""
    from zoo.data.files import is_table
    from zoo.data.ready import new_rows

    return new_rows(data, x) if is_table(x) else (x, None)


def check_posteriors(door: str, *values: Any) -> None:
    """Raises TypeError where a value is no posterior, naming the door that was given it."""
    for value in values:
        if not isinstance(value, Posterior):
            raise TypeError(
                f"{door} takes posteriors, got {type(value).__name__}. Make one: zoo.run(problem, method); a file is "
                "opened by zoo.open(path)."
            )
