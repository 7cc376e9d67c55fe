"""`progress`: one bar on stderr for long work, with its rate and a word on how it goes."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Update = Callable[..., None]


def _silent(done: int, text: str = "") -> None:
    """Shows nothing."""


@contextlib.contextmanager
def progress(label: str, total: int, show: bool | None = None) -> Iterator[Update]:
    """A progress bar on stderr.

        with progress("nuts", total=2000, show=None) as update:
            update(17, "accept 0.83, 0 divergences")

    Args:
        label: What is running.
        total: The number of iterations.
        show: True, False, or None: only where stderr is a terminal. Shown into a file, it is one last line.

    Returns:
        A context manager that yields update(done, text=""); `done` counts from the start: calls may be rare.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield _silent
        return
    # rich is imported here: a run without a bar needs none of it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # markup=False: a label such as "w[0]" is text, not a style.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, rate="", text="")
        first: list[tuple[int, float]] = []

        def update(done: int, text: str = "") -> None:
            now = time.monotonic()
            # Counted from the last call before work began: what came earlier is compiling.
            if not first or done == first[0][0]:
                first[:] = [(done, now)]
            done0, start = first[0]
            rate = f"{(done - done0) / (now - start):.3g}/s" if done > done0 and now > start else ""
            bar.update(task, completed=done, rate=rate, text=text)

        yield update
