"""map and laplace: the optimiser, kinks and escapes, curvature, evidence, and slips that must fail."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from sklearn.linear_model import Lasso
from torch import Tensor

import zoo
from tests import right_answers as right
from tests.small_models import location, no_inputs, two_weights
from zoo.infer.density import density
from zoo.infer.hessian import hessian
from zoo.infer.lbfgs import lbfgs
from zoo.infer.methods import laplace
from zoo.infer.methods import map as maximum

F64 = torch.float64


def coin(n: int, heads: int, a: float = 1.0, b: float = 1.0) -> zoo.Problem:
    return zoo.load("coin_flip", n=n, heads=heads, a=a, b=b).to(dtype=F64)


# -- the optimiser -------------------------------------------------------------------------------------------


def rosenbrock(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x[:, 0], x[:, 1]
    value = (1 - a) ** 2 + 100 * (b - a**2) ** 2
    return value, torch.stack([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)], 1)


def test_lbfgs_takes_each_row_to_its_minimum_alone() -> None:
    start = torch.tensor([[-1.2, 1.0], [2.0, -1.5], [0.0, 3.0]], dtype=F64)
    found = lbfgs(rosenbrock, start, tolerance=1e-14)
    torch.testing.assert_close(found.x, torch.ones_like(start), rtol=0, atol=1e-6)
    assert found.rested.all()
    alone = lbfgs(rosenbrock, start[1:2], tolerance=1e-14)
    torch.testing.assert_close(alone.x, found.x[1:2], rtol=0, atol=1e-6)


def test_lbfgs_keeps_away_from_where_there_is_no_value() -> None:
    """-log x + x has its minimum at 1 and no value below 0."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x - x.log()).sum(1), 1 - 1 / x

    found = lbfgs(function, torch.tensor([[0.01], [30.0]], dtype=F64))
    torch.testing.assert_close(found.x, torch.ones(2, 1, dtype=F64), rtol=0, atol=1e-6)


def test_lbfgs_ends_when_told() -> None:
    found = lbfgs(rosenbrock, torch.tensor([[-1.2, 1.0]], dtype=F64), stop=lambda: "enough")
    assert found.iterations == 0
    assert not found.rested.any()


# -- map ----------------------------------------------------------------------------------------------------


def test_a_laplace_prior_is_the_lasso() -> None:
    """Zeros and all: |w|_1 / b against scikit-learn's coordinate descent."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 8, generator=generator, dtype=F64)
    y = x[:, :2] @ torch.tensor([1.0, -0.5], dtype=F64) + 0.5 * torch.randn(40, generator=generator, dtype=F64)

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.Laplace(x.new_zeros(8), 0.1).to_event(1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)

    fit = maximum.fit(zoo.Problem("lasso", model, zoo.Data(x, y)))
    assert fit.ok, fit.outcome
    lasso = Lasso(alpha=0.25 / 0.1 / 40, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y)
    assert (lasso.coef_ == 0).sum() >= 2
    w = fit.draws["w"][fit.settings["best"], 0]
    assert w.numpy() == pytest.approx(lasso.coef_, abs=1e-3)
    assert max(fit.settings["log_joint"]) - min(fit.settings["log_joint"]) < 1e-5


@pytest.mark.parametrize(("heads", "where"), [(0, "theta -> 0"), (5, "theta -> 1")])
def test_a_mode_at_the_border_is_named(heads, where) -> None:
    fit = maximum.fit(coin(5, heads))
    assert fit.outcome == f"no interior maximum: {where} (4 of 4 restarts)"


NO_MAXIMUM = "the likelihood has no maximum: weights grow without bound (separable data)"


def flat_logistic(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), (1,)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def test_separable_data_under_a_flat_prior_are_named() -> None:
    data = zoo.Data(torch.tensor([[-1.0], [1.0]], dtype=F64), torch.tensor([0.0, 1.0], dtype=F64))
    fit = maximum.fit(zoo.Problem("separable", flat_logistic, data))
    assert fit.outcome == NO_MAXIMUM + ": w (4 of 4 restarts)"
    overlapping = zoo.Data(torch.tensor([[-1.0], [1.0], [2.0]], dtype=F64), torch.tensor([0.0, 1.0, 0.0], dtype=F64))
    assert maximum.fit(zoo.Problem("overlapping", flat_logistic, overlapping)).ok


def test_a_scale_that_collapses_is_named() -> None:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        s = pyro.sample("s", dist.HalfNormal(x.new_ones(())))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x.new_zeros(()), s), obs=y)

    assert "s -> 0" in maximum.fit(zoo.Problem("collapse", model, no_inputs([0.0]))).outcome


def test_far_but_interior_modes_are_no_escapes() -> None:
    """A mode at 1000 with a flat prior of scale 1e4, and one of scale 1e-6 behind a log."""
    assert maximum.fit(location([1000.0, 1001.0], "normal", 1e4)).ok

    def model(x: Tensor, y: Tensor | None = None) -> None:
        s = pyro.sample("s", dist.LogNormal(x.new_full((), -14.0), 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x.new_zeros(()), s), obs=y)

    fit = maximum.fit(zoo.Problem("tiny", model, no_inputs([1e-6, -2e-6])))
    assert fit.ok, fit.outcome
    assert 1e-7 < float(fit.draws["s"][0, 0]) < 1e-5


def test_map_keeps_every_restart_and_the_seed() -> None:
    fit, again = (maximum.fit(two_weights(), restarts=6, seed=3) for _ in range(2))
    assert fit.draws["w1"].shape == (6, 1)
    assert torch.equal(fit.draws["w1"], again.draws["w1"])
    signs = set(torch.sign(fit.draws["w1"]).flatten().tolist())
    assert signs == {-1.0, 1.0}  # both modes were found
    assert fit.settings["log_joint"] == pytest.approx([right.TWO_WEIGHTS["map_log_joint"]] * 6, abs=1e-7)


def test_map_is_stopped_in_order() -> None:
    fit = maximum.fit(zoo.load("bnn_regression", scaling="none"), max_seconds=0.3)
    assert fit.outcome.startswith("max_seconds=0.3 reached after ")
    assert torch.isfinite(fit.stats["lp"]).all()


def test_unknown_options_list_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"unknown optimiser 'adm'\. Did you mean 'adam'"):
        maximum.fit(coin(2, 1), optimiser="adm")
    with pytest.raises(ValueError, match="structure must be one of full, got 'diag'"):
        laplace.fit(coin(2, 1), structure="diag")
    with pytest.raises(ValueError, match="curvature must be one of hessian, got 'ggn'"):
        laplace.fit(coin(2, 1), curvature="ggn")


# -- laplace ------------------------------------------------------------------------------------------------


def test_laplace_without_the_jacobian_is_another_answer() -> None:
    """Twin: expanded in theta itself the coin's evidence is -6.9219640404, in the logit -6.9976964341."""
    found = laplace.fit(coin(10, 7, 2.0, 2.0), draws=10).settings["log_evidence"]
    assert found == pytest.approx(right.COIN["laplace_log_evidence"], abs=1e-8)
    theta = 2 / 3
    curvature = 8 / theta**2 + 4 / (1 - theta) ** 2
    log_joint = 8 * math.log(theta) + 4 * math.log(1 - theta) + math.log(6)
    without = log_joint + 0.5 * math.log(2 * math.pi / curvature)
    assert without == pytest.approx(-6.9219640404, abs=1e-9)
    assert abs(found - without) > 0.05


def test_the_slides_hessian_is_not_positive_definite() -> None:
    """Slide prints Sigma^-1 = + Hessian of p(w | X, Y): at a maximum its eigenvalues are negative."""
    target = density(two_weights())
    mode = torch.tensor(right.TWO_WEIGHTS["map"], dtype=F64)
    precision = hessian(target, mode)
    assert torch.linalg.eigvalsh(precision).min() > 0
    assert torch.linalg.eigvalsh(-precision).max() < 0
    p = torch.autograd.functional.hessian(lambda u: target.log_density(u).exp(), mode)
    assert torch.linalg.eigvalsh(p).max() < 0


@pytest.mark.parametrize("case", ["bnn", "coin", "two weights"])
def test_the_hessian_is_autograds_on_both_engines(case) -> None:
    problem = {
        "bnn": lambda: zoo.load("bnn_regression", hidden=20).to(dtype=F64),
        "coin": lambda: coin(10, 7),
        "two weights": two_weights,
    }[case]()
    eager, loop = density(problem, "eager"), density(problem, "loop")
    u = torch.linspace(-1, 1, eager.dim, dtype=F64)
    plain = -torch.autograd.functional.hessian(eager.log_density, u)
    torch.testing.assert_close(hessian(eager, u), plain)
    torch.testing.assert_close(hessian(loop, u), plain)


def test_modes_together_and_alone() -> None:
    """One mode -2.23485866, both -1.54171148: their logsumexp; a mode found twice counts once."""
    fit = laplace.fit(two_weights(), restarts=6, draws=10, seed=3)
    s = fit.settings
    assert s["log_evidence_restarts"] == pytest.approx([right.TWO_WEIGHTS["laplace_one_mode"]] * 6, rel=1e-6)
    assert s["log_evidence_modes"] == pytest.approx(right.TWO_WEIGHTS["laplace_two_modes"], rel=1e-6)
    assert fit.draws["w1"].shape == (6, 10)


def test_laplace_of_a_gaussian_is_exact() -> None:
    """lp - logq is the log evidence at every draw, and the draws' covariance is the posterior's."""
    problem = zoo.load("linear_regression", n=15).to(dtype=F64)
    fit = laplace.fit(problem, draws=2000)
    evidence = problem.exact(problem.data).log_evidence
    assert fit.settings["log_evidence"] == pytest.approx(evidence, abs=1e-9)
    gap = fit.stats["lp"] - fit.stats["logq"]
    torch.testing.assert_close(gap, torch.full_like(gap, evidence), rtol=0, atol=1e-8)


def test_float32_data_do_not_spoil_mode_and_curvature() -> None:
    wide = laplace.fit(zoo.load("linear_regression", n=15).to(dtype=F64), draws=5)
    narrow = laplace.fit(zoo.load("linear_regression", n=15), draws=5)
    assert narrow.draws["w"].dtype == torch.float32
    assert narrow.settings["log_evidence"] == pytest.approx(wide.settings["log_evidence"], abs=1e-5)


def test_a_kink_has_no_curvature_and_is_named() -> None:
    fit = laplace.fit(location(right.KINK_Y, "laplace", 0.25), draws=5)
    assert fit.outcome.startswith("the mode lies on a kink of the density (theta)")
    assert laplace.fit(location(right.LOCATION_Y, "laplace", 0.5), draws=5).ok


def test_a_direction_that_does_not_curve_is_named() -> None:
    """Only a + b is seen, under flat priors: one direction of two has no curvature."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        a = pyro.sample("a", dist.ImproperUniform(dist.constraints.real, (), ()))
        b = pyro.sample("b", dist.ImproperUniform(dist.constraints.real, (), ()))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    fit = laplace.fit(zoo.Problem("ridge", model, no_inputs([0.5, 1.5])), draws=500)
    assert "not positive definite: 1 of 2 directions" in fit.outcome
    assert math.isnan(fit.settings["log_evidence"])
    total = fit.draws["a"] + fit.draws["b"]
    assert float(total.std()) == pytest.approx(0.5**0.5, rel=0.1)


def test_a_model_that_vmap_refuses_runs_by_loop() -> None:
    """A Python branch on a value: log evidence equal to the same model without it."""

    def branching(x: Tensor, y: Tensor | None = None) -> None:
        theta = pyro.sample("theta", dist.Normal(x.new_zeros(()), 1.0))
        mean = theta if bool(theta > -1e9) else -theta
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    fit = laplace.fit(zoo.Problem("branch", branching, no_inputs(right.LOCATION_Y)), draws=5)
    assert fit.settings["engine"] == "loop"
    assert fit.settings["log_evidence"] == pytest.approx(right.LOCATION_NORMAL["log_evidence"], abs=1e-8)


def test_huge_targets_are_climbed_and_bad_scaling_is_named() -> None:
    """At log densities of 1e40 a unit step promises nothing: the search must not take its start for a mode."""
    import zoo

    x, y = torch.linspace(-1, 1, 6)[:, None], torch.linspace(0, 1, 6)
    huge = zoo.load("linear_regression", data=zoo.Data(x, y * 1e20))
    exact = huge.exact(huge.data).posterior["w"].mean
    fit = zoo.run(huge, "map")
    torch.testing.assert_close(fit.draws["w"].double().mean(), exact[0], rtol=1e-6, atol=0)
    assert fit.ok
    mixed = zoo.run(zoo.load("linear_regression", data=zoo.Data(x * 1e8, y)), "map")
    assert "did not come to rest" in mixed.outcome
