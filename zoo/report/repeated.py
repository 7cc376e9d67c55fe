"""A fit of few draws, each repeated: y is then drawn anew often enough to speak of its tails."""

from __future__ import annotations

import dataclasses

from zoo.core.posterior import Posterior

from .groups import stored

# Fewer draws say nothing of a tail of 2.5 %.
FEW = 100
# Ten data sets beyond each end of a central 95 % interval.
ENOUGH = 400


def repeated(fit: Posterior) -> Posterior:
    """The fit itself where it has 100 draws, else each draw as often as makes 400 of them.

    Four restarts of `map` would make four data sets, and a right model's would often all lie on one side of the
    observed one. A fit from a file whose model is not at hand keeps what the file kept.

    Args:
        fit: Any method's result.

    Returns:
        A fit to predict from: its draws and weights (chain, draw * times, ...), without statistics.
    """
    chains, draws = fit.shape
    if chains * draws >= FEW or stored(fit, "predictions") is not None:
        return fit
    times = -(-ENOUGH // (chains * draws))
    again = {name: value.repeat_interleave(times, dim=1) for name, value in fit.draws.items()}
    weights = None if fit.weights is None else fit.weights.repeat_interleave(times, dim=1) / times
    return dataclasses.replace(fit, draws=again, weights=weights, stats={}, warmup=None)
