"""The ELBO at every step, and its two terms: expected log likelihood and KL(q || prior); restarts apart.

    ELBO = E_q[log p(y | theta)] - KL(q, prior)

Where the log evidence is known it is the line that no ELBO crosses.

Source: Thome, "Stochastic variational inference: the evidence lower bound".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy

from ..canvas import labels, legend, line, panels

TERMS = {"elbo": "ELBO", "expected_log_likelihood": "expected log likelihood", "kl": "KL(q || prior)"}
# A running mean over so many parts of the steps is drawn on top of the noise.
PARTS = 50


def draw(fits: Sequence[Posterior], on: Axes | None) -> list[Axes]:
    """A panel a term; thin: every step; thick: the running mean.

    Args:
        fits: Fits with a history of an ELBO.
        on: None: there are three panels.
    """
    for fit in fits:
        if "elbo" not in fit.history:
            got = f"{fit.method}, with a history of {', '.join(fit.history) or 'nothing'}"
            raise ValueError(f"elbo needs a fit that climbed an ELBO (svi), got {got}. Try kind 'trace'.")
    shown = panels(on, len(TERMS), (6.2, 5.0), sharex=True)
    for axes, (term, name) in zip(shown, TERMS.items(), strict=True):
        drawn = [
            _curves(axes, fit, term, label, i) for i, (fit, label) in enumerate(zip(fits, labels(fits), strict=True))
        ]
        axes.set_ylim(*_window(np.concatenate(drawn)))
        axes.set(xlabel="step", ylabel="nats", title=name)
    evidence = _log_evidence(fits)
    if evidence is not None:
        low, high = shown[0].get_ylim()
        shown[0].axhline(evidence, color="black", linewidth=1.5, linestyle=(0, (1, 1)), label="log evidence")
        shown[0].set_ylim(low, max(high, evidence + 0.05 * (high - low)))
    legend(shown[0], loc="lower right")
    return shown


def _curves(axes: Axes, fit: Posterior, term: str, label: str, place: int) -> NDArray[np.float64]:
    """Draws all restarts of one fit; returns the values after the first tenth, flat."""
    values = to_numpy(fit.history[term]).astype(np.float64)
    steps = np.arange(1, values.shape[1] + 1)
    width = max(1, values.shape[1] // PARTS)
    for r, curve in enumerate(values):
        style = line(place if len(values) == 1 else place + r)
        axes.plot(steps, curve, linewidth=0.5, alpha=0.35, color=style["color"], zorder=1)
        smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
        name = label if len(values) == 1 else f"{label}, restart {r}"
        axes.plot(steps[width // 2 :][: len(smooth)], smooth, linewidth=2.5, label=name, zorder=2, **style)
    return np.asarray(values[:, values.shape[1] // 10 :].ravel())


def _window(values: NDArray[np.float64]) -> tuple[float, float]:
    """Without the steep start and the outliers, which would flatten everything else."""
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = np.quantile(values, (0.01, 0.99))
    margin = 0.1 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _log_evidence(fits: Sequence[Posterior]) -> float | None:
    """The one log evidence of all fits, where the model knows it."""
    problem = fits[0].problem
    if problem.exact is None or len({str(fit.problem.hyper) for fit in fits}) > 1:
        return None
    try:
        return float(problem.exact(problem.data, **problem.hyper).log_evidence)
    except ValueError:  # not for these hyperparameters
        return None
