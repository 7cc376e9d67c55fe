"""map by any optimiser of torch: the same modes, each restart on its own, and what is refused or named."""

from __future__ import annotations

import pytest
import torch

import zoo
from tests.refusals import refused
from zoo.infer.descent import choose, optimisers
from zoo.infer.lbfgs import lbfgs

F64 = torch.float64
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(30, 2, generator=GENERATOR, dtype=F64)
Y = X @ torch.tensor([1.0, -0.5], dtype=F64) + 0.6 * torch.randn(30, generator=GENERATOR, dtype=F64)


def problem() -> zoo.Problem:
    return zoo.load("linear_regression", zoo.Data(X, Y))


WORKS = {
    "adam": {"lr": 0.05},
    "AdamW": {"lr": 0.05, "weight_decay": 0.0},
    "sgd": {"lr": 2e-3, "momentum": 0.9},
    "rmsprop": {"lr": 1e-3},
    "rprop": {},
    "adagrad": {"lr": 1.0},
}


@pytest.mark.parametrize("name", WORKS)
def test_torch_optimisers_reach_the_mode(name):
    fit = zoo.run(problem(), "map", optimiser=name, optimiser_options=WORKS[name], restarts=3, seed=1)
    assert fit.ok, fit.outcome
    exact = problem().exact(problem().data)
    for r in range(3):
        torch.testing.assert_close(fit.draws["w"][r, 0], exact.posterior["w"].mean, rtol=0, atol=1e-3)
        assert float(fit.draws["b"][r, 0]) == pytest.approx(float(exact.posterior["b"].mean), abs=1e-3)
    assert fit.settings["options"]["optimiser"] == name


def test_a_class_and_a_restart_on_its_own():
    """Restart 0 takes the same path whatever runs beside it."""
    options = {"optimiser": torch.optim.NAdam, "optimiser_options": {"lr": 0.02}, "steps": 40}
    four, one = (zoo.run(problem(), "map", restarts=n, **options) for n in (4, 1))
    torch.testing.assert_close(four.draws["w"][0], one.draws["w"][0], rtol=1e-12, atol=0)
    assert not torch.allclose(four.draws["w"][0], four.draws["w"][1])
    assert "did not come to rest" in one.outcome
    assert one.settings["options"]["optimiser"] == "NAdam"


def test_adam_is_torchs_own():
    """Thirty steps equal a loop written by hand."""
    from zoo.infer.density import density
    from zoo.infer.starts import starts

    target = density(problem())
    x = torch.nn.Parameter(starts(target, 1, 0)[0].clone())
    adam, best = torch.optim.Adam([x], lr=0.05), (torch.inf, x.detach().clone())
    for step in range(31):
        value, grad = target.value_and_grad(x.detach()[None], jacobian=False)
        if float(-value) < best[0]:
            best = (float(-value), x.detach().clone())
        x.grad = -grad[0]
        if step < 30:
            adam.step()
    fit = zoo.run(problem(), "map", restarts=1, optimiser="adam", optimiser_options={"lr": 0.05}, steps=30)
    torch.testing.assert_close(torch.cat([fit.draws["w"][0, 0], fit.draws["b"][0]]), best[1], rtol=1e-9, atol=1e-12)


def test_a_second_prior_in_the_optimiser_is_named():
    """weight_decay moves the goal: what it ends at is no mode, and the outcome says so."""
    fit = zoo.run(problem(), "map", optimiser="sgd", optimiser_options={"lr": 2e-3, "weight_decay": 30.0}, restarts=1)
    assert "did not come to rest" in fit.outcome


def test_a_diverging_search_is_named():
    fit = zoo.run(problem(), "map", optimiser="sgd", optimiser_options={"lr": 10.0}, restarts=2)
    assert "did not come to rest" in fit.outcome
    assert "smaller lr" in fit.outcome
    assert torch.isfinite(fit.stats["lp"]).all()


def test_what_is_refused():
    def run(optimiser, **options):
        return lambda: zoo.run(problem(), "map", optimiser=optimiser, optimiser_options=options)

    refused(run("adm"), "unknown optimiser 'adm'", "'adam'", "lbfgs")
    refused(run("adam", lrr=0.1), "optimiser_options", "'lrr'", "'lr'")
    refused(run("adam", lr=-1.0), "optimiser_options do not fit", "-1")
    refused(run("lbfgs", lr=1.0), "'lbfgs' takes no options", "adam")
    refused(run(torch.optim.LBFGS), "LBFGS can't serve", "'lbfgs'")
    refused(run(3), "must be 'lbfgs'", "got int", error=TypeError)
    refused(run(torch.nn.Linear), "got Linear", error=TypeError)
    refused(lambda: zoo.run(problem(), "map", optimiser="adam", optimiser_options=0.1), "must be a dict, got 0.1")
    refused(lambda: zoo.run(problem(), "map", steps=0), "^steps must be a whole number")


def test_every_class_of_torch_is_served_or_refused():
    assert {"adam", "adamw", "sgd", "rmsprop", "adagrad", "rprop", "nadam"} <= set(optimisers())
    assert "lbfgs" not in optimisers()
    assert choose("lbfgs", {}) is lbfgs
    assert choose("ADAM", {}).keywords["make"].func is torch.optim.Adam
