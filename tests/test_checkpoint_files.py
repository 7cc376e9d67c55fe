"""The files of a checkpoint: whole or not at all, refused where damaged, and what they cost."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from tests.checkpoint_runs import after_calls, kept, same, small, stops, to_the_end
from tests.refusals import refused
from zoo.infer import atomic, checkpoint, stream
from zoo.infer.freeze import freeze, thaw

MH: dict[str, Any] = {"warmup": 30, "draws": 150, "engine": "eager", "seed": 2}


@pytest.fixture
def folder(tmp_path: Path):
    """An open descriptor of tmp_path."""
    found = os.open(tmp_path, os.O_RDONLY)
    yield found
    os.close(found)


def whole(**options: Any) -> zoo.Posterior:
    return zoo.run(small(), "mh", progress=False, **(MH | options))


def full(*args: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- nested values -----------------------------------------------------------------------------------------


def test_nested_values_come_back_bit_for_bit(tmp_path: Path, folder: int) -> None:
    tree = {
        "numbers": [1, -0.0, 1e-320, float("inf"), 0.1, True, None, "ü", np.float64(0.3).item()],
        "tensors": (torch.tensor([1.0, float("nan"), -0.0]), {"empty": torch.empty(0, 3)}, torch.tensor(True)),
        "scalar": torch.tensor(2**62),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "dtype": torch.float64,
    }
    atomic.write_tree(folder, "tree.npz", tree)
    back = atomic.read_tree(tmp_path / "tree.npz")
    assert repr(back) == repr(tree)
    assert [t.dtype for t in (back["scalar"], back["tensors"][0])] == [torch.int64, torch.float32]


def test_what_a_file_cannot_hold_is_refused_or_told_by_its_name() -> None:
    with pytest.raises(TypeError, match="a function cannot be written to a file"):
        freeze({"f": whole})
    with pytest.raises(TypeError, match="an array of objects cannot be written"):
        freeze(np.array([None]))
    plain, arrays = freeze({"f": np.tanh, "s": {3, 1}}, strict=False)
    assert thaw(plain, arrays) == {"f": "<ufunc 'tanh'>", "s": [1, 3]}


def test_no_pickle_is_read(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.savez(content, tree=np.array([{"a": 1}], dtype=object))
    (tmp_path / "tree.npz").write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())
    refused(lambda: atomic.read_tree(tmp_path / "tree.npz"), "tree.npz is damaged", "allow_pickle=False")


def test_files_are_npz_for_others_too(tmp_path: Path, folder: int) -> None:
    atomic.write_tree(folder, "tree.npz", {"a": torch.arange(3)})
    with np.load(tmp_path / "tree.npz") as file:
        assert file["a0"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("failing", ["open", "fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(
    failing: str, tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic.write_bytes(folder, "file", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(OSError, match="No space left"):
            atomic.write_bytes(folder, "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_was_replaced_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    folder = os.open(tmp_path / "run", os.O_RDONLY)
    (tmp_path / "run").rmdir()
    (tmp_path / "run").mkdir()
    with pytest.raises(FileNotFoundError):
        atomic.write_bytes(folder, "file", b"new")
    os.close(folder)
    assert not list((tmp_path / "run").iterdir())


# -- damage ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose run was stopped in sampling."""
    directory = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        stops(patch, "chains", after_calls(120))
        assert kept(directory, "mh", **MH).outcome.startswith("stopped")
    return directory


FILES = ("call.json", "state.npz", "draws-000000.npz")
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) * 2 // 3],
    "zeros": lambda content: bytes(len(content)),
    "text": lambda content: b"hello",
    "a bit": lambda content: (
        content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]) + content[len(content) // 2 + 1 :]
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_by_name(name: str, how: str, stopped: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(stopped, tmp_path / "run")
    path = directory / name
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    refused(lambda: kept(directory, "mh", **MH), f"{path} is damaged", f"or remove {directory}")


@pytest.mark.parametrize("name", ["call.json", "draws-000000.npz"])
def test_a_missing_file_is_refused_by_name(name: str, stopped: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(stopped, tmp_path / "run")
    (directory / name).unlink()
    refused(lambda: kept(directory, "mh", **MH), f"{directory / name} is missing")


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit_is_refused(name: str, stopped: Path, tmp_path: Path) -> None:
    """50 single bits of each file. Twin: the file as it is."""
    read = atomic.read_json if name.endswith("json") else atomic.read_tree
    path, content = tmp_path / name, (stopped / name).read_bytes()
    path.write_bytes(content)
    assert repr(read(path)) == repr(read(stopped / name))
    generator = torch.Generator().manual_seed(5)
    for at in torch.randint(len(content) * 8, (50,), generator=generator).tolist():
        flipped = bytearray(content)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="is damaged"):
            read(path)


def test_a_finished_run_needs_its_result_alone(tmp_path: Path) -> None:
    """Twin: for more draws the damaged state is needed, and refused."""
    first = kept(tmp_path / "run", "mh", **MH)
    (tmp_path / "run" / "state.npz").write_bytes(b"")
    assert same(kept(tmp_path / "run", "mh", **MH), first)
    more = MH | {"draws": MH["draws"] + 64}
    refused(lambda: kept(tmp_path / "run", "mh", **more), "state.npz is damaged")


def test_a_damaged_result_is_refused_by_name(tmp_path: Path) -> None:
    kept(tmp_path / "run", "mh", **(MH | {"draws": 5}))
    path = tmp_path / "run" / "result.npz"
    path.write_bytes(path.read_bytes()[:-40])
    refused(lambda: kept(tmp_path / "run", "mh", **(MH | {"draws": 5})), f"{path} is damaged")


def test_what_a_killed_write_left_behind_does_no_harm(stopped: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(stopped, tmp_path / "run")
    (directory / "state.npz.part").write_bytes(b"half")
    following = len(list(directory.glob("draws-*.npz")))
    (directory / f"draws-{following:06d}.npz").write_bytes(b"written before a state that never was")
    assert same(kept(directory, "mh", **MH), whole())


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    refused(lambda: kept(tmp_path, "mh", **MH), r"holds other files \(thesis.tex\). Give a new directory")
    (tmp_path / "file").write_text("x")
    refused(lambda: kept(tmp_path / "file", "mh", **MH), "can't be written", error=OSError)


def test_a_format_of_another_zoo_is_refused(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = shutil.copytree(stopped, tmp_path / "run")
    monkeypatch.setattr(checkpoint, "FORMAT", 3)
    refused(lambda: kept(directory, "mh", **MH), "has format 2, this zoo reads 3")


# -- cost --------------------------------------------------------------------------------------------------


def test_saves_take_no_more_than_their_share(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that takes 1 s is not due again for 50 s, a quick one after the seconds asked for."""
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def save(lasting: float) -> None:
        def state() -> dict[str, int]:
            now[0] += lasting
            return {}

        opened.save(state)

    call = checkpoint.Call({"device": "cpu"}, 1, {"model": None})
    folder = os.open(tmp_path, os.O_RDONLY)
    opened = checkpoint.Checkpoint(tmp_path, folder, 5.0, call, 1)
    assert not opened.due()
    for lasting, wait in ((0.01, 5.0), (1.0, 50.0), (0.0, 5.0)):
        save(lasting)
        now[0] += wait - 0.5
        assert not opened.due()
        now[0] += 1.0
        assert opened.due()
    os.close(folder)


def test_a_save_costs_what_is_new(tmp_path: Path) -> None:
    """The state's file does not grow with the run, and draws are written once."""
    sizes = {}
    for draws in (64, 64 * 8):
        kept(tmp_path / f"{draws}", "mh", **(MH | {"draws": draws}))
        files = {path.name: path.stat().st_size for path in (tmp_path / f"{draws}").iterdir()}
        sizes[draws] = files["state.npz"], sum(size for name, size in files.items() if name.startswith("draws"))
    assert abs(sizes[512][0] - sizes[64][0]) < 200
    assert sizes[512][1] < 9 * sizes[64][1]


def test_draws_beyond_the_cap_stay_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every third is returned, with its weight; all are in the files, also after a stop."""
    options: dict[str, Any] = {"warmup": 10, "draws": 150, "seed": 2, "engine": "eager", "gamma": 0.6}
    right = zoo.run(small(), "sgld", progress=False, **options)
    monkeypatch.setattr(stream, "CAP", 4 * 150 * 3 // 3)
    stops(monkeypatch, "chains", after_calls(70))
    thinned, sessions = to_the_end(lambda: kept(tmp_path / "run", "sgld", **options))
    assert sessions > 1
    assert torch.equal(thinned.draws["w"], right.draws["w"][:, 2::3])
    assert thinned.weights is not None
    assert right.weights is not None
    assert torch.equal(thinned.weights, right.weights[:, 2::3])
    assert any("every 3. is returned, all are on the disk" in message for message in caplog.messages)
    files = sorted((tmp_path / "run").glob("draws-*.npz"))
    assert torch.equal(torch.cat([atomic.read_tree(path)["position"] for path in files], 1), right.draws["w"])
