"""What to do, given probabilities and costs: the action of least expected cost, or none where that is too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

REJECT = -1
# Expected costs this close are equal: .7 + .3 rounds.
EQUAL = 1e-12


def decide(p: ArrayLike, costs: ArrayLike | None = None, reject: float | None = None) -> NDArray[np.int64]:
    """The Bayes action of each row: argmin_a sum_k p_k costs[k, a], and -1 where its expected cost is above `reject`.

    With 0/1 costs that is the most probable class, rejected exactly when max_k p_k < 1 - reject. Of actions that cost
    the same, the first.

    Args:
        p: Predictive class probabilities (m, classes).
        costs: costs[k, a] of action a where the class is k (classes, actions); None: 0 if a = k, else 1.
        reject: Cost of leaving a row to somebody else; None: never.

    Returns:
        Actions (m,), -1 for rejected rows.

    Source: Chow 1970; Bishop 2006, sections 1.5.2 and 1.5.3.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 2:
        raise ValueError(f"p must be (rows, classes), got {p.shape}. Two classes: np.stack([1 - p, p], 1).")
    table = _costs(costs, p.shape[1])
    expected = p @ table
    least, room = expected.min(axis=1), EQUAL * max(1.0, float(np.abs(table).max()))
    action = (expected <= least[:, None] + room).argmax(axis=1)  # of equals the first, whichever way they round
    if reject is not None:
        action = np.where(least > reject + room, REJECT, action)
    return np.asarray(action, dtype=np.int64)


def mean_cost(actions: ArrayLike, y: ArrayLike, costs: ArrayLike | None = None, reject: float | None = None) -> float:
    """Mean over rows of costs[y, action], and `reject` for rejected rows.

    Args:
        actions: Of `decide` (m,).
        y: Labels (m,).
        costs: (classes, actions); None: 0/1, of as many classes as there are.
        reject: Cost of a rejected row; needed where there is one.
    """
    actions, y = np.asarray(actions, dtype=np.int64), np.asarray(y, dtype=np.int64)
    gone = actions == REJECT
    if gone.any() and reject is None:
        raise ValueError(f"mean_cost needs reject, the cost of the {int(gone.sum())} rejected rows. Give it.")
    table = _costs(costs, int(max(actions.max(), y.max())) + 1)
    return float(np.where(gone, reject if reject is not None else 0.0, table[y, np.where(gone, 0, actions)]).mean())


def _costs(costs: ArrayLike | None, classes: int) -> Array:
    if costs is None:
        return 1.0 - np.eye(classes)
    table = np.asarray(costs, dtype=np.float64)
    if table.ndim != 2 or len(table) < classes:
        raise ValueError(f"costs must be ({classes} classes, actions), got {table.shape}. A row a class.")
    return table
