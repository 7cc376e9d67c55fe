"""`compare`: how far approximations are from a gold standard, where posteriors may be compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from zoo.core.posterior import Posterior, check_posteriors

from .agreement import agreement, total_variation
from .differences import difference
from .gold import Gold
from .gold_sides import at_probes, judged_gold, not_of_gold
from .joint import joint_distances
from .judged import Judged, judge
from .marginals import distances
from .table import joint_table, sentence, table, wrap
from .units_apart import numbered, units_apart

OVER_CONFIDENT, UNDER_CONFIDENT, WRONG = 0.8, 1.25, 0.5
# Fewer effective draws of gold tell little.
LEAST_ESS = 400
NOT_JUDGED = "not judged"


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Approximations beside a gold standard; `print` shows a table and a sentence a method.

    Args:
        frame: One row a method, gold first: off (the largest difference of means, in gold's sds), z (the
            largest, in combined Monte Carlo errors), sd_ratio, w1 (1-Wasserstein, in gold's sds), w1_floor
            (what as many draws of gold itself would give), in50, in80, in95 (share of gold's draws
            in the approximation's central intervals): medians over what is compared; sw2 (sliced 2-Wasserstein)
            with its floor, energy (distance), mmd, mmd_p (the chance of such an MMD between draws of gold): of all
            that is compared, jointly, in gold's sds; agreement (share of equal classes) and tv (mean total
            variation) of class probabilities; khat (of p / q) and elbo_gap (nats), where q has a density and the
            evidence is known; rmse, accuracy, log_lik (a row, original units), min_ess, ess_per_s, rhat_f, rhat_w,
            seconds, outcome, verdict, missing (what is NaN and why).
        sites: One row a method and coordinate: the same distances for each.
        notes: What to know before believing any of it: of gold, of fits of another model or of other
            hyperparameters (they may be compared, but no distance is then a method's error), of missing scores.
        poor: Why gold is not good enough to judge by, or "". No fit is judged then, the distances stay.
    """

    frame: pd.DataFrame
    sites: pd.DataFrame
    notes: tuple[str, ...] = ()
    poor: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each approximation; one for all of them where gold is too poor, and what is not ok."""
        if self.poor:
            rows = self.frame.to_dict("records")[1:]
            bad = [f"{row['method']}: Not ok: {row['outcome']}" for row in rows if row["outcome"] != "ok"]
            return (f"No fit is judged, as gold is not good enough to be one: {self.poor}", *bad)
        return tuple(sentence(row, self.sites) for row in self.frame.to_dict("records")[1:])

    def __str__(self) -> str:
        blocks = [table(self.frame), *joint_table(self.frame)]
        return "\n".join([*blocks, *map(wrap, self.notes), *map(wrap, self.sentences)])

    __repr__ = __str__


def compare(gold: Posterior | Gold, *others: Posterior) -> Comparison:
    """Distances of approximations from a gold standard, on the same data.

    Compared are f (for classifiers the class probabilities too) at the test inputs, or the training inputs
    where there are none, and identifiable scalars: `problem.compare` and scalar latents with a bounded
    support; against a gold file at its probes, 20 of the test inputs. Verdicts: over-confident where the median
    ratio of sds is below 0.8, under-confident above 1.25, wrong where a mean is more than 0.5 gold sds off
    anywhere, else "agrees"; "not judged" for a fit of another posterior, and for all where gold is a run that is not
    good enough: not ok, of fewer than 400 effective draws, or with chains that disagree.

    Args:
        gold: The posterior to trust, by a long run of nuts or by exact; or a gold file: zoo.find_gold(problem).
        others: What is compared with it, any methods.

    Raises:
        ValueError: For posteriors of different data or units of y, with nothing in common to compare, or with draws of
            what is compared that are not finite. Other models and hyperparameters are said below the table.
        TypeError: For things that are not posteriors.
    """
    poor = ""
    fits = others if isinstance(gold, Gold) else (gold, *others)
    check_posteriors("compare", *fits)
    labels = list(numbered([fit.method for fit in fits]))
    _check_data(gold, labels, fits)
    own = labels if isinstance(gold, Gold) else labels[1:]
    if isinstance(gold, Gold):
        truth = judged_gold(gold)
        foot = [not_of_gold(label, fit, gold) for label, fit in zip(labels, fits, strict=True)]
        others = tuple(at_probes(fit, gold) for fit in others)
    else:
        truth = judge(labels[0], gold)
        poor = _poor(truth.row, gold)
        foot = [difference(label, fit, gold) for label, fit in zip(labels, fits, strict=True)]
    rows, sites = [truth.row | {"verdict": "gold"}], []
    for label, fit, differs in zip(own, others, foot[len(foot) - len(own) :], strict=True):
        mine = judge(label, fit)
        names = _in_common(mine, truth)
        part = _distances(mine, truth, names)
        sites.append(part)
        rows.append(mine.row | _summary(part) | _jointly(mine, truth, names))
        if poor or differs:
            rows[-1]["verdict"] = NOT_JUDGED
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    notes = (*filter(None, foot), *([truth.row["unscored"]] if truth.row["unscored"] else []))
    return Comparison(frame, pd.concat(sites, ignore_index=True) if sites else pd.DataFrame(), notes, poor)


def _check_data(gold: Posterior | Gold, labels: list[str], fits: tuple[Posterior, ...]) -> None:
    """Raises ValueError where a fit is of other data than gold, or of the same numbers in other units of y."""
    right = gold.hash if isinstance(gold, Gold) else gold.problem.hash
    for label, fit in zip(labels, fits, strict=True):
        if fit.problem.hash != right:
            raise ValueError(
                f"{label} was run on other data (hash {fit.problem.hash}) than gold ({right}). Run both on one problem."
            )
    if apart := units_apart(fits, gold if isinstance(gold, Gold) else None, labels):
        raise ValueError(apart)


COLUMNS = [
    *("method", "kind", "chains", "draws", "off", "z", "sd_ratio", "w1", "w1_floor", "in50", "in80", "in95"),
    *("sw2", "sw2_floor", "energy", "mmd", "mmd_p", "agreement", "tv", "khat", "elbo_gap"),
    *("scored_on", "rmse", "accuracy", "log_lik", "min_ess", "ess_per_s", "rhat_f", "rhat_w", "seconds"),
    *("points", "outcome", "verdict", "missing"),
]


def _in_common(mine: Judged, truth: Judged) -> list[str]:
    """The quantities that both have, at the same coordinates."""
    names = [n for n, gold in truth.found.items() if n in mine.found and mine.found[n].labels == gold.labels]
    if not names:
        label = mine.row["method"]
        raise ValueError(
            f"{label} and gold have nothing to compare: gold has {sorted(truth.found)}, {label} {sorted(mine.found)}. "
            "Name common sites: zoo.Problem(..., compare=(...))."
        )
    return names


def _distances(mine: Judged, truth: Judged, names: list[str]) -> pd.DataFrame:
    """The long frame of one approximation: a row a coordinate."""
    parts = []
    for name in names:
        own, right = mine.parts[name].marginal, truth.parts[name].marginal
        facts: dict[str, Any] = {"method": mine.row["method"], "quantity": name}
        facts |= {"coordinate": truth.found[name].labels}
        facts |= {"gold_mean": right.mean, "gold_sd": right.sd, "mean": own.mean, "sd": own.sd}
        facts |= distances(right, own)
        parts.append(pd.DataFrame(facts | {"constant": right.constant, "point": mine.found[name].point}))
    return pd.concat(parts, ignore_index=True)


def _jointly(mine: Judged, truth: Judged, names: list[str]) -> dict[str, float]:
    """Distances of all quantities together, and of class probabilities row by row."""
    out = joint_distances(truth.draws(names), mine.draws(names))
    if mine.classes is not None and truth.classes is not None and mine.classes.shape == truth.classes.shape:
        p, q = truth.classes, mine.classes
        out |= {"agreement": agreement(p, q), "tv": total_variation(p, q)}
    return out


def _summary(part: pd.DataFrame) -> dict[str, Any]:
    """Largest differences of means; medians of the rest over what varies and has more than a point."""
    judged = part[~part["constant"] & ~part["point"]]
    medians = judged[["sd_ratio", "w1", "w1_floor", "in50", "in80", "in95"]].median()
    out: dict[str, Any] = {name: float(value) for name, value in medians.items()}
    out["off"] = float(part["off"].abs().max())
    out["z"] = float(part.loc[~part["constant"], "z"].abs().max())
    verdict = []
    if out["sd_ratio"] < OVER_CONFIDENT:
        verdict.append("over-confident")
    if out["sd_ratio"] > UNDER_CONFIDENT:
        verdict.append("under-confident")
    if out["off"] > WRONG:
        verdict.append("wrong")
    return out | {"verdict": ", ".join(verdict) or "agrees"}


def _poor(row: dict[str, Any], gold: Posterior) -> str:
    """Why gold is too poor to judge by, and what to do; "" where it is not."""
    out = []
    if not gold.ok:
        out.append(f"gold ({row['method']}) is not ok: {gold.outcome}. Trust no distance to it.")
    if row["min_ess"] < LEAST_ESS:
        out.append(f"gold has {row['min_ess']:.0f} effective draws: ask for more draws (at least {LEAST_ESS}).")
    if row["rhat_f"] > 1.05:
        out.append(f"gold's chains disagree: R-hat of f is {row['rhat_f']:.2f}. Run it longer.")
    return " ".join(out)
