"""Where chains start: from a fit of this very model, from modes in the run's time; and what a start must not lose."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.refusals import refused
from zoo.infer.methods import map as maximum

SHORT: dict[str, Any] = {"warmup": 5, "draws": 8, "engine": "eager", "progress": False}


def line() -> zoo.Problem:
    return zoo.load("linear_regression", zoo.Data(torch.ones(4, 1), torch.ones(4)))


def test_a_fit_of_another_model_is_no_start() -> None:
    """A site that is not there, and one of another shape. The twin, a fit of this model, is one."""
    refused(
        lambda: zoo.run(line(), "mh", init=zoo.run("coin_flip", "exact", draws=4), **SHORT),
        "init must be a Posterior of this very model", "linear_regression has site 'w'", "exact on coin_flip",
    )  # fmt: skip
    wide = zoo.load("linear_regression", zoo.Data(torch.ones(4, 3), torch.ones(4)))
    refused(lambda: zoo.run(line(), "mh", init=zoo.run(wide, "prior", draws=4), **SHORT), "'w'", "1", "3")
    assert zoo.run(line(), "mh", init=zoo.run(line(), "prior", draws=4), **SHORT).shape == (4, 8)


@pytest.mark.parametrize("options", [{}, {"engine": "pyro", "chains": 1}], ids=["ours", "stock"])
def test_a_start_at_the_mode_has_the_runs_time(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, fit = [], maximum.fit

    def noting(*args: Any, **given: Any) -> zoo.Posterior:
        asked.append(given["max_seconds"])
        return fit(*args, **given)

    monkeypatch.setattr(maximum, "fit", noting)
    for seconds in (100.0, None):
        zoo.run(line(), "hmc", init="map", max_seconds=seconds, **(SHORT | options))
    assert asked == [100.0, None]


def test_a_model_that_needs_y_keeps_its_draws() -> None:
    """It cannot be predicted, which is done without y: it is judged by its latents."""

    def model(x: Tensor, y: Tensor) -> None:
        w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
        with pyro.plate("data", y.shape[0]):
            pyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y.float())

    problem = zoo.Problem("own", model, zoo.Data(torch.ones(5, 1), torch.ones(5)))
    fit = zoo.run(problem, "mh", **SHORT)
    assert fit.shape == (4, 8)
    assert "R-hat of w" in fit.outcome


def test_draws_are_put_back_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An intercept is found again by running the model: on many rows not for 128 draws at once."""
    at_once, vmap = [], torch.func.vmap

    def noting(*args: Any, **given: Any) -> Any:
        at_once.append(given.get("chunk_size"))
        return vmap(*args, **given)

    monkeypatch.setattr(torch.func, "vmap", noting)
    rows = 20_000
    many = zoo.load("linear_regression", zoo.Data(torch.linspace(0, 1, rows)[:, None], torch.ones(rows)))
    start = zoo.run(many, "prior", draws=4)
    fit = zoo.run(many, "mala", init=start, **(SHORT | {"step_size": 1e-4, "warmup": 0}))
    assert fit.settings["centred"] == "b"
    assert 3 in at_once
    assert 128 not in at_once
