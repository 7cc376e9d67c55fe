"""What is left of the error when the least certain rows are left to somebody else.

Least certain: the largest predictive sd, or the smallest largest probability of a class. Dotted: the error of all
rows, which stays as it is where rows are left out by chance.

Source: Leibig, Allken, Ayhan, Berens, Wahl 2017, figure 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from zoo.core.posterior import Posterior

from ..canvas import colour, labels, legend, line, panels
from ..held_out import held_out
from ..inputs import common_data
from ..scored import rejected, target_name


def draw(fits: Sequence[Posterior], on: Axes | None) -> list[Axes]:
    """One panel for all fits, on the test rows (the training rows where there are none).

    Args:
        fits: Fits of the same data.
        on: An Axes or None.
    """
    common_data(fits)
    (axes,) = panels(on, 1)
    rows = [held_out(fit) for fit in fits]
    if len({found.p is None for found in rows}) > 1:
        raise ValueError("errors of classes and of measurements share no axis. Draw them apart.")
    classes = rows[0].p is not None
    for i, (found, label) in enumerate(zip(rows, labels(fits), strict=True)):
        curve = rejected(found)
        out = 100 * (1 - curve["kept"].to_numpy())
        error = 100 * (1 - curve["accuracy"].to_numpy()) if classes else curve["rmse"].to_numpy()
        axes.plot(out, error, label=label, linewidth=2.5, **line(i))
        axes.axhline(error[0], color=colour(i), linestyle=":", linewidth=1.2)
    axes.plot([], [], color="black", linestyle=":", linewidth=1.2, label="left out by chance")
    axes.set(xlim=(0, 100))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows left out, least certain first (%)")
    axes.set_ylabel("wrong classes among the rest (%)" if classes else f"RMSE of the rest ({target_name(fits[0])})")
    axes.set_title(f"rejection, {len(rows[0].y)} {rows[0].on} rows")
    legend(axes)
    return [axes]
