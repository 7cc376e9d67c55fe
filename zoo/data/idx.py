"""Files in idx format, the form MNIST is published in: a header of sizes, then the numbers.

    0 0 type dims | size_1 ... size_dims (4 bytes each, the highest first) | the numbers, the last axis fastest

type 8 is one unsigned byte a number, dims 3 holds images and 1 labels: the magic numbers 2051 and 2049.

Source: LeCun, Cortes & Burges, "The MNIST database of handwritten digits" (1998).
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

IMAGES, LABELS = 2051, 2049
WHAT = {IMAGES: "images", LABELS: "labels"}


def read_idx(path: str | Path, magic: int) -> NDArray[np.uint8]:
    """The numbers of an idx file, plain or gzipped.

    Args:
        path: The file.
        magic: What it must hold: IMAGES (n, h, w) or LABELS (n,).

    Returns:
        uint8, (n, h, w) or (n,).

    Raises:
        ValueError: For a file that can't be read, another magic number, and fewer or more bytes than its sizes say.
    """
    if magic not in WHAT:
        raise ValueError(f"magic must be {IMAGES} (images) or {LABELS} (labels), got {magic!r}.")
    content, dims = _bytes(Path(path)), magic % 256
    found = int.from_bytes(content[:4], "big")
    if len(content) < 4 or found != magic:
        got = f"magic number {found}" if len(content) >= 4 else f"{len(content)} bytes"
        kind = f", which are {WHAT[found]}" if found in WHAT else ""
        raise ValueError(
            f"{path} must hold {WHAT[magic]} in idx format (magic number {magic}), got {got}{kind}. "
            "Check that the files are not mixed up, or fetch this one again."
        )
    start = 4 + 4 * dims
    sizes = [int.from_bytes(content[4 * i : 4 * i + 4], "big") for i in range(1, dims + 1)]
    want, got_bytes = start + math.prod(sizes), len(content)
    if got_bytes < start or got_bytes != want:
        cut = "cut short" if got_bytes < want or got_bytes < start else "too long"
        says = f"{' x '.join(map(str, sizes))} {WHAT[magic]} take {want} bytes" if got_bytes >= start else "no sizes"
        raise ValueError(f"{path} is {cut}: {says}, got {got_bytes} bytes. Fetch it again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


def read_pair(images: Path, labels: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, h, w) and their labels (n,); ValueError where there are not as many of both."""
    x, y = read_idx(images, IMAGES), read_idx(labels, LABELS)
    if len(x) != len(y):
        raise ValueError(
            f"{images} holds {len(x)} images, {labels} {len(y)} labels; there must be one label an image. "
            "Check that both are of the same set."
        )
    return x, y


def _bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is cut short or no gzip file ({str(error).rstrip('.')}). Fetch it again.") from None
    except OSError as error:
        raise ValueError(f"{path} can't be read: {(error.strerror or str(error)).lower()}.") from None
