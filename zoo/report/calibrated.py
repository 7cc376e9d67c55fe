"""`Calibrated`: the ranks of a simulation-based calibration, the tests of their uniformity, a table, a picture."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from zoo.core.diagnostics import rhat
from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy

from .ranks import Ranked
from .table import number, wrap
from .uniformity import SIMULATIONS, chi_square, ecdf_p, holm, least_p

SHOWN = 12
# A mean rank this far from the middle, or a spread this far from that of uniform ranks, in its standard errors.
NOTABLE = 3.0
LEGEND = (
    "mean rank, and spread (rms distance from the middle): over those of uniform ranks, so 1 is right; p: chance of "
    "such ranks if uniform, by chi2, by ECDF; p Holm: the smaller of both, raised for all tests."
)
APART = "chains disagree (R-hat of lp above 1.1)"


@dataclasses.dataclass(frozen=True)
class Calibrated:
    """What came out of a simulation-based calibration.

    Attributes:
        problem, method: What was fitted, and by what.
        draws: L.
        alpha: The chance that a right method fails.
        labels: Names of the k quantities.
        ranks: (data set, k), whole numbers from 0 to L.
        kept: (data set,) draws that the ranks are among: L, or fewer where chains mix slowly.
        table: One row a quantity: mean rank and spread (sd), each over that of uniform ranks; chi_square and its p;
            p of the ECDF; p_holm, the smaller of both, raised for all tests together.
        outcome: "ok", or what was wrong with the run itself: stopped early, draws that are not finite.
        settings: Options of the fits, seed, data sets asked for, seconds, notes.
    """

    problem: str
    method: str
    draws: int
    alpha: float
    labels: list[str]
    ranks: NDArray[np.int64]
    kept: NDArray[np.int64]
    table: pd.DataFrame
    outcome: str
    settings: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether no quantity's ranks differ from uniform ones, at alpha over all of them, where they could have."""
        return self.state == "passed"

    @property
    def state(self) -> str:
        """What came out: "passed", "failed", or "undecided": too few data sets to fail, or no fit is ok."""
        if self.table["p_holm"].min() <= self.alpha:
            return "failed"
        return "undecided" if self.too_few or self.flagged == len(self.ranks) else "passed"

    @property
    def flagged(self) -> int:
        """How many fits are not ok: by their outcome, for Markov chains by whether they agree."""
        return int(self.settings["flagged"])

    @property
    def too_few(self) -> bool:
        """Whether no ranks of so few data sets, not even the most extreme ones, could fail."""
        k, n = len(self.labels), len(self.ranks)
        return 2 * k * least_p(n, self.draws, _simulations(k, self.alpha)) > self.alpha

    @property
    def ok(self) -> bool:
        """Whether the run itself went well, passed or not."""
        return self.outcome == "ok"

    def plot(self, to: str | Path | Axes | None = None, *, quantity: str | None = None) -> Figure | Path:
        """The ECDFs of all ranks with their simultaneous band, beside the rank histogram of one quantity.

        Args:
            to: A file to write, an Axes to draw the ECDFs on, or None for a new figure.
            quantity: Of the histogram; None: the one with the smallest p.

        Returns:
            The path, or the figure.
        """
        from .sbc_picture import draw

        return draw(self, to, quantity)

    def __str__(self) -> str:
        count, asked = len(self.ranks), self.settings["asked"]
        head = f"sbc of {self.method} on {self.problem}: {count}{'' if count == asked else f' of {asked}'} data sets"
        shown = self.table.sort_values("p_holm", kind="stable").head(SHOWN)
        rows = [["quantity", "mean rank", "spread", "chi2", "p", "p ECDF", "p Holm"]]
        for label, row in shown.iterrows():
            numbers = [number(row[name], 3 if name.startswith("p") else 2) for name in self.table.columns]
            rows.append([str(label)[:24], *numbers])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        more = [f"  and {len(self.table) - SHOWN} more, of larger p"] if len(self.table) > SHOWN else []
        said = [self.outcome] if not self.ok else []
        end = [*self.settings["notes"], *said, verdict(self)]
        return "\n".join([f"{head}, {self.draws} draws each", *lines, *more, *(wrap(line) for line in [LEGEND, *end])])

    __repr__ = __str__


def verdict(found: Calibrated) -> str:
    """Passed, failed or neither, where, and what the ranks' shape says."""
    level = f"alpha = {found.alpha:g} over {2 * len(found.table)} tests (Holm)"
    if found.state == "passed":
        return f"passed: ranks of all {len(found.table)} quantities are uniform, {level}"
    if found.too_few:
        # The ECDF's smallest p: 2 / (L + 1)^n.
        least = math.ceil(math.log(4 * len(found.table) / found.alpha) / math.log(found.draws + 1))
        return (
            f"too few data sets to tell: no ranks of {len(found.ranks)} data sets could fail, {level}; raise "
            f"data_sets, to {least} at the very least (100 is usual)"
        )
    if found.state == "undecided":
        return f"no verdict: no fit is ok, though no ranks differ from uniform ones, {level}; mend the fits first"
    bad = found.table.index[found.table["p_holm"] <= found.alpha]
    worst = found.table["p_holm"].idxmin()
    return (
        f"failed: ranks of {len(bad)} of {len(found.table)} quantities are not uniform, {level}; "
        f"worst {worst}: {shape(found, str(worst))}"
    )


def shape(found: Calibrated, label: str) -> str:
    """What the ranks of a quantity look like, by the mean and sd of u = (rank + 1/2) / (L + 1)."""
    n, row = len(found.ranks), found.table.loc[label]
    # Of uniform u: sd of the mean over 1/2 is (1 / 3n)^(1/2), of the sd over itself about (1 / 5n)^(1/2).
    shift, spread = (row["mean"] - 1) * (3 * n) ** 0.5, (row["spread"] - 1) * (5 * n) ** 0.5
    if abs(shift) > max(NOTABLE, abs(spread)):
        return f"the truth lies too often {'above' if shift > 0 else 'below'} the draws (shifted)"
    if abs(spread) > NOTABLE:
        where = "at the ends (the posterior is too narrow)" if spread > 0 else "in the middle (it is too wide)"
        return f"the truth lies too often {where}"
    return "see the picture, .plot()"


class Seen:
    """Ranks as they come, a data set at a time."""

    def __init__(self) -> None:
        self.ranks: dict[int, Ranked] = {}
        self.diverged = 0
        self.flags: Counter[str] = Counter()  # fits that are not ok, by the beginning of what is said of them

    def add(self, index: int, fit: Posterior, ranks: Ranked) -> None:
        """One more data set's."""
        self.ranks[index] = ranks
        diverging = fit.stats.get("diverging")
        self.diverged += diverging is not None and bool(diverging.any())
        if said := flag(fit):
            self.flags[said] += 1

    def judged(
        self, problem: str, method: str, draws: int, alpha: float, reason: str, settings: dict[str, Any]
    ) -> Calibrated:
        """The result: tables and words."""
        done = [self.ranks[index] for index in sorted(self.ranks)]
        ranks, kept, labels = (
            np.stack([one.ranks for one in done]),
            np.array([one.kept for one in done]),
            done[0].labels,
        )
        count = len(ranks)
        wrong = [f"{reason}: {count} of {settings['asked']} data sets are ranked"] if count < settings["asked"] else []
        if broken := sum(not one.finite for one in done):
            wrong.append(f"draws of {broken} data sets are not finite")
        return Calibrated(
            problem, method, draws, alpha, labels, ranks, kept, table(ranks, labels, draws, alpha),
            "; ".join(wrong) or "ok", settings | {"notes": self._notes(kept, draws), "flagged": self.flags.total()},
        )  # fmt: skip

    def _notes(self, kept: NDArray[np.int64], draws: int) -> list[str]:
        """What may explain what the test finds."""
        count, out = len(self.ranks), []
        if short := int((kept < draws).sum()):
            out.append(
                f"{short} of {count} data sets have fewer than {draws} effective draws (least {kept.min()}) and are "
                "ranked among those: raise thin"
            )
        if self.diverged:
            out.append(f"draws diverged in {self.diverged} of {count} data sets")
        if self.flags:
            said, times = self.flags.most_common(1)[0]
            most = said if times == self.flags.total() else f"{said} ({times})"
            out.append(f"{self.flags.total()} of {count} fits are not ok: {most}")
        return out


def flag(fit: Posterior) -> str:
    """The beginning of what is not ok about a fit, or "".

    The limits of a sampler's verdict are for long runs, and few effective draws leave ranks right: chains must agree.
    """
    if fit.kind != "markov":
        return "" if fit.ok else fit.outcome.partition(":")[0].partition(";")[0]
    apart = fit.shape[0] > 1 and "lp" in fit.stats and not float(rhat(to_numpy(fit.stats["lp"]))) < 1.1
    return APART if apart else ""


def _simulations(count: int, alpha: float) -> int:
    """Sets of ranks to simulate: Holm's first limit, alpha / (2 count), is known to a tenth (100 lie above)."""
    return max(SIMULATIONS, int(200 * count / alpha))


def table(ranks: NDArray[np.int64], labels: list[str], draws: int, alpha: float) -> pd.DataFrame:
    """One row a quantity, see `Calibrated`.

    Args:
        ranks: (data set, k).
        labels: k names.
        draws: L.
        alpha: Decides how many sets of ranks are simulated, so that p can be small enough.
    """
    simulations = _simulations(len(labels), alpha)
    u = (ranks + 0.5) / (draws + 1)
    sd = ((1 - (draws + 1.0) ** -2) / 12) ** 0.5
    chi = [chi_square(column, draws, simulations) for column in ranks.T]
    p = np.array([[value for _, value in chi], [ecdf_p(column, draws) for column in ranks.T]])
    return pd.DataFrame(
        {
            "mean": u.mean(0) / 0.5,
            "spread": ((u - 0.5) ** 2).mean(0) ** 0.5 / sd,
            "chi2": [x for x, _ in chi],
            "p": p[0],
            "p_ecdf": p[1],
            "p_holm": holm(p).min(0),
        },
        index=labels,
    )
