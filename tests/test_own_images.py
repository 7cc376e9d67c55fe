"""Users' own images: from files of every kind, and in the form that each model of images takes."""

from __future__ import annotations

import gzip
import logging
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import zoo
from tests.refusals import refused
from zoo.data import images, own_images
from zoo.data.files import is_images
from zoo.data.sides import explained

SIDE = (5, 4)  # height and width differ, so that a transposed image is seen


def bytes_of(n: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (n, *SIDE)).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write(folder: Path, kind: str, x: np.ndarray, y: np.ndarray) -> Path:
    """The images as files of a kind, with labels where it holds them."""
    path = folder / {"idx": "my-images-idx3-ubyte", "gz": "my-images-idx3-ubyte.gz"}.get(kind, f"mine{kind}")
    if kind == ".npy":
        np.save(path, x)
    elif kind == ".npz":
        np.savez(path, x=x, y=y)
    elif kind in ("idx", "gz"):
        packed = gzip.compress if kind == "gz" else bytes
        path.write_bytes(packed(idx(x)))
        (folder / path.name.replace("images-idx3", "labels-idx1")).write_bytes(packed(idx(y)))
    else:
        for i, (picture, label) in enumerate(zip(x, y, strict=True)):
            where = path / (f"class {label}" if kind == "classes" else ".")
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(where / f"{i:03d}.png")
    return path


def rows(data: zoo.Data) -> dict[bytes, int]:
    """{image as bytes: its label or -1} of both parts, whatever their order."""
    found = {}
    for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
        for i, image in enumerate((x * 255).round().to(torch.uint8)):
            found[image.numpy().tobytes()] = -1 if y is None else int(y[i])
    return found


@pytest.mark.parametrize("kind", [".npy", ".npz", "idx", "gz", "loose", "classes"])
def test_every_kind_of_file_holds_the_same_images(kind: str, tmp_path: Path) -> None:
    x, y = bytes_of(30), np.arange(30) % 3
    path = write(tmp_path, kind, x, y)
    assert is_images(str(path))
    data = own_images.load(path, seed=1)
    assert (data.x.shape, data.x_test.shape) == ((24, 1, *SIDE), (6, 1, *SIDE))
    assert (data.x.dtype, data.info["image_shape"]) == (torch.float32, list(SIDE))
    labelled = kind not in (".npy", "loose")
    right = {image.tobytes(): int(label) if labelled else -1 for image, label in zip(x, y, strict=True)}
    assert rows(data) == right
    assert rows(data) != {image.T.tobytes(): label for image, label in zip(x, y, strict=True)}  # the twin
    if labelled:
        assert data.info["classes"] == [f"class {i}" if kind == "classes" else str(i) for i in range(3)]
    assert torch.equal(own_images.load(path, seed=1).x, data.x)
    assert not torch.equal(own_images.load(path, seed=2).x, data.x)
    assert own_images.load(path, test=0).x_test is None


def test_dark_bytes_are_bytes_where_the_type_says_so(tmp_path: Path) -> None:
    x = bytes_of(10) // 4  # below 64
    np.save(tmp_path / "dark.npy", x)
    assert float(own_images.load(tmp_path / "dark.npy", test=0).x.max()) == pytest.approx(x.max() / 255)


def test_pictures_in_colour_deep_or_of_several_sizes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Image.fromarray(np.full((4, 4, 3), (255, 0, 0), np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.full((4, 4), 32768, np.uint16)).save(tmp_path / "b.png")
    with caplog.at_level(logging.INFO, logger="zoo"):
        data = own_images.load(tmp_path, test=0)
    assert "1 pictures in colour are made grey" in caplog.text
    found = sorted(data.x.mean((1, 2, 3)).tolist())
    assert found == pytest.approx([0.299, 0.5], abs=2e-3)  # ITU-R 601: .299 of red
    Image.fromarray(np.full((8, 6), 255, np.uint8)).save(tmp_path / "c.png")
    refused(lambda: own_images.load(tmp_path), r"one size: a\.png is 4 x 4, c\.png 8 x 6 .*Set size=32")
    assert own_images.load(tmp_path, test=0, size=2).x.shape == (3, 1, 2, 2)


def test_what_holds_no_images_is_refused_in_one_line(tmp_path: Path) -> None:
    refused(lambda: own_images.load(tmp_path), "holds no pictures")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    refused(lambda: own_images.load(tmp_path), "broken.png is no picture that can be read")
    write(tmp_path / "mixed", "loose", bytes_of(2), np.zeros(2, int))
    (tmp_path / "mixed" / "mineloose" / "in").mkdir()
    Image.fromarray(bytes_of(1)[0]).save(tmp_path / "mixed" / "mineloose" / "in" / "a.png")
    refused(lambda: own_images.load(tmp_path / "mixed" / "mineloose"), "2 pictures beside folders of pictures .in.")
    for name, arrays, words in (
        ("names", {"a": bytes_of(3)}, "an array x or images, got a"),
        ("flat", {"x": np.zeros((3, 20))}, r"got float64 \(3, 20\). Give flat rows their shape"),
        ("labels", {"x": bytes_of(3), "y": np.zeros(2)}, "a label for each of its 3 images"),
    ):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        refused(lambda name=name: own_images.load(tmp_path / f"{name}.npz"), words)
    (tmp_path / "text.npy").write_text("no array")
    refused(lambda: own_images.load(tmp_path / "text.npy"), "no numpy file of numbers")
    refused(lambda: own_images.load(tmp_path / "text.npy", size=3), "size is for folders")
    np.save(tmp_path / "one.npy", bytes_of(1))
    refused(lambda: own_images.load(tmp_path / "one.npy"), "at least 2 rows, got 1")


def test_a_sets_name_is_no_path_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert [is_images(v) for v in ("digits", "./digits", "my.csv", "x.npy", None, 3)] == [0, 1, 0, 1, 0, 0]


# -- one form of images for all models ----------------------------------------------------------------------------


def test_a_classifiers_images_serve_every_model(tmp_path: Path) -> None:
    x, y = bytes_of(20), np.arange(20) % 3
    path = write(tmp_path, "classes", x, y)
    lenet = zoo.load("lenet", path, channels=(2,), kernel=2, hidden=3)
    assert lenet.hyper["classes"] == 3
    image, label = lenet.data.x.flatten(1), lenet.data.y
    for name in ("vae", "autoencoder", "cvae"):
        data = zoo.load(name, path, binarise=True).data
        assert torch.equal(data.y, image), name
        assert data.info["labels"] == label.tolist()
        assert data.info["image_shape"] == list(SIDE)
    assert torch.equal(data.x, torch.eye(3)[label])
    assert torch.equal(data.x_test, torch.eye(3)[lenet.data.y_test])
    assert not torch.equal(data.x, torch.eye(3)[label.roll(1)])  # the twin: a label beside another image
    assert zoo.load("autoencoder", path, binarise=True).data.x.shape == (16, 20)
    assert zoo.load("vae", path, binarise=True, test=0.5).data.y_test.shape == (10, 20)


def test_other_models_get_a_column_a_pixel(tmp_path: Path) -> None:
    path = write(tmp_path, "classes", bytes_of(20), np.arange(20) % 3)
    data = zoo.load("softmax_regression", path).data
    assert torch.equal(data.x, own_images.load(path).x.flatten(1))
    assert data.x_test.shape == (4, 20)
    refused(lambda: zoo.load("softmax_regression", own_images.load(path)), r"got \(16, 1, 5, 4\).*x\.flatten\(1\)")
    refused(lambda: zoo.load("segmentation", path), "one class a pixel")


@pytest.mark.parametrize("shape", [(6, *SIDE), (6, 1, *SIDE), (6, 20)])
def test_images_alone_are_data(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    found = zoo.load("vae", zoo.Data(x), binarise=True).data
    assert torch.equal(found.y, x.flatten(1))
    assert found.x.shape == (6, 0)
    assert explained(found) is found
    refused(lambda: zoo.load("cvae", zoo.Data(x)), "needs what is known of each image, got images alone")


def test_the_same_digits_by_both_roads() -> None:
    asked, flipped = images.unlabelled(0, "digits", 50, 20), explained(images.mnist(0, "digits", 50, 20))
    assert torch.equal(asked.y, flipped.y)
    assert torch.equal(asked.y_test, flipped.y_test)
    assert asked.info["labels"] == flipped.info["labels"]
    given = images.unlabelled(0, "digits", 50, 20, condition=True)
    assert torch.equal(given.x_test, explained(images.mnist(0, "digits", 50, 20), condition=True).x_test)


def test_a_table_is_no_set_of_images() -> None:
    refused(lambda: zoo.load("vae", "digits"), "a table's columns are no images .*source='digits'")
    refused(lambda: zoo.load("vae", zoo.Data(torch.rand(4, 3, 5, 5))), "images must be grey, got 3 channels")


@pytest.mark.slow
def test_the_shell_takes_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "classes", bytes_of(20), np.arange(20) % 3)
    run = [sys.executable, "-m", "zoo", "run", "vae", "-m", "prior", "--data", str(path), "--set", "binarise=True"]
    done = subprocess.run([*run, "--test", "0.5", "--opt", "draws=2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "10 images to train on, 10 held out" in done.stderr
    bad = subprocess.run([*run, "--target", "a"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert bad.stderr.strip() == f"zoo: --target says how to read a table, but {path} holds images. Leave it out."
