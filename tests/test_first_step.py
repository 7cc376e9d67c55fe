"""The step size to begin with: that of doubling and halving one by one, however many are tried at once."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.checkpoint_runs import small
from zoo.infer import adapt, mass
from zoo.infer.density import Density, density
from zoo.infer.kernel import or_infinite
from zoo.infer.leapfrog import leapfrog


def one_by_one(target: Density, at: Tensor, normal: Tensor, start: float) -> float:
    """The rule as Hoffman & Gelman's 2014 algorithm 4 has it, with .8 for its 1/2."""
    lp, grad = target.value_and_grad(at)
    here = torch.stack([at, normal, grad], 1)
    energy = -lp + 0.5 * (normal**2).double().sum(1)

    def small_enough(size: float) -> bool:
        new, after = leapfrog(here, target.value_and_grad, at.new_full((len(at), 1), size), mass.unit(at[0]))
        error = or_infinite(-after + 0.5 * (new[:, 1] ** 2).double().sum(1) - energy)
        return float((-error).clamp(max=0).exp().mean()) > 0.8

    size, up = start, small_enough(start)
    while small_enough(size * 2 if up else size / 2) == up:
        size = size * 2 if up else size / 2
    return size if up else size / 2


@pytest.mark.parametrize("engine", ["eager", "loop"])
@pytest.mark.parametrize("start", [1e-4, 0.03, 0.25, 0.5, 1.0, 60.0])
def test_first_step_is_that_of_one_by_one(start: float, engine: str) -> None:
    target = density(small(), engine)
    generator = torch.Generator().manual_seed(3)
    at, normal = torch.randn(2, 4, 3, generator=generator)
    found = adapt.reasonable_step(target, at, mass.unit(at[0]), normal, start)
    assert found == one_by_one(target, at, normal, start)
    assert found != one_by_one(target, at, 16 * normal, start)  # twin: of faster chains


def fails_far_out(x: Tensor, y: Tensor | None = None) -> None:
    """Beyond |w| = 50 the model raises, as a Cholesky factor does, or is as probable as can be."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
    pyro.factor("far out", torch.where(w.abs().max() > 50, torch.inf, 0.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)


def test_a_point_of_infinite_density_is_no_reason_for_a_larger_step() -> None:
    """Kernels refuse it. Twin: from a start within, the same model is as `small`."""
    problem = zoo.Problem("far", fails_far_out, small().data)
    at, normal = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(3))
    far, plain = (adapt.reasonable_step(density(one), at, mass.unit(at[0]), normal, 1e3) for one in (problem, small()))
    assert far == plain < 1


def test_sizes_beyond_the_first_refusal_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upwards by no more than a factor of two: some way beyond it a model may raise, or take for ever."""
    target, tried = density(small()), list[float]()
    real = adapt._accepted
    monkeypatch.setattr(adapt, "_accepted", lambda *args: tried.extend(args[-1]) or real(*args))
    at, normal = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(3))
    found = adapt.reasonable_step(target, at, mass.unit(at[0]), normal, 1e-4)
    assert max(tried) == 2 * found
    assert min(tried) == 5e-5
