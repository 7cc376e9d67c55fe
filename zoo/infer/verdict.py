"""The verdict on a Markov chain run: what of it is not good enough, a line each, with the limit and what to raise.

ok iff for every compared quantity R-hat < 1.01, bulk ESS > 400 and tail ESS > 400; no draw diverged; E-BFMI > .3
in every chain. Quantities are those that `compare` compares (a network's weights permute, so its f is judged).

Source: Vehtari, Gelman, Simpson, Carpenter, Buerkner 2021 (limits); Betancourt 2016 (E-BFMI).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.diagnostics import Mixing, bfmi, constant, kish, mixing, rhat
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.quantities import Quantity, predicted, quantities
from zoo.core.tensors import to_numpy

log = logging.getLogger("zoo")
RHAT, ESS, BFMI = 1.01, 400.0, 0.3
ROWS = 200
# A site drifts away whose size grows this much from the first to the last third of every chain, or that is this
# large in chains that do not agree (the drift then happened in warm-up).
GROWTH = 2.0
HUGE = 1e6
DISAGREE = 1.1
BLOWN_UP = 0.5


def judged(posterior: Posterior, reason: str = "", biased: str = "") -> Posterior:
    """The posterior with its verdict as outcome, and in settings["verdict"] a line for each limit it fails.

    Args:
        posterior: A sampler's result.
        reason: Why the run ended early, or "".
        biased: Why its draws are not from the posterior however long it runs, or "".
    """
    lines = verdict(posterior)
    parts = [f"{reason} after {posterior.shape[1]} draws"] if reason else []
    parts += [f"biased: {biased}"] if biased else []
    if lines:
        parts.append("not converged: " + "; ".join(lines))
    outcome = "; ".join(parts) or "ok"
    settings = posterior.settings | {"verdict": lines, "weights": weights_note(posterior)}
    return dataclasses.replace(posterior, outcome=outcome, settings=settings)


def verdict(posterior: Posterior) -> list[str]:
    """One line for each limit that is passed: name, value, limit, what to raise; [] if the run is good."""
    return [*_drift(posterior), *_mixing(posterior), *_diverging(posterior), *_energy(posterior)]


def compared(posterior: Posterior) -> dict[str, Quantity]:
    """The quantities judged: those of `compare`, f at no more than 200 of the training rows."""
    data = posterior.problem.data
    x = None
    if isinstance(data, Data) and len(data.x) > ROWS:
        x = data.x[torch.linspace(0, len(data.x) - 1, ROWS).round().long().to(data.x.device)]
    try:
        return quantities(posterior, predicted(posterior, x))
    except Exception as error:  # draws must not be lost because a user's model cannot be run on its own inputs
        log.info("%s: judged by its latents, as predict failed (%s)", posterior.method, error)
        return quantities(posterior, {})


class Limit(NamedTuple):
    """A diagnostic: name, which part of `Mixing` it is, whether high is bad, its limit, what to raise."""

    name: str
    part: Callable[[Mixing], NDArray[np.float64]]
    high_is_bad: bool
    limit: float
    advice: str

    def worst(self, values: NDArray[np.float64]) -> int:
        """Which of the values is worst; an unknown one (too few draws) is."""
        ordered = np.where(np.isnan(values), np.inf if self.high_is_bad else -np.inf, values)
        return int(ordered.argmax() if self.high_is_bad else ordered.argmin())

    def passes(self, value: float) -> bool:
        """Whether the value is within the limit."""
        return value < self.limit if self.high_is_bad else value > self.limit


LIMITS = (
    Limit("R-hat", lambda found: found.rhat, True, RHAT, "warmup or draws"),
    Limit("bulk ESS", lambda found: found.bulk, False, ESS, "draws"),
    Limit("tail ESS", lambda found: found.tail, False, ESS, "draws"),
)


def _mixing(posterior: Posterior) -> list[str]:
    names: list[str] = []
    columns: list[NDArray[Any]] = []
    for quantity in compared(posterior).values():
        moving = np.flatnonzero(~constant(quantity.values)) if not quantity.point else np.array([], dtype=np.int64)
        names += [quantity.labels[i] for i in moving]
        columns.append(np.asarray(quantity.values)[:, :, moving])
    if not names:
        return []
    found = mixing(np.concatenate(columns, axis=2))
    # Draws that weigh unequally tell less.
    share = 1.0 if posterior.weights is None else kish(to_numpy(posterior.weights))
    lines = []
    for limit in LIMITS:
        values = limit.part(found) * (share if "ESS" in limit.name else 1.0)
        worst = limit.worst(values)
        if not limit.passes(float(values[worst])):
            shown = f"{values[worst]:.3f}" if limit.high_is_bad and values[worst] < 1000 else f"{values[worst]:.0f}"
            shown = "over 1000" if limit.high_is_bad and values[worst] >= 1000 else shown
            lines.append(f"{limit.name} of {names[worst]} is {shown}, limit {limit.limit:g}: raise {limit.advice}")
    return lines


def _diverging(posterior: Posterior) -> list[str]:
    diverging = posterior.stats.get("diverging")
    count = 0 if diverging is None else int(diverging.sum())
    if not count:
        return []
    total = posterior.shape[0] * posterior.shape[1]
    return [
        f"{count} of {total} draws diverged, limit 0: lower step_size (or raise target_accept, where there is one), or "
        "reparameterise"
    ]


def _energy(posterior: Posterior) -> list[str]:
    if "energy" not in posterior.stats:
        return []
    value = bfmi(to_numpy(posterior.stats["energy"]).astype(np.float64))
    worst = int(value.argmin())
    if value[worst] > BFMI:
        return []
    return [f"E-BFMI of chain {worst} is {value[worst]:.2f}, limit {BFMI}: reparameterise heavy tails, or raise warmup"]


def _drift(posterior: Posterior) -> list[str]:
    """Sites whose size grows throughout every chain: the posterior may have no finite mass."""
    third = posterior.shape[1] // 3
    lines: list[str] = []
    diverging = posterior.stats.get("diverging")
    if diverging is not None and float(diverging.double().mean()) > BLOWN_UP:
        return lines  # what blew up says nothing of the posterior
    for name, value in posterior.draws.items():
        if third < 10 or not value.is_floating_point():
            continue
        size = value.double().abs().reshape(*value.shape[:2], -1).mean(-1)
        begin, end = size[:, :third].mean(1), size[:, -third:].mean(1)
        far = float(end.mean()) > HUGE and not _largest_rhat(value) < DISAGREE
        if far or bool((end > GROWTH * begin).all()):
            lines.append(
                f"{name} drifts: its mean size goes from {float(begin.mean()):.3g} to {float(end.mean()):.3g}, the "
                "posterior may be improper (separable data without a prior): give a proper prior"
            )
    return lines


def _largest_rhat(value: Tensor) -> float:
    """Of the entries whose draws are all finite; NaN where there is none."""
    found = rhat(to_numpy(value))
    return float(np.nanmax(found)) if not np.isnan(found).all() else float("nan")


def weights_note(posterior: Posterior) -> str:
    """R-hat of the latents that are not compared, and why it does not count; "" where there are none."""
    judged_sites = set(posterior.problem.compare or ())
    rest = {n: v for n, v in posterior.draws.items() if n not in judged_sites and v.dim() > 2}
    worst = [(_largest_rhat(v), n) for n, v in rest.items() if v.numel() and posterior.shape[1] >= 4]
    if not worst:
        return ""
    value, name = max(worst)
    return (
        f"R-hat of {name} is {value:.2f}; it is not judged, f is: a network's units may permute and flip sign "
        "between chains while f agrees"
    )
