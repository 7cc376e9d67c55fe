"""What a report is about: the fits, what they are called, and what they are measured against."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.core.posterior import Posterior, check_posteriors

from ..canvas import labels
from ..distance import Comparison, compare
from ..files import open as open_fit
from ..finite import NotFiniteError, check_fit
from ..gold import Gold, find_gold
from ..units_apart import numbered, units_apart

log = logging.getLogger("zoo")
Source = Posterior | Gold | str | Path


@dataclasses.dataclass(frozen=True)
class Subject:
    """Fits on one page.

    Args:
        fits: In the order given.
        names: What each is called in tables.
        drawn: What each is called in pictures.
        files: The file of each, or "".
        gold: A gold file, or None where the first fit is the reference or there is none.
        comparison: Of all with the reference, or None.
        missing: Why there is no comparison, or "".
    """

    fits: tuple[Posterior, ...]
    names: tuple[str, ...]
    drawn: tuple[str, ...]
    files: tuple[str, ...]
    gold: Gold | None
    comparison: Comparison | None
    missing: str

    @property
    def approximations(self) -> tuple[Posterior, ...]:
        """The fits that are measured against something."""
        return self.fits if self.gold is not None else self.fits[1:]


def subject(given: Source | Sequence[Source]) -> Subject:
    """Opens files, finds gold, compares.

    Args:
        given: Fits, or files of fits; the first is the reference, and may be a gold file. One fit alone is compared
            with the zoo's gold of its problem, where there is one.

    Raises:
        ValueError: For no fit, and for fits of different data or units of y.
        TypeError: For things that are neither.
    """
    sources: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    gold: Gold | None = sources.pop(0) if sources and isinstance(sources[0], Gold) else None
    if not sources:
        raise ValueError("a report needs at least one fit, got none. Run one: zoo.run(problem, method).")
    fits: list[Any] = [open_fit(source) if isinstance(source, (str, Path)) else source for source in sources]
    check_posteriors("write_report", *fits)
    hashes = {fit.problem.hash for fit in fits} | ({gold.hash} if gold is not None else set())
    if len(hashes) > 1:
        raise ValueError(f"the fits are of different data (hashes {', '.join(sorted(hashes))}). Report one data set.")
    if apart := units_apart(fits, gold):
        raise ValueError(apart)
    files = tuple(str(source) if isinstance(source, (str, Path)) else "" for source in sources)
    missing = ""
    if gold is None and len(fits) == 1:
        gold, missing = _gold_of(fits[0])
    comparison, missing = (None, missing) if missing else _compared(gold, fits)
    names = numbered([fit.method for fit in fits])
    if comparison is None:
        _check_finite(names, fits)
    return Subject(tuple(fits), names, tuple(labels(fits)), files, gold, comparison, missing)


def _gold_of(fit: Posterior) -> tuple[Gold | None, str]:
    try:
        return find_gold(fit.problem), ""
    except FileNotFoundError as error:
        return None, str(error)


def _compared(gold: Gold | None, fits: Sequence[Posterior]) -> tuple[Comparison | None, str]:
    try:
        return compare(*fits) if gold is None else compare(gold, *fits), ""
    except NotFiniteError:
        raise
    except Exception as error:  # a fit that lacks something must not cost the page
        return None, " ".join(str(error).split()) or type(error).__name__


def _check_finite(names: Sequence[str], fits: Sequence[Posterior]) -> None:
    """What `compare` checks, for fits that are not compared."""
    for name, fit in zip(names, fits, strict=True):
        try:
            check_fit(name, fit)
        except NotFiniteError:
            raise
        except Exception as error:  # a fit that lacks something must not cost the page
            log.debug("report: %s is not checked (%s)", name, error)
