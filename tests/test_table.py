"""The table of methods on models is what its numbers say, and the numbers are what a run gives."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import zoo
from zoo.report.gold import folder, open_gold

ROOT = Path(__file__).parents[1]
# How far a re-run may be off: Monte Carlo errors of 1,000 effective draws, five times over; a share of the value.
ROOM = {"off": (0.15, 0.15), "sd_ratio": (0.08, 0.0), "w1": (0.08, 0.1), "in95": (0.03, 0.0), "sw2": (0.08, 0.1)}


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_table", ROOT / "docs" / "make_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _maker()
NUMBERS: dict[str, Any] = json.loads(make.NUMBERS.read_text())


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The distances in which two rows differ by more than ROOM."""
    room = {name: least + share * abs(one[name]) for name, (least, share) in ROOM.items()}
    return [name for name in ROOM if abs(one[name] - other[name]) > room[name]]


def test_the_texts_are_up_to_date() -> None:
    assert make.PAGE.read_text() == make.text(NUMBERS), "stale: python docs/make_table.py --page"
    readme = make.README.read_text()
    assert readme == make.with_table(readme, NUMBERS), "stale: python docs/make_table.py --page"


def test_every_gold_has_its_block_and_every_method_its_row() -> None:
    assert set(NUMBERS) == {path.stem for path in folder().glob("*.json")}
    for name, rows in NUMBERS.items():
        assert {"laplace", "svi normal", "map", "chees"} <= set(rows), name
        assert not [label for label, row in rows.items() if "none" not in row and set(ROOM) - set(row)]


def test_samplers_agree_and_points_are_over_confident() -> None:
    """chees is the certificate of half of the golds; a point has no sd, modes of a network a little between them."""
    for rows in NUMBERS.values():
        assert rows["chees"]["verdict"] == "agrees"
        assert rows["map"]["sd_ratio"] < 0.1
        assert "over-confident" in rows["map"]["verdict"]


def test_draws_that_are_not_finite_make_a_row_that_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: the run as it is."""
    problem, gold, right = zoo.load("coin_flip"), open_gold("coin_flip"), zoo.run

    def diverging(*args: Any, **options: Any) -> zoo.Posterior:
        fit = right(*args, **options)
        draws = {name: value * float("inf") for name, value in fit.draws.items()}
        return dataclasses.replace(fit, draws=draws, outcome="not converged: lower step_size")

    assert make.row(problem, gold, "exact", {})["verdict"] == "agrees"
    monkeypatch.setattr(zoo, "run", diverging)
    assert make.row(problem, gold, "exact", {}) == {"none": "diverged; not converged"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coin_flip", "linear_regression"])
def test_a_run_gives_these_numbers(name: str) -> None:
    """Within ROOM; the row of another method is not."""
    only = ["exact", "nuts", "laplace", "svi normal", "map"]
    again = make.block(name, "auto", only)
    for label in set(only) & set(NUMBERS[name]):
        assert differing(NUMBERS[name][label], again[label]) == [], label
    assert differing(NUMBERS[name]["map"], again["nuts"])
    assert differing(NUMBERS[name]["nuts"], again["map"])
