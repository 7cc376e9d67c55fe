"""`kept_fit`: a fit in a checkpoint: gone on with where it was, or, where it is finished, only read."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.core import points
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from .call import Call
from .checkpoint import Checkpoint, opened
from .threads import running_on

log = logging.getLogger("zoo")
PARTS = ("method", "kind", "draws", "weights", "stats", "history", "seconds", "settings", "outcome", "warmup", "params")


def check_directory(checkpoint: Any, seconds: Any) -> None:
    """Raises ValueError for what cannot be a directory's name or the seconds between two saves."""
    if not isinstance(checkpoint, (str, Path)) or not str(checkpoint):
        raise ValueError(f"checkpoint must be a directory's name, got {checkpoint!r}. For example checkpoint='run1'.")
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds < float("inf"):
        raise ValueError(f"checkpoint_seconds must be a number, at least 0, got {seconds!r}. Usual: 5.")


def kept_fit(
    directory: str | Path, seconds: float, call: Call, problem: Problem, fit: Callable[[Checkpoint], Posterior]
) -> Posterior:
    """The posterior of a call whose run is kept in a directory.

    Args:
        directory: See `zoo.infer.checkpoint`.
        seconds: Least time between two saves.
        call: Which call it is.
        problem: What is run; a finished result is given back on it.
        fit: Runs the method, with the opened checkpoint; it sets `unfinished` where it was ended early.

    Raises:
        ValueError: For a directory of another call, in use or damaged.
        OSError: For one that cannot be written.
    """
    with opened(directory, call, seconds) as kept:
        found = kept.result()
        if found is not None:
            log.info("checkpoint %s is finished: its result is returned", kept.path)
            return unpacked(found, problem)
        with running_on(kept.threads):
            posterior = fit(kept)
        if not kept.unfinished:
            kept.finish(packed(posterior))
        return _told(posterior, kept)


def _told(posterior: Posterior, kept: Checkpoint) -> Posterior:
    """The posterior whose outcome says how to go on, or that its draws are in memory alone."""
    outcome = [] if posterior.ok else [posterior.outcome]
    if kept.unfinished:
        outcome = [*outcome, kept.how_to_go_on()]
    elif kept.trouble:
        lost = f"checkpoint {kept.path} could not be written ({kept.trouble}): the draws are in memory only"
        outcome = [f"{lost}, save them elsewhere: posterior.save('fit.nc')", *outcome]
    return dataclasses.replace(posterior, outcome="; ".join(outcome) or "ok")


def packed(posterior: Posterior) -> dict[str, Any]:
    """A posterior without its problem, as a file holds it."""
    return {name: getattr(posterior, name) for name in PARTS} | {"exact": posterior.exact is not None}


def unpacked(tree: dict[str, Any], problem: Problem) -> Posterior:
    """The inverse of `packed`."""
    problem, _ = points.prepared(problem, tree["method"])
    exact = problem.exact(problem.data, **problem.hyper) if tree["exact"] and problem.exact is not None else None
    return Posterior(problem, **{name: tree[name] for name in PARTS}, exact=exact)
