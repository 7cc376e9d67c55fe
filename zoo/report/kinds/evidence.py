"""Bars at five moments of an SVI run: ELBO + KL(q || posterior) = log evidence, for models with `exact`.

Source: Thome, "Variational inference: log evidence = ELBO + KL"; Bishop 2006, figure 9.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from zoo.core.posterior import Posterior

from ..canvas import TICKS, fill, legend, panels

# A KL of more than so many times the next one's is cut.
CUT = 15


def draw(
    fits: Sequence[Posterior],
    on: Axes | None,
    *,
    guide: str | None = None,
    moments: int = 5,
    steps: int | None = None,
    seed: int = 0,
) -> list[Axes]:
    """One panel: the lower part of each bar is the ELBO, the upper one the KL divergence, the top never moves.

    Args:
        fits: One fit; its problem is fitted anew, at the moments.
        on: An Axes or None.
        guide: The family; None: the fit's own where it is named, else "normal".
        moments: How many bars.
        steps: Steps of the run; None: the default of `zoo.infer.evidence`.
        seed: Of the run.
    """
    if len(fits) != 1:
        raise ValueError(f"evidence draws one fit, got {len(fits)}. Draw one at a time.")
    problem = fits[0].problem
    if problem.exact is None:
        raise ValueError(
            f"evidence needs a model with a closed form (exact), got '{problem.name}'. "
            "Use linear_regression or coin_flip, or kind 'elbo'."
        )
    from zoo.infer.evidence import evidence_bar

    options: dict[str, Any] = {"moments": moments, "seed": seed} | ({} if steps is None else {"steps": steps})
    family = guide or str(fits[0].settings.get("guide") or "normal")
    bars = np.asarray([[float(v) for v in bar] for bar in evidence_bar(problem, guide=family, **options)])
    (axes,) = panels(on, 1, (9.0, 6.0))
    _bars(axes, bars)
    axes.set_title(f"{problem.name}, q = {family}, fitted anew: ELBO + KL(q || posterior) = log evidence")
    return [axes]


def _bars(axes: Axes, bars: np.ndarray) -> None:
    """A column of (step, elbo, kl, log_evidence) each; bars stand on a floor below the lowest ELBO shown."""
    steps, elbo, kl, evidence = bars.T
    # The first moment may be thousands of nats off: then its bar is cut, so that it does not flatten the others.
    first, second = np.sort(kl)[::-1][:2]
    tall = max(float(min(first, CUT * second)), 1e-3)
    floor, top = float(evidence.max()) - 1.25 * tall, float(evidence.max())
    place = np.arange(len(bars))
    axes.bar(place, elbo - floor, bottom=floor, width=0.6, label="ELBO", **fill(0))
    axes.bar(place, kl, bottom=elbo, width=0.6, label="KL(q || posterior)", **fill(1))
    axes.axhline(
        float(evidence[-1]), color="black", linewidth=2, linestyle="--", label=f"log evidence {evidence[-1]:.4f}"
    )
    axes.set_ylim(floor, top + 0.45 * (top - floor))
    for i in place:
        text = f"ELBO {elbo[i]:.3f}\nKL {kl[i]:.3f}" + ("\n(cut)" if elbo[i] < floor else "")
        axes.annotate(text, (i, top), (0, 6), textcoords="offset points", ha="center", va="bottom", fontsize=TICKS)
    axes.set_xticks(place, [f"{int(step)}" for step in steps])
    axes.set(xlabel="step of Adam", ylabel="nats")
    legend(axes, loc="upper center", ncols=3)
