"""Pictures of predictions: bands over one input, predicted against observed over several.

Matplotlib's figures are made directly, without pyplot: no window, no global state, no rcParams.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from zoo.core.posterior import Posterior
from zoo.core.problem import Data

from .bands import Band, classes, curve, interval, names, observed

# Dark to light, apart for colour-blind eyes (Okabe and Ito) and, by line style and hatching, without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), "-.", ":", (0, (1, 1, 5, 1)))
POINTS = 200
Target = str | Path | Axes | None


def picture(*posteriors: Posterior, to: Target = None, output: int = 0) -> Axes | Path:
    """The picture that fits the data: a band over one input, predicted against observed over several.

    Args:
        posteriors: Fits of the same data.
        to: A file to write (its ending says the format), an Axes to draw on, or None for a new figure.
        output: Which target or class, for models with several.

    Returns:
        The path, or the axes (`axes.figure.savefig` writes them).
    """
    data = _data(posteriors)
    if data.x.dim() == 2 and data.x.shape[1] == 1:
        return band(posteriors, to, output=output)
    if data.x.shape[1] == 0:
        return scalars(posteriors, to)
    return predicted_against_observed(posteriors, to, output=output)


def band(posteriors: Posterior | Sequence[Posterior], to: Target = None, *, output: int = 0) -> Axes | Path:
    """Data, predictive means and central 50 and 95 % bands over one input; for classes: of P(y = class).

    Args:
        posteriors: Fits of the same data with x (n, 1).
        to: As for `picture`.
        output: As for `picture`.

    Raises:
        ValueError: For data with another number of inputs.
    """
    fits = _several(posteriors)
    data = _data(fits)
    if data.x.dim() != 2 or data.x.shape[1] != 1:
        raise ValueError(f"band needs x of shape (n, 1), got {tuple(data.x.shape)}. Use picture(...) instead.")
    axes = _axes(to, (7.0, 4.5))
    _data_points(axes, fits[0], output)
    for i, fit in enumerate(fits):
        x, found = curve(fit, output)
        _one_band(axes, x, found, label=_label(fits, i), place=i, filled=len(fits) <= 2)
    x_name, y_name = names(fits[0], output)
    axes.set_xlabel(x_name, fontsize="large")
    axes.set_ylabel(y_name, fontsize="large")
    axes.set_title("mean, central 50 % (dark or inner) and 95 % bands", fontsize="medium")
    axes.legend(frameon=False)
    return _finish(axes, to)


def _one_band(axes: Axes, x: NDArray[Any], found: Band, *, label: str, place: int, filled: bool) -> None:
    colour, line = COLOURS[place % len(COLOURS)], LINES[place % len(LINES)]
    axes.plot(x, found.mean, color=colour, linestyle=line, linewidth=2.5, label=label, zorder=3)
    for (low, high), alpha in zip((found.outer, found.inner), (0.15, 0.3), strict=True):
        if filled:
            hatch = "///" if place else None
            axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0, hatch=hatch)
        for edge in (low, high):
            axes.plot(x, edge, color=colour, linestyle=line, linewidth=0.9, zorder=2)


def _data_points(axes: Axes, fit: Posterior, output: int) -> None:
    data = _data([fit])
    if data.y is not None:
        y = observed(fit, data.y, output)
        axes.plot(data.x[:, 0].cpu(), y, "o", color="black", markersize=4, label="data", zorder=4)
    if data.x_test is not None and data.y_test is not None:
        y = observed(fit, data.y_test, output)
        axes.plot(
            data.x_test[:, 0].cpu(),
            y,
            "o",
            color="black",
            mfc="white",
            markersize=4,
            label="test data",
            zorder=4,
        )


def predicted_against_observed(
    posteriors: Posterior | Sequence[Posterior], to: Target = None, *, output: int = 0
) -> Axes | Path:
    """Predictive means with central 50 and 95 % intervals against what was observed, a panel a fit.

    Classifiers: the probability of the class, rows in order of it, filled where the class was observed.
    At most 200 rows, evenly spread in the order of the horizontal axis.

    Args:
        posteriors: Fits of the same data.
        to: As for `picture`; an Axes takes one fit only.
        output: As for `picture`.

    Returns:
        The path, or the first panel's axes.
    """
    fits = _several(posteriors)
    data = _data(fits)
    test = data.x_test is not None and data.y_test is not None
    y = data.y_test if test else data.y
    if y is None:
        raise ValueError(f"'{fits[0].problem.name}' has no targets to compare predictions with. Give y.")
    if isinstance(to, Axes):
        if len(fits) > 1:
            raise ValueError(f"one Axes takes one fit, got {len(fits)}. Give a path or None for a panel a fit.")
        panels: list[Axes] = [to]
    else:
        figure = _figure((1.0 + 4.2 * len(fits), 4.4))
        grid = figure.subplots(1, len(fits), sharey=True, squeeze=False)
        panels = list(grid[0])
    for i, (axes, fit) in enumerate(zip(panels, fits, strict=True)):
        found = interval(fit, data.x_test if test else None, output)
        draw = _class_panel if classes(fit) else _value_panel
        draw(axes, found, observed(fit, y, output), names(fit, output)[1], COLOURS[i % len(COLOURS)])
        rows = "test" if test else "training"
        axes.set_title(f"{_label(fits, i)}, {rows} rows: mean, 50 and 95 %", fontsize="medium")
        if i:
            axes.set_ylabel("")
    return _finish(panels[0], to)


def _value_panel(axes: Axes, found: Band, y: NDArray[Any], name: str, colour: str) -> None:
    rows = np.argsort(y, kind="stable")
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), POINTS)).round().astype(int))]
    for (low, high), width in zip((found.outer, found.inner), (1.0, 3.0), strict=True):
        axes.vlines(y[rows], low[rows], high[rows], color=colour, linewidth=width, alpha=0.6)
    axes.plot(y[rows], found.mean[rows], "o", color=colour, mec="black", markersize=4)
    axes.axline((float(y.mean()), float(y.mean())), slope=1, color="black", linestyle="--", linewidth=1)
    axes.set_xlabel(f"observed {name}", fontsize="large")
    axes.set_ylabel(f"predicted {name}", fontsize="large")


def _class_panel(axes: Axes, found: Band, y: NDArray[Any], name: str, colour: str) -> None:
    rows = np.argsort(found.mean, kind="stable")
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), POINTS)).round().astype(int))]
    place = np.arange(len(rows))
    for (low, high), width in zip((found.outer, found.inner), (1.0, 3.0), strict=True):
        axes.vlines(place, low[rows], high[rows], color=colour, linewidth=width, alpha=0.6)
    for value, fill, label in ((1, colour, "observed"), (0, "white", "not observed")):
        here = y[rows] == value
        axes.plot(
            place[here],
            found.mean[rows][here],
            "o",
            color=colour,
            mfc=fill,
            mec="black",
            markersize=5,
            label=label,
        )
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("rows, in order of the predicted probability", fontsize="large")
    axes.set_ylabel(name, fontsize="large")
    axes.legend(frameon=False)


def scalars(posteriors: Posterior | Sequence[Posterior], to: Target = None) -> Axes | Path:
    """Outlined histograms of the first scalar site: for models without inputs.

    Args:
        posteriors: Fits of the same data.
        to: As for `picture`.
    """
    fits = _several(posteriors)
    names_ = [name for name, value in fits[0].draws.items() if value.dim() == 2]
    if not names_:
        raise ValueError(f"'{fits[0].problem.name}' has no inputs and no scalar site: there is nothing to draw.")
    axes = _axes(to, (6.0, 4.0))
    for i, fit in enumerate(fits):
        draws = fit.draws[names_[0]].detach().cpu().double().numpy().ravel()
        weights = None if fit.weights is None else fit.weights.detach().cpu().double().numpy().ravel()
        axes.hist(
            draws, bins=40, density=True, weights=weights, histtype="step", linewidth=2,
            color=COLOURS[i % len(COLOURS)], linestyle=LINES[i % len(LINES)], label=_label(fits, i),
        )  # fmt: skip
    axes.set_xlabel(f"{names_[0]} (no inputs)", fontsize="large")
    axes.set_ylabel("density", fontsize="large")
    axes.legend(frameon=False)
    return _finish(axes, to)


def _several(posteriors: Posterior | Sequence[Posterior]) -> list[Posterior]:
    return [posteriors] if isinstance(posteriors, Posterior) else list(posteriors)


def _data(fits: Sequence[Posterior]) -> Data:
    if not fits:
        raise ValueError("a picture needs at least one posterior, got none. Run one: zoo.run(problem, method).")
    if len({fit.problem.hash for fit in fits}) > 1:
        raise ValueError("the fits are of different data. Draw fits of one problem together.")
    data = fits[0].problem.data
    if not isinstance(data, Data):
        raise ValueError(f"'{fits[0].problem.name}' has data in a dict: there is no x to draw. Use zoo.Data(x, y).")
    return data


def _label(fits: Sequence[Posterior], place: int) -> str:
    methods = [fit.method for fit in fits]
    count = methods[: place + 1].count(methods[place])
    return methods[place] if count == 1 else f"{methods[place]} {count}"


def _figure(size: tuple[float, float]) -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _axes(to: Target, size: tuple[float, float]) -> Axes:
    return to if isinstance(to, Axes) else _figure(size).subplots()


def _finish(axes: Axes, to: Target) -> Axes | Path:
    """Writes the figure where a path was given: drawn in memory first, so no broken file is left."""
    for panel in axes.figure.axes if not isinstance(to, Axes) else [axes]:
        panel.spines[["top", "right"]].set_visible(False)
    if to is None or isinstance(to, Axes):
        return axes
    path = Path(to)
    figure = axes.get_figure(root=True)
    assert figure is not None
    kind = path.suffix.removeprefix(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise ValueError(f"{path} ends in .{kind}; pictures are written as {known}. Name it {path.stem}.png.")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    path.write_bytes(buffer.getvalue())
    return path
