"""`judge`: what may be compared of one fit, and everything about it that needs no gold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.diagnostics import constant, ess, kish, rhat
from zoo.core.posterior import Posterior
from zoo.core.quantities import Quantity, point_sites, quantities, test_inputs, thin
from zoo.core.tensors import to_numpy

from .agreement import probabilities
from .density_ratio import density_facts
from .differences import unscored
from .finite import check_finite
from .joint import Draws, Part
from .marginals import marginal
from .scores import headline

# R-hat and ESS are judged at so many outputs and so many weights, evenly spread.
JUDGED = 100


class Judged(NamedTuple):
    """One side of a comparison.

    Args:
        found: What may be compared.
        parts: {quantity: draws and their summary}.
        weights: (chain, draw), or None.
        classes: Class probabilities (m, k) of a classifier, or None.
        row: Its row of the frame.
    """

    found: dict[str, Quantity]
    parts: dict[str, Part]
    weights: NDArray[np.float64] | None
    classes: NDArray[np.float64] | None
    row: dict[str, Any]

    def draws(self, names: list[str]) -> Draws:
        """Its draws of some quantities, for the joint distances."""
        return Draws({name: self.parts[name] for name in names}, self.weights, self.row["kind"], self.row["min_ess"])


def judge(label: str, fit: Posterior) -> Judged:
    """What may be compared of a fit, at the test inputs.

    Args:
        label: What it is called in the table.
        fit: Any method's result.
    """
    predicted = fit.predict(test_inputs(fit))
    found = quantities(fit, predicted)
    check_finite(label, found)
    seconds = float(sum(fit.seconds.values()))
    facts, missing = density_facts(fit)
    row = {
        "method": label,
        "kind": fit.kind,
        "chains": fit.shape[0],
        "draws": fit.shape[1],
        **headline(fit, predicted),
        **_convergence(fit, found),
        **facts,
        "seconds": seconds,
        "points": ", ".join(point_sites(fit)),
        "outcome": fit.outcome,
        "missing": "; ".join([*missing, *(["p: members are no draws"] if fit.kind == "members" else [])]),
    }
    row["unscored"] = "" if row["scored_on"] else unscored(fit, predicted)
    row["ess_per_s"] = row["min_ess"] / seconds if seconds > 0 else np.nan
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    parts = {name: Part(q.values, marginal(q.values, weights, fit.kind)) for name, q in found.items()}
    return Judged(found, parts, weights, probabilities(fit, predicted), row)


def _convergence(fit: Posterior, found: dict[str, Quantity]) -> dict[str, float]:
    """Smallest ESS (bulk and tail) of what is compared; largest R-hat there, and over the weights.

    Weights of draws make every ESS smaller by `kish`.
    """
    out = {"min_ess": np.nan, "rhat_f": np.nan, "rhat_w": np.nan}
    share = 1.0 if fit.weights is None else kish(to_numpy(fit.weights))
    if fit.kind == "iid":
        return out | {"min_ess": share * fit.shape[0] * fit.shape[1]}
    if fit.kind == "members":
        return out
    moving = [q.values[:, :, thin(q.values.shape[2], JUDGED)] for q in found.values() if not q.point]
    if moving:
        judged = np.concatenate(moving, axis=2)
        judged = judged[:, :, ~constant(judged)]
        if judged.shape[2]:
            out["min_ess"] = share * float(np.minimum(ess(judged), ess(judged, "tail")).min())
            out["rhat_f"] = float(rhat(judged).max())
    sites = [v for n, v in fit.draws.items() if n not in point_sites(fit)]
    if sites:
        out["rhat_w"] = max(float(rhat(_spread(v)).max()) for v in sites)
    return out


def _spread(value: Tensor) -> np.ndarray:
    flat = value.reshape(*value.shape[:2], -1)
    return to_numpy(flat[:, :, thin(flat.shape[2], JUDGED)])
