"""Where a file is to be written: judged before any work is done."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any


def path_of(given: Any, name: str = "fit.nc") -> Path:
    """The path that was given; TypeError for what is none.

    Args:
        given: A text or path.
        name: What such a file is called, for the advice.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a file, got {given!r}. Give one: '{name}'.")
    return Path(given)


def target_file(path: Path, name: str = "fit.nc") -> Path:
    """The file that `path` names, links followed; ValueError for what can't be replaced by a file.

    Args:
        path: Where to.
        name: What such a file is called, for the advice.
    """
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise ValueError(f"path must be a file, got the folder {path}. Add a name: {path / name}.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"path must be a file, got {path}, a device or pipe. Name a file: {name}.")
    if not os.path.isdir(target.parent):
        raise ValueError(f"{path} can't be written: there is no folder {target.parent}. Make it first.")
    if _too_long(target):
        cut, length = target.name[:20], len(target.name)
        raise ValueError(f"{cut}... can't be written: a name of {length} characters is too long. Shorten it: {name}.")
    return target


def _too_long(target: Path) -> bool:
    try:
        os.lstat(target)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False
