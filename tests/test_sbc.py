"""Simulation-based calibration: right methods pass, broken ones fail, what cannot be asked is refused."""

from __future__ import annotations

import dataclasses
import importlib
import os
import signal
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from zoo.__main__ import main
from zoo.infer import each
from zoo.infer.dispatch import asked_of
from zoo.infer.kernels import nuts
from zoo.infer.many import sampled
from zoo.infer.simulated import simulated
from zoo.report.calibrated import flag, verdict
from zoo.report.ranks import LOG_LIKELIHOOD

SHORT: dict[str, Any] = {"engine": "eager", "warmup": 40, "chains": 4}


def correlated() -> zoo.Problem:
    """Two columns of correlation .96, no bias: posterior correlation -.7."""
    a = torch.linspace(-1.5, 1.5, 6)
    x = torch.stack([a, a + 0.3 * torch.tensor([1.0, -1, 1, -1, 1, -1])], 1)
    return zoo.load("linear_regression", zoo.Data(x, a), bias=False)


@pytest.mark.parametrize("name", ["coin_flip", "linear_regression"])
def test_exact_passes(name: str) -> None:
    found = zoo.sbc(name, "exact", data_sets=50, draws=31)
    assert found.passed
    assert found.ok
    assert found.ranks.shape == (50, len(found.labels))
    assert found.labels[-1] == LOG_LIKELIHOOD
    assert (found.kept == 31).all()
    assert "passed: ranks of all" in str(found)


def test_the_prior_is_given_away_by_the_log_likelihood_alone() -> None:
    found = zoo.sbc("linear_regression", "prior", data_sets=40, draws=15)
    assert not found.passed
    assert list(found.table.index[found.table["p_holm"] <= found.alpha]) == [LOG_LIKELIHOOD]
    assert "above the draws (shifted)" in str(found)


@pytest.mark.slow
def test_nuts_passes() -> None:
    assert zoo.sbc(correlated(), "nuts", data_sets=60, draws=15, **SHORT).passed


@pytest.mark.slow
def test_broken_nuts_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinetic energy counted with the wrong sign: high densities are preferred."""
    right = nuts.kinetic
    monkeypatch.setattr(nuts, "kinetic", lambda p, mass: -right(p, mass))
    found = zoo.sbc(correlated(), "nuts", data_sets=60, draws=15, **SHORT)
    assert not found.passed


@pytest.mark.slow
def test_mean_field_fails_where_weights_correlate() -> None:
    found = zoo.sbc(correlated(), "svi", data_sets=40, draws=15, guide="normal", steps=200, lr=0.1, engine="eager")
    assert not found.passed
    assert "too narrow" in str(found)


@pytest.mark.slow
def test_laplace_passes_where_it_is_exact() -> None:
    assert zoo.sbc(correlated(), "laplace", data_sets=30, draws=15).passed


@pytest.mark.slow
def test_dropout_fails() -> None:
    problem = zoo.load("mc_dropout", hidden=8, n=40)
    found = zoo.sbc(problem, "svi", data_sets=12, draws=15, steps=200, engine="eager")
    assert not found.passed


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("chees", {"max_steps": 9}),
        pytest.param("nuts", {"max_depth": 5}, marks=pytest.mark.slow),
        ("sgld", {"batch_size": 3}),
    ],
)
def test_a_batch_is_the_runs_that_it_holds(method: str, own: dict[str, Any]) -> None:
    """Each data set's draws, step size included, are those of a run on it alone. Twin: the other data set's."""
    problem = correlated().to(dtype=torch.float64)
    options = own | {"engine": "eager", "warmup": 15, "draws": 35, "chains": 4, "thin": 2}
    problems = [simulated(problem, i, 0).problem for i in range(2)]
    _, given, defaults = asked_of(method, options)
    kernel = importlib.import_module(f"zoo.infer.kernels.{method}")
    together = dict(sampled(problems, kernel, defaults | given, [5, 6], lambda: ""))
    alone = [zoo.run(one, method, seed=5 + i, **options) for i, one in enumerate(problems)]
    for i in range(2):
        assert together[i].settings["step_size"] == pytest.approx(alone[i].settings["step_size"], rel=1e-6)
        for name in alone[i].draws:
            torch.testing.assert_close(together[i].draws[name], alone[i].draws[name], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(together[0].draws["w"], alone[1].draws["w"])


def test_data_set_i_is_a_function_of_seed_and_i() -> None:
    few, many = (zoo.sbc("coin_flip", "exact", data_sets=n, draws=7, seed=3) for n in (3, 6))
    assert (few.ranks == many.ranks[:3]).all()
    assert not (zoo.sbc("coin_flip", "exact", data_sets=6, draws=7, seed=4).ranks == many.ranks).all()


@pytest.mark.slow
def test_one_data_set_after_another_where_the_engine_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    right = each.run
    monkeypatch.setattr(each, "run", lambda *a, **o: made.append(a[1]) or right(*a, **o))
    zoo.sbc(correlated(), "hmc", data_sets=2, draws=3, engine="loop", warmup=5, chains=1)
    zoo.sbc(correlated(), "hmc", data_sets=2, draws=3, **SHORT)
    assert made == ["hmc", "hmc"]


def test_interruption_keeps_the_ranks_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    right, made = each.run, []

    def interrupting(*args: Any, **options: Any) -> zoo.Posterior:
        made.append(1)
        if len(made) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return right(*args, **options)

    monkeypatch.setattr(each, "run", interrupting)
    found = zoo.sbc("coin_flip", "exact", data_sets=10, draws=7)
    assert found.ranks.shape[0] == 3
    assert found.outcome == "interrupted: 3 of 10 data sets are ranked"
    assert "3 of 10 data sets" in str(found)
    with pytest.raises(RuntimeError, match="before its first data set"):
        zoo.sbc(correlated(), "nuts", data_sets=3, max_seconds=1e-3, engine="eager")


def test_a_model_on_a_dict_with_two_observed_sites() -> None:
    def model(count: Tensor, size: Tensor) -> None:
        rate = pyro.sample("rate", dist.Gamma(2.0, 1.0))
        pyro.sample("counts", dist.Poisson(rate.expand(4)).to_event(1), obs=count)
        pyro.sample("sizes", dist.Exponential(rate.expand(3)).to_event(1), obs=size)

    problem = zoo.Problem("two", model, {"count": torch.ones(4), "size": torch.ones(3)})
    made = simulated(problem, 0, 0).problem.data
    assert made["count"].shape == (4,)
    assert not torch.equal(made["size"], torch.ones(3))
    assert zoo.sbc(problem, "hmc", data_sets=30, draws=7, **SHORT).passed


def improper() -> zoo.Problem:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        m = pyro.sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(m, 1.0), obs=y)

    return zoo.Problem("flat", model, zoo.Data(torch.empty(3, 0), torch.ones(3)))


REFUSED = [
    (improper, "nuts", {}, "site 'm' has an improper prior"),
    (correlated, "map", {}, "map gives a point"),
    (correlated, "nuts", {"max_dept": 3}, "Did you mean 'max_depth'"),
    (correlated, "svi", {"warmup": 3}, "unknown option 'warmup'"),
    (correlated, "nutz", {}, "Did you mean 'nuts'"),
    (correlated, "exact", {"alpha": 1.0}, "alpha must lie between 0 and 1, got 1.0"),
    (correlated, "exact", {"data_sets": 0}, "data_sets must be"),
    (correlated, "exact", {"draws": 0}, "draws must be"),
    (correlated, "nuts", {"checkpoint": "here"}, "checkpoint is no option of sbc"),
]


@pytest.mark.parametrize(("problem", "method", "options", "said"), REFUSED)
def test_refusals(problem: Any, method: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        zoo.sbc(problem(), method, **options)
    assert "\n" not in str(error.value)


def test_command_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "ranks.png"
    words = ["sbc", "coin_flip", "-m", "exact", "--set", "a=2", "--data-sets", "30", "--draws", "7"]
    assert main([*words, "-o", str(picture)]) == 0
    assert "sbc of exact on coin_flip: 30 data sets, 7 draws each" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
    assert main(["sbc", "linear_regression", "-m", "prior", "--data-sets", "30", "--draws", "7"]) == 1
    assert main(["sbc", "coin_flip", "-m", "exactt"]) == 2
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "ranks.nc")]) == 2
    said = capsys.readouterr()
    assert "pictures are written as" in said.err
    assert said.out == ""  # refused before any fit
    assert main(["sbc", "linear_regression", "-m", "prior", "--data-sets", "1", "--draws", "7"]) == 1
    assert "too few data sets to tell" in " ".join(capsys.readouterr().out.split())


def test_too_few_data_sets_neither_pass_nor_fail() -> None:
    """Twin: as many as it says are enough, and one fewer are not."""
    found = zoo.sbc("coin_flip", "exact", data_sets=1, draws=7)
    assert (found.state, found.passed) == ("undecided", False)
    assert "too few data sets to tell: no ranks of 1 data sets could fail" in verdict(found)
    assert "passed" not in str(found)
    least = int(verdict(found).split("raise data_sets, to ")[1].split()[0])
    states = [zoo.sbc("coin_flip", "exact", data_sets=n, draws=7).state for n in (least - 1, least)]
    assert states == ["undecided", "passed"]


def test_fits_that_failed_are_said() -> None:
    """Twin: fits that are ok are not."""
    found = zoo.sbc("linear_regression", "svi", data_sets=2, draws=7, lr=1e30, steps=10)
    said = "2 of 2 fits are not ok: the ELBO or its gradient is not finite at step 1"
    assert found.settings["notes"] == [said]
    assert found.flagged == 2
    assert "not ok" not in str(zoo.sbc("coin_flip", "exact", data_sets=3, draws=7))
    assert "so 1 is right" in str(found)


def test_nothing_passes_where_no_fit_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact draws whose fits say that they failed: in all data sets; twin: in all but one."""
    right, made = each.run, []

    def failing(*args: Any, **options: Any) -> zoo.Posterior:
        made.append(1)
        outcome = "ok" if len(made) == 7 else "not converged: raise steps"
        return dataclasses.replace(right(*args, **options), outcome=outcome)

    monkeypatch.setattr(each, "run", failing)
    most = zoo.sbc("coin_flip", "exact", data_sets=7, draws=7)
    every = zoo.sbc("coin_flip", "exact", data_sets=7, draws=7)
    assert most.state == "passed"
    assert most.settings["notes"] == ["6 of 7 fits are not ok: not converged"]
    assert every.state == "undecided"
    assert "passed" not in str(every)
    assert "no verdict: no fit is ok" in str(every)


def test_chains_that_disagree_are_flagged() -> None:
    lp = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    fit = zoo.Posterior(correlated(), "nuts", "markov", {"w": torch.zeros(2, 50, 2)}, stats={"lp": lp})
    assert flag(fit) == ""
    apart = dataclasses.replace(fit, stats={"lp": lp + torch.tensor([[0.0], [9.0]])})
    assert flag(apart) == "chains disagree (R-hat of lp above 1.1)"
