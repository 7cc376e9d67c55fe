"""Errors of a model's own code in one line: which model, where in its file, and what it was given."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyro
import torch

from .problem import Problem
from .readonly import named_tensors

LIBRARIES = tuple(str(Path(str(module.__file__)).parent) for module in (torch, pyro))
OURS = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "guides"))
LONGEST = 200


class ModelFails(ValueError):
    """An error that a model's own code raised, told in one line."""


@contextlib.contextmanager
def explained(problem: Problem, doing: str = "fails") -> Iterator[None]:
    """Tells what a model's code raises in one line; a ValueError that speaks in one line itself stays as it is.

    Args:
        problem: Whose model runs inside.
        doing: What the model does then: "fails", "fails without its targets".

    Raises:
        ModelFails: For everything else, also what torch and Pyro raise inside the model.
    """
    try:
        yield
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, ValueError) and "\n" not in str(error) and not frames[-1].filename.startswith(LIBRARIES):
            raise
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, value in named_tensors(problem)) or "no tensors"
        raise ModelFails(
            f"model '{problem.name}' {doing}{_place(frames)} ({type(error).__name__}: {_short(error)}); it was given "
            f"{given}. Correct the model or its data; zoo.check(problem) says what else it breaks."
        ) from None


def _place(frames: traceback.StackSummary) -> str:
    """The last line outside libraries: the model's, or that of a function it calls."""
    for frame in reversed(frames):
        if not frame.filename.startswith((*LIBRARIES, *OURS)) and Path(frame.filename).is_file():
            return f" at {Path(frame.filename).name}:{frame.lineno}"
    return ""


def _short(error: Exception) -> str:
    """The words on one line; a distribution's complaint without the tensors that it prints."""
    words = " ".join(str(error).split()).partition(", but found invalid values")[0]
    words = words.partition(" Trace Shapes:")[0].rstrip(".")  # Pyro's table of all sites
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "..."
