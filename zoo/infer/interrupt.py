"""`stoppable`: the first Ctrl-C ends a run after its current iteration, the second ends it at once."""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

logger = logging.getLogger("zoo")

SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)


def _on_signal(caught: list[int], before: Mapping[signal.Signals, Any], signum: int, frame: FrameType | None) -> None:
    """Notes the first signal; raises at the second. A run inside a run tells the outer one as well."""
    if caught:
        raise KeyboardInterrupt(f"second {signal.Signals(signum).name}")
    caught.append(signum)
    outer = before.get(signal.Signals(signum))
    if isinstance(outer, functools.partial) and outer.func is _on_signal:
        outer(signum, frame)
    else:
        logger.warning("stopping after this iteration; once more (Ctrl-C) to stop at once")


def interrupted() -> bool:
    """Whether a signal has come to the innermost run."""
    handlers = (signal.getsignal(number) for number in SIGNALS)
    return any(isinstance(h, functools.partial) and h.func is _on_signal and bool(h.args[0]) for h in handlers)


@contextlib.contextmanager
def stoppable(max_seconds: float | None = None) -> Iterator[Callable[[], str]]:
    """Lets a loop be ended early by SIGINT, SIGTERM or the clock, and keep what it has.

        with stoppable(max_seconds) as stop:
            for i in range(steps):
                ...
                if reason := stop():
                    break

    Handlers are put back as they were found. Outside the main thread, where Python allows no signal
    handlers, only `max_seconds` works.

    Args:
        max_seconds: Seconds from here, or None for no limit.

    Returns:
        A context manager that yields stop() -> "" or the reason: "interrupted", "max_seconds=5 reached".

    Raises:
        ValueError: If `max_seconds` is not positive.
        KeyboardInterrupt: At the second signal.
    """
    if max_seconds is not None and not max_seconds > 0:
        raise ValueError(f"max_seconds must be positive or None, got {max_seconds!r}. Leave it out for no limit.")
    start = time.monotonic()
    caught: list[int] = []

    def stop() -> str:
        if caught:
            return "interrupted"
        if max_seconds is not None and time.monotonic() - start >= max_seconds:
            return f"max_seconds={max_seconds:g} reached"
        return ""

    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # None: a handler that was not set from Python and could not be put back.
                if signal.getsignal(number) is not None:
                    before[number] = signal.getsignal(number)
                    signal.signal(number, functools.partial(_on_signal, caught, before))
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
