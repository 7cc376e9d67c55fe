"""`Checkpoint`: a directory in which a run is kept, so that the same call goes on where it was, bit for bit.

    call.json       which call this is: options, data, the model's code, versions, threads
    problem.npz     what `zoo resume` needs to make the call again
    state.npz       where the run is; no random numbers, since noise is a function of (seed, chain, block)
    NAME-000000.npz draws, a file for what came since the last save: a save costs what is new, not what is there
    result.npz      the finished posterior
    lock            locked by the process that writes, whose id it holds

Every file is there whole or not at all; state.npz, written last, says how many of the draws' files count.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .atomic import PART, advice, read_json, read_tree, write_json, write_tree
from .call import Call, differences
from .interrupt import stoppable
from .lock import locked

log = logging.getLogger("zoo")
FORMAT = 2
CALL, PROBLEM, STATE, RESULT, LOCK = "call.json", "problem.npz", "state.npz", "result.npz", "lock"
# A save is due again when 50 times its own time has passed: at most 2 % of a run goes into saves.
REST = 50
Rows = dict[str, Tensor]


class Checkpoint:
    """An opened directory.

    Attributes:
        path, folder: The directory, by its name and as an open descriptor.
        seconds: At least so long between two saves; 0: a save at every block.
        device: Where stored tensors are put.
        threads: torch's threads at the beginning of the run.
        resumable: Whether `zoo resume` can make the call again.
        unfinished: Set by a method that was ended early.
        trouble: Why the last save failed, or "".
    """

    def __init__(self, path: Path, folder: int, seconds: float, call: Call, threads: int) -> None:
        self.path, self.folder, self.seconds = path, folder, seconds
        self.draws, self.threads, self.resumable = call.draws, threads, call.again["model"] is not None
        self.device = call.facts["device"]
        self.unfinished, self.trouble = False, ""
        self._next = time.monotonic() + seconds

    @functools.cached_property
    def state(self) -> Any:
        """The stored state; None at the beginning. Read where it is wanted: a finished run needs its result alone."""
        return read_tree(self.path / STATE, self.device) if (self.path / STATE).exists() else None

    def due(self) -> bool:
        """Whether enough time has passed since the last save."""
        return not self.seconds or time.monotonic() >= self._next

    def save(self, state: Callable[[], Any]) -> None:
        """Writes state(), which first writes the rows it counts. A failure is told once, and never raised."""
        self._attempt(lambda: write_tree(self.folder, STATE, state()))

    def finish(self, posterior: Any) -> None:
        """Writes the result, so that the same call returns it at once."""
        tree = {"draws": self.draws, "posterior": posterior}
        self._attempt(lambda: write_tree(self.folder, RESULT, tree, strict=False))

    def _attempt(self, write: Callable[[], None]) -> None:
        begun, before = time.monotonic(), self.trouble
        try:
            write()
            self.trouble = ""
        except OSError as error:
            self.trouble = error.strerror or str(error)
            if not before:
                log.warning(
                    "checkpoint %s can't be written (%s): the run goes on in memory, and tries again.",
                    self.path, self.trouble,
                )  # fmt: skip
        now = time.monotonic()
        self._next = now + max(self.seconds, REST * (now - begun))

    def write_rows(self, name: str, index: int, rows: Rows) -> None:
        """Writes rows (chain, time, ...) as the index-th file of a name."""
        write_tree(self.folder, f"{name}-{index:06d}.npz", rows)

    def read_rows(self, name: str, count: int) -> Iterator[Rows]:
        """The rows of the first `count` files of a name; ValueError for a file that is missing or damaged."""
        for index in range(count):
            yield read_tree(self.path / f"{name}-{index:06d}.npz", self.device)

    def result(self) -> Any:
        """The finished posterior as it was written, None before; ValueError if the file is damaged."""
        if not (self.path / RESULT).exists():
            return None
        tree = read_tree(self.path / RESULT, self.device)
        return tree["posterior"] if tree["draws"] == self.draws else None

    def engine(self, asked: str) -> str:
        """The engine to use: the stored run's, since "auto" may choose another for more draws."""
        return asked if self.state is None else str(self.state["engine"])

    def check_engine(self, engine: str) -> None:
        """Raises ValueError where another engine runs than that of the stored run."""
        if self.state is not None and engine != self.state["engine"]:
            raise ValueError(
                f"{self.path} holds a run by engine {self.state['engine']!r}, and here it runs by {engine!r}, with "
                "other rounding. Make a compiler available as before, with room in its temporary directory, and make "
                "the same call."
            )

    def how_to_go_on(self) -> str:
        """What to say of a run that ended early."""
        if self.trouble:
            return f"its checkpoint {self.path} could not be written ({self.trouble}), so it cannot go on from here"
        resume = f", or: zoo resume {self.path}" if self.resumable else ""
        return f"to go on, make the same call{resume}"


@contextlib.contextmanager
def noted(kept: Checkpoint | None, max_seconds: float | None) -> Iterator[None]:
    """Notes in `kept.unfinished` whether what runs inside, which cannot go on later, was ended early."""
    with stoppable(max_seconds) as stop:
        yield
        if kept is not None:
            kept.unfinished = bool(stop())


@contextlib.contextmanager
def opened(directory: str | Path, call: Call, seconds: float) -> Iterator[Checkpoint]:
    """Opens the directory of a call, new or stored, for this process alone.

    Args:
        directory: Made if it is not there.
        call: What is asked for; `draws` may be more than stored, the rest must be the same.
        seconds: Least time between two saves.

    Raises:
        ValueError: If it holds another call or other files, is damaged or in use; each in one line.
        OSError: If it cannot be written.
    """
    path = Path(directory)
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            if not _only_read(path, call):
                stack.enter_context(locked(path / LOCK))
            facts = _agreed(path, folder, call)
        except OSError as error:
            reason = error.strerror or error
            raise type(error)(f"checkpoint {path} can't be written ({reason}). Give another directory.") from None
        yield Checkpoint(path, folder, seconds, call, int(facts["threads"]))


def _only_read(path: Path, call: Call) -> bool:
    """Whether the directory is finished and may not be written: then nothing needs to be."""
    return (path / RESULT).exists() and not os.access(path, os.W_OK) and read_json(path / CALL)["draws"] == call.draws


def _agreed(path: Path, folder: int, call: Call) -> dict[str, Any]:
    """What call.json says, written anew for a new directory or for more draws."""
    if not (path / CALL).exists():
        _refuse_foreign(path)
        write_tree(folder, PROBLEM, call.again)
        facts = {"format": FORMAT, "call": call.facts, "draws": call.draws, "threads": torch.get_num_threads()}
        facts["cpu"] = _cpu()
        write_json(folder, CALL, facts)
        return facts
    facts = read_json(path / CALL)
    _check_same(path, facts, call)
    if facts["cpu"] != _cpu():
        log.warning("checkpoint %s is from another processor (%s): its last bits may differ.", path, facts["cpu"])
    if facts["draws"] != call.draws:
        facts["draws"] = call.draws
        write_json(folder, CALL, facts)
    return facts


def _refuse_foreign(path: Path) -> None:
    names = {name for name in os.listdir(path) if not name.endswith(PART)} - {LOCK, PROBLEM}
    if names & {STATE, RESULT}:
        raise ValueError(f"{path / CALL} is missing. {advice(path)}")
    if names:
        raise ValueError(f"checkpoint {path} holds other files ({', '.join(sorted(names)[:3])}). Give a new directory.")


def _check_same(path: Path, facts: dict[str, Any], call: Call) -> None:
    if facts["format"] != FORMAT:
        raise ValueError(f"{path} has format {facts['format']}, this zoo reads {FORMAT}. Use the zoo that wrote it.")
    found = differences(call.facts, facts["call"])
    if call.draws is not None and facts["draws"] is not None and call.draws < facts["draws"]:
        found.append(f"draws: got {call.draws}, stored {facts['draws']} (more would go on)")
    if found:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        raise ValueError(
            f"checkpoint {path} holds another call ({'; '.join(found[:3])}{more}). Make the stored call, or give "
            "another directory."
        )


def _cpu() -> str:
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
