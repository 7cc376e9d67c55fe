"""The pictures of a report: drawn by `zoo.plot`, carried inside the page; those that can't be drawn say why."""

from __future__ import annotations

import base64
import io
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from zoo.core.posterior import Posterior

from ..bands import classes
from ..pictures import known, plot, suited
from .subject import Subject
from .tags import Html, joined, listed, section, tag

log = logging.getLogger("zoo")
DPI = 80
# More fits than this make panels too small to read: the first ones are drawn.
MOST = 4
# So many classes leave room for the bars of one input.
CLASSES = 5


class Wanted(NamedTuple):
    """One picture.

    Args:
        kind: Of `zoo.plot`.
        fits: In it.
        look: What to look for.
        options: Of the kind.
    """

    kind: str
    fits: tuple[Posterior, ...]
    look: str
    options: dict[str, Any] = {}  # noqa: RUF012


def drawn(about: Subject) -> Html:
    """The section: what the posterior says, then how good it is, then how it was found."""
    shown, lacks = [], []
    for want in wanted(about):
        begun = time.perf_counter()
        try:
            figure = plot(list(want.fits), want.kind, **want.options)
            assert isinstance(figure, Figure)
            shown.append(_figure(want, figure, about))
        except Exception as error:  # a picture that can't be drawn must not cost the page
            lacks.append(joined(tag("strong", want.kind), ": ", " ".join(str(error).split())))
        log.debug("report: %s in %.2f s", want.kind, time.perf_counter() - begun)
    missing = [tag("h3", "Not drawn"), listed(lacks)] if lacks else []
    return section("Pictures", *shown, *missing)


def wanted(about: Subject) -> Iterator[Wanted]:
    """Which pictures, by what the model and the methods have."""
    fits = about.fits[:MOST]
    kind = suited(fits[0])
    yield Wanted(kind, fits, "Where the fits differ, and how wide they are away from the data.")
    yield from _beside(about, fits)
    if classes(fits[0]):
        many = _class_count(fits[0]) > CLASSES
        rows: dict[str, Any] = {"rows": (0,)} if many else {}
        yield Wanted("probabilities", fits, "Long intervals: the answer is not certain.", rows)
    coded = kind in ("reconstruct", "completions", "grid")
    for name in ("grid", "latent") if coded else ("predicted", "calibration", "loo_pit", "ppc"):
        if name != kind:
            yield Wanted(name, fits, (LOOK | OF_CLASSES if classes(fits[0]) else LOOK)[name])
    chains = tuple(fit for fit in fits if fit.kind == "markov")
    for name in ("trace", "rank") if chains else ():
        yield Wanted(name, chains[:2], LOOK[name])
    if climbed := tuple(fit for fit in fits if "elbo" in fit.history):
        yield Wanted("elbo", climbed, LOOK["elbo"])


def _beside(about: Subject, fits: tuple[Posterior, ...]) -> Iterator[Wanted]:
    """What is of approximations and the reference together."""
    if about.comparison is None or not about.approximations:
        return
    gold: dict[str, Any] = {} if about.gold is None else {"gold": about.gold}
    yield Wanted("beside", fits, "Narrower than the grey: too sure. Beside it: wrong.", gold)
    yield Wanted("convergence", fits, "A curve that leaves its dotted line is wrong, not short of draws.", gold)


LOOK = {
    "grid": "Neighbours are alike, and everywhere on the grid there is an image.",
    "latent": "What is alike lies together; a VAE's codes fill the circles and leave no gap.",
    "predicted": "Points on the diagonal; about half of the thick and 95 % of the thin bars cross it.",
    "calibration": "Below the diagonal a fit is too sure.",
    "loo_pit": "A curve outside the grey: predictions of unseen rows are biased or of the wrong width.",
    "ppc": "The observed within what the model draws.",
    "trace": "Chains that lie on each other and wander quickly.",
    "rank": "Flat histograms, within the grey, for every chain.",
    "elbo": "All three curves level at the end.",
}


# Instead of these where y is a class; and what is added where a panel's title has p-values.
OF_CLASSES = {"predicted": "Filled points high, hollow ones low; of those near p a share p is filled."}
P_VALUES = " p-values near 0 or 1 are misses."


def _class_count(fit: Posterior) -> int:
    data = fit.problem.data
    named = getattr(data, "info", {}).get("classes") or []
    hyper = fit.problem.hyper.get("classes", 2)
    return max(len(named), hyper if isinstance(hyper, int) else 2)


def _figure(want: Wanted, figure: Figure, about: Subject) -> Html:
    names = [about.drawn[_place(about, fit)] for fit in want.fits]
    what = known()[want.kind]
    left = len(about.fits) - len(want.fits) if len(about.fits) > MOST else 0
    note = f" {left} more fits are left out." if left else ""
    source, width = png(figure)
    picture = tag("img", src=source, alt=alternative(want.kind, what, names, figure), style=f"width:{width}px")
    look = want.look + P_VALUES * any("p-values" in axes.get_title() for axes in figure.axes)
    caption = tag("figcaption", tag("strong", want.kind), f": {what}. ", tag("em", look), note)
    return tag("figure", tag("div", picture, class_="wide", tabindex="0", role="region", aria_label=want.kind), caption)


def _place(about: Subject, fit: Posterior) -> int:
    return next(i for i, other in enumerate(about.fits) if other is fit)


def png(figure: Figure) -> tuple[str, int]:
    """A figure as a data URI, and its width in pixels."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}", int(figure.get_figwidth() * DPI)


def alternative(kind: str, what: str, names: Sequence[str], figure: Figure) -> str:
    """What the picture shows, for those who don't see it: fits, panels and their axes."""
    axes = [a for a in figure.axes if a.get_title() or a.get_xlabel()]
    titles = list(dict.fromkeys(" ".join(a.get_title().split()) for a in axes if a.get_title()))[:8]
    first = next((f"{a.get_ylabel()} against {a.get_xlabel()}" for a in axes if a.get_ylabel() and a.get_xlabel()), "")
    parts = [
        f"{kind} of {', '.join(names)}: {what}",
        first and f"axes: {first}",
        titles and f"panels: {'; '.join(titles)}",
    ]
    return ". ".join(str(part) for part in parts if part) + "."
