"""What it is good for to know how uncertain one is: rows left to somebody else, and inputs unlike any seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Shares of the rows that the curve is given at.
KEPT = np.arange(20, 0, -1) / 20


def rejection_curve(errors: ArrayLike, uncertainty: ArrayLike, kept: ArrayLike = KEPT) -> Array:
    """Mean error of the share of rows that one is most certain of.

        curve(s) = mean of the ceil(s m) errors of least uncertainty

    Rows of equal uncertainty are taken in no order: each counts with their mean, so that an uncertainty that tells
    rows apart by chance only gives a flat curve.

    Args:
        errors: Of each row (m,): squared errors, or 1 for a wrong class.
        uncertainty: Of each row (m,).
        kept: Shares s in (0, 1].

    Returns:
        Mean errors, one for each share.

    Source: Leibig, Allken, Ayhan, Berens, Wahl 2017; El-Yaniv, Wiener 2010 (risk against coverage).
    """
    errors = np.asarray(errors, dtype=np.float64)
    _, group, size = np.unique(np.asarray(uncertainty), return_inverse=True, return_counts=True)
    alike = np.bincount(group, errors) / size
    ordered = np.repeat(alike, size)
    count = np.ceil(np.asarray(kept) * len(errors) - 1e-9).astype(int)
    return np.asarray(np.cumsum(ordered)[count - 1] / count)


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """The chance that an input from outside is more uncertain than one from inside, ties counted half.

    Args:
        inside: Uncertainty of inputs like the training inputs (m,).
        outside: Of others (n,).

    Returns:
        1 where all outside are more uncertain, 1/2 where uncertainty says nothing.

    Source: Hendrycks, Gimpel 2017.
    """
    from sklearn.metrics import roc_auc_score  # half a second to import, and few ask for it

    inside, outside = np.asarray(inside).reshape(-1), np.asarray(outside).reshape(-1)
    labels = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(labels, np.concatenate([inside, outside])))
