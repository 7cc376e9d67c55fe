"""What fits are drawn against: the first fit, or a gold file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zoo.core.posterior import Posterior

from .gold import Gold, find_gold, open_gold
from .units_apart import units_apart


def reference(
    kind: str, fits: Sequence[Posterior], gold: Gold | str | Path | None
) -> tuple[Posterior | Gold, list[int]]:
    """(the reference, which of the fits are drawn against it).

    Args:
        kind: Of the picture, for messages.
        fits: Fits of the same data.
        gold: A gold file or its name, against which all are drawn; None: the first fit is the reference, and one fit
            alone is drawn against the zoo's gold of its problem.

    Raises:
        ValueError: For one fit without gold, and for gold of other data or units of y.
    """
    if gold is None and len(fits) > 1:
        return fits[0], list(range(1, len(fits)))
    try:
        found = find_gold(fits[0].problem) if gold is None else gold if isinstance(gold, Gold) else open_gold(gold)
    except FileNotFoundError as error:
        raise ValueError(f"{kind} needs a reference: give it first, before what is drawn against it. {error}") from None
    if apart := units_apart(fits, found):
        raise ValueError(apart)
    if found.hash != fits[0].problem.hash:
        raise ValueError(f"gold '{found.name}' is of other data ({found.hash}) than the fits ({fits[0].problem.hash}).")
    return found, list(range(len(fits)))
