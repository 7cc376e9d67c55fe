"""What else differs between two fits of the same data, and why scores are missing: the foot of a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from zoo.core.layout import defaults
from zoo.core.posterior import Posterior
from zoo.core.problem import Data

from .gold import model_of
from .same import same

# A hyperparameter that one of two fits does not know: a file carries no defaults of a user's model.
UNKNOWN = object()


def difference(label: str, fit: Posterior, gold: Posterior) -> str:
    """Says that a fit is of another model or other hyperparameters than gold; "" where both are the same.

    Such posteriors may well be compared (the effect of a prior on f), but no distance is then a method's error.

    Args:
        label: What the fit is called in the table.
        fit: Any method's result.
        gold: The one it is compared with, on the same data.
    """
    mine, other = fit.problem, gold.problem
    (own_name, own_q), (other_name, other_q) = model_of(mine), model_of(other)
    if mine.name != other.name and own_name != other_name:
        return (
            f"{label} is of the model {mine.name}, gold of {other.name}: two posteriors are compared, and their "
            "distance is no error of a method."
        )
    known = defaults(mine.model) | defaults(other.model)
    changed = []
    for name in sorted({*mine.hyper, *other.hyper} - {*own_q, *other_q}):
        here, there = (hyper.get(name, known.get(name, UNKNOWN)) for hyper in (mine.hyper, other.hyper))
        if here is not UNKNOWN and there is not UNKNOWN and not same(here, there):
            changed.append(f"{name}={_text(here)} (gold: {_text(there)})")
    if not changed:
        return ""
    return f"{label} has {', '.join(changed)}: another posterior than gold's, so distances are no error of a method."


def unscored(fit: Posterior, predicted: dict[str, Tensor]) -> str:
    """Why a fit has no RMSE and log likelihood a row."""
    data = fit.problem.data
    if not isinstance(data, Data):
        return "RMSE and loglik are - because the data are a dict: which rows are held out is not known."
    if "mean" not in predicted:
        return "RMSE and loglik are - because y's distribution has no mean in closed form."
    return "RMSE and loglik are - because there is no y to score against."


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.shape}" if value.ndim else f"{value.item():g}"
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}" if value.dim() else f"{value.item():g}"
    return getattr(value, "__name__", None) or repr(value)
