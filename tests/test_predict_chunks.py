"""Predictions and log likelihoods in chunks, compiled or not: the same numbers as draw by draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyro
import pyro.distributions as dist
import pytest
import torch

import zoo
from zoo.core import over_draws, predictive
from zoo.infer import graph

ROWS, DRAWS = 7, 11


def posterior(draws: int = DRAWS, seed: int = 0) -> zoo.Posterior:
    """Hand-made draws of a small network, two chains."""
    problem = zoo.load("bnn_regression", n=ROWS, hidden=3)
    g = torch.Generator().manual_seed(seed)
    shapes = {"w1": (1, 3), "b1": (3,), "w2": (3, 1), "b2": (1,)}
    values = {name: torch.randn(2, draws, *shape, generator=g) for name, shape in shapes.items()}
    return zoo.Posterior(problem, "nuts", "markov", values | {"noise": torch.rand(2, draws, generator=g) + 0.1})


def by_hand(fit: zoo.Posterior) -> tuple[torch.Tensor, torch.Tensor]:
    """f and log p(y | f, noise) of the network in plain torch, (chain, draw, row)."""
    x, y, d = fit.problem.data.x, fit.problem.data.y, fit.draws
    f = ((x @ d["w1"] + d["b1"].unsqueeze(-2)).tanh() @ d["w2"] + d["b2"].unsqueeze(-2)).squeeze(-1)
    return f, torch.distributions.Normal(f, d["noise"].unsqueeze(-1)).log_prob(y)


@pytest.fixture(params=["mapped", pytest.param("compiled", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Chunks of 4 draws, so that the last of 22 is short; compiled from the first number on, or never."""
    monkeypatch.setattr(over_draws, "CHUNK", 4 * ROWS)
    monkeypatch.setattr(over_draws, "COMPILED_CHUNK", 4 * ROWS)
    monkeypatch.setattr(over_draws, "LEAST_WORK", 1 if request.param == "compiled" else 10**18)
    monkeypatch.setattr(over_draws, "_graphs", {})
    seen: list[str] = []
    compile_graph = graph.compile_graph

    def watched(*args, **settings):
        compiled = compile_graph(*args, **settings)
        seen.append(compiled.engine)
        return compiled

    monkeypatch.setattr(graph, "compile_graph", watched)
    yield request.param
    assert seen == ([] if request.param == "mapped" else ["compiled"] * len(seen))
    assert bool(seen) == (request.param == "compiled")


def test_chunks_of_draws_are_the_network_by_hand(way: str) -> None:
    fit = posterior()
    f, log_p = by_hand(fit)
    out = fit.predict()
    torch.testing.assert_close(out["f"], f)
    torch.testing.assert_close(out["mean"], f)
    torch.testing.assert_close(out["var"], (fit.draws["noise"] ** 2).unsqueeze(-1).expand_as(f))
    torch.testing.assert_close(fit.log_likelihood(), log_p)


def test_one_draw_and_another_number_of_rows(way: str) -> None:
    fit = posterior(draws=1)
    x = torch.linspace(-1, 1, 3)[:, None]
    assert fit.predict(x)["f"].shape == (2, 1, 3)
    torch.testing.assert_close(fit.predict(x, draws=1)["f"][0], fit.predict(x)["f"][0])
    torch.testing.assert_close(fit.log_likelihood(), by_hand(fit)[1])


def test_the_same_call_gives_the_same_bits(way: str) -> None:
    first, second = (posterior().predict(seed=3) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_graph_is_traced_once_for_the_zoos_models_and_anew_for_anybody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's function may read what has changed since: a kept graph would go on with the old."""
    monkeypatch.setattr(over_draws, "LEAST_WORK", 1)
    monkeypatch.setattr(over_draws, "_graphs", {})
    traced, trace = [], over_draws._trace
    monkeypatch.setattr(over_draws, "_trace", lambda *args: traced.append(1) or trace(*args))
    fit, x = posterior(), torch.linspace(-1, 1, 3)[:, None]
    first, again = fit.predict(x), posterior(seed=1).predict(x)
    assert len(traced) == 1
    assert not torch.equal(first["f"], again["f"])
    fit.predict(x[:2]), fit.log_likelihood(x, x[:, 0])  # other shapes, another question
    assert len(traced) == 3
    relu = dataclasses.replace(fit.problem, hyper={**fit.problem.hyper, "activation": "relu"})
    assert not torch.equal(dataclasses.replace(fit, problem=relu).predict(x)["f"], first["f"])
    assert len(traced) == 4
    gain = {"by": 1.0}

    def mine(x, y=None, **hyper):
        w = pyro.sample("w1", dist.Normal(x.new_zeros(1, 3), 1.0).to_event(2))
        f = pyro.deterministic("f", gain["by"] * (x @ w).sum(-1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(f, 1.0), obs=y)

    own = dataclasses.replace(fit, problem=zoo.Problem("mine", mine, fit.problem.data))
    before = own.predict(x)["f"]
    gain["by"] = 2.0
    torch.testing.assert_close(own.predict(x)["f"], 2 * before)


def test_the_rule_counts_draws_rows_and_latent_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.infer.engine.has_compiler", lambda device: True)
    values = {"w": torch.zeros(1, 500).expand(4000, 500)}
    assert over_draws._pays(values, 1000)
    assert not over_draws._pays(values, 999)
    assert not over_draws._pays({"w": torch.zeros(1, 50_001).expand(4000, 50_001)}, 1000)
    monkeypatch.setattr("zoo.infer.engine.has_compiler", lambda device: False)
    assert not over_draws._pays(values, 1000)


def test_a_model_that_cannot_be_traced_is_mapped_or_looped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*args, **settings):
        raise RuntimeError("no")

    monkeypatch.setattr(over_draws, "LEAST_WORK", 1)
    monkeypatch.setattr(graph, "compile_graph", refuses)
    fit = posterior()
    torch.testing.assert_close(fit.predict()["f"], by_hand(fit)[0])


@pytest.mark.slow
def test_a_process_compiles_a_graph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other draws and rows of one shape go through the same code; another network does not (the twin)."""
    monkeypatch.setattr(over_draws, "LEAST_WORK", 1)
    made = []
    inductor = graph._inductor
    monkeypatch.setattr(graph, "_inductor", lambda *args: made.append(args) or inductor(*args))
    monkeypatch.setattr(graph, "_calls", {})
    for seed in range(3):
        fit = posterior(seed=seed)
        assert fit.predict(torch.rand(ROWS, 1) + seed)["f"].shape == (2, DRAWS, ROWS)
    assert len(made) == 1
    fit.predict(torch.rand(ROWS + 1, 1))
    assert len(made) == 2


def test_draws_outside_the_table_of_families_still_loop() -> None:
    fit = posterior()
    arguments = fit.problem.inputs(None)
    values, _ = predictive.flat_draws(fit, None)
    out = predictive.looped(fit.problem, values, arguments)
    torch.testing.assert_close(out["f"].reshape(2, DRAWS, ROWS), by_hand(fit)[0])
