"""Compiled = eager = chain by chain = Pyro's own log density, in float64 to 1e-9, at 100 points of every model.

Gradients too; and the density that samplers compile by default, with the mean of f in an intercept's place.
"""

from __future__ import annotations

from collections.abc import Callable

import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

import zoo
from guides.supports import unconstrain
from tests import cases
from tests.supports import reference
from zoo.core.handlers import pyro_state
from zoo.infer import graph
from zoo.infer.centred import Intercept, centred
from zoo.infer.density import Density, density
from zoo.infer.elementwise import TANH_P, TANH_Q, polynomial
from zoo.infer.engine import MOST_COORDINATES
from zoo.infer.threads import running_on

F64 = torch.float64
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def _target(name: str, engine: str = "eager") -> Density:
    """The density of a model on its own data, of images on a few small ones; "eager": all chains at once."""
    case = next(case for case in cases.CASES if case.model == name)
    problem = cases.problem(case) if case.image else zoo.load(name)
    return density(problem.to(dtype=F64), engine)


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


def _pyros(target: Density, position: Tensor) -> Tensor:
    return reference(target.problem, target.blocks, target.sites.latent, position, by_autograd=False)


def _each(function: Callable[[Tensor], Tensor], batch: Tensor) -> tuple[Tensor, Tensor]:
    """Values at positions, and their gradients, one by one."""
    points = batch.clone().requires_grad_(True)
    with pyro.validation_enabled(False):
        values = torch.stack([function(u) for u in points]).to(F64)
    (grads,) = torch.autograd.grad(values.sum(), points)
    return values.detach(), grads


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_compiled_is_eager_is_loop_is_pyros(name: str) -> None:
    """The autoencoder's 52,224 coordinates at four points, all others at 100."""
    target, loop = _target(name), _target(name, "loop")
    positions = _positions(target)
    grads, values = _compiled(target, positions)
    for i, batch in enumerate(positions):
        here = slice(i * len(batch), (i + 1) * len(batch))
        right = _each(lambda u: _pyros(target, u), batch)
        for found in ((values[here], grads[here]), target.value_and_grad(batch), loop.value_and_grad(batch)):
            torch.testing.assert_close(found, right, **CLOSE)


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


def _at_the_mean(plain: Density, intercept: Intercept, position: Tensor) -> Tensor:
    """Pyro's own log density at b = c - mean g, with c the intercept's columns: a shear, whose |det| is 1.

    g is the f of Pyro's own trace at b = 0.
    """
    columns = torch.tensor(intercept.columns)
    parts = plain.split(position.index_fill(0, columns, 0.0))
    values = {name: unconstrain(plain.sites.latent[name].fn.support, name)(u) for name, u in parts.items()}
    args, kwargs = plain.problem.arguments()
    trace = poutine.trace(poutine.condition(plain.problem.model, values)).get_trace(*args, **kwargs)
    b = position[columns] - trace.nodes[intercept.f]["value"].mean(0).reshape(-1)
    moved = position.index_copy(0, columns, b)
    return _pyros(plain, moved)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax_regression", "bnn_regression", "heteroscedastic_regression"])
def test_the_centred_density_compiled_is_eager_is_loop_is_pyros(name: str) -> None:
    """A site of one number, of several, and one number of two. Twin: the intercept itself at the same position."""
    plain = _target(name)
    new, loop = centred(plain), centred(_target(name, "loop"))
    positions = _positions(plain)
    whole = torch.cat(positions)
    assert new.intercept is not None
    assert new.intercept == loop.intercept
    intercept: Intercept = new.intercept
    values, grads = _each(lambda u: _at_the_mean(plain, intercept, u), whole)
    slopes, found = _compiled(new, positions)
    for pair in ((found, slopes), new.value_and_grad(whole), loop.value_and_grad(whole)):
        torch.testing.assert_close(pair, (values, grads), **CLOSE)
    assert not torch.isclose(plain.log_prob(whole), values, **CLOSE).any()
