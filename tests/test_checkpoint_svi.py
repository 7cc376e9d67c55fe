"""SVI stopped after any step and gone on with: parameters, moments, history and draws bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import zoo
from tests.checkpoint_runs import after_calls, kept, same, small, stops, to_the_end
from zoo.infer import ascent, track
from zoo.infer.checkpoint import Checkpoint
from zoo.infer.stream import Stream

SIZES: dict[str, Any] = {"steps": 150, "draws": 20, "seed": 3, "engine": "eager"}
LARGE = 10.0  # a learning rate of which something overflows soon
CASES: dict[str, dict[str, Any]] = {
    "restarts": {"restarts": 2, "guide": "normal"},
    "batches": {"batch_size": 5, "particles": 2, "guide": "full_rank"},
    "loop": {"guide": "AutoDiagonalNormal", "engine": "loop", "steps": 70},
}


def fit(problem: zoo.Problem | None = None, **options: Any) -> zoo.Posterior:
    return zoo.run(problem or small(), "svi", progress=False, **(SIZES | options))


def gone_on_with(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: int = 37,
    problem: zoo.Problem | None = None,
    **options: Any,
) -> tuple[zoo.Posterior, int]:
    with monkeypatch.context() as patch:
        stops(patch, "methods.svi", after_calls(calls))
        return to_the_end(lambda: kept(directory, "svi", problem, **(SIZES | options)))


@pytest.mark.parametrize("case", CASES)
def test_stopped_after_any_step(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, sessions = gone_on_with(tmp_path / "run", monkeypatch, **CASES[case])
    assert sessions >= 2
    assert same(fit(**CASES[case]), pieces)


def test_stopped_at_a_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, sessions = gone_on_with(tmp_path / "run", monkeypatch, calls=63)
    assert sessions == 3
    assert same(fit(), pieces)


def test_more_draws_than_were_stored(tmp_path: Path) -> None:
    kept(tmp_path / "run", "svi", **SIZES)
    assert same(kept(tmp_path / "run", "svi", **(SIZES | {"draws": 30})), fit(draws=30))


def test_converged_early_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The looks at the ELBO come at the same steps."""
    options = {"steps": 4000, "stop": "converged", "lr": 0.05}
    pieces, sessions = gone_on_with(tmp_path / "run", monkeypatch, calls=477, **options)
    assert sessions > 2
    assert pieces.settings["steps_taken"] < 4000
    assert same(fit(**options), pieces)


def test_a_value_that_is_not_finite_ends_it_at_the_same_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the run is stopped between that step and its block's end."""
    problem = zoo.load("linear_regression", noise=None)
    options = {"restarts": 2, "lr": LARGE}
    whole = fit(problem, **options)
    assert "not finite at step " in whole.outcome
    step = int(whole.outcome.partition("at step ")[2].split()[0])
    assert step % 64 < 60
    with monkeypatch.context() as patch:
        stops(patch, "methods.svi", after_calls(step + 2))
        first = kept(tmp_path / "run", "svi", problem, **(SIZES | options))
    assert "not finite at step " in first.outcome
    assert "to go on, make the same call" in first.outcome
    assert same(kept(tmp_path / "run", "svi", problem, **(SIZES | options)), whole)


FORGETS: dict[str, Callable[[track.Track], None]] = {
    "first moment": lambda at: setattr(at, "state", (at.state[0], 0 * at.state[1], *at.state[2:])),
    "second moment": lambda at: setattr(at, "state", (*at.state[:2], 0 * at.state[2] + 1, at.state[3])),
    "steps done": lambda at: setattr(at, "history", Stream("history")),
    "nothing": lambda at: None,
}


@pytest.mark.parametrize("forgotten", FORGETS)
def test_a_resume_that_forgets_is_another_fit(forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins."""

    def forgetful(start: Tensor, steps: int, early: bool, kept: Checkpoint | None, length: int) -> track.Track:
        found = track.track(start, steps, early, kept, length)
        if kept is not None and kept.state is not None:
            FORGETS[forgotten](found)
        return found

    whole = fit()
    monkeypatch.setattr(ascent, "track", forgetful)
    with monkeypatch.context() as patch:
        stops(patch, "methods.svi", after_calls(120))
        kept(tmp_path / "run", "svi", **SIZES)
    pieces = kept(tmp_path / "run", "svi", **SIZES)
    assert same(whole, pieces) == (forgotten == "nothing")


@pytest.mark.slow
def test_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"engine": "compiled", "restarts": 2}
    pieces, _ = gone_on_with(tmp_path / "run", monkeypatch, calls=90, **options)
    assert pieces.settings["engine"] == "compiled"
    assert same(fit(**options), pieces)
