"""`Stored`: a fit opened from a file without its model, which answers from what the file kept."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core import units
from zoo.core.layout import Layout, observed_values
from zoo.core.likelihoods import log_likelihoods
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem

log = logging.getLogger("zoo")


def keep(posterior: Posterior, cap: int) -> dict[str, Any]:
    """What a model of the user's own would be asked for later, computed now.

    Args:
        posterior: The fit, its model at hand.
        cap: Leave out predictions of more values.

    Returns:
        {"predictions": {"train" | "test": {name: (chain, draw, ...)}}, "log_likelihood": {site: (chain, draw,
        ...)}, "test_log_likelihood": (chain, draw, m) or None, "observed": {site: value}}.
    """
    data, observed = posterior.problem.data, observed_values(posterior.problem)
    out: dict[str, Any] = {"predictions": {}, "log_likelihood": {}, "test_log_likelihood": None}
    out["observed"] = observed
    rows = sum(value.numel() for value in observed.values())
    if isinstance(data, Data):
        rows = len(data.x) + (len(data.x_test) if data.x_test is not None else 0)
    chains, draws = posterior.shape
    if chains * draws * rows > cap:
        log.warning("%d draws x %d rows are too many to keep predictions in the file.", chains * draws, rows)
        return out
    try:
        out |= _computed(posterior, bool(observed))
    except Exception as error:  # a long run must not be lost because its model can't predict
        log.warning("predictions are left out of the file: %s", " ".join(str(error).split()))
    return out


def _computed(posterior: Posterior, observed: bool) -> dict[str, Any]:
    data = posterior.problem.data
    out: dict[str, Any] = {"predictions": {"train": posterior.predict()}}
    if observed:
        out["log_likelihood"] = log_likelihoods(posterior)
    if isinstance(data, Data) and data.x_test is not None:
        out["predictions"]["test"] = posterior.predict(data.x_test)
        if data.y_test is not None:
            out["test_log_likelihood"] = posterior.log_likelihood(data.x_test, data.y_test)
    return out


def in_original_units(kept: dict[str, Any], problem: Problem, plan: Layout) -> dict[str, Any]:
    """What a file kept when the zoo still predicted a standardised y, as it predicts now.

    Args:
        kept: What `keep` returned then.
        problem: The problem, its model missing.
        plan: The layout of its sites.
    """
    scale, y = units.of(problem.data, plan.family), problem.names["y"]
    if len(plan.observed) == 1:
        y = plan.observed[0]
    observed, terms = kept["observed"], kept["log_likelihood"]
    out = {**kept, "observed": {n: units.targets(scale, v) if n == y else v for n, v in observed.items()}}
    out["predictions"] = {
        which: units.predictions(scale, values, y, problem.names["f"]) for which, values in kept["predictions"].items()
    }
    out["log_likelihood"] = {
        n: units.log_densities(scale, v, observed[n].shape) if n == y else v for n, v in terms.items()
    }
    if kept["test_log_likelihood"] is not None and isinstance(problem.data, Data) and problem.data.y_test is not None:
        shape = problem.data.y_test.shape
        out["test_log_likelihood"] = units.log_densities(scale, kept["test_log_likelihood"], shape)
    return out


def missing(name: str) -> Callable[..., Any]:
    """A model that says how to get the real one."""

    def model(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"the model of '{name}' is your own; files carry no code: only the predictions at the training "
            "and test inputs (seed 0) are here. Open the file with it: zoo.open(path, model=your_model)."
        )

    return model


@dataclasses.dataclass(frozen=True, repr=False)
class Stored(Posterior):
    """A posterior without a model.

    Args:
        stored: What `keep` returned.
        layout: Names of axes and sites (see `zoo.core.layout`).
    """

    stored: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    layout: Layout | None = dataclasses.field(default=None, kw_only=True)

    def predict(
        self, x: Any = None, *, given: Tensor | None = None, seed: int = 0, draws: int | None = None
    ) -> dict[str, Tensor]:
        """The predictions that the file kept: training or test inputs, seed 0; see `Posterior.predict`."""
        which = self._which(x)
        found = self.stored["predictions"].get(which)
        if found is None or seed != 0 or given is not None:
            return self.problem.model()
        if draws is None:
            return dict(found)
        if draws < 1:
            raise ValueError(f"draws must be at least 1, got {draws}.")
        chains, total = self.shape
        kept = torch.linspace(0, total - 1, max(1, min(total, -(-draws // chains)))).round().long()
        return {name: value[:, kept] for name, value in found.items()}

    def log_likelihood(self, x: Any = None, y: Tensor | None = None) -> Tensor:
        """The log likelihoods that the file kept; see `Posterior.log_likelihood`."""
        which, data = self._which(x), self.problem.data
        terms = self.stored["log_likelihood"]
        if which == "test" and isinstance(data, Data) and _same(y, data.y_test):
            found = self.stored["test_log_likelihood"]
        elif which == "train" and (y is None or (isinstance(data, Data) and _same(y, data.y))):
            only = next(iter(terms.values())) if len(terms) == 1 else None
            found = terms.get(self.problem.names["y"], only)
        else:
            found = None
        return self.problem.model() if found is None else found

    def _which(self, x: Any) -> str:
        data = self.problem.data
        if x is None or (isinstance(data, Data) and _same(x, data.x)):
            return "train"
        return "test" if isinstance(data, Data) and _same(x, data.x_test) else ""


def _same(a: Any, b: Tensor | None) -> bool:
    return isinstance(a, Tensor) and b is not None and a.shape == b.shape and bool((a.to(b) == b).all())
