"""Engines: compiled equals eager equals one chain at a time; the rule of "auto"; threads are put back."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

import zoo
from zoo.infer import chains, engine
from zoo.infer.density import density
from zoo.infer.engine import choose_engine
from zoo.infer.graph import compile_graph, trace
from zoo.infer.threads import running_on, threads_for, threads_for_size


def _fits(engine: str, name: str = "bnn_regression", **hyper: object) -> zoo.Posterior:
    problem = zoo.load(name, **hyper)
    return zoo.run(
        problem,
        "nuts",
        engine=engine,
        dtype="float64",
        chains=3,
        warmup=0,
        draws=4,
        step_size=0.02,
        max_depth=4,
        seed=1,
    )


@pytest.mark.slow
def test_compiled_is_eager() -> None:
    """The same trajectories in float64, until rounding has grown: four draws of up to fifteen leapfrog steps."""
    compiled, eager = _fits("compiled", hidden=4, n=20), _fits("eager", hidden=4, n=20)
    assert compiled.settings["engine"] == "compiled"
    for name, value in eager.draws.items():
        torch.testing.assert_close(compiled.draws[name], value, rtol=1e-6, atol=1e-8)
    for name in ("depth", "steps", "diverging"):
        assert torch.equal(compiled.stats[name], eager.stats[name])
    for name in ("lp", "energy", "accept"):
        torch.testing.assert_close(compiled.stats[name], eager.stats[name], rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_compiled_twice_gives_the_same_bits() -> None:
    one, two = _fits("compiled", hidden=4, n=20), _fits("compiled", hidden=4, n=20)
    assert all(torch.equal(value, two.draws[name]) for name, value in one.draws.items())


def test_loop_is_eager() -> None:
    loop, eager = _fits("loop", "logistic_regression", n=15), _fits("eager", "logistic_regression", n=15)
    assert loop.settings["engine"] == "loop"
    for name, value in eager.draws.items():
        torch.testing.assert_close(loop.draws[name], value, rtol=1e-6, atol=1e-8)


def sized(dim: int, engine: str = "eager", device: str = "cpu") -> Any:
    """What the rule of "auto" looks at of a density."""
    problem = SimpleNamespace(name="sized")
    return SimpleNamespace(dim=dim, engine=engine, device=torch.device(device), problem=problem)


def compiler(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(engine, "has_compiler", lambda device: there)


RULE = [
    (399, 1, "eager"),
    (400, 1, "compiled"),
    (399, 50, "eager"),  # 19,950 iterations x coordinates
    (400, 49, "compiled"),
    (100, 199, "eager"),
    (100, 200, "compiled"),
    (1, 19_999, "eager"),
    (1, 20_000, "compiled"),
    (1, 50_000, "compiled"),
    (1, 50_001, "eager"),
    (400, 50_000, "compiled"),
    (400, 50_001, "eager"),
    (10**6, 50_001, "eager"),
]


@pytest.mark.parametrize(("iterations", "dim", "right"), RULE)
def test_the_rule_of_auto(iterations: int, dim: int, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 iterations, or 20,000 iterations x coordinates, of at most 50,000 coordinates. Twin: without a compiler."""
    compiler(monkeypatch, True)
    assert choose_engine("auto", sized(dim), iterations) == right
    compiler(monkeypatch, False)
    assert choose_engine("auto", sized(dim), iterations) == "eager"


@pytest.mark.parametrize("there", [True, False], ids=["compiler", "no compiler"])
def test_an_engine_that_is_named_is_taken(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the rule's advice, both ways; what does not vectorise runs chain by chain, or says that it has to."""
    compiler(monkeypatch, there)
    for name in ("compiled", "eager", "loop", "pyro"):
        assert choose_engine(name, sized(1), 1) == choose_engine(name, sized(50_001), 10**6) == name
    for name in ("auto", "loop"):
        assert choose_engine(name, sized(1, "loop"), 10**6) == "loop"
    for name in ("compiled", "eager"):
        with pytest.raises(ValueError, match=f"engine '{name}' needs a model that vectorises over chains; 'sized'"):
            choose_engine(name, sized(1, "loop"), 400)
    with pytest.raises(ValueError, match="engine must be one of auto, compiled, eager, loop, pyro, got 'fast'"):
        choose_engine("fast", sized(1), 10)


def test_a_compiler_is_one_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By any of three names; CUDA brings its own. Twin: none of them."""
    for name in ("c++", "g++", "clang++"):
        monkeypatch.setattr(engine.shutil, "which", lambda asked, name=name: "/bin/c" if asked == name else None)
        assert engine.has_compiler(torch.device("cpu"))
    monkeypatch.setattr(engine.shutil, "which", lambda asked: None)
    assert not engine.has_compiler(torch.device("cpu"))
    assert engine.has_compiler(torch.device("cuda"))


def test_a_samplers_iterations_are_warmup_and_thinned_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 + 150 x 2 = 400. Twins: one of warm-up fewer; no compiler."""

    class Asked(Exception):
        pass

    def asked(warmup: int, **options: Any) -> str:
        with pytest.raises(Asked) as found:
            zoo.run(problem, "nuts", warmup=warmup, draws=150, thin=2, progress=False, **options)
        return str(found.value)

    def put_on(engine: str, run: Any) -> None:
        raise Asked(engine)

    problem = zoo.load("logistic_regression", n=10)
    monkeypatch.setattr(chains, "put_on", put_on)
    compiler(monkeypatch, True)
    assert (asked(100), asked(99), asked(100, engine="eager")) == ("compiled", "eager", "eager")
    compiler(monkeypatch, False)
    assert (asked(100), asked(100, engine="compiled")) == ("eager", "compiled")


def test_a_network_is_compiled_for_fewer_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """152 weights take up to 1,023 gradients an iteration. Twin: two coordinates."""
    compiler(monkeypatch, True)
    wide, small = density(zoo.load("bnn_regression")), density(zoo.load("linear_regression"))
    assert choose_engine("auto", wide, 131) == "eager"
    assert choose_engine("auto", wide, 132) == "compiled"
    assert choose_engine("auto", small, 132) == "eager"


def ordered(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    cut = pyro.sample("cut", dist.Normal(x.new_zeros(2), 1.0).to_event(1))
    points = torch.sort(cut).values
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.OrderedLogistic(x[:, 0], points), obs=y)


def test_a_model_that_does_not_vectorise_runs_chain_by_chain() -> None:
    problem = zoo.Problem("ordered", ordered, zoo.Data(torch.randn(6, 1), torch.tensor([0, 1, 2, 0, 1, 2])))
    fit = zoo.run(problem, "nuts", chains=2, warmup=5, draws=3)
    assert fit.settings["engine"] == "loop"
    with pytest.raises(ValueError, match="needs a model that vectorises"):
        zoo.run(problem, "nuts", engine="compiled")


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    with contextlib.suppress(RuntimeError), running_on(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError("stopped inside")
    assert torch.get_num_threads() == before


def test_only_large_graphs_use_several_threads() -> None:
    small = trace(lambda x: (x * 2,), [torch.ones(100)])
    large = trace(lambda x: (x * 2,), [torch.ones(200_000)])
    with running_on(2):
        assert (threads_for(small), threads_for(large)) == (1, 2)
        # A block of noise is large and only looked up in; twin: one that is worked on.
        looked_up = trace(lambda x, i: (x[i] * 2,), [torch.ones(1000, 200), torch.tensor([3])])
        assert threads_for(looked_up) == 1
        assert threads_for(trace(lambda x, i: (x[i] * x.sum(),), [torch.ones(1000, 200), torch.tensor([3])])) == 2
        assert (threads_for_size(1000, 25), threads_for_size(1000, 132)) == (1, 2)


def test_an_input_given_twice_stays_two_inputs() -> None:
    """Adam's two moments may start as the same zeros: merged, the second would be the first."""
    zeros = torch.zeros(3)
    graph = trace(lambda m, v: (m + 1, v + 2), [zeros, zeros])
    one, two = graph(torch.zeros(3), torch.full((3,), 5.0))
    assert (one == 1).all()
    assert (two == 7).all()


def test_what_does_not_compile_runs_uncompiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_compiler(*_: object) -> None:
        raise RuntimeError("no C++ compiler here")

    monkeypatch.setattr("zoo.infer.graph._inductor", no_compiler)
    compiled = compile_graph(lambda x: (x + 1,), [torch.zeros(2)])
    assert compiled.engine == "eager"
    assert "no C++ compiler here" in caplog.text
    assert (compiled.call(torch.ones(2))[0] == 2).all()


def test_stopping_keeps_the_draws_there_are() -> None:
    problem = zoo.load("logistic_regression", n=10)
    options = {"engine": "eager", "chains": 2, "warmup": 0, "step_size": 0.5}
    fit = zoo.run(problem, "nuts", draws=1_000_000, max_seconds=2.0, **options)
    chains, kept = fit.shape
    assert not fit.ok
    assert fit.outcome.startswith("max_seconds=2")
    assert f"after {kept} draws" in fit.outcome
    whole = zoo.run(problem, "nuts", draws=min(kept, 64), **options)
    assert chains == 2
    assert torch.equal(fit.draws["w"][:, :64], whole.draws["w"])


def test_stopped_in_warm_up_there_is_nothing_to_keep() -> None:
    problem = zoo.load("logistic_regression", n=10)
    with pytest.raises(RuntimeError, match="before its first draw"):
        zoo.run(problem, "nuts", engine="eager", warmup=1_000_000, max_seconds=0.5)
