"""Which calls go on with a directory: the same one, and one for more draws; all others are refused in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.checkpoint_runs import after_calls, kept, line, same, small, stops
from tests.refusals import refused
from zoo.__main__ import main
from zoo.infer import call, chains, graph, march
from zoo.infer.atomic import read_json, write_json
from zoo.infer.checkpoint import STATE
from zoo.infer.lock import locked

MH: dict[str, Any] = {"warmup": 5, "draws": 8, "engine": "eager"}
COIN = {"draws": 7, "seed": 1}


# -- another call ------------------------------------------------------------------------------------------


def other_prior(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), 2.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)


def on(model: Callable[..., Any], shift: float = 0.0, **options: Any) -> zoo.Problem:
    data = small().data
    assert isinstance(data, zoo.Data)
    assert data.y is not None
    return zoo.Problem("line", model, zoo.Data(data.x, data.y + shift), **options)


OTHERS: dict[str, tuple[zoo.Problem, dict[str, Any], str]] = {
    "seed": (small(), {"seed": 1}, "seed: got 1, stored 0"),
    "warmup": (small(), {"warmup": 6}, "warmup: got 6, stored 5"),
    "fewer draws": (small(), {"draws": 7}, r"draws: got 7, stored 8 \(more would go on\)"),
    "chains": (small(), {"chains": 3}, "chains: got 3, stored None"),
    "engine": (small(), {"engine": "loop"}, "engine: got 'loop', stored 'eager'"),
    "dtype": (small(), {"dtype": "float64"}, "dtype: got 'torch.float64', stored 'torch.float32'"),
    "start": (small(), {"init": "prior"}, "init: got 'prior', stored 'uniform'"),
    "data": (on(line, shift=1e-6), {}, "data: got '[0-9a-f]{12}', stored"),
    "model": (on(other_prior), {}, "the model's code: got '[0-9a-f]{12}', stored"),
    "name": (zoo.Problem("curve", line, small().data), {}, "model: got 'curve', stored 'line'"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_call_is_refused(what: str, tmp_path: Path) -> None:
    problem, options, says = OTHERS[what]
    first = kept(tmp_path / "run", "mh", **MH)
    text = refused(
        lambda: kept(tmp_path / "run", "mh", problem, **(MH | options)),
        "holds another call",
        says,
        "Make the stored call, or give another directory",
    )
    assert str(tmp_path / "run") in text
    assert same(kept(tmp_path / "run", "mh", **MH), first)


def test_another_method_is_refused(tmp_path: Path) -> None:
    kept(tmp_path / "run", "mh", **MH)
    refused(lambda: kept(tmp_path / "run", "mala", **MH), "method: got 'mala', stored 'mh'")


@pytest.mark.parametrize("what", ["torch", "pyro", "zoo", "python"])
def test_another_version_is_refused(what: str, tmp_path: Path) -> None:
    kept(tmp_path / "run", "mh", **MH)
    facts = read_json(tmp_path / "run" / "call.json")
    facts["call"][what] = "0.0"
    folder = os.open(tmp_path / "run", os.O_RDONLY)
    write_json(folder, "call.json", facts)
    os.close(folder)
    refused(lambda: kept(tmp_path / "run", "mh", **MH), f"{what}: got '[^']+', stored '0.0'")


def test_another_engine_that_only_shows_in_the_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that is gone: the same call would go on uncompiled, with other rounding."""
    stops(monkeypatch, "chains", after_calls(9))
    kept_so_far = kept(tmp_path / "run", "mh", **MH)
    assert kept_so_far.outcome.startswith("stopped")
    prepared = chains.choose_engine
    monkeypatch.setattr(chains, "choose_engine", lambda *args: "compiled" if prepared(*args) else "")
    monkeypatch.setattr(march, "compiled_drive", lambda *args: (None, "compiled", 0.0))
    refused(lambda: kept(tmp_path / "run", "mh", **MH), "holds a run by engine 'eager', and here it runs by 'compiled'")


@pytest.mark.parametrize(("method", "size"), [("mh", MH), ("svi", {"steps": 8, "draws": 8})])
def test_ctrl_c_while_it_compiles_decides_no_engine(
    method: str, size: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal ends the compiler as well. Twin: a compiler that fails by itself, and the run goes on uncompiled."""

    def failing(by: Callable[[], None]) -> Callable[..., Any]:
        def kept(*args: Any) -> Any:
            by()
            raise RuntimeError("the compiler ended")

        return kept

    options = size | {"engine": "compiled"}
    with monkeypatch.context() as patch:
        patch.setattr(graph, "_kept", failing(lambda: os.kill(os.getpid(), signal.SIGINT)))
        refused(
            lambda: kept(tmp_path / "run", method, **options), "ended while compiling .interrupted", error=zoo.NoResult
        )
    assert not (tmp_path / "run" / STATE).exists()
    monkeypatch.setattr(graph, "_kept", failing(lambda: None))
    failed = kept(tmp_path / "other", method, **options)
    assert failed.settings["engine"] == "eager"
    # A run that goes on would be driven by the eager engine from its first step: so must this one be.
    eager = kept(tmp_path / "eager", method, **(options | {"engine": "eager"}))
    assert torch.equal(failed.draws["w"], eager.draws["w"])


@pytest.mark.parametrize("options", [{"max_seconds": 1e3}, {"thin": None, "seed": 0, "chains": None}, {"draws": 9}])
def test_what_leaves_the_draws_alone_is_the_same_call(options: dict[str, Any], tmp_path: Path) -> None:
    """Limits of time, an option's default said aloud, and more of the same."""
    first = kept(tmp_path / "run", "mh", **MH)
    again = kept(tmp_path / "run", "mh", **(MH | options))
    assert torch.equal(again.draws["w"][:, :8], first.draws["w"])


def test_a_finished_posterior_of_methods_that_do_not_go_on(tmp_path: Path) -> None:
    """They begin again when killed, and are only read once they are finished."""
    problem = zoo.load("coin_flip")
    for method, options in (("exact", COIN), ("prior", COIN), ("map", {"restarts": 2}), ("laplace", COIN)):
        first = zoo.run(problem, method, checkpoint=tmp_path / method, **options)
        again = zoo.run(problem, method, checkpoint=tmp_path / method, **options)
        assert same(first, again)
        assert (first.exact is None) == (again.exact is None)
        assert again.predict()["y"].shape[:2] == first.shape
    longer = zoo.run(problem, "exact", checkpoint=tmp_path / "exact", **(COIN | {"draws": 9}))
    assert same(longer, zoo.run(problem, "exact", **(COIN | {"draws": 9})))


def test_stock_pyro_begins_again(tmp_path: Path) -> None:
    options = {"engine": "pyro", "warmup": 3, "draws": 4, "chains": 1, "progress": False}
    first = zoo.run(small(), "nuts", checkpoint=tmp_path / "other", **options)
    assert same(first, zoo.run(small(), "nuts", checkpoint=tmp_path / "other", **options))


@pytest.mark.parametrize("bad", [True, 3, "", 1.5, ["run"]])
def test_a_checkpoint_is_a_directorys_name(bad: Any) -> None:
    refused(lambda: zoo.run(small(), "mh", checkpoint=bad, **MH), "checkpoint must be a directory's name, got")


@pytest.mark.parametrize("bad", [-1, True, "5", float("nan"), float("inf")])
def test_seconds_between_saves_are_a_number(bad: Any, tmp_path: Path) -> None:
    refused(
        lambda: zoo.run(small(), "mh", checkpoint=tmp_path, checkpoint_seconds=bad, **MH),
        "checkpoint_seconds must be a number, at least 0, got",
    )


# -- one writer --------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """With the process that holds it; a lock left by a killed process is free by itself."""
    code = "import sys, time\nfrom pathlib import Path\nfrom zoo.infer.lock import locked\n"
    code += "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
    (tmp_path / "run").mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "run" / "lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        says = f"is being written by process {holder.pid}. Wait for it, or give another directory"
        refused(lambda: kept(tmp_path / "run", "mh", **MH), says)
    finally:
        holder.kill()
        holder.communicate()
    assert kept(tmp_path / "run", "mh", **MH).shape == (4, 8)
    with locked(tmp_path / "run" / "lock"):  # in the same process, too
        refused(lambda: kept(tmp_path / "run", "mh", **MH), f"process {os.getpid()}")


def test_two_threads_do_not_write_at_once(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def work() -> None:
        try:
            outcomes.append(f"drew {kept(tmp_path / 'run', 'mh', **(MH | {'warmup': 60})).shape[1]}")
        except ValueError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "drew 8" in outcomes
    assert all(text == "drew 8" or "is being written by process" in text for text in outcomes)


# -- the command line --------------------------------------------------------------------------------------

RUN = ["run", "coin_flip", "-m", "mh", "--opt", "warmup=5", "--opt", "draws=8", "--opt", "engine=eager"]


def test_run_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = str(tmp_path / "run")
    with monkeypatch.context() as patch:
        stops(patch, "chains", after_calls(12))
        assert main([*RUN, "--checkpoint", directory]) == 1
    assert f"to go on, make the same call, or: zoo resume {directory}" in capsys.readouterr().out
    fit = str(tmp_path / "fit.nc")
    assert main(["resume", directory, "-o", fit]) == 1
    assert "coin_flip, mh: 4 x 8 draws" in capsys.readouterr().out
    whole = zoo.run(zoo.load("coin_flip"), "mh", **MH)
    assert torch.equal(zoo.open(fit).draws["theta"], whole.draws["theta"])
    assert main(["resume", directory, "--more", "100"]) == 1
    assert "4 x 108 draws" in capsys.readouterr().out
    assert main(["resume", directory]) == 1
    assert "4 x 108 draws" in capsys.readouterr().out
    assert main([*RUN, "--checkpoint", directory]) == 2
    assert "draws: got 8, stored 108" in capsys.readouterr().err


def test_resume_keeps_hyperparameters_data_and_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    data = zoo.Data(x, x.sum(1), info={"y_loc": 2.0, "y_scale": 3.0, "y_name": "weight"})
    problem = zoo.load("bnn_regression", data, hidden=(3, 2), noise=0.3, prior="laplace")
    first = zoo.run(problem, "mh", checkpoint=tmp_path / "run", **MH)
    assert main(["resume", str(tmp_path / "run"), "--more", "2"]) == 1
    capsys.readouterr()
    longer = zoo.run(problem, "mh", checkpoint=tmp_path / "run", **(MH | {"draws": 10}))
    assert torch.equal(longer.draws["w1"][:, :8], first.draws["w1"])


def test_resume_of_a_users_model_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path / "run", "mh", **MH)
    assert main(["resume", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr().err
    assert "holds a run of your own model 'line'" in printed
    assert "Make the same call in Python: zoo.run(problem, 'mh', checkpoint=" in printed


def test_resume_imports_no_other_model() -> None:
    """Whatever name a file holds."""
    again = {"model": "antigravity", "name": "coin_flip", "data": {}, "hyper": {}, "device": "cpu"}
    refused(lambda: call.made_again(again), "must be one of the zoo's, got 'antigravity'")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "words, says",
    [
        (["resume", "nowhere"], "there is no directory nowhere"),
        (["resume", "{empty}"], "holds no run: it has no call.json"),
        (["resume", "{run}", "--more", "0"], "--more must be at least 1, got 0"),
        (["resume", "{run}", "-o", "nowhere/fit.nc"], "-o must be in an existing folder"),
        (["resume", "{map}", "--more", "5"], "map has no draws to add to"),
    ],
)
def test_what_is_wrong_with_resume(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    zoo.run("coin_flip", "exact", checkpoint=tmp_path / "run", draws=3)
    zoo.run("coin_flip", "map", checkpoint=tmp_path / "map", restarts=1)
    names = {name: str(tmp_path / name) for name in ("empty", "run", "map")}
    assert main([word.format(**names) for word in words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
