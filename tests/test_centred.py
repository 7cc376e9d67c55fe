"""An intercept sampled as the mean of f: the same density and draws, far longer steps.

Right answers: Pyro's own log density at the same values, a line's exact posterior, finite differences.
Twins: the intercept's prior taken at the mean of f; the plain coordinates.
"""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.statistics import assert_close_mcmc
from tests.supports import reference
from zoo.core.handlers import scaled_log_prob
from zoo.infer import adapt
from zoo.infer.centred import Centred, Intercept, centred
from zoo.infer.chains import first_run
from zoo.infer.density import Density, density
from zoo.infer.kernels import nuts
from zoo.infer.modes import double
from zoo.infer.prior_width import prior_width
from zoo.infer.warmup import _new_mass

MODELS = {
    "linear_regression": ("b", (0,)),
    "logistic_regression": ("b", (0,)),
    "softmax_regression": ("b", (0, 1, 2)),
    "bnn_regression": ("b2", (0,)),
    "bnn_classification": ("b2", (0,)),
    "heteroscedastic_regression": ("b2", (0,)),
    "mc_dropout": ("b2", (0,)),
}


def both(name: str, **options: Any) -> tuple[Density, Density]:
    """The plain density of a model in float64, and the centred one."""
    plain = density(double(zoo.load(name, **options)))
    return plain, centred(plain)


def points(target: Density, count: int = 100) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, target.dim, generator=generator, dtype=target.dtype)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_density_at_the_same_values(name: str) -> None:
    """Pyro's own, to 1e-9 of its size at 100 points, and back again; the gradient is that of a finite difference.

    The twin takes the intercept's prior at the mean of f.
    """
    plain, new = both(name)
    assert new.intercept is not None
    assert (new.intercept.site, new.intercept.numbers) == MODELS[name]
    at = points(plain)
    values = plain.constrain(at)
    moved = new.unconstrain(values)
    right = torch.stack([_pyros(plain, u) for u in at]).double()
    assert torch.allclose(plain.log_prob(at), right, rtol=1e-9, atol=1e-9)
    assert torch.allclose(new.log_prob(moved), right, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(_prior_at_the_mean(new, moved), right, rtol=1e-9, atol=1e-9)
    for site, value in new.constrain(moved).items():
        assert torch.allclose(value, values[site], rtol=1e-9, atol=1e-9), site
    one, direction = moved[:1], points(plain, 1)
    up, down = (new.log_prob(one + sign * 1e-6 * direction) for sign in (1, -1))
    assert float((new.value_and_grad(one)[1] * direction).sum()) == pytest.approx(float(up - down) / 2e-6, rel=1e-4)


def _pyros(plain: Density, position: Tensor) -> Tensor:
    """The log density of Pyro's own trace."""
    return reference(plain.problem, plain.blocks, plain.sites.latent, position, by_autograd=False)


def _prior_at_the_mean(new: Density, position: Tensor) -> Tensor:
    """The twin."""

    class Wrong(Centred):
        def log_prob(self) -> Tensor:
            return scaled_log_prob(self.message, self.message["value"] + self.mean)

    wrong = new.with_intercept(new.intercept)
    assert new.intercept is not None
    intercept: Intercept = new.intercept
    wrong.at = lambda at: Wrong(new.split(at), new.sites.sequential, intercept)  # type: ignore[method-assign]
    return wrong.log_prob(position)


def test_the_map_keeps_volume() -> None:
    """det d(values) / d(position) = 1 on a network: no Jacobian is missing. The twin doubles the mean: 1 / 2."""
    _, new = both("bnn_regression", hidden=3, noise=0.1)
    at = points(new, 1)[0]

    def values(position: Tensor, by: float = 1.0) -> Tensor:
        assert new.intercept is not None
        columns = torch.tensor(new.intercept.columns)
        position = position.index_copy(0, columns, position[columns] / by)
        args, kwargs = new.problem.arguments()
        with new.at(position) as point:
            new.problem.model(*args, **kwargs)
        return torch.cat([point.values[b.name].reshape(-1) for b in new.blocks])

    for by, right in ((1.0, 1.0), (2.0, 0.5)):
        found = torch.autograd.functional.jacobian(lambda position, by=by: values(position, by), at)
        assert float(torch.linalg.det(found)) == pytest.approx(right, abs=1e-10)


def test_its_coordinate_is_the_mean_of_f() -> None:
    plain, new = both("softmax_regression")
    values = plain.constrain(points(plain, 2))
    columns = list(new.intercept.columns) if new.intercept else []
    f = plain.problem.data.x @ values["w"] + values["b"].unsqueeze(-2)
    assert torch.allclose(new.unconstrain(values)[:, columns], f.mean(-2))


def own(f: Any, site: Any = None, used: bool = True, child: Any = None, noise: float = 1.0) -> zoo.Problem:
    """y ~ N(f(x, w, b), noise^2) of 20 rows, b ~ N(0, 1) or `site`.

    used: y depends on what f's statement returns; child(b): what else the model says of b.
    """

    def model(x: Tensor, y: Tensor | None = None) -> None:
        b = pyro.sample("b", site or dist.Normal(x.new_zeros(()), 1.0))
        w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
        if child:
            child(b)
        value = f(x[:, 0], w, b)
        stated = pyro.deterministic("f", value)
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(stated if used else value, noise), obs=y)

    x = torch.linspace(1, 3, 20, dtype=torch.float64)[:, None]
    return zoo.Problem("own", model, zoo.Data(x, x[:, 0] ** 2))


def _careful(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    if float(b.abs()) > 1000:
        raise RuntimeError("no such intercept")
    return (w * x + b).clamp(-1000, 1000)


def a_line(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return w * x + b


LINE = own(a_line)


@pytest.mark.parametrize(
    "problem",
    [
        own(lambda x, w, b: (w * x + b + 3).relu()),
        own(lambda x, w, b: (w * x + b).clamp(-100, 100)),
        own(lambda x, w, b: w * x + 2 * b),
        own(lambda x, w, b: w * x + b * x),
        own(a_line, site=dist.LogNormal(torch.zeros((), dtype=torch.float64), 1.0)),
        own(a_line, used=False),
        own(a_line, child=lambda b: pyro.sample("child", dist.Normal(b, 1.0)), noise=1e-3),
        own(a_line, child=lambda b: pyro.sample("child", dist.Normal(b, 100.0)), noise=50.0),
        own(a_line, child=lambda b: pyro.sample("child", dist.Normal((b - 2).relu(), 1.0))),
        own(a_line, child=lambda b: pyro.factor("bound", torch.where(b < -5, -torch.inf, 0.0).to(b))),
        own(a_line, child=lambda b: pyro.sample("child", dist.Normal(0 * b, 1.0).mask(b > -5))),
        own(_careful),
        zoo.load("coin_flip"),
        zoo.load("linear_regression", bias=False),
        zoo.load("bnn_regression", prior_scale="learned"),
    ],
    ids=[
        "cut off",
        "clamped",
        "twice",
        "slope",
        "positive",
        "f only stated",
        "a child",
        "a wide child",
        "a child from 2 on",
        "a bound",
        "a mask",
        "refuses",
        "no f",
        "no intercept",
        "scaled",
    ],
)
def test_what_is_no_intercept_stays_as_it_is(problem: zoo.Problem) -> None:
    """The twin, a line's intercept, is found."""
    plain = density(problem)
    assert centred(plain) is plain
    assert centred(density(LINE)).intercept == Intercept("b", "f", (0,), (0,))


def test_a_network_is_less_steep() -> None:
    """The largest eigenvalue of the Hessian at weights that gave y, the others in the prior's units: a fifth at most.

    The twin gives the intercept itself the narrow scale that the mean of f has.
    """

    def steepest(target: Density, at: Tensor, scale: Tensor) -> float:
        steps = 1e-4 * torch.eye(target.dim, dtype=target.dtype)
        slopes = [target.value_and_grad(at + sign * steps)[1] for sign in (1, -1)]
        hessian = (slopes[1] - slopes[0]) / 2e-4
        return float(torch.linalg.eigvalsh(scale[:, None] * (hessian + hessian.T) / 2 * scale).max())

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 8, generator=generator, dtype=torch.float64)
    options = {"hidden": (10, 10), "noise": 0.1}
    truth = zoo.run(zoo.load("bnn_regression", zoo.Data(x, x[:, 0]), **options), "prior", draws=1, seed=0)
    plain = density(zoo.load("bnn_regression", zoo.Data(x, truth.predict()["f"][0, 0]), **options))
    new, at = centred(plain), plain.unconstrain({name: value[0] for name, value in truth.draws.items()})
    assert new.intercept is not None
    scale = prior_width(plain, 0).scale
    narrow = scale.index_copy(0, torch.tensor(new.intercept.columns), scale.new_tensor([0.1 / len(x) ** 0.5]))
    right = steepest(plain, at, scale) / 5
    assert steepest(new, new.unconstrain(plain.constrain(at)), narrow) < right < steepest(plain, at, narrow)


def theta(fit: zoo.Posterior) -> Tensor:
    return torch.cat([fit.draws["w"], fit.draws["b"].unsqueeze(-1)], -1)


def far_line() -> zoo.Problem:
    """A line over x about 10, whose slope and intercept are all but one number."""
    x = 10 + torch.randn(40, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return zoo.load("linear_regression", zoo.Data(x, x[:, 0] - 10), noise=0.5, prior_scale=1.0)


def exact_answer() -> tuple[Tensor, Tensor]:
    """(X^T X / .25 + I)^-1 X^T y / .25, and the roots of the covariance's diagonal."""
    problem = far_line()
    x = torch.cat([problem.data.x, torch.ones(40, 1, dtype=torch.float64)], 1)
    covariance = torch.linalg.inv(x.T @ x / 0.25 + torch.eye(2, dtype=x.dtype))
    return covariance @ x.T @ problem.data.y / 0.25, covariance.diagonal().sqrt()


EXACT = exact_answer()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "mclmc"])
def test_draws_are_the_exact_ones(method: str) -> None:
    """Means and sds of slope, intercept and f, alpha = 1e-3 each. The twin's density forgets the intercept's prior."""
    options: dict[str, Any] = {
        "draws": {"mala": 4000, "hmc": 800}.get(method, 400),
        "warmup": 150,
        "seed": 0,
        "progress": False,
    }
    fit = zoo.run(far_line(), method, engine="eager", **options)
    assert fit.settings["centred"] == "b"
    assert_close_mcmc(theta(fit), *EXACT, alpha=1e-3)


@pytest.mark.slow
def test_the_twin_without_the_intercepts_prior_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told at once, and not used; where that look is left out, its draws are."""
    plain = density(far_line())
    monkeypatch.setattr(Centred, "log_prob", lambda self: torch.zeros((), dtype=torch.float64))
    assert centred(plain) is plain
    monkeypatch.setattr("zoo.infer.centred._is_same", lambda *_: True)
    fit = zoo.run(far_line(), "nuts", engine="compiled", draws=1000, warmup=300, seed=0, progress=False)
    with pytest.raises(AssertionError, match=r"sd|mean"):
        assert_close_mcmc(theta(fit), *EXACT, alpha=1e-3)


def test_a_lines_numbers_do_not_correlate() -> None:
    """Slope and mean of f: correlation below .1, where slope and intercept, the twin, have -.98 or stronger."""
    plain = density(far_line())

    def correlation(target: Density) -> float:
        steps = 0.5 * torch.eye(2, dtype=target.dtype)
        slopes = [target.value_and_grad(sign * steps)[1] for sign in (1, -1)]
        covariance = torch.linalg.inv(slopes[1] - slopes[0])
        return float(covariance[0, 1] / covariance.diagonal().prod().sqrt())

    assert abs(correlation(centred(plain))) < 0.1
    assert correlation(plain) < -0.98


@pytest.mark.parametrize("options", [{"mass": "unit"}, {"centre": False}], ids=str)
def test_where_the_intercept_itself_is_wanted(options: dict[str, Any]) -> None:
    """The twin, neither of these, moves the mean of f."""
    short = {"draws": 2, "warmup": 0, "engine": "eager", "progress": False, "step_size": 0.01}
    assert zoo.run(LINE, "hmc", **short, **options).settings["centred"] is None
    assert zoo.run(LINE, "hmc", **short).settings["centred"] == "b"


@pytest.mark.parametrize("method", ["minibatch_mh", "minibatch_hmc", "mh"])
def test_minibatches_do_not_know_the_mean(method: str) -> None:
    """Those that a kernel takes unasked, too. The twin, mh, is the first of them on all rows."""
    fit = zoo.run(LINE, method, draws=2, warmup=0, step_size=1e-4, engine="eager", progress=False)
    assert fit.settings["centred"] == ("b" if method == "mh" else None)


def test_the_priors_mass_learns_its_scale_alone() -> None:
    """Half way from the sd to the prior's, .1 and s: sqrt(.1 s). The twin, the slope of the same line, keeps s."""
    run = first_run(centred(density(far_line())), nuts, {}, "prior", 4, 0, "uniform")
    seen = torch.full((4, 2), 500 * 1e-2, dtype=torch.float64)
    scale = _new_mass(run, "prior", adapt.Spread(500, torch.zeros_like(seen), seen), []).scale
    assert float(scale[1]) == pytest.approx(float(0.1 * run.mass.scale[1]) ** 0.5, rel=0.02)
    assert scale[0] == run.mass.scale[0]
