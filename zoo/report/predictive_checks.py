"""`check_predictive`: could the model have made these data? Replicated data beside the observed ones.

    y_rep_s ~ p(y | theta_s),    tail = P(T(y_rep) > T(y)) + P(T(y_rep) = T(y)) / 2

theta_s are draws of the posterior, or of the prior (method "prior"): then it is a prior predictive check. A tail
near 0 or 1 says that the model does not make data with such a T. Statistics that the model fits by construction
(the mean of a model with a free mean) are never extreme: choose T for what matters.

Source: Gelman, Meng, Stern 1996; Box 1980.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zoo.core.layout import layout, observed_values
from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.tensors import to_numpy

from .groups import stored
from .marginals import equally_weighted
from .repeated import repeated
from .table import number, significant, wrap

Array = NDArray[np.float64]
Statistic = Callable[[Array], Any]

# Over the rows, the axis before the targets: (..., n) or (..., n, k).
NAMED: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "sd": np.std,
    "min": np.min,
    "max": np.max,
    "median": np.median,
}
DEFAULT = ("mean", "sd", "min", "max")
MOST_CLASSES = 20
LABELS = ("Bernoulli", "Categorical")
# Beyond, a tail is called extreme: one check of twenty of a right model is.
EXTREME = 0.025
# More statistics (those of every pixel of an image) are printed by the most extreme; the frame has all.
MOST_SHOWN = 40
# With fewer data sets than 1 / EXTREME every statistic beyond all of them would be.
LEAST = 40


@dataclasses.dataclass(frozen=True, repr=False)
class PredictiveCheck:
    """Statistics of the observed data within those of replicated data; `print` shows a table.

    Args:
        frame: A row a statistic: site, statistic, observed, low, median, high (2.5, 50 and 97.5 % of the
            replications), tail (the chance of a larger one, ties counted half), extreme (tail within 2.5 % of 0
            or 1).
        draws: Replicated data sets.
        source: "posterior" or "prior".
    """

    frame: pd.DataFrame
    draws: int
    source: str

    def __str__(self) -> str:
        head = ["site", "statistic", "observed", "2.5 %", "50 %", "97.5 %", "tail", ""]
        rows = [
            [
                *(r.site, r.statistic, *map(significant, (r.observed, r.low, r.median, r.high))),
                *(number(r.tail), "!" if r.extreme else ""),
            ]
            for r in self._shown().itertuples()
        ]
        widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
        pad = [str.ljust, str.ljust, *[str.rjust] * 6]
        lines = ["  ".join(f(c, w) for f, c, w in zip(pad, row, widths, strict=True)).rstrip() for row in [head, *rows]]
        said = int(self.frame["extreme"].sum())
        verdict = (
            f"{said} of {len(self.frame)} extreme (!): the model does not make such data."
            if said
            else "None is extreme."
        )
        verdict = verdict if self.draws >= LEAST else f"Too few to call one extreme: {LEAST} are needed."
        left = len(self.frame) - len(rows)
        legend = f"The {left} least extreme statistics are left out (.frame has them). " if left else ""
        legend += f"{self.draws} data sets from the {self.source} predictive; tail: share with a larger statistic. "
        return "\n".join([*lines, wrap(legend + verdict)])

    __repr__ = __str__

    def _shown(self) -> pd.DataFrame:
        """The rows to print, in their order."""
        far = (self.frame["tail"] - 0.5).abs().to_numpy()
        return self.frame.iloc[np.sort(np.argsort(-far, kind="stable")[:MOST_SHOWN])]


def check_predictive(
    posterior: Posterior,
    statistics: Sequence[str | Statistic] | Mapping[str, Statistic] | None = None,
    *,
    seed: int = 0,
    draws: int | None = None,
) -> PredictiveCheck:
    """Compares statistics of the observed data with those of data sets that the fitted model makes.

    Args:
        posterior: Any method's result; of method "prior" for a prior predictive check.
        statistics: Names (mean, sd, min, max, median: over rows, each target apart), functions of one data set
            (n, ...) that return a number, or {name: function}; None: mean, sd, min, max, and for class labels the
            share of each class.
        seed: For the noise of y.
        draws: Use this many draws; None: all, and each of less than 100 (the points of map) several times.

    Returns:
        `PredictiveCheck`.

    Raises:
        ValueError: For a problem without observed data, an unknown statistic, or one that is not finite.
        TypeError: For a statistic that is neither a name nor a function, and for what is no posterior.
    """
    check_posteriors("check_predictive", posterior)
    observed = stored(posterior, "observed")
    observed = observed_values(posterior.problem) if observed is None else observed
    if not observed:
        raise ValueError("check_predictive needs observed data, got a problem without y. Give zoo.Data(x, y).")
    posterior = repeated(posterior) if draws is None else posterior
    drawn = posterior.predict(seed=seed, draws=draws)
    rows, count = [], 0
    for site, value in observed.items():
        y, made = to_numpy(value).astype(np.float64), to_numpy(drawn[site]).astype(np.float64)
        labels = layout(posterior).family in LABELS or not value.is_floating_point()
        shares = _shares(np.union1d(y, made)) if labels else {}
        for name, function in (_functions(statistics) if statistics is not None or not shares else shares).items():
            rows += _rows(site, name, y, made, function, _weights(posterior, made.shape[1]))
        count = made.shape[0] * made.shape[1]
    source = "prior" if posterior.method == "prior" else "posterior"
    return PredictiveCheck(pd.DataFrame(rows), count, source)


def _shares(values: Array) -> dict[str, Statistic]:
    """{name: share of a class}; of two classes one tells all; {} for more than 20 values: those are counts."""
    classes = values[1:] if len(values) == 2 else values
    return {f"share of {c:g}": functools.partial(_share, c) for c in classes if len(values) <= MOST_CLASSES}


def _share(label: float, y: Array) -> Array:
    return np.asarray((y == label).mean(axis=0))


def _functions(statistics: Any) -> dict[str, Statistic]:
    """{name: function of one data set}."""
    statistics = DEFAULT if statistics is None else statistics
    if isinstance(statistics, Mapping):
        return dict(statistics)
    if isinstance(statistics, str) or callable(statistics):
        statistics = (statistics,)
    out: dict[str, Statistic] = {}
    for one in statistics:
        if callable(one):
            out[getattr(one, "__name__", type(one).__name__)] = one
        elif one in NAMED:
            out[one] = functools.partial(NAMED[one], axis=0)
        elif isinstance(one, str):
            known = ", ".join(NAMED)
            raise ValueError(f"statistics may name {known}, got {one!r}. Give a function of y instead: {{name: f}}.")
        else:
            raise TypeError(f"a statistic must be a name or a function of y, got {type(one).__name__}.")
    return out


def _weights(posterior: Posterior, draws: int) -> Array | None:
    """The draws' weights, thinned as `predict` thins the draws."""
    if posterior.weights is None:
        return None
    kept = np.linspace(0, posterior.shape[1] - 1, draws).round().astype(int)
    return to_numpy(posterior.weights).astype(np.float64)[:, kept]


def _rows(
    site: str, name: str, y: Array, made: Array, function: Statistic, weights: Array | None
) -> list[dict[str, Any]]:
    """A row of the frame for each number that the statistic gives."""
    sets = made.reshape(-1, *made.shape[2:])
    seen = np.asarray(function(y), dtype=np.float64)
    again = np.array([function(one) for one in sets], dtype=np.float64).reshape(len(sets), -1)
    if again.shape[1] != seen.size or not (np.isfinite(seen).all() and np.isfinite(again).all()):
        raise ValueError(
            f"statistic '{name}' of {site} must give finite numbers, as many for every data set, got "
            f"{seen.size} for the data and {again.shape[1]} for replications, {int((~np.isfinite(again)).sum())} "
            "of them not finite. Guard the function."
        )
    share = np.full(len(sets), 1 / len(sets)) if weights is None else weights.reshape(-1) / weights.sum()
    flat = equally_weighted(again.reshape(*made.shape[:2], -1), weights)
    out = []
    for j, value in enumerate(seen.reshape(-1)):
        tail = float(share @ ((again[:, j] > value) + 0.5 * (again[:, j] == value)))
        low, median, high = np.quantile(flat[:, j], (0.025, 0.5, 0.975))
        facts = {"site": site, "statistic": name if seen.ndim == 0 else f"{name}[{j}]", "observed": float(value)}
        facts |= {"low": low, "median": median, "high": high, "tail": tail}
        out.append(facts | {"extreme": len(sets) >= LEAST and not EXTREME <= tail <= 1 - EXTREME})
    return out
