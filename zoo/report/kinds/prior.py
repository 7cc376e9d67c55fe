"""Functions drawn from the prior with the data on top: what the model believes before it sees y.

Models without inputs: the prior's density, beside that of the given fits.

Source: Gal, "Modern deep learning through Bayesian eyes: functions from the prior"; Neal 1996, chapter 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from zoo.core.posterior import Posterior
from zoo.infer.dispatch import run

from ..bands import names
from ..canvas import legend_above, panels
from ..inputs import common_data, grid, x_name
from ..points import data_points
from . import density
from .lines import fan

DRAWS = 2000


def draw(fits: Sequence[Posterior], on: Axes | None, *, output: int = 0, input: int = 0, draws: int = 30) -> list[Axes]:
    """A panel a prior: fits of the same model and hyperparameters share one.

    Args:
        fits: Fits of the same data; those of method "prior" show their own draws, for others they are drawn.
        on: An Axes or None.
        output: Which target or class.
        input: Which column is on the axis; the others are at their means.
        draws: How many functions.
    """
    data = common_data(fits)
    priors = _priors(fits)
    if data.x.dim() == 2 and data.x.shape[1] == 0:
        return density.draw([*priors, *(fit for fit in fits if fit.method != "prior")], on, output=output)
    shown = panels(on, len(priors), (6.5, 5.0), sharey=True)
    for axes, prior in zip(shown, priors, strict=True):
        places = grid(prior, input)
        fan(axes, prior, places, output, draws)
        data_points(axes, prior, output, input)
        axes.set_xlabel(x_name(data, input))
        axes.set_title(_title(prior))
    legend_above(shown, on)
    shown[0].set_ylabel(names(priors[0], output)[1])
    return shown


def _priors(fits: Sequence[Posterior]) -> list[Posterior]:
    """One fit of method "prior" for each model and hyperparameters, in the order of the fits."""
    found: dict[str, Posterior] = {}
    for fit in [*(f for f in fits if f.method == "prior"), *fits]:
        key = f"{fit.problem.name} {sorted(fit.problem.hyper.items(), key=lambda item: item[0])}"
        if key not in found:
            drawn = fit.method == "prior"
            found[key] = fit if drawn else run(fit.problem, "prior", draws=DRAWS, seed=int(fit.settings.get("seed", 0)))
    return list(found.values())


def _title(prior: Posterior) -> str:
    hyper = ", ".join(f"{name}={value}" for name, value in prior.problem.hyper.items() if len(str(value)) < 20)
    return f"prior of {prior.problem.name}" + (f"\n{hyper}" if hyper else "")
