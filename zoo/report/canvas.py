"""The look of all pictures: figures without pyplot, styles that survive black and white, letters for a projector.

Matplotlib's figures are made directly: no window, no global state, no rcParams.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from zoo.core.paths import target_file
from zoo.core.posterior import Posterior

from .files import write_whole

# Dark to light, apart for colour-blind eyes (Okabe and Ito) and, by line style, marker and hatching, without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), "-.", ":", (0, (1, 1, 5, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xx", "\\\\\\")
TITLE, LABEL, TICKS = 15, 15, 13
MOST_PANELS = 40
# With more chains a legend of them takes the room of the picture.
MOST_CHAINS = 6


def colour(place: int) -> str:
    """The colour of the fit or chain at this place."""
    return COLOURS[place % len(COLOURS)]


def line(place: int) -> dict[str, Any]:
    """Colour and line style of the fit or chain at this place; markers set the sixth and later ones apart."""
    again = place // len(LINES)
    style: dict[str, Any] = {"color": colour(place), "linestyle": LINES[place % len(LINES)]}
    return style | ({"marker": MARKERS[(again - 1) % len(MARKERS)], "markevery": 0.1} if again else {})


def edge(place: int) -> dict[str, Any]:
    """Colour and line style of a histogram's outline, which has no markers: 25 of them differ."""
    return {"color": colour(place), "linestyle": LINES[(place + place // len(COLOURS)) % len(LINES)]}


def chain_name(place: int, count: int) -> str | None:
    """The word for a chain in a legend; of many chains one line stands for all."""
    if count > MOST_CHAINS:
        return f"{count} chains" if place == 0 else None
    return f"chain {place}"


def fill(place: int) -> dict[str, Any]:
    """Face, edge and hatching of the bars of the fit at this place."""
    # Neighbours differ in lightness too, for those who see no colour.
    style = {"facecolor": colour(place), "edgecolor": "black", "hatch": HATCHES[place % len(HATCHES)]}
    return style | {"alpha": (0.8, 0.45)[place % 2]}


def marker(place: int) -> str:
    """The marker of the fit, class or chain at this place."""
    return MARKERS[place % len(MARKERS)]


def panels(
    on: Axes | None, count: int, size: tuple[float, float] = (6.5, 4.5), columns: int = 3, **options: Any
) -> list[Axes]:
    """`count` axes in rows of `columns`, on a new figure; or the one Axes that was given.

    Args:
        on: An Axes of the caller's, or None.
        count: How many panels.
        size: Of one panel, inches.
        columns: Panels in a row.
        **options: For `Figure.subplots`, such as sharey=True.

    Raises:
        ValueError: For several panels on one Axes, and for too many.
    """
    if on is not None:
        if count != 1:
            raise ValueError(f"this picture has {count} panels, and one Axes takes one fit and one panel. Give a path.")
        return [on]
    if count > MOST_PANELS:
        raise ValueError(f"{count} panels can't be read; {MOST_PANELS} at most. Draw fewer fits or sites.")
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    FigureCanvasAgg(figure)
    flat = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for spare in flat[count:]:
        spare.remove()
    return flat[:count]


def labels(fits: Sequence[Posterior]) -> list[str]:
    """A name a fit: its method; with the guide, the hyperparameters or a number where methods repeat."""
    methods = [fit.method for fit in fits]
    out = [_told_apart(fit, [other for other in fits if other.method == fit.method]) for fit in fits]
    return out if len(set(out)) == len(out) else [_numbered(methods, i) for i in range(len(fits))]


def _told_apart(fit: Posterior, same: Sequence[Posterior]) -> str:
    if len(same) == 1:
        return fit.method
    words = [fit.method]
    if len({str(other.settings.get("guide")) for other in same}) > 1:
        words.append(str(fit.settings.get("guide")))
    hyper = fit.problem.hyper
    differing = [n for n in hyper if len({str(other.problem.hyper.get(n)) for other in same}) > 1]
    words += [f"{name}={hyper[name]}" for name in differing if len(str(hyper[name])) < 20]
    return " ".join(words)


def _numbered(methods: Sequence[str], place: int) -> str:
    count = methods[: place + 1].count(methods[place])
    return methods[place] if count == 1 else f"{methods[place]} {count}"


def legend(axes: Axes, **options: Any) -> None:
    """A legend on a white ground, so that lines behind it do not hide it."""
    axes.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize=TICKS, **options)


def legend_above(shown: Sequence[Axes], on: Axes | None) -> None:
    """One legend for all panels, above them; on an Axes of the caller's, inside it."""
    if on is not None:
        return legend(on)
    handles, words = shown[0].get_legend_handles_labels()
    figure = shown[0].get_figure(root=True)
    assert figure is not None
    # As many in a row as the width has room for, at 2.6 inches each.
    ncols = max(1, min(len(words), int(figure.get_figwidth() / 2.6)))
    above = figure.legend(handles, words, loc="outside upper center", ncols=ncols, frameon=False, fontsize=TICKS)
    _literal(above.get_texts())
    return None


def dress(axes: Axes) -> None:
    """Big letters as they are written, no box."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TICKS)
    axes.xaxis.label.set_fontsize(LABEL)
    axes.yaxis.label.set_fontsize(LABEL)
    axes.title.set_fontsize(TITLE)
    inside = axes.get_legend()
    _literal([axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts, *(inside.get_texts() if inside else [])])
    for axis in (axes.xaxis, axes.yaxis):
        # Names stand at fixed places; the powers of ten of a logarithmic axis are matplotlib's own mathematics.
        if isinstance(axis.get_major_locator(), FixedLocator):
            _literal([label for tick in axis.get_major_ticks() for label in (tick.label1, tick.label2)])


def _literal(texts: Iterable[Text]) -> None:
    """Columns and sites may be called "cost_$ (per_$)": none of our words is mathematics."""
    for text in texts:
        text.set_parse_math(False)


def file_format(path: Path) -> str:
    """The format that a path's ending says; checked before any work is done.

    Raises:
        ValueError: For an ending that matplotlib can't write, and a folder, device or pipe, which no file can replace.
    """
    kind = path.suffix.removeprefix(".").lower() or "png"
    known = FigureCanvasAgg.get_supported_filetypes()
    if kind not in known:
        raise ValueError(
            f"{path} ends in .{kind}; pictures are written as {', '.join(sorted(known))}. Name it {path.stem}.png."
        )
    target_file(path, "picture.png")
    return kind


def write(figure: Figure, path: Path) -> Path:
    """Writes a figure whole or not at all: drawn in memory, then put in its place by one rename."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_format(path), dpi=150)
    write_whole(target_file(path), path, buffer.getvalue())
    return path
