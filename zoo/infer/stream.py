"""`Stream`: rows (chain, time, ...) as they come, in memory and, where there is a checkpoint, in its files."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from .checkpoint import Checkpoint

log = logging.getLogger("zoo")
# As many numbers are kept in memory; of more draws every so many-th, while all are on the disk.
CAP = 100_000_000
Rows = dict[str, Tensor]


def every(rows: Rows, step: int, seen: int) -> Rows:
    """Every step-th of all rows along axis 1, of which `seen` came before these.

    Where some are left out, those that stay are in memory of their own: a view would keep the others.
    """
    first = (step - 1 - seen) % step
    return rows if step == 1 else {name: value[:, first::step].clone() for name, value in rows.items()}


def joined(parts: list[Rows]) -> Rows:
    """Parts put end to end along axis 1, of what all of them have (kernels differ in their stats); {} of none."""
    names = [name for name in (parts[-1] if parts else {}) if all(name in part for part in parts)]
    return {name: torch.cat([part[name] for part in parts], 1) for name in names}


def stride(values: int, has_files: bool) -> int:
    """Which draws stay in memory: every one, or so many-th where all would be more than 1e8 values; says so.

    Without files all do, as there is nowhere else for them to be.
    """
    step = max(1, -(-values // CAP)) if has_files else 1
    if values > CAP and not has_files:
        log.warning(
            "%g values of draws are kept in memory; with checkpoint='DIR' they would be on the disk. Or raise thin.",
            values,
        )
    if step > 1:
        log.warning(
            "%g values of draws are more than %g: every %d. is returned, all are on the disk.", values, CAP, step
        )
    return step


class Stream:
    """Rows by name, each (chain, time, ...).

    Attributes:
        count: How many have come.
        step: Every step-th stays in memory; all go to the files.
    """

    def __init__(self, name: str, kept: Checkpoint | None = None, step: int = 1) -> None:
        self.name, self.kept, self.step = name, kept, step
        self.count, self._files = 0, 0
        self._memory: list[Rows] = []
        self._queue: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """The next rows."""
        length = next(iter(rows.values())).shape[1]
        if not length:
            return
        self._memory.append(every(rows, self.step, self.count))
        self.count += length
        if self.kept is not None:
            self._queue.append(rows)

    def flush(self) -> dict[str, int]:
        """Writes what is new to a file; says how much there is, for `restore`. Raises OSError as writing does."""
        if self.kept is not None and self._queue:
            self.kept.write_rows(self.name, self._files, joined(self._queue))
            self._queue.clear()
            self._files += 1
        return {"files": self._files, "count": self.count}

    def restore(self, said: dict[str, int]) -> None:
        """Reads the rows that `flush` spoke of."""
        assert self.kept is not None
        for rows in self.kept.read_rows(self.name, said["files"]):
            self.add(rows)
        self._queue.clear()
        self._files = said["files"]
        if self.count != said["count"]:
            raise ValueError(f"{self.kept.path}: {self.name} has {self.count} rows, {said['count']} were written.")

    def unwritten(self) -> int:
        """Numbers that are in no file yet."""
        return sum(value.numel() for rows in self._queue for value in rows.values())

    def whole(self) -> Rows:
        """All rows in memory; {} if there are none."""
        return joined(self._memory)
