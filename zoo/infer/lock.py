"""`locked(path)`: one writer a directory, by a lock that the system drops when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file `path`, which says who has it.

    Raises:
        ValueError: If another process (or thread) holds it, with its process id.
        OSError: If the file cannot be made or opened for writing.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise ValueError(
                f"{path.parent} is being written by process {holder}. Wait for it, or give another directory."
            ) from None
        with contextlib.suppress(OSError):  # a full disk: the lock holds, it only does not say whose it is
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
