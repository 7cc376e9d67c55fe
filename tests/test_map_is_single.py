"""A maximum that is not single is said to be none: lines of equally probable points, under flat priors above all."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from zoo.core.priors import Flat
from zoo.infer import modes


@pytest.mark.parametrize("restarts", [1, 4])
def test_softmax_under_a_flat_prior_has_no_single_maximum(restarts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A common shift of all classes' weights changes nothing; the twin that does not look says "ok"."""
    problem = zoo.load("softmax_regression", prior="uniform")
    fit = zoo.run(problem, "map", restarts=restarts)
    assert "no single maximum: w and b can move" in fit.outcome
    assert fit.shape == (restarts, 1)
    assert len(fit.settings["log_joint"]) == restarts
    monkeypatch.setattr(modes, "flat_directions", lambda *args: [])
    assert zoo.run(problem, "map", restarts=restarts).ok


@pytest.mark.parametrize("options", [{}, {"prior_scale": 200.0}, {"prior": "laplace"}], ids=str)
def test_softmax_under_a_proper_prior_has_one(options: dict) -> None:
    assert zoo.run(zoo.load("softmax_regression", **options), "map").ok


def test_symmetric_modes_and_determined_flat_priors_are_single() -> None:
    assert zoo.run(zoo.load("bnn_regression", hidden=3), "map").ok
    assert zoo.run(zoo.load("linear_regression", prior="uniform"), "map").ok
    x = torch.linspace(-1, 1, 30)[:, None]
    labels = zoo.Data(x, (torch.sin(40 * x[:, 0]) > 0).float())
    assert zoo.run(zoo.load("logistic_regression", labels, prior="uniform"), "map").ok


def test_two_weights_of_which_only_the_sum_is_seen() -> None:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        a, b, c = (pyro.sample(name, Flat(dist.constraints.real, (), ())) for name in "abc")
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(a + b + c * x[:, 0], 1.0), obs=y)

    x = torch.linspace(-1, 1, 10)[:, None]
    fit = zoo.run(zoo.Problem("sum", model, zoo.Data(x, x[:, 0] + 1)), "map")
    assert "no single maximum: a and b can move" in fit.outcome
    assert float((fit.draws["a"] + fit.draws["b"])[0, 0]) == pytest.approx(1.0, abs=1e-4)
