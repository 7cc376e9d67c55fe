"""Stopped anywhere and gone on with: bit for bit the run that never stopped, for every sampler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import zoo
import zoo.infer.kernels as kernels
from tests.checkpoint_runs import after_calls, kept, same, small, stops, to_the_end
from zoo.infer import adapt, march, sampling, warmup
from zoo.infer.kernels import chees
from zoo.infer.noise import BLOCK
from zoo.infer.stream import CAP, every, stride

SHORT = {"max_steps": 4}
# kernel: its own options, kept short; calls of stop (one a step of the chains) between two stops.
KERNELS: dict[str, tuple[dict[str, Any], int]] = {
    "mh": ({}, 71),
    "mala": ({"keep_warmup": True}, 71),
    "hmc": (SHORT, 191),
    "nuts": ({"max_depth": 2, "keep_warmup": True}, 191),
    "chees": (SHORT, 101),
    "mclmc": ({"mass": "low_rank", **SHORT}, 151),
    "mclmc_unadjusted": ({}, 71),
    "sgld": ({"batch_size": 5}, 71),
    "sghmc": ({"batch_size": 5}, 71),
    "naive_momentum": ({"batch_size": 5}, 71),
    "printed_sgld": ({"batch_size": 5}, 71),
    "minibatch_mh": ({"batch_size": 5}, 71),
    "minibatch_hmc": ({"batch_size": 5, "steps_each": 3}, 71),
}
SIZES: dict[str, Any] = {"warmup": 80, "draws": 33, "thin": 2, "seed": 4, "engine": "eager", "chains": 4}
NUTS: dict[str, Any] = SIZES | {"max_depth": 2, "mass": "dense"}


@functools.cache
def _whole(name: str, options: tuple[tuple[str, Any], ...]) -> zoo.Posterior:
    return zoo.run(small(), name, progress=False, **dict(options))


def whole(name: str, **options: Any) -> zoo.Posterior:
    """The run that was never stopped."""
    return _whole(name, tuple(sorted(options.items())))


def test_every_kernel_is_in_the_table() -> None:
    files = {path.stem for path in Path(kernels.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == set(KERNELS)


# Of the others each shares its loop with one of these.
RARE = ("mclmc_unadjusted", "naive_momentum", "printed_sgld", "minibatch_mh", "minibatch_hmc")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in RARE)) for n in KERNELS])
def test_stopped_between_any_two_steps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, calls = KERNELS[name]
    options = SIZES | own
    uninterrupted = whole(name, **options)
    stops(monkeypatch, "chains", after_calls(calls))
    pieces, sessions = to_the_end(lambda: kept(tmp_path / "run", name, **options))
    assert sessions > 2
    assert same(uninterrupted, pieces)


# -- at chosen places --------------------------------------------------------------------------------------


def after_advances(monkeypatch: pytest.MonkeyPatch, module: Any, count: int) -> None:
    """The next run is stopped once `advance`, as a module calls it, has done `count` iterations; later ones are not."""
    done = [0]

    def counted(*args: Any) -> Any:
        found = march.advance(*args)
        done[0] += found[2]
        return found

    def fresh() -> Callable[[], str]:
        later = done[0] > 0
        return lambda: "stopped" if not later and done[0] >= count else ""

    monkeypatch.setattr(module, "advance", counted)
    stops(monkeypatch, "chains", fresh)


# In the part of warm-up that is another kernel's, at a block's end, at the end of a window of the mass, ...
PLACES: dict[str, tuple[Any, int]] = {
    "way in": (warmup, 17),
    "end of a block of warm-up": (warmup, BLOCK),
    "end of a window": (warmup, 72),
    "end of warm-up": (warmup, 80),
    "end of a block of sampling": (sampling, 1),
}


def stopped_once(name: str, place: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = SIZES | KERNELS[name][0]
    uninterrupted = whole(name, **options)
    after_advances(monkeypatch, *PLACES[place])
    pieces, sessions = to_the_end(lambda: kept(directory, name, **options))
    assert sessions == 2
    assert same(uninterrupted, pieces)


@pytest.mark.parametrize("place", PLACES)
def test_stopped_at_a_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_once("nuts", place, tmp_path / "run", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["chees", "mala", "mclmc", "sghmc"])
def test_stopped_at_a_place_by_other_kernels(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_once(name, place, tmp_path / "run", monkeypatch)


FORGETS: dict[str, Callable[[warmup.Tuning], warmup.Tuning]] = {
    "dual averaging": lambda memory: memory._replace(averaging=adapt.restart(adapt.now(memory.averaging))),
    "spread": lambda memory: memory._replace(spread=adapt.no_spread(memory.spread.mean[0], len(memory.spread.mean))),
    "window": lambda memory: memory._replace(window=memory.window[:0]),
    "climb": lambda memory: memory._replace(climb=None if memory.climb is None else chees.begin(0.1)),
    "nothing": lambda memory: memory,
}
FORGETFUL = {"climb": ("chees", SIZES | SHORT, 78)}


@pytest.mark.parametrize("forgotten", FORGETS)
def test_a_resume_that_forgets_is_another_run(forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins: going on without one part of warm-up's memory gives other draws."""
    name, options, place = FORGETFUL.get(forgotten, ("nuts", NUTS, 50))
    uninterrupted = whole(name, **options)
    after_advances(monkeypatch, warmup, place)
    restored = warmup._restored
    monkeypatch.setattr(warmup, "_restored", lambda run, saved: FORGETS[forgotten](restored(run, saved)))
    pieces, _ = to_the_end(lambda: kept(tmp_path / "run", name, **options))
    assert same(uninterrupted, pieces) == (forgotten == "nothing")


def test_a_resume_that_takes_other_noise_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the next block instead of the present one."""
    after_advances(monkeypatch, warmup, 50)
    restore = march.restore
    monkeypatch.setattr(warmup, "restore", lambda run, saved: restore(run, saved | {"block": saved["block"] + 1}))
    pieces, _ = to_the_end(lambda: kept(tmp_path / "run", "nuts", **NUTS))
    assert not same(whole("nuts", **NUTS), pieces)


@pytest.mark.parametrize("name, place", [("nuts", 50), ("chees", 78)])
def test_all_of_warm_ups_memory_comes_back(
    name: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what rarely matters, such as each chain's recent acceptance."""
    options = SIZES | KERNELS[name][0] | {"mass": "dense", "draws": 5}
    memories: dict[str, warmup.Tuning] = {}
    packed, restored = warmup._packed, warmup._restored

    def note(which: str, memory: warmup.Tuning) -> warmup.Tuning:
        memories[which] = memory
        return memory

    after_advances(monkeypatch, warmup, place)
    monkeypatch.setattr(warmup, "_packed", lambda memory: packed(note("written", memory)))
    with pytest.raises(RuntimeError, match="ended before its first draw"):
        kept(tmp_path / "run", name, **options)
    monkeypatch.setattr(warmup, "_packed", packed)
    monkeypatch.setattr(warmup, "_restored", lambda run, saved: note("read", restored(run, saved)))
    kept(tmp_path / "run", name, **options)
    written, read = (
        memories[which]._replace(window=[torch.cat(memories[which].window, 1)]) for which in ("written", "read")
    )
    ones, others = tree_leaves(tuple(written)), tree_leaves(tuple(read))
    assert type(written.climb) is type(read.climb)
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        assert one is other is None or torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    assert float(read.recent.min()) < 1 or read.climb.seen


# -- more draws, no warm-up, threads -----------------------------------------------------------------------


@pytest.mark.parametrize("more", [34, 70])
def test_more_draws_are_those_of_the_longer_run(more: int, tmp_path: Path) -> None:
    kept(tmp_path / "run", "mala", **SIZES)
    longer = kept(tmp_path / "run", "mala", **(SIZES | {"draws": more}))
    assert same(longer, whole("mala", **(SIZES | {"draws": more})))


def test_more_draws_keep_the_engine(tmp_path: Path) -> None:
    """Where "auto" would compile the longer run, it stays eager."""
    sizes = SIZES | {"engine": "auto"}
    assert kept(tmp_path / "run", "mh", **sizes).settings["engine"] == "eager"
    longer = kept(tmp_path / "run", "mh", **(sizes | {"draws": 160}))
    assert longer.settings["engine"] == "eager"
    assert torch.equal(longer.draws["w"], whole("mh", **(SIZES | {"draws": 160})).draws["w"])


def test_more_draws_of_a_run_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stops(patch, "chains", after_calls(400))
        stopped = kept(tmp_path / "run", "nuts", **NUTS)
    assert stopped.outcome.startswith("stopped after ")
    longer = NUTS | {"draws": 40}
    assert same(kept(tmp_path / "run", "nuts", **longer), whole("nuts", **longer))


def test_without_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = SIZES | SHORT | {"warmup": 0, "step_size": 0.1}
    uninterrupted = whole("hmc", **options)
    stops(monkeypatch, "chains", after_calls(200))
    assert same(to_the_end(lambda: kept(tmp_path / "run", "hmc", **options))[0], uninterrupted)


def test_a_finished_run_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(tmp_path / "run", "mala", **SIZES)

    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("was run again")

    monkeypatch.setattr("zoo.infer.chains.density", never)
    again = kept(tmp_path / "run", "mala", **SIZES)
    assert same(first, again)
    assert again.seconds == first.seconds
    assert again.predict()["y"].shape == (4, 33, 12)


def test_threads_are_those_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noted(run: Any, iterations: int, stop: Any) -> Any:
        seen.append(torch.get_num_threads())
        return march.advance(run, iterations, stop)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        after_advances(monkeypatch, warmup, 5)
        with pytest.raises(RuntimeError, match="ended before its first draw"):
            kept(tmp_path / "run", "mala", **SIZES)
        torch.set_num_threads(1)
        monkeypatch.setattr(sampling, "advance", noted)
        kept(tmp_path / "run", "mala", **SIZES)
        assert set(seen) == {2}
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_loop_engine_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = SIZES | {"engine": "loop", "warmup": 20, "draws": 10}
    uninterrupted = whole("mala", **options)
    stops(monkeypatch, "chains", after_calls(17))
    assert same(to_the_end(lambda: kept(tmp_path / "run", "mala", **options))[0], uninterrupted)


@pytest.mark.slow
def test_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = SIZES | {"engine": "compiled"}
    uninterrupted = whole("nuts", **options)
    stops(monkeypatch, "chains", after_calls(190))
    pieces, sessions = to_the_end(lambda: kept(tmp_path / "run", "nuts", **options))
    assert sessions > 1
    assert pieces.settings["engine"] == "compiled"
    assert same(uninterrupted, pieces)


def test_more_draws_than_memory_is_meant_for_are_told_of_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    assert stride(CAP, has_files=False) == 1
    assert not caplog.messages
    assert stride(CAP + 1, has_files=False) == 1
    assert "with checkpoint='DIR' they would be on the disk" in caplog.text


def test_thinned_draws_keep_no_others_alive() -> None:
    """A view of every 64th of a block would keep all of it until the run ends."""
    rows = {"position": torch.zeros(2, BLOCK, 5)}
    kept_rows = every(rows, BLOCK, 0)["position"]
    assert kept_rows.untyped_storage().nbytes() == 2 * 5 * 4
    assert rows["position"][:, 63::64].untyped_storage().nbytes() == 2 * BLOCK * 5 * 4  # the twin
