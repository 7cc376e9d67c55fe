"""Users' own images from files: a folder of pictures, numpy's files, or the format MNIST is published in.

pictures/             cat/1.png, dog/2.png: folders are classes; pictures that lie in no folder have none
images.npy            (n, h, w), or (n, channels, h, w)
images.npz            such an array named x or images, and y or labels where there are classes
images-idx3-ubyte     and labels-idx1-ubyte beside it where there is one; plain or .gz
"""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.core.checks import check_seed, whole
from zoo.core.problem import Data

from .files import ARRAYS
from .idx import IMAGES, read_idx, read_pair
from .pixels import scaled
from .tables import split_rows

log = logging.getLogger("zoo")
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".webp"}
DEEP = 65535  # of a grey picture of 16 bits


class Found(NamedTuple):
    """Images (n, h, w) or (n, channels, h, w), their labels (n,) or None, and the classes' names or None."""

    x: NDArray[Any]
    y: NDArray[np.int64] | None = None
    classes: list[str] | None = None


def load(source: str | Path, seed: int = 0, *, test: float = 0.2, size: int | None = None) -> Data:
    """Images and, where there are classes, what they show, in the form that all models of images take.

    Args:
        source: A folder of pictures, or an .npy, .npz or idx file, see above.
        seed: Of the split.
        test: Share of the images held out, 0 <= test < 1.
        size: Make all pictures of a folder size x size; None leaves them as they are, all of one size.

    Returns:
        `Data`: x (n, channels, h, w) float32 in [0, 1], y (n,) int64 or None; info["classes"] where there are some.

    Raises:
        ValueError: In one line, for what can't be read, images of several sizes, and labels that do not fit.
    """
    path, seed = Path(source), check_seed(seed)
    if size is not None and not path.is_dir():
        raise ValueError(f"size is for folders of pictures, got size={size!r} for {path}. Leave it out.")
    found = _folder(path, size) if path.is_dir() else _array(path) if path.suffix.lower() in ARRAYS else _idx(path)
    train, held_out = split_rows(len(found.x), test, seed, str(path))
    log.info("%s: %d images to train on, %d held out", path, len(train), len(held_out))
    x, y = torch.from_numpy(_unit(found.x)), None if found.y is None else torch.from_numpy(found.y)
    info: dict[str, Any] = {"source": str(path), **({"classes": found.classes} if found.classes else {})}

    def part(rows: Any) -> tuple[Any, Any]:
        return x[rows], None if y is None else y[rows]

    return scaled(Data(*part(train), *(part(held_out) if len(held_out) else (None, None)), info=info))


def _unit(x: NDArray[Any]) -> NDArray[np.float32]:
    """float32; bytes divided by 255, since the dtype says that they are bytes however dark: unless all are 0 or 1."""
    return np.asarray(x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 and x.max(initial=0) > 1 else 1))


# -- a folder of pictures ---------------------------------------------------------------------------------------------


def _folder(path: Path, size: int | None) -> Found:
    folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    loose, inside = _pictures(path), {folder.name: _pictures(folder) for folder in folders}
    inside = {name: files for name, files in inside.items() if files}
    if loose and inside:
        raise ValueError(
            f"{path} holds {len(loose)} pictures beside folders of pictures ({', '.join(list(inside)[:3])}). "
            "Put each into the folder of its class, or all into one."
        )
    files = loose or [file for some in inside.values() for file in some]
    if not files:
        kinds = ", ".join(sorted(PICTURES))
        raise ValueError(f"{path} holds no pictures ({kinds}), nor folders of them. Give a folder that does.")
    x = _stacked(files, size)
    if loose:
        return Found(x)
    return Found(x, np.repeat(np.arange(len(inside)), [len(some) for some in inside.values()]), list(inside))


def _pictures(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES and file.name[0] != ".")


def _stacked(files: Sequence[Path], size: int | None) -> NDArray[np.float32]:
    """The pictures (n, h, w), grey, in [0, 1]."""
    out: list[NDArray[np.float32]] = []
    coloured = 0
    for file in files:
        grey, colour = _grey(file, size)
        coloured += colour
        if out and grey.shape != out[0].shape:
            raise ValueError(
                f"pictures must have one size: {files[0].name} is {' x '.join(map(str, out[0].shape))}, {file.name} "
                f"{' x '.join(map(str, grey.shape))} (height x width). Set size=32, say, to make all of them 32 x 32."
            )
        out.append(grey)
    if coloured:
        log.info("%d pictures in colour are made grey; give arrays (n, 3, h, w) to a model of colours", coloured)
    return np.stack(out)


def _grey(file: Path, size: int | None) -> tuple[NDArray[np.float32], bool]:
    """A picture (h, w) in [0, 1], and whether it was in colour."""
    from PIL import Image

    try:
        with Image.open(file) as opened:
            deep, colour = opened.mode[0] in "IF", opened.mode not in ("1", "L", "LA", "La", "F")
            if deep:  # 16 bits, or numbers as they are
                unit = DEEP if opened.mode[0] == "I" else 1
                picture = Image.fromarray(np.asarray(opened, np.float32) / unit)
            else:
                picture = _on_white(opened).convert("L")
            if size is not None:
                picture = picture.resize((whole("size", size),) * 2, Image.Resampling.BOX)
    except OSError as error:
        words = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"{file} is no picture that can be read ({words}). Leave it out of the folder.") from None
    values = np.asarray(picture, np.float32)
    return np.asarray(values if deep else values / np.float32(255)), colour and not deep


def _on_white(picture: Any) -> Any:
    """A picture without transparency: what is drawn in black on nothing would be black on black."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)


# -- arrays -----------------------------------------------------------------------------------------------------------


def _array(path: Path) -> Found:
    try:
        content = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        words = " ".join(str(error).split()).rstrip(".")[:120]
        raise ValueError(f"{path} is no numpy file of numbers ({words}). Write it by numpy.save.") from None
    if isinstance(content, np.ndarray):
        return Found(_images(content, path))
    with content:
        arrays = {name: content[name] for name in content.files}
    x = next((arrays[name] for name in ("x", "images") if name in arrays), None)
    if x is None:
        raise ValueError(f"{path} must hold an array x or images, got {', '.join(arrays)}. Name it in numpy.savez.")
    labels = next((arrays[name] for name in ("y", "labels") if name in arrays), None)
    return Found(_images(x, path), *(() if labels is None else _coded(labels, len(x), path)))


def _images(x: NDArray[Any], path: Path) -> NDArray[Any]:
    if x.dtype.kind not in "uifb" or x.ndim not in (3, 4):
        raise ValueError(
            f"{path} must hold images (n, h, w) or (n, channels, h, w), got {x.dtype} {x.shape}. Give flat rows their "
            "shape: x.reshape(-1, h, w)."
        )
    return x


def _coded(labels: NDArray[Any], n: int, path: Path) -> tuple[NDArray[np.int64], list[str]]:
    """Labels as 0 ... k - 1 and the classes' names, in order."""
    if labels.shape != (n,):
        raise ValueError(f"{path} must hold a label for each of its {n} images, got labels {labels.shape}.")
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int64), [str(name) for name in names]


def _idx(path: Path) -> Found:
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    beside = path.with_name(name)
    if name == path.name or not beside.is_file():
        return Found(read_idx(path, IMAGES))
    x, y = read_pair(path, beside)
    return Found(x, *_coded(y, len(x), beside))
