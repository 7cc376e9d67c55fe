"""Fits of many data sets as one: each is that of its data set alone, and ends when it would alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import zoo
from tests.test_sbc import correlated
from zoo.infer import each, many, many_guides, many_modes
from zoo.infer.each import fits
from zoo.infer.simulated import simulated

SEEDS = [5, 6, 7]
EAGER: dict[str, Any] = {"engine": "eager", "draws": 12}
CHAINS = EAGER | {"chains": 4, "warmup": 30}


def data_sets(problem: zoo.Problem, count: int = 3) -> list[zoo.Problem]:
    """In float64, so that rounding does not hide a fault."""
    problem = problem.to(dtype=torch.float64)
    return [simulated(problem, i, 0).problem for i in range(count)]


def dropout() -> zoo.Problem:
    return zoo.load("mc_dropout", hidden=3, n=6)


def moons() -> zoo.Problem:
    return zoo.load("logistic_regression", n=12)


CASES = [
    (correlated, "laplace", {"draws": 12, "restarts": 2}),
    (moons, "laplace", {"draws": 12}),
    (moons, "svi", EAGER | {"steps": 60}),
    (correlated, "svi", EAGER | {"steps": 60, "guide": "full_rank", "restarts": 2, "batch_size": 3}),
    (dropout, "svi", EAGER | {"steps": 60, "particles": 2}),
    (correlated, "mala", CHAINS),
    (correlated, "mclmc", CHAINS | {"draws": 4, "max_steps": 4}),  # chaotic: rounding grows from step to step
]


@pytest.mark.parametrize(("problem", "method", "options"), CASES)
def test_a_fit_among_many_is_the_fit_alone(problem: Any, method: str, options: dict[str, Any], one_batch: None) -> None:
    """To rounding. Twin: the fit of another data set."""
    problems = data_sets(problem())
    together = dict(fits(problems, method, options, SEEDS, lambda: ""))
    alone = [zoo.run(one, method, seed=seed, **options) for one, seed in zip(problems, SEEDS, strict=True)]
    assert sorted(together) == [0, 1, 2]
    for k, right in enumerate(alone):
        for name, values in right.draws.items():
            torch.testing.assert_close(together[k].draws[name], values, rtol=1e-6, atol=1e-6)
            assert not torch.allclose(together[k].draws[name], alone[k - 1].draws[name])
        for name in {"lp", "logq"} & set(right.stats):
            torch.testing.assert_close(together[k].stats[name], right.stats[name], rtol=1e-6, atol=1e-6)


@pytest.fixture
def one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where data sets are fitted one after another."""

    def refuse(*args: Any) -> Any:
        raise AssertionError("one after another")

    monkeypatch.setattr(each, "_in_turn", refuse)


@pytest.mark.slow
def test_an_ascent_among_many_ends_when_it_would_alone(one_batch: None) -> None:
    """One of three data sets has a y whose square is no number; the others come to rest at different times."""
    problems = data_sets(correlated())
    y = problems[1].data.y
    problems[1] = dataclasses.replace(problems[1], data=dataclasses.replace(problems[1].data, y=y * 1e200))
    options = EAGER | {"steps": 1600, "stop": "converged", "lr": 0.03, "guide": "full_rank"}
    together = dict(fits(problems, "svi", options, [1, 6, 12], lambda: ""))
    steps = [together[k].history["elbo"].shape[1] for k in range(3)]
    assert steps[1] == 1
    assert "not finite at step 0" in together[1].outcome
    for k, seed in ((0, 1), (2, 12)):
        right = zoo.run(problems[k], "svi", seed=seed, **options)
        assert steps[k] == right.history["elbo"].shape[1]
        assert together[k].outcome == right.outcome
        torch.testing.assert_close(together[k].draws["w"], right.draws["w"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("module", "method"), [(many_guides, "svi"), (many_modes, "laplace")])
def test_groups_that_fit_in_memory(module: Any, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three data sets, two or one at a time: the same draws as all at once."""
    problems = data_sets(correlated())
    options: dict[str, Any] = {"draws": 5} | ({"steps": 20, "engine": "eager"} if method == "svi" else {})
    whole = dict(fits(problems, method, options, SEEDS, lambda: ""))
    for size in (2, 1):
        monkeypatch.setattr(module, "_group_size", lambda *args, size=size: size)
        again = dict(fits(problems, method, options, SEEDS, lambda: ""))
        for k in range(3):
            torch.testing.assert_close(again[k].draws["w"], whole[k].draws["w"], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_places_are_taken_by_the_next_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five data sets on two places: each is what it is with a place of its own, and no place waits."""
    problems = data_sets(correlated(), 5)
    options = EAGER | {"chains": 2, "warmup": 25, "max_depth": 2, "draws": 70}
    whole = dict(fits(problems, "nuts", options, range(5), lambda: ""))
    monkeypatch.setattr(many, "_places", lambda *args: 2)
    again = dict(fits(problems, "nuts", options, range(5), lambda: ""))
    assert sorted(again) == sorted(whole) == [0, 1, 2, 3, 4]
    for k in range(5):
        torch.testing.assert_close(again[k].draws["w"], whole[k].draws["w"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["svi", "laplace", "mala", "nuts"])
def test_what_was_cut_short_is_not_given(method: str) -> None:
    calls: list[int] = []

    def stop() -> str:
        calls.append(1)
        return "time is up" if len(calls) > 3 else ""

    options: dict[str, Any] = {"draws": 500} if method == "laplace" else EAGER | {"draws": 500}
    assert not dict(fits(data_sets(correlated(), 2), method, options, [0, 1], stop))


@pytest.mark.parametrize(
    ("method", "options"),
    [("svi", {"engine": "loop", "steps": 3}), ("hmc", {"engine": "loop", "warmup": 3, "chains": 1})],
)
def test_one_after_another_where_it_is_asked_for(
    method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    right = each.run
    monkeypatch.setattr(each, "run", lambda *a, **o: made.append(a[1]) or right(*a, **o))
    zoo.sbc(correlated(), method, data_sets=2, draws=3, **options)
    assert made == [method] * 2
