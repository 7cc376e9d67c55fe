"""Acceptance of a sampler along its run, a line a chain, beside the rate that its step size was tuned for.

With keep_warmup=True the warm-up is shown as well, where the step size is found. Far from the dashed line the step
size does not fit where the chain is.

Source: Ambrogioni, "Metropolis-adjusted Langevin".
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy
from zoo.infer.dispatch import methods

from ..canvas import chain_name, labels, legend_above, line, panels

Array = NDArray[np.float64]
PARTS = 40


def draw(fits: Sequence[Posterior], on: Axes | None) -> list[Axes]:
    """A panel a fit: means over a fortieth of the run.

    Args:
        fits: Fits of samplers that accept or refuse.
        on: An Axes (one fit then) or None.
    """
    for fit in fits:
        if "accept" not in fit.stats or fit.stats["accept"].dim() < 2:
            got = f"{fit.method} with stats {', '.join(fit.stats) or 'none'}"
            raise ValueError(f"acceptance needs a sampler that accepts or refuses (mh, mala, hmc, nuts), got {got}.")
    shown = panels(on, len(fits), (7.0, 4.6), sharey=True)
    for axes, fit, label in zip(shown, fits, labels(fits), strict=True):
        accept = to_numpy(fit.stats["accept"]).astype(np.float64)
        before = _warmup(fit)
        every = np.concatenate([before, accept], axis=1)
        width = max(1, every.shape[1] // PARTS)
        for c, chain in enumerate(every):
            middle = width / 2 + width * np.arange(len(chain) // width) - before.shape[1]
            means = chain[: len(middle) * width].reshape(-1, width).mean(1)
            axes.plot(middle, means, linewidth=2, label=chain_name(c, len(every)), **line(c))
        if before.size:
            axes.axvspan(-before.shape[1], 0, color="#e4e4e4", zorder=0, label="warm-up")
        wanted = target(fit)
        if wanted is not None:
            axes.axhline(wanted, color="black", linewidth=1.8, linestyle="--", label="target")
        axes.set(xlabel="draw", ylim=(0, 1.02), title=f"{label}: mean {accept.mean():.3f}")
    shown[0].set_ylabel("acceptance")
    legend_above(shown, on)
    return shown


def _warmup(fit: Posterior) -> Array:
    """(chain, warmup) of a kept warm-up; (chain, 0) without one."""
    kept = (fit.warmup or {}).get("stats", {}).get("accept")
    return np.empty((fit.shape[0], 0)) if kept is None else to_numpy(kept).astype(np.float64)


def target(fit: Posterior) -> float | None:
    """What was asked, or the kernel's own rate; None where it has none, or where the step size was given."""
    options = fit.settings.get("options", {})
    if options.get("step_size") is not None:
        return None
    if options.get("target_accept") is not None:
        return float(options["target_accept"])
    known = methods()
    own = getattr(importlib.import_module(known[fit.method]), "TARGET_ACCEPT", None) if fit.method in known else None
    return float(own) if isinstance(own, (int, float)) else None
