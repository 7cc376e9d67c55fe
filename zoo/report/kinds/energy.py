"""Energy of HMC and NUTS: its draws against its steps; steps much narrower than draws mean slow tails.

E-BFMI = sum (E_n - E_(n-1))^2 / sum (E_n - mean E)^2, below .3 worrying.

Source: Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from zoo.core.diagnostics import bfmi
from zoo.core.posterior import Posterior
from zoo.core.tensors import to_numpy

from ..canvas import labels, legend, panels
from ..histograms import outlines


def draw(fits: Sequence[Posterior], on: Axes | None) -> list[Axes]:
    """A panel a fit: both about their means, all chains together; E-BFMI of the worst chain.

    Args:
        fits: Fits of a sampler with a momentum.
        on: An Axes or None.
    """
    for fit in fits:
        if "energy" not in fit.stats or fit.shape[1] < 3:
            got = f"{fit.method} with {fit.shape[1]} draws a chain and stats {', '.join(fit.stats) or 'none'}"
            raise ValueError(
                f"energy needs draws of a sampler with a momentum (nuts, hmc), got {got}. Try kind 'elbo' or 'trace'."
            )
    shown = panels(on, len(fits), (7.0, 5.0))
    for axes, fit, label in zip(shown, fits, labels(fits), strict=True):
        energy = to_numpy(fit.stats["energy"]).astype(np.float64)
        steps = np.diff(energy, axis=1)
        centred = energy - energy.mean(axis=1, keepdims=True)
        outlines(axes, [centred.ravel(), steps.ravel()], ["energy, from its mean", "step of energy"])
        axes.set(xlabel="nats", ylabel="density", title=f"{label}: E-BFMI {bfmi(energy).min():.2f} (worst chain)")
        legend(axes)
    return shown
