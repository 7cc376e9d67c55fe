"""`scores`: how good a fit's predictions of held-out rows are, in the original units of y."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.problem import Data

from .calibration import LEVELS, covered, ece, interval_error, pit, reliability
from .held_out import Rows, held_out, unlikeness
from .rejection import KEPT, auroc, rejection_curve
from .scores import brier, crps, rmse
from .table import number, wrap

Array = NDArray[np.float64]
INTERVALS = (50, 80, 95)
# Shares of rows whose error is printed; the curve has more.
SHOWN = (0.8, 0.5)


@dataclasses.dataclass(frozen=True, repr=False)
class Scores:
    """Scores of one fit; `print` shows a table, `found["crps"]` is one of them.

    Args:
        frame: A row a score: score, value, se (standard error over rows; NaN where it is no mean over rows), what.
        calibration: For measurements level and covered: the share of rows in central intervals of 5 ... 95 %. For
            classes confidence, accuracy and rows of each of 15 bins that has rows.
        rejection: kept, and the rmse or accuracy of that share of the rows, the most certain ones.
        fit: Whose scores they are.
        on: "test", "training" or "given" rows.
        rows: How many; several targets a row count as a row each.
        each: How many targets a row has.
        notes: What to know before believing any of it.
    """

    frame: pd.DataFrame
    calibration: pd.DataFrame
    rejection: pd.DataFrame
    fit: str
    on: str
    rows: int
    notes: tuple[str, ...] = ()
    each: int = 1

    def __getitem__(self, score: str) -> float:
        values = dict(zip(self.frame["score"], self.frame["value"], strict=True))
        if score not in values:
            raise KeyError(f"no score {score!r}; there are {', '.join(values)}")
        return float(values[score])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists, as JSON wants them; None for what is NaN."""
        frames = {name: getattr(self, name) for name in ("calibration", "rejection")}
        return {
            **{name: getattr(self, name) for name in ("fit", "on", "rows")},
            "scores": dict(zip(self.frame["score"], map(_plain, self.frame["value"]), strict=True)),
            "se": dict(zip(self.frame["score"], map(_plain, self.frame["se"]), strict=True)),
            **{name: {c: [_plain(v) for v in f[c]] for c in f.columns} for name, f in frames.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [["score", "value", "se", ""]]
        lines += [[r.score, number(r.value, 3), number(r.se, 3), r.what] for r in self.frame.itertuples()]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        table = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in lines]
        of = f" of {self.each} targets" if self.each > 1 else ""
        over = "them" if of else "rows"
        head = f"{self.fit}: {self.rows // self.each} {self.on} rows{of}; se: standard error over {over}"
        return "\n".join([wrap(head), *table, *map(wrap, self.notes)])

    __repr__ = __str__


class _Line(NamedTuple):
    score: str
    value: float
    se: float
    what: str


def scores(posterior: Posterior, data: Any = None, *, ood: Any = None) -> Scores:
    """Scores of a fit's predictions.

    Measurements: RMSE, log likelihood, CRPS, coverage of central 50, 80 and 95 % intervals, and the mean error of
    coverage. Classes: accuracy, log likelihood, Brier score, expected calibration error. Both: what is left of the
    error when the least certain rows are left out (largest predictive sd, smallest max p).

    Args:
        posterior: Any method's result.
        data: Rows to score: `Data` in the units of the fit's own, or a table (file, DataFrame, dict of columns) in
            original ones; None: the test rows, and the training rows where none are held out.
        ood: Other inputs (a tensor, a table or `Data`): adds the chance that one of them looks less certain than one
            of the rows (entropy of the class probabilities, or variance of f).

    Returns:
        `Scores`.

    Raises:
        TypeError: For what is no posterior, and data of another kind.
        ValueError: For a problem on a dict, rows without targets, draws of f that are not finite, or rows standardised
            otherwise.
    """
    check_posteriors("scores", posterior)
    rows = held_out(posterior, data)
    lines = _classes(rows, rows.p) if rows.p is not None else _measured(rows, target_name(posterior))
    curve = rejected(rows)
    lines += [
        _Line(f"{curve.columns[1]}@{100 * share:.0f}%", float(curve[curve.columns[1]][_place(share)]), np.nan,
              f"of the {100 * share:.0f} % most certain rows")
        for share in SHOWN
    ]  # fmt: skip
    if ood is not None:
        chance = auroc(rows.unlike, unlikeness(posterior, ood))
        by = "entropy" if rows.p is not None else "variance of f"
        lines.append(_Line("ood_auroc", chance, np.nan, f"chance that an input of ood has the larger {by}"))
    fit = f"{posterior.problem.name}, {posterior.method}"
    count, notes = len(rows.y), _notes(posterior, rows)
    each = count // max(1, len(rows.log_lik))
    return Scores(pd.DataFrame(lines), calibrated(rows), curve, fit, rows.on, count, notes, each)


def calibrated(rows: Rows) -> pd.DataFrame:
    """`Scores.calibration` of held-out rows."""
    if rows.p is not None:
        return pd.DataFrame(reliability(rows.p, rows.y)._asdict())
    u = pit(rows.draws, rows.y)  # type: ignore[arg-type]
    return pd.DataFrame({"level": LEVELS, "covered": [covered(u, level) for level in LEVELS]})


def rejected(rows: Rows) -> pd.DataFrame:
    """`Scores.rejection` of held-out rows."""
    if rows.p is not None:
        curve = rejection_curve(rows.p.argmax(axis=1) != rows.y, rows.uncertainty)
        return pd.DataFrame({"kept": KEPT, "accuracy": 1 - curve})
    centre = _centre(rows)
    return pd.DataFrame({"kept": KEPT, "rmse": np.sqrt(rejection_curve((centre - rows.y) ** 2, rows.uncertainty))})


def _centre(rows: Rows) -> Array:
    """The predictive mean; the mean of the draws where y's distribution has none in closed form."""
    assert rows.draws is not None
    return rows.mean if rows.mean is not None else rows.draws.mean(axis=0)


def _place(share: float) -> int:
    return int(np.abs(KEPT - share).argmin())


def _mean(score: str, values: NDArray[Any], what: str) -> _Line:
    values = np.asarray(values, dtype=np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return _Line(score, float(values.mean()), float(error), what)


def _measured(rows: Rows, name: str) -> list[_Line]:
    assert rows.draws is not None
    centre, u = _centre(rows), pit(rows.draws, rows.y)
    root = rmse(centre, rows.y)
    # The delta method: d sqrt(v) = dv / (2 sqrt(v)).
    error = _mean("", (centre - rows.y) ** 2, "").se / (2 * root) if root > 0 else 0.0
    return [
        _Line("rmse", root, error, f"root mean squared error, in units of {name}"),
        _mean("log_lik", rows.log_lik, "log predictive density a row, nats; higher is better"),
        _mean("crps", crps(rows.draws, rows.y), f"continuous ranked probability score, in units of {name}"),
        *(
            _mean(f"in{level}", np.abs(u - 0.5) <= level / 200, f"share of y in central {level} % intervals")
            for level in INTERVALS
        ),
        _Line("interval_error", interval_error(u), np.nan, "mean |share - level| over central intervals of 5 ... 95 %"),
    ]


def _classes(rows: Rows, p: Array) -> list[_Line]:
    right = p.argmax(axis=1) == rows.y
    return [
        _mean("accuracy", right, "share of rows whose most probable class is right"),
        _mean("log_lik", rows.log_lik, "log probability of the class a row, nats; higher is better"),
        _mean("brier", brier(p, rows.y), "mean squared distance of the probabilities from the truth"),
        _Line("ece", ece(p, rows.y), np.nan, "expected calibration error: |accuracy - confidence| over 15 bins"),
    ]


def target_name(posterior: Posterior) -> str:
    """What y is called in `Data.info`; "y" where it is not, or where there are several."""
    data = posterior.problem.data
    name = data.info.get("y_name") if isinstance(data, Data) else None
    return name if isinstance(name, str) else "y"


def _notes(posterior: Posterior, rows: Rows) -> tuple[str, ...]:
    out = []
    if rows.on == "training":
        out.append("No rows are held out: scores of the training rows flatter the fit.")
    if rows.p is None and rows.mean is None:
        out.append("y's distribution has no finite mean in closed form: rmse is of the mean of draws.")
    if np.isneginf(rows.log_lik).any():
        out.append(f"log_lik: {int(np.isneginf(rows.log_lik).sum())} rows are impossible under every draw.")
    if not posterior.ok:
        out.append(f"The fit is not ok: {posterior.outcome}")
    return tuple(out)


def _plain(value: Any) -> Any:
    number_ = value.item() if hasattr(value, "item") else value
    return None if isinstance(number_, float) and math.isnan(number_) else number_
