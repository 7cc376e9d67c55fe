"""Class probabilities of a gold file: worked out from the draws of f where they are its logistic or softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from zoo.core.quantities import Quantity

NEAR = 1e-6


def mean_of_f(f: ArrayLike, labels: Sequence[str], rows: int) -> NDArray[np.float64]:
    """expit(f) (S, rows), or softmax(f) over the classes of each row (S, rows * classes).

    Args:
        f: Draws (S, k).
        labels: "f[3]", or "f[3, 1]" where rows have several.
        rows: How many probes.
    """
    f = np.asarray(f, dtype=np.float64)
    if "," not in labels[0]:
        return np.asarray(special.expit(f))
    return np.asarray(special.softmax(f.reshape(len(f), rows, -1), axis=2).reshape(f.shape))


def is_of_f(found: Mapping[str, Quantity], rows: int) -> bool:
    """Whether the class probabilities are `mean_of_f` of f; a model may well have another link.

    Args:
        found: What is compared, "mean" among it.
        rows: How many probes.
    """
    f, mean = found.get("f"), found["mean"].values
    if f is None or f.values.shape != mean.shape or not rows or f.values.shape[2] % rows:
        return False
    flat = (-1, mean.shape[2])
    return bool(np.allclose(mean_of_f(f.values.reshape(flat), f.labels, rows), mean.reshape(flat), rtol=0, atol=NEAR))
