"""Distance to gold against the number of draws, beside the Monte Carlo error that explains it.

    off(n)  = sqrt( mean_i ((m_i(n) - g_i) / s_i)^2 ),   m_i(n): mean of the first n draws, g_i, s_i: gold's mean and sd
    error(n) = sqrt( mean_i (mcse_i(S)^2 S / n + mcse(g_i)^2) / s_i^2 )

over all that `compare` compares. A right method follows its dotted line, which falls as 1 / sqrt(n); a biased one
leaves it and levels off: more draws don't help.

Source: Ambrogioni, "How large is large enough?".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.quantities import quantities, test_inputs
from zoo.core.tensors import to_numpy

from ..canvas import colour, labels, legend, line, panels
from ..gold import Gold
from ..gold_sides import at_probes
from ..marginals import marginal
from ..reference import reference

Array = NDArray[np.float64]
PLACES = 40
FIRST = 5


class Right(NamedTuple):
    """Gold's coordinates: labels, means, sds, Monte Carlo errors of the means (k,)."""

    labels: list[str]
    mean: Array
    sd: Array
    mcse: Array


def draw(fits: Sequence[Posterior], on: Axes | None, *, gold: Gold | str | None = None) -> list[Axes]:
    """One panel, a curve an approximation; draws are counted over all chains.

    Args:
        fits: Fits of the same data, gold first.
        on: An Axes or None.
        gold: A gold file's name (zoo gold); None: the first fit, and for one fit alone the zoo's own gold.
    """
    found, others = reference("convergence", fits, gold)
    right = _of_gold(found) if isinstance(found, Gold) else _of_fit(found)
    (axes,) = panels(on, 1, (8.0, 5.4))
    called, dotted = labels(fits), False
    for i in others:
        fit = at_probes(fits[i], found) if isinstance(found, Gold) else fits[i]
        counts, off, error = curves(fit, right)
        style = line(max(i, 1) - 1)
        last = f"{called[i]}: {off[-1]:.2g} gold sds" + (f", {off[-1] / error[-1]:.1f} errors" if error[-1] > 0 else "")
        style |= {"marker": "o"} if len(counts) == 1 else {}
        axes.plot(counts, off, linewidth=2.5, label=last, **style)
        if error[-1] > 0:
            axes.plot(counts, error, linewidth=1.5, linestyle=":", color=colour(max(i, 1) - 1))
            dotted = True
    if dotted:
        axes.plot([], [], color="black", linewidth=1.5, linestyle=":", label="Monte Carlo error")
    axes.set(xscale="log", yscale="log", xlabel="draws", ylabel="distance of means to gold (gold sds)")
    legend(axes)
    return [axes]


def curves(fit: Posterior, right: Right) -> tuple[Array, Array, Array]:
    """(numbers of draws, off, error) of one approximation; the error is 0 for points, which have none."""
    values, names = _coordinates(fit)
    kept = [names.index(label) for label in right.labels if label in names]
    if not kept:
        raise ValueError(f"{fit.method} and gold share nothing: gold has {right.labels[:3]}, {fit.method} {names[:3]}.")
    mine = np.isin(right.labels, names) & (right.sd > 0)
    values = values[:, :, [names.index(label) for label, use in zip(right.labels, mine, strict=True) if use]]
    mean, sd, mcse = (part[mine] for part in (right.mean, right.sd, right.mcse))
    weights = np.ones(fit.shape) if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    total = (values * weights[:, :, None]).sum(0).cumsum(0) / weights.sum(0).cumsum()[:, None]
    chains, draws = fit.shape
    first = min(FIRST, draws)
    at = np.unique(np.geomspace(first, draws, PLACES).round().astype(int))
    off = np.sqrt((((total[at - 1] - mean) / sd) ** 2).mean(axis=1))
    own = marginal(values, None if fit.weights is None else weights, fit.kind).mcse
    own = np.zeros_like(own) if fit.kind == "members" else own
    squares = own**2 * (draws / at)[:, None] + mcse**2
    error = np.sqrt((squares / sd**2).mean(axis=1)) * (fit.kind != "members")
    return at * float(chains), off, error


def _coordinates(fit: Posterior) -> tuple[Array, list[str]]:
    """All that is compared, (chain, draw, k), and its labels; point estimates have no error to speak of."""
    found = quantities(fit, fit.predict(test_inputs(fit)))
    return np.concatenate([q.values for q in found.values()], axis=2).astype(np.float64), [
        label for q in found.values() for label in q.labels
    ]


def _of_fit(fit: Posterior) -> Right:
    values, names = _coordinates(fit)
    weights = None if fit.weights is None else to_numpy(fit.weights).astype(np.float64)
    own = marginal(values, weights, fit.kind)
    return Right(names, own.mean, own.sd, np.nan_to_num(own.mcse))


def _of_gold(gold: Gold) -> Right:
    names = [label for name in gold.compared for label in gold.facts["quantities"][name]["labels"]]
    mean, sd, mcse = (
        np.concatenate([gold.numbers(name, what) for name in gold.compared]) for what in ("mean", "sd", "mcse_mean")
    )
    return Right(names, mean, sd, mcse)
