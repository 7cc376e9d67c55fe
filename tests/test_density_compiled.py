"""Compiled = eager = Pyro's own log density, in float64 to 1e-9, at 100 points of every model; gradients too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import zoo
from tests import cases
from tests.supports import reference
from zoo.core.handlers import pyro_state
from zoo.infer import graph
from zoo.infer.density import Density, density
from zoo.infer.elementwise import TANH_P, TANH_Q, polynomial
from zoo.infer.engine import MOST_COORDINATES
from zoo.infer.threads import running_on

F64 = torch.float64
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def _target(name: str) -> Density:
    """The density of a model on its own data, of images on a few small ones; all chains at once."""
    case = next(case for case in cases.CASES if case.model == name)
    problem = cases.problem(case) if case.image else zoo.load(name)
    return density(problem.to(dtype=F64), "eager")


def _compiled(target: Density, positions: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Gradients and values of all positions, by a graph of one batch of them."""
    both = torch.func.vmap(torch.func.grad_and_value(target.log_density))
    with pyro_state(validate=False):
        compiled = graph.compile_graph(lambda u: both(u), [positions[0]])
    assert compiled.engine == "compiled"
    with running_on(compiled.threads):
        found = [tuple(out.clone() for out in compiled.call(batch)) for batch in positions]
    grads, values = zip(*found, strict=True)
    return torch.cat(grads), torch.cat(values)


def _positions(target: Density) -> list[Tensor]:
    """100 points in batches of ten; where a network is too large for the compiled engine of a run, four in twos."""
    count, batch = (100, 10) if target.dim <= MOST_COORDINATES else (4, 2)
    generator = torch.Generator().manual_seed(5)
    return list((0.7 * torch.randn(count, target.dim, generator=generator, dtype=F64)).split(batch))


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_compiled_is_eager_is_pyros(name: str) -> None:
    target = _target(name)
    positions = _positions(target)
    grads, values = _compiled(target, positions)
    for i, batch in enumerate(positions):
        here = slice(i * len(batch), (i + 1) * len(batch))
        value, grad = target.value_and_grad(batch)
        torch.testing.assert_close(values[here], value, **CLOSE)
        torch.testing.assert_close(grads[here], grad, **CLOSE)
        right = [reference(target.problem, target.blocks, target.sites.latent, u, by_autograd=False) for u in batch]
        torch.testing.assert_close(values[here], torch.stack(right).to(F64), **CLOSE)


@pytest.mark.slow
def test_twin_with_the_digits_of_float32_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """tanh by float32's rational function is right to 4e-7 only."""

    def coarse(x: Tensor) -> Tensor:
        x = x.clamp(-7.9, 7.9)
        return x * polynomial(TANH_P, x * x) / polynomial(TANH_Q, x * x)

    monkeypatch.setitem(graph.DECOMPOSITIONS, torch.ops.aten.tanh.default, coarse)
    target = _target("bnn_regression")
    positions = _positions(target)[:1]
    grads, values = _compiled(target, positions)
    value, grad = target.value_and_grad(positions[0])
    assert float((values / value - 1).abs().max()) > 1e-9
    torch.testing.assert_close(grads, grad, rtol=1e-3, atol=1e-2)
