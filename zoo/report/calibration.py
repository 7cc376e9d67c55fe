"""Whether stated probabilities come true: of classes by their confidence, of measurements by central intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

BINS = 15
# Central intervals of the curve.
LEVELS = np.arange(1, 20) / 20


class Reliability(NamedTuple):
    """Rows by how confident their prediction is; bins without rows are left out.

    Args:
        confidence: Mean largest probability in the bin.
        accuracy: Share of rows in the bin whose most probable class is right.
        rows: How many.
    """

    confidence: Array
    accuracy: Array
    rows: NDArray[np.int64]


def reliability(p: ArrayLike, y: ArrayLike, bins: int = BINS) -> Reliability:
    """Accuracy against confidence (max_k p_k) in bins ((b - 1) / B, b / B]; a confidence of 1 is in the last.

    Args:
        p: Probabilities (m, classes).
        y: Labels 0 ... classes - 1 (m,).
        bins: B.

    Source: Guo, Pleiss, Sun, Weinberger 2017, section 2.
    """
    p = np.asarray(p, dtype=np.float64)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == np.asarray(y)
    # Probabilities that are averaged over draws may sum to 1 + 1e-16.
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    rows = np.bincount(place, minlength=bins)
    has = rows > 0
    means = [np.bincount(place, of, minlength=bins)[has] / rows[has] for of in (confidence, right.astype(np.float64))]
    return Reliability(means[0], means[1], rows[has])


def ece(p: ArrayLike, y: ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error: sum_b (n_b / n) |accuracy_b - confidence_b|, over the bins of `reliability`.

    Few rows a bin make it positive for calibrated predictions too.

    Args:
        p: Probabilities (m, classes).
        y: Labels (m,).
        bins: How many.

    Source: Guo, Pleiss, Sun, Weinberger 2017; Naeini, Cooper, Hauskrecht 2015.
    """
    found = reliability(p, y, bins)
    return float(np.abs(found.accuracy - found.confidence) @ found.rows / found.rows.sum())


def pit(draws: ArrayLike, y: ArrayLike) -> Array:
    """Probability integral transform: P(Y < y) + P(Y = y) / 2 by predictive draws, uniform for right predictions.

    Args:
        draws: Of y (S, m), of equal weight.
        y: Targets (m,).

    Returns:
        (m,), each in [0, 1].

    Source: Dawid 1984; ties: Czado, Gneiting, Held 2009.
    """
    draws, y = np.asarray(draws), np.asarray(y)
    return np.asarray(((draws < y).sum(axis=0) + (draws == y).sum(axis=0) / 2) / len(draws))


def covered(u: ArrayLike, level: float) -> float:
    """Share of rows inside their central predictive interval of this level: of |u - 1/2| <= level / 2.

    Args:
        u: PIT values (m,).
        level: In (0, 1).

    Returns:
        `level` for right predictions, less for over-confident ones.
    """
    return float((np.abs(np.asarray(u) - 0.5) <= level / 2).mean())


def interval_error(u: ArrayLike) -> float:
    """Mean of |covered(level) - level| over the levels 5, 10 ... 95 %.

    Args:
        u: PIT values (m,).

    Source: Kuleshov, Fenner, Ermon 2018, eq. 9 (squared there, and of one-sided intervals).
    """
    return float(np.mean([abs(covered(u, level) - level) for level in LEVELS]))
