"""A density that is highest at the border of a support has no mode inside: map says where it went, for every support.

Right answers: the borders, and closed forms of the modes where the slope is turned round (the twins, which are modes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.small_models import no_inputs
from zoo.infer.modes import find_modes

Prior = Callable[[Tensor], Any]
BORDERS: dict[str, tuple[Prior, str]] = {
    "low end": (lambda x: dist.Uniform(x.new_zeros(()), 3.0), "b -> 0 "),
    "far interval": (lambda x: dist.Uniform(x.new_full((), 1e6), 1e6 + 1), "b -> 1e+06 "),
    "positive": (lambda x: dist.Exponential(x.new_ones(())), "b -> 0 "),
    "above 1": (lambda x: dist.Pareto(x.new_ones(()), 2.0), "b -> 1 "),
    "rate": (lambda x: dist.Beta(x.new_full((), 0.5), 4.0), "b -> 0 "),
    "vector": (lambda x: dist.Uniform(x.new_zeros(2), 3.0).to_event(1), "b -> the border of its support "),
    "simplex": (lambda x: dist.Dirichlet(x.new_ones(3)), "b -> the border of its support "),
    "correlation": (lambda x: dist.LKJCholesky(2, x.new_full((), 0.5)), "b -> the border of its support "),
}


def problem(prior: Prior, factor: Callable[[Tensor], Tensor]) -> zoo.Problem:
    """p(b) exp(factor(b)), and an observation that knows nothing of b."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        b = pyro.sample("b", prior(x))
        pyro.factor("more", factor(b))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x.new_zeros(()), 1.0), obs=y)

    return zoo.Problem("border", model, no_inputs([0.5]))


@pytest.mark.parametrize("support", BORDERS)
def test_a_maximum_at_the_border_of_any_support_is_named(support: str) -> None:
    prior, where = BORDERS[support]
    weights = {"simplex": torch.arange(3), "correlation": torch.zeros(())}
    fit = zoo.run(problem(prior, lambda b: -(b.flatten() * weights.get(support, torch.ones(()))).sum()), "map")
    assert fit.outcome == f"no interior maximum: {where}(4 of 4 restarts)"


@pytest.mark.parametrize("slope", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-3), (-5.0, -4.0), (0.0, 1e6), (1e6, 1e6 + 1)])
def test_the_upper_end_of_an_interval_is_named_however_steep_the_way_there(
    low: float, high: float, slope: float
) -> None:
    def prior(x: Tensor) -> Any:
        return dist.Uniform(x.new_full((), low), high)

    fit = zoo.run(problem(prior, lambda b: slope * (b - low) / (high - low)), "map")
    assert fit.outcome == f"no interior maximum: b -> {high:g} (4 of 4 restarts)"


@pytest.mark.parametrize("support", ["low end", "positive", "simplex"])
def test_the_twins_that_fall_towards_every_border_are_modes(support: str) -> None:
    """log b added (log (3 - b), too): the modes are 1.5, 1 / (1 + 1) and thirds."""
    prior, _ = BORDERS[support]
    factors: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
        "low end": (lambda b: b.log() + (3 - b).log(), 1.5),
        "positive": (lambda b: b.log() - b, 0.5),
        "simplex": (lambda b: b.log().sum(), 1 / 3),
    }
    factor, mode = factors[support]
    fit = zoo.run(problem(prior, factor), "map")
    assert fit.ok, fit.outcome
    torch.testing.assert_close(fit.draws["b"], torch.full_like(fit.draws["b"], mode), rtol=0, atol=1e-5)


@pytest.mark.parametrize("border", [0.0, 3.0])
@pytest.mark.parametrize("power", [1.2, 1.5, 3.0])
def test_a_density_without_bound_or_integral_is_no_mode_for_laplace(power: float, border: float) -> None:
    """|b - border|^-power: in unconstrained coordinates too it rises until rounding ends it, at a place like a mode."""
    prior, _ = BORDERS["low end"]
    fit = zoo.run(problem(prior, lambda b: -power * (b - border).abs().log()), "laplace", draws=10)
    assert fit.outcome.startswith(f"no interior maximum: b -> {border:g}: the Gaussian there means little")


def test_the_twin_whose_pole_can_be_integrated_has_a_mode_there() -> None:
    """(3 - b)^-.9: s (1 - s)^(1 - .9) of the logit's s is highest at 1 / 1.1. map, without Jacobian, has none."""
    pole = problem(BORDERS["low end"][0], lambda b: -0.9 * (3 - b).log())
    assert zoo.run(pole, "laplace", draws=10).ok
    modes = find_modes(pole, jacobian=True, restarts=2, seed=0, stop=lambda: "", show=lambda *said: None)
    assert modes.target.constrain(modes.position)["b"].tolist() == pytest.approx([3 / 1.1] * 2, abs=1e-6)
    assert zoo.run(pole, "map").outcome == "no interior maximum: b -> 3 (4 of 4 restarts)"


def test_a_support_that_moves_is_named_where_it_shrinks() -> None:
    """a ~ Exponential(1), b ~ U(0, a): the density 1 / a has no bound."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        a = pyro.sample("a", dist.Exponential(x.new_ones(())))
        b = pyro.sample("b", dist.Uniform(x.new_zeros(()), a))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(b, 1.0), obs=y)

    assert "a -> 0" in zoo.run(zoo.Problem("shrinks", model, no_inputs([0.1, 0.2])), "map").outcome
