"""The two sides of a comparison with a gold file: what the file says, and a fit at the file's probes."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import Quantity

from .gold import Gold, key
from .joint import Part
from .judged import Judged
from .marginals import Marginal

UNSCORED = "gold files hold no scores of held-out rows: zoo.scores(fit)."


def at_probes(fit: Posterior, gold: Gold) -> Posterior:
    """The fit with the probes as its test inputs; their targets are left out, as gold is not scored."""
    problem = fit.problem
    x = gold.probes(problem.tensor)
    if not isinstance(problem.data, Data) or x is None:
        return fit
    data = dataclasses.replace(problem.data, x_test=x, y_test=None)
    return dataclasses.replace(fit, problem=dataclasses.replace(problem, data=data))


def not_of_gold(label: str, fit: Posterior, gold: Gold) -> str:
    """Says that a fit is of another model or of other hyperparameters than gold; "" where both are the same."""
    model, _, hyper = key(fit.problem)
    right, its = gold.facts["model"], gold.facts["hyper"]
    if (model, hyper) == (right, its):
        return ""
    return (
        f"{label} is of {model} with {hyper or 'its defaults'}, gold of {right} with {its or 'its defaults'}: two "
        "posteriors are compared, and their distance is no error of a method."
    )


def judged_gold(gold: Gold) -> Judged:
    """Gold's side: means, sds and their errors of the whole run, and its 1,000 draws for what needs draws."""
    run = gold.facts["run"]
    values = {n: gold.draws(n) for n in gold.compared}
    found = {n: Quantity(v[None], list(gold.facts["quantities"][n]["labels"])) for n, v in values.items()}
    parts = {n: Part(v[None], _marginal(gold, n, v)) for n, v in values.items()}
    sizes = [gold.numbers(n, kind).min() for n in gold.compared for kind in ("ess_bulk", "ess_tail")]
    row = {
        "method": "gold", "kind": "iid", "chains": run["chains"], "draws": run["draws"], "points": "", "outcome": "ok",
        "min_ess": float(min(sizes)), "rhat_f": max(float(gold.numbers(n, "rhat").max()) for n in gold.compared),
        "seconds": run["seconds"], "ess_per_s": float(min(sizes)) / max(run["seconds"], 1e-9),
        "missing": "no k-hat, no scores: a gold file holds draws of f only", "scored_on": "", "unscored": UNSCORED,
    }  # fmt: skip
    return Judged(found, parts, None, _classes(gold), row)


def _marginal(gold: Gold, name: str, draws: NDArray[np.float64]) -> Marginal:
    mean, sd, error = (gold.numbers(name, what) for what in ("mean", "sd", "mcse_mean"))
    ess = np.divide(sd, error, out=np.full(len(sd), np.inf), where=error > 0) ** 2
    # What is sorted are the file's draws, fewer than the mean is of.
    ess = np.minimum(ess, len(draws))
    return Marginal(mean, sd, error, ess, np.sort(draws.T, axis=1), sd == 0)


def _classes(gold: Gold) -> NDArray[np.float64] | None:
    """Class probabilities (probe, class), of the whole run."""
    if "mean" not in gold.compared:
        return None
    mean = gold.numbers("mean", "mean")
    if "," not in gold.facts["quantities"]["mean"]["labels"][0]:
        return np.stack([1 - mean, mean], axis=1)
    return mean.reshape(len(gold.facts["data"]["probes"]), -1)
