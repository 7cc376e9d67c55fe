"""Files that are there whole or not at all: written beside their place, synced to the disk, renamed; no pickle.

    write NAME.part, flush, fsync, rename to NAME, fsync the folder

A process or machine that dies at any moment leaves the old file or the new one. Everything goes through the open
folder itself, not through its path: where somebody removes it and another one appears in its place, writing fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .freeze import freeze, thaw

PART = ".part"
TREE = "tree"
DIGEST = 32  # bytes of a SHA-256


def write_bytes(folder: int, name: str, content: bytes | memoryview) -> None:
    """Puts a file of these bytes into an open folder (a descriptor).

    Raises:
        OSError: Where the disk is full, the folder may not be written or is gone; what was there before is there.
    """
    part = name + PART
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):  # the failure that brought us here is the one to tell
            os.unlink(part, dir_fd=folder)
        raise
    os.fsync(folder)


def write_tree(folder: int, name: str, tree: Any, strict: bool = True) -> None:
    """Writes nested values with tensors (see `zoo.infer.freeze`) as one npz file.

    Raises:
        OSError: As for `write_bytes`.
        TypeError: For what a file cannot hold; only where `strict`.
    """
    plain, arrays = freeze(tree, strict)
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{TREE: text, **arrays})
    content.write(_sha(content.getbuffer()))  # what follows the end of a zip is not looked at by others
    write_bytes(folder, name, content.getbuffer())


def read_tree(path: Path, device: Any = "cpu") -> Any:
    """What `write_tree` wrote.

    Raises:
        ValueError: For a file that is missing, cut off or changed, naming it.
    """
    try:
        content = path.read_bytes()
        if _sha(memoryview(content)[:-DIGEST]) != content[-DIGEST:]:
            raise ValueError("its digest does not fit")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            members = {key: file[key] for key in file.files}
        return thaw(json.loads(bytes(members[TREE])), members, device)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing. {advice(path.parent)}") from None
    except Exception as error:  # zip, npy, zlib and JSON each say in their own way that a file is damaged
        raise ValueError(f"{path} is damaged ({_reason(error)}). {advice(path.parent)}") from None


def write_json(folder: int, name: str, value: dict[str, Any]) -> None:
    """Writes a dict as JSON that people can read, with its own digest; raises as `write_bytes` does."""
    write_bytes(folder, name, json.dumps({"digest": _digest(value), **value}, indent=1).encode())


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote.

    Raises:
        ValueError: For a file that is missing or was changed, naming it.
    """
    try:
        value = json.loads(path.read_bytes())
        if value.pop("digest") != _digest(value):
            raise ValueError("its digest does not fit")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing. {advice(path.parent)}") from None
    except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
        raise ValueError(f"{path} is damaged ({_reason(error)}). {advice(path.parent)}") from None
    return dict(value)


def _sha(content: memoryview) -> bytes:
    return hashlib.sha256(content).digest()


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def advice(folder: Path) -> str:
    """What to do about a directory that cannot be gone on with."""
    return f"Begin again in another directory, or remove {folder}."


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:80] or type(error).__name__
