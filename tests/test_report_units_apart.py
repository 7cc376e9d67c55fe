"""Equal numbers in other units, floors of a perfect fit, array hyperparameters, other links, other names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.core.quantities import Quantity
from zoo.report.gold import Gold, key
from zoo.report.gold_means import is_of_f
from zoo.report.gold_sides import judged_gold
from zoo.report.joint import Draws, Part, joint_distances
from zoo.report.make_gold import _drawn, _numbers
from zoo.report.marginals import distances, marginal
from zoo.report.page.again import again
from zoo.report.page.origin import origin
from zoo.report.units_apart import units_apart

# -- units of y --------------------------------------------------------------------------------------------------


def in_units(loc: float | list[float], scale: float | list[float], method: str = "nuts") -> zoo.Posterior:
    return cases.line_fit(cases.line_problem(y_loc=loc, y_scale=scale), method=method)


def test_fits_in_other_units_are_not_compared_reported_or_drawn(tmp_path: Path) -> None:
    plain, scaled = cases.line_fit(), in_units(200.0, 80.0, "laplace")
    assert plain.problem.hash == scaled.problem.hash
    said = ("y of nuts has y_loc 0 and y_scale 1, y of laplace has y_loc 200 and y_scale 80", "Run both on one problem")
    refused(lambda: zoo.compare(plain, scaled), *said)
    refused(lambda: zoo.write_report([plain, scaled], tmp_path / "a.html"), *said)
    refused(lambda: zoo.plot([plain, scaled], "predicted"), *said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("loc", "scale"), [(200.0, 80.0), ([200.0], [80.0]), (200.0 * (1 + 1e-8), 80.0 * (1 - 1e-7))])
def test_the_same_units_are_the_same_however_written(loc: Any, scale: Any) -> None:
    assert units_apart([in_units(200.0, 80.0), in_units(loc, scale)]) == ""
    assert units_apart([cases.line_fit(), in_units(0.0, 1.0)]) == ""
    assert "nuts 2" in units_apart([in_units(200.0, 80.0), in_units(loc, 81.0)])


# -- floors --------------------------------------------------------------------------------------------------------


def gold_of(problem: zoo.Problem, w: Tensor, **more: Any) -> Gold:
    """A gold file by hand: numbers of all draws (chain, draw, d) of w, and 1,000 of them."""
    fit = zoo.Posterior(problem, "nuts", "markov", {"w": w})
    f = fit.predict(problem.data.x)["f"].double().numpy()  # type: ignore[union-attr]
    rows = f.shape[2]
    found = {"f": Quantity(f, [f"f[{i}]" for i in range(rows)])}
    numbers = {"f": {n: v.tolist() if hasattr(v, "tolist") else v for n, v in _numbers(found)["f"].items()}}
    model, digest, hyper = key(problem)
    x = problem.data.x.tolist()  # type: ignore[union-attr]
    run = {"chains": w.shape[0], "draws": w.shape[1], "seconds": 1.0, "method": "nuts"}
    kept = f.reshape(-1, rows)[:: f.shape[0] * f.shape[1] // 1000]
    data = {"hash": digest, "probes": list(range(rows)), "x": x, **more}
    return Gold(
        {"name": "g", "model": model, "hyper": hyper, "data": data, "run": run, "quantities": numbers}
        | {"draws": {"f": kept.tolist()}, "command": "", "certificates": {}}
    )


def straight(x: Tensor, y: Tensor | None = None) -> Tensor:
    """w ~ N(0, 1) (d,); f = x w; y ~ N(f, 1)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[1]), 1.0).to_event(1))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal(f, 1.0), obs=y)
    return f


def straight_problem(**info: Any) -> zoo.Problem:
    x = torch.eye(8, dtype=torch.float64)
    return zoo.Problem("straight", straight, zoo.Data(x, x.sum(1), info=info))


def test_w1_of_a_perfect_fit_is_near_its_floor() -> None:
    """Gold of 16,000 draws and a fit of 16,000 more: the file has 1,000, so W1 is that of 1,000 and 16,000.

    Over 3 runs of 8 coordinates the mean ratio is 1 within .2; the twin, with the floor of 16,000 each, is at 2.9.
    """
    problem = straight_problem()
    ratios = []
    for seed in range(3):
        g = cases.generator(seed)
        w = torch.randn(2, 16, 1000, 8, generator=g, dtype=torch.float64)
        right = judged_gold(gold_of(problem, w[0])).parts["f"].marginal
        assert (right.ess == 1000).all()
        found = distances(right, marginal(w[1].numpy(), None, "iid"))  # x is the identity: f is w
        ratios.append(float((found["w1"] / found["w1_floor"]).mean()))
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)
    twin = np.mean(ratios) * np.sqrt((1 / 1000 + 1 / 16_000) / (2 / 16_000))
    assert twin > 2


def test_sw2_of_a_perfect_fit_is_near_its_floor() -> None:
    """20,000 draws of each are thinned to 4,000; a twin forgets that for gold and has sqrt(3) of the floor."""

    def side(seed: int) -> Draws:
        values = np.random.default_rng(seed).standard_normal((1, 20_000, 3))
        return Draws({"f": Part(values, marginal(values, None, "iid"))}, None, "iid", 20_000.0)

    found = [joint_distances(side(seed), side(seed + 50)) for seed in range(3)]
    seen, floor = (np.mean([row[name] for row in found]) for name in ("sw2", "sw2_floor"))
    assert floor == pytest.approx(seen, rel=0.15)
    small = Draws({"f": Part(*_first(side(0), 4000))}, None, "iid", 4000.0)
    unequal = [joint_distances(side(seed), small)["sw2_floor"] for seed in range(3)]
    assert np.mean(unequal) == pytest.approx(floor, rel=0.15)
    assert np.mean(unequal) * np.sqrt((1 + 20_000 / 4000) / 2) > 1.4 * floor


def _first(draws: Draws, count: int) -> Any:
    values = draws.parts["f"].values[:, :count]
    return values, marginal(values, None, "iid")


def test_gold_that_says_its_units_is_compared_in_them_only() -> None:
    problem = straight_problem()
    w = torch.randn(2, 2000, 8, generator=cases.generator(0), dtype=torch.float64)
    fit, silent = zoo.Posterior(problem, "exact", "iid", {"w": w}), gold_of(problem, w)
    scaled = dataclasses.replace(fit, problem=straight_problem(y_loc=3.0, y_scale=2.0))
    assert len(zoo.compare(silent, scaled).frame) == 2
    told = gold_of(problem, w, y_units=[0.0, 1.0])
    assert len(zoo.compare(told, fit).frame) == 2
    refused(lambda: zoo.compare(told, scaled), "y of gold has y_loc 0 and y_scale 1, y of exact has y_loc 3")


# -- hyperparameters that are arrays -------------------------------------------------------------------------------


def wide(x: Tensor, y: Tensor | None = None, *, scale: Any = (1.0, 1.0)) -> Tensor:
    """w ~ N(0, scale) (2,); f = x w; y ~ N(f, 1)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(2), torch.as_tensor(scale, dtype=x.dtype)).to_event(1))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal(f, 1.0), obs=y)
    return f


def wide_fit(scale: Any) -> zoo.Posterior:
    data = cases.line_problem().data
    w = torch.randn(2, 200, 2, generator=cases.generator(0))
    return zoo.Posterior(zoo.Problem("wide", wide, data, hyper={"scale": scale}), "exact", "iid", {"w": w})


def test_arrays_as_hyperparameters_are_compared_by_their_numbers() -> None:
    two, ones = np.array([2.0, 3.0]), np.array([1.0, 1.0])
    assert key(wide_fit(two).problem)[2] == {"scale": [2.0, 3.0]} == key(wide_fit(torch.tensor(two)).problem)[2]
    long, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1.0  # numpy's text leaves it out
    assert key(wide_fit(long).problem) != key(wide_fit(other).problem)
    assert zoo.compare(wide_fit(two), wide_fit(two.copy())).notes == zoo.compare(wide_fit(two), wide_fit(two)).notes
    assert any("an array (2,)" in note for note in zoo.compare(wide_fit(two), wide_fit(ones)).notes)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_arrays_as_hyperparameters_are_saved(dtype: str, tmp_path: Path) -> None:
    scale = np.array([[1, 2, 3]], dtype=dtype)[:, 1:]
    wide_fit(scale[0]).save(tmp_path / "fit.nc")
    found = zoo.open(tmp_path / "fit.nc", model=wide).problem.hyper["scale"]
    assert isinstance(found, np.ndarray)
    assert found.dtype == dtype
    assert found.tolist() == scale[0].tolist()


# -- class probabilities by another link ---------------------------------------------------------------------------


def test_gold_keeps_class_probabilities_that_are_no_logistic_of_f() -> None:
    f = np.random.default_rng(0).standard_normal((2, 500, 3))
    labels = {name: [f"{name}[{i}]" for i in range(3)] for name in ("f", "mean")}
    logistic = {"f": Quantity(f, labels["f"]), "mean": Quantity(1 / (1 + np.exp(-f)), labels["mean"])}
    probit = logistic | {"mean": Quantity(torch.special.ndtr(torch.tensor(f)).numpy(), labels["mean"])}
    assert is_of_f(logistic, 3)
    assert not is_of_f(probit, 3)
    assert not is_of_f({"mean": logistic["mean"]}, 3)
    assert _drawn(logistic, [0, 1, 2]) == ["f"]
    assert _drawn(probit, [0, 1, 2]) == ["f", "mean"]
    stored = {"mean": probit["mean"].values[0].tolist(), "f": f[0].tolist()}
    facts = {"draws": stored, "quantities": {"f": {"labels": labels["f"]}}, "data": {"probes": [0, 1, 2]}}
    assert Gold(facts).draws("mean") == pytest.approx(probit["mean"].values[0])
    assert Gold(facts | {"draws": {"f": stored["f"]}}).draws("mean") == pytest.approx(logistic["mean"].values[0])


# -- the page of a lecture model under another name ----------------------------------------------------------------


def renamed(problem: zoo.Problem, name: str) -> zoo.Posterior:
    return zoo.run(dataclasses.replace(problem, name=name), "exact", draws=200)


def test_a_lecture_model_under_another_name_has_its_own_calls(tmp_path: Path) -> None:
    fit = renamed(zoo.load("linear_regression"), "house prices")
    found = again(fit)
    assert "zoo.load('linear_regression'" in found.python
    assert found.shell.startswith("zoo run linear_regression -m exact")
    zoo.write_report(fit, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "house prices" in page
    assert "zoo run linear_regression" in page


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_a_table_that_is_gone_or_damaged_does_not_cost_the_page(harm: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b,y\n" + "".join(f"{i},{i * i % 7},{2 * i + i % 3}\n" for i in range(30)))
    fit = renamed(zoo.load("linear_regression", str(file), target="y"), "house prices")
    assert origin(fit) is not None
    file.write_bytes(b"\x00\xff\xfe\x00broken\n\x00") if harm == "damaged" else file.unlink()
    assert origin(fit) is None
    assert "were given in Python" in again(fit).notes[-1]
