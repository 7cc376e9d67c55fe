"""On a CUDA device: the same numbers as on the CPU, steps as one launch each, and what cannot be recorded is called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.statistics import assert_close_mcmc
from zoo.core.handlers import pyro_state
from zoo.infer import cuda_graph
from zoo.infer.density import density
from zoo.infer.in_place import compile_in_place

F64 = torch.float64


def small(name: str = "bnn_regression", **hyper: Any) -> zoo.Problem:
    return zoo.load(name, **({"n": 20, "hidden": 4} | hyper)).to(dtype=F64)


# -- without a device --------------------------------------------------------------------------------------


class Played:
    """In the place of torch.cuda.CUDAGraph: counts."""

    def __init__(self) -> None:
        self.times = 0

    def replay(self) -> None:
        self.times += 1


def stand_in(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> list[Played]:
    """Recording as on a device: a call that is made within it runs nothing, or cannot be recorded."""
    graphs: list[Played] = []

    @contextlib.contextmanager
    def record(graph: Played) -> Iterator[None]:
        graphs.append(graph)
        yield
        if error is not None:
            raise error

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Played)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    return graphs


def test_a_recording_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    graphs = stand_in(monkeypatch, None)

    def call(x: Tensor) -> tuple[Tensor]:
        calls.append(1)
        return (x,)

    again = cuda_graph.recorded(call, [torch.ones(2)])
    assert again()[0].tolist() == [1, 1]
    assert again()[0].tolist() == [1, 1]
    assert (len(calls), graphs[0].times) == (1, 2)


def test_what_cannot_be_recorded_is_called(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.zeros(2)
    stand_in(monkeypatch, RuntimeError("operation not permitted when stream is capturing\nmore"))
    again = cuda_graph.recorded(lambda x: (x + 1,), [x])
    x += 1
    assert again()[0].tolist() == [2, 2]
    assert "one by one" in caplog.text
    assert "more" not in caplog.text


# -- on one ------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["bnn_regression", "heteroscedastic_regression", "mc_dropout"])
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    problem = small(name)
    here, there = density(problem), density(problem.to(device="cuda"))
    position = torch.randn(100, here.dim, generator=torch.Generator().manual_seed(0), dtype=F64)
    for mine, other in zip(here.value_and_grad(position), there.value_and_grad(position.cuda()), strict=True):
        assert other.is_cuda
        torch.testing.assert_close(other.cpu(), mine, rtol=1e-9, atol=1e-9)


@pytest.mark.gpu
def test_a_recorded_step_moves_its_state_as_plain_calls_do() -> None:
    def step(state: Tensor, by: Tensor) -> tuple[Tensor]:
        state.copy_(torch.tanh(state @ state.mT) + by)
        return (state.sum(),)

    start = torch.randn(8, 8, generator=torch.Generator().manual_seed(0), dtype=F64).cuda()
    plain, own = start.clone(), start.clone()
    with pyro_state(validate=False):
        call, compiled = compile_in_place(step, [own], [torch.zeros((), dtype=F64, device="cuda")])
    assert compiled.engine == "compiled"
    for i in range(6):
        by = torch.tensor(i / 10, dtype=F64, device="cuda")
        (mine,), (other,) = call((by,)), step(plain, by)
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(own, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["nuts", "chees"])
def test_samplers_on_the_device_have_the_exact_mean(method: str) -> None:
    """w against the closed form, alpha = 1e-4; twin: against means a half sd off."""
    problem = zoo.load("linear_regression").to(dtype=F64)
    fit = zoo.run(problem, method, device="cuda", engine="compiled", draws=1000, warmup=500, seed=0)
    answer = problem.exact(problem.data, **problem.hyper).posterior["w"]
    assert fit.draws["w"].is_cuda
    draws = fit.draws["w"].cpu().numpy()
    assert_close_mcmc(draws, answer.mean, answer.stddev)
    with pytest.raises(AssertionError, match="mean of coordinate"):
        assert_close_mcmc(draws, answer.mean + answer.stddev / 2)


@pytest.mark.gpu
def test_svi_on_the_device_is_that_of_the_cpu() -> None:
    problem = small()
    here, there = (
        zoo.run(problem, "svi", steps=200, seed=0, draws=200, engine="compiled", device=device)
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(there.history["elbo"].cpu(), here.history["elbo"], rtol=1e-6, atol=1e-6)
