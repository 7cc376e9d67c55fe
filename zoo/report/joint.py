"""Two posteriors as two samples of everything that is compared, in gold's sds: what the joint distances are of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .marginals import Marginal, equally_weighted
from .two_sample import Pairs, energy_distance, mmd, mmd_p, pairs, sliced_wasserstein2

Array = NDArray[np.float64]

# Sorting bears more draws than pairs of them do.
SORTED, PAIRED = 4000, 500
# A Markov chain that is thinned to its effective size still remembers: at half of it, p is what it says.
MEMORY = 2


class Part(NamedTuple):
    """One quantity of one posterior.

    Args:
        values: Draws (chain, draw, k).
        marginal: Their summary.
    """

    values: NDArray[np.floating]
    marginal: Marginal


class Draws(NamedTuple):
    """All that is compared of one posterior.

    Args:
        parts: {quantity: Part}.
        weights: (chain, draw) or None.
        kind: "markov", "iid" or "members".
        ess: The smallest effective size of what is compared; NaN where not known.
    """

    parts: dict[str, Part]
    weights: Array | None
    kind: str
    ess: float = np.nan


def joint_distances(gold: Draws, other: Draws) -> dict[str, float]:
    """Sliced 2-Wasserstein and energy distance, MMD and its p, over all coordinates that vary in gold.

        sw2_floor = sqrt(SW2^2(one half of gold, the other) (1 / n + 1 / m) / (4 / n))

    is what as many draws of gold as the other has would give; n and m are effective sizes of what is sorted.

    Coordinates are centred and divided by gold's sds, and for pairs by sqrt(k): then neither distance grows with
    the number k of coordinates. No more than 4,000 draws of each are sorted, no more than 500 paired, evenly
    spread. For p, draws are thinned to their effective size (half of it for a Markov chain). Members are taken
    for what they are, equal masses, and have no p. Draws that are not finite are infinitely far.

    Args:
        gold: Of the gold standard.
        other: Of the approximation; quantities of other names or sizes are left out of both.

    Returns:
        {"sw2", "sw2_floor", "energy", "mmd", "mmd_p"}.
    """
    nothing = dict.fromkeys(("sw2", "sw2_floor", "energy", "mmd", "mmd_p"), np.nan)
    if not any(not part.marginal.constant.all() for part in gold.parts.values()):
        return nothing
    right, mine = (_sample(draws, gold.parts, SORTED) for draws in (gold, other))
    if not np.isfinite(right).all():
        return nothing
    if not np.isfinite(mine).all():
        return nothing | dict.fromkeys(("sw2", "energy", "mmd"), np.inf)
    near = _pairs(right, mine, PAIRED, PAIRED, other.kind == "members")
    n, m = min(_effective(gold), len(right)), min(_effective(other), len(mine))
    out = {"sw2": sliced_wasserstein2(right, mine), "energy": energy_distance(near), "mmd": mmd(near), "mmd_p": np.nan}
    half = len(right) // 2
    out["sw2_floor"] = sliced_wasserstein2(right[:half], right[half:]) * np.sqrt((1 + n / m) / 4) if half else np.nan
    if "members" not in (gold.kind, other.kind):
        first, second = (size / (MEMORY if draws.kind == "markov" else 1) for draws, size in ((gold, n), (other, m)))
        out["mmd_p"] = mmd_p(near if min(first, second) >= PAIRED else _pairs(right, mine, int(first), int(second)))
    return out


def _pairs(right: Array, mine: Array, n: int, m: int, whole: bool = False) -> Pairs:
    """Pairs of no more than n of these and m of those, and never more than 500, evenly spread."""
    root = right.shape[1] ** 0.5
    return pairs(*(_spread(a, min(k, PAIRED)) / root for a, k in ((right, n), (mine, m))), whole=whole)


def _spread(values: NDArray[Any], most: int) -> NDArray[Any]:
    """At most so many of the rows, evenly spread; at least one."""
    most = max(1, min(most, len(values)))
    return values[((np.arange(most) + 0.5) / most * len(values)).astype(np.int64)]


def _effective(draws: Draws) -> float:
    """How many independent draws tell as much, of the worst coordinate; no more than there are draws."""
    shape = next(iter(draws.parts.values())).values.shape
    sizes = [float(part.marginal.ess.min(initial=np.inf)) for part in draws.parts.values()]
    return float(np.nanmin([*sizes, draws.ess, shape[0] * shape[1]]))


def _sample(draws: Draws, gold: dict[str, Part], most: int) -> Array:
    """Draws (n, k) of equal weight, n <= most, evenly spread, in gold's sds from gold's means."""
    chains, count = next(iter(draws.parts.values())).values.shape[:2]
    place = np.arange(chains * count, dtype=np.float64).reshape(chains, count, 1)
    kept = equally_weighted(place, draws.weights)[:, 0].astype(np.int64)
    kept = _spread(kept, most)
    columns = []
    for name, part in draws.parts.items():
        right = gold[name].marginal
        varies = ~right.constant
        flat = part.values.reshape(chains * count, -1)[kept][:, varies].astype(np.float64)
        columns.append((flat - right.mean[varies]) / right.sd[varies])
    return np.concatenate(columns, axis=1)
