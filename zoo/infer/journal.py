"""`Journal`: what a sampler's run tells its checkpoint, and what a run that goes on is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .checkpoint import Checkpoint
from .march import Run, snapshot
from .noise import BLOCK
from .stream import CAP, Stream

# The stages of a run, in order: warm-up's first part by another kernel, warm-up, sampling.
STAGES = ("way in", "warmup", "sampling")


class Journal:
    """The draws of a run, its clock and, where there is a checkpoint, its saves.

    Attributes:
        kept: The checkpoint, or None: then nothing is written.
        draws, warmup: What is drawn in sampling, and in warm-up if that is kept.
        seconds: Spent so far, those of the runs before included.
        engine: The engine that runs.
    """

    def __init__(self, kept: Checkpoint | None) -> None:
        self.kept, self.engine = kept, ""
        self.draws, self.warmup = Stream("draws", kept), Stream("warmup", kept)
        self.stored: Any = None if kept is None else kept.state
        self.seconds = {"compile": 0.0, "warmup": 0.0, "sample": 0.0, **(self.stored or {}).get("seconds", {})}
        self._since = 0.0

    def begin(self, engine: str, step: int) -> None:
        """Work begins: the engine is known, and every how many-th draw stays in memory.

        Raises:
            ValueError: Where the stored run had another engine, or its draws cannot be read.
        """
        self.engine, self._since, self.draws.step = engine, time.perf_counter(), step
        if self.kept is not None and self.stored:
            self.kept.check_engine(engine)
            for stream in (self.draws, self.warmup):
                stream.restore(self.stored[stream.name])

    def tick(self, what: str) -> None:
        """Counts the time since the last tick to what was done in it."""
        now = time.perf_counter()
        self.seconds[what] += now - self._since
        self._since = now

    def compiled_in(self, seconds: float) -> None:
        """Counts seconds as compiling, and not to what is being done."""
        self.seconds["compile"] += seconds
        self._since += seconds

    def take(self, stage: str) -> Any:
        """What was stored in this stage; None where the run begins it."""
        return self.stored if self.stored and self.stored["stage"] == stage else None

    def past(self, stage: str) -> bool:
        """Whether the stored run had this stage behind it."""
        return bool(self.stored) and STAGES.index(self.stored["stage"]) > STAGES.index(stage)

    def at_boundary(self, stage: str, run: Run, more: Callable[[], dict[str, Any]]) -> None:
        """Saves at a block's end, if it is time to."""
        if self.kept is not None and run.iteration % BLOCK == 0 and self.kept.due():
            self.write(stage, run, more)

    def write(self, stage: str, run: Run, more: Callable[[], dict[str, Any]]) -> None:
        """Saves: the stage, the run, and what else the stage remembers: more(), asked only where it is written."""
        if self.kept is None:
            return
        self.tick("sample" if stage == "sampling" else "warmup")

        def state() -> dict[str, Any]:
            rows = {stream.name: stream.flush() for stream in (self.draws, self.warmup)}
            return {
                "stage": stage, "engine": self.engine, "run": snapshot(run), "seconds": self.seconds, **rows, **more()
            }  # fmt: skip

        self.kept.save(state)

    def full(self) -> str:
        """Why the run must end: its draws cannot be written and are too many to keep; else ""."""
        if self.kept is None or not self.kept.trouble or self.draws.unwritten() <= CAP:
            return ""
        return f"checkpoint {self.kept.path} can't be written ({self.kept.trouble})"
