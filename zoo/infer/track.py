"""`Track`: how far an ascent is; what its loop changes, and what its checkpoint holds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .checkpoint import Checkpoint
from .elbo import Terms
from .stream import Stream

Tensors = tuple[Tensor, ...]
NAMES = ("finite", *Terms._fields)
STATE = 4  # tensors of an ascent's state, see `first_state`
ELBO = NAMES.index("elbo")
Bad = tuple[int, int] | None
FIRST_LOOK = 500


@dataclasses.dataclass
class Track:
    """How far an ascent is.

    Attributes:
        state: Parameters, Adam's two moments, the last good parameters; (restart, size) each.
        steps: How many are to be done in all.
        early: Whether it may end earlier.
        history: finite and the ELBO's terms (restart, step) of the steps done.
        kept: The checkpoint, or None.
        look: At how many steps it is next looked at whether the ELBO lies still.
        bad: (step, restart) of the first value that was not finite, once its block is done.
        engine: The engine that runs.
        compiling, seconds: Spent on compiling, and on climbing, in earlier calls too.
    """

    state: Tensors
    steps: int
    early: bool
    history: Stream
    kept: Checkpoint | None = None
    look: int = FIRST_LOOK
    bad: Bad = None
    engine: str = ""
    compiling: float = 0.0
    seconds: float = 0.0
    _finite: list[Tensor] = dataclasses.field(default_factory=list)
    _since: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def done(self) -> int:
        """Steps done."""
        return self.history.count

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.done >= self.steps or self.bad is not None

    def add(self, said: Tensor, begin: int) -> Bad:
        """The next steps' rows; the first step, from the block's `begin` on, where one was not finite."""
        if self.done == begin:
            self._finite.clear()
        columns = columns_of(said)
        self.history.add(columns)
        self._finite.append(columns["finite"])
        finite = torch.cat(self._finite, 1).T
        if bool(finite.all()):
            return None
        step, restart = (~finite).nonzero()[0].tolist()
        return begin + step, restart

    def begin(self, engine: str, compiling: float) -> None:
        """Work begins on this engine.

        Raises:
            ValueError: Where the stored ascent had another one.
        """
        if self.kept is not None:
            self.kept.check_engine(engine)
        self.engine, self.compiling, self._since = engine, self.compiling + compiling, time.perf_counter()

    def save(self) -> None:
        """Writes all of it to the checkpoint, if there is one."""
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now
        plain = ("steps", "early", "look", "engine", "compiling", "seconds")
        if self.kept is not None:
            self.kept.save(
                lambda: {
                    "state": list(self.state), "bad": None if self.bad is None else list(self.bad),
                    "history": self.history.flush(), **{name: getattr(self, name) for name in plain},
                }
            )  # fmt: skip


def track(start: Tensor, steps: int, early: bool, kept: Checkpoint | None, length: int) -> Track:
    """An ascent's track: at its first parameters (restart, size), or as its checkpoint holds it.

    Args:
        start: First parameters.
        steps, early: As for `Track`.
        kept: The checkpoint.
        length: Steps of a block.

    Raises:
        ValueError: For a checkpoint whose files are missing or damaged.
    """
    found = Track(first_state(start), steps, early, Stream("history", kept), kept)
    if kept is None or kept.state is None:
        return found
    saved = kept.state
    found.history.restore(saved["history"])
    found.state = tuple(saved["state"])
    for name in ("steps", "early", "look", "engine", "compiling", "seconds"):
        setattr(found, name, saved[name])
    found.bad = None if saved["bad"] is None else (saved["bad"][0], saved["bad"][1])
    within = found.done % length
    found._finite = [found.history.whole()["finite"][:, found.done - within :]] if within else []
    return found


def row_of(finite: Tensor, terms: Sequence[Tensor]) -> Tensor:
    """What a step says of each restart: whether all was finite (1 or 0), and the ELBO's terms, (term, restart)."""
    return torch.stack([finite.to(terms[0].dtype), *terms])


def columns_of(said: Tensor) -> dict[str, Tensor]:
    """{name: (restart, step)} of steps' rows (step, term, restart)."""
    columns = dict(zip(NAMES, said.movedim(0, 2).contiguous().unbind(), strict=True))
    return columns | {"finite": columns["finite"] != 0}


def first_state(start: Tensor) -> Tensors:
    """Parameters, Adam's moments, last good parameters; each a tensor of its own, or the tracer merges inputs."""
    nothing: Any = torch.zeros_like(start)
    return (start.clone(), nothing, nothing.clone(), start.clone())
