"""Where a file is to be written: judged before any work is done."""

from __future__ import annotations

import os
from pathlib import Path


def target_file(path: Path, name: str = "fit.nc") -> Path:
    """The file that `path` names, links followed; ValueError for what can't be replaced by a file.

    Args:
        path: Where to.
        name: What such a file is called, for the advice.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"path must be a file, got the folder {path}. Add a name: {path / name}.")
    if target.exists() and not target.is_file():
        raise ValueError(f"path must be a file, got {path}, a device or pipe. Name a file: {name}.")
    if not target.parent.is_dir():
        raise ValueError(f"{path} can't be written: there is no folder {target.parent}. Make it first.")
    return target
