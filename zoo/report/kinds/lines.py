"""Functions drawn from the posterior; an exact fit of a line: after 0, 1, 2, 5, 10 and 25 rows, a panel each.

Source: Thome, "Bayesian linear regression: sequential learning"; Bishop 2006, figure 3.7.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from zoo.core.posterior import Posterior
from zoo.infer.dispatch import run

from ..bands import classes, names
from ..canvas import colour, labels, legend_above, panels
from ..inputs import Grid, common_data, curves, grid, x_name
from ..points import data_points

AFTER = (0, 1, 2, 5, 10, 25)
# The interval under the lines is that of so many draws.
DRAWS = 1000
LEVELS = (0.025, 0.975)


def draw(
    fits: Sequence[Posterior],
    on: Axes | None,
    *,
    output: int = 0,
    input: int = 0,
    draws: int = 20,
    rows: Sequence[int] | None = None,
) -> list[Axes]:
    """A panel a fit, or for one exact fit a panel after each number of rows.

    Args:
        fits: Fits of the same data.
        on: An Axes or None.
        output: Which target or class.
        input: Which column is on the axis; the others are at their means.
        draws: How many lines.
        rows: Condition the exact posterior on so many first rows, a panel each; None: 0, 1, 2, 5, 10, 25 where
            the one fit is exact, else no such panels.
    """
    data = common_data(fits)
    if data.x.dim() != 2 or data.x.shape[1] == 0:
        raise ValueError(f"lines needs x of shape (n, d), got {tuple(data.x.shape)}. Try kind 'density'.")
    after = _after(fits, on, rows)
    shown = [run(fits[0].problem, "exact", rows=n, draws=DRAWS, seed=0) for n in after] or list(fits)
    titles = [f"after {n} row{'' if n == 1 else 's'}" for n in after] or labels(fits)
    axes_of = panels(on, len(shown), (5.6, 4.4), sharex=True, sharey=True)
    places = grid(fits[0], input)
    for axes, fit, title in zip(axes_of, shown, titles, strict=True):
        fan(axes, fit, places, output, draws)
        # No rows: the problem keeps one without its y, so that nothing is drawn.
        data_points(axes, fit, output, input)
        axes.set_title(title)
    for i, axes in enumerate(axes_of):
        if i + 3 >= len(axes_of):
            axes.set_xlabel(x_name(data, input))
        if i % 3 == 0:
            axes.set_ylabel(names(fits[0], output)[1])
    legend_above(list(reversed(axes_of)), on)
    return axes_of


def fan(axes: Axes, fit: Posterior, places: Grid, output: int, draws: int) -> None:
    """Thin lines: draws of the function; thick: their mean; grey: their central 95 %."""
    every = curves(fit, places.x, output, max(DRAWS, draws))[:, places.order]
    some = every[np.linspace(0, len(every) - 1, min(draws, len(every))).round().astype(int)]
    ends = np.quantile(every, LEVELS, axis=0)
    word = "the probability" if classes(fit) else "f"
    axes.fill_between(places.axis, *ends, color="#bbbbbb", alpha=0.5, linewidth=0, label=f"central 95 % of {word}")
    for i, curve in enumerate(some):
        label = f"draws of {word}" if i == 0 else None
        axes.plot(places.axis, curve, color=colour(0), linewidth=1.2, alpha=0.7, label=label)
    axes.plot(places.axis, every.mean(0), color="black", linewidth=3, linestyle="--", label=f"mean of {word}")


def _after(fits: Sequence[Posterior], on: Axes | None, rows: Sequence[int] | None) -> list[int]:
    """After how many rows to draw; [] for the fits as they are."""
    problem = fits[0].problem
    can = problem.exact is not None and "rows" in inspect.signature(problem.exact).parameters
    if rows is not None and (len(fits) > 1 or not can):
        got = f"{len(fits)} fits" if len(fits) > 1 else f"'{problem.name}'"
        raise ValueError(f"rows needs one fit of a model whose exact takes rows, got {got}. Try linear_regression.")
    if rows is not None:
        return [int(n) for n in rows]
    if on is not None or len(fits) > 1 or not can or fits[0].method != "exact":
        return []
    n = len(problem.tensor)
    return [*(r for r in AFTER if r < n), n][: len(AFTER)]
