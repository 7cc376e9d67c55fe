"""The guides: their densities, what stock Pyro makes of them, and the Jacobian that AutoNormal loses."""

from __future__ import annotations

import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.distributions import constraints
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoNormal
from scipy.optimize import minimize

import zoo
from guides.normal import normal
from guides.point import point, with_points
from zoo.core.randomness import seeded
from zoo.infer.families import choose, make
from zoo.infer.prepared import prepare
from zoo.infer.variational import Variational

F64 = torch.float64
LOC, SCALE = 0.6, 0.5


def variational(problem: zoo.Problem, guide="normal", points=(), **options) -> Variational:
    factory = choose(guide, options, points)
    return Variational(problem, [prepare(make(factory, problem.model), problem, 0)])


def coin() -> zoo.Problem:
    return zoo.load("coin_flip", n=10, heads=7).to(dtype=F64)


# -- trap 1: the Jacobian ----------------------------------------------------------------------------------


def coin_elbo(loc: float, scale: float, jacobian: bool) -> float:
    """ELBO of N(loc, scale^2) on logit(theta) for Beta(1, 1), 7 of 10, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    u = loc + scale * nodes
    log_p = 7 * -np.logaddexp(0, -u) + 3 * -np.logaddexp(0, u)
    if jacobian:
        log_p = log_p - np.logaddexp(0, -u) - np.logaddexp(0, u)
    entropy = 0.5 * math.log(2 * math.pi * math.e * scale**2)
    return float(weights @ log_p / math.sqrt(2 * math.pi)) + entropy


def optimum(jacobian: bool) -> tuple[float, float]:
    """Mean and sd of theta at the best (loc, scale)."""
    best = minimize(lambda v: -coin_elbo(v[0], math.exp(v[1]), jacobian), [0.5, -0.5], tol=1e-10).x
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    theta = 1 / (1 + np.exp(-(best[0] + math.exp(best[1]) * nodes)))
    weights = weights / math.sqrt(2 * math.pi)
    mean = float(weights @ theta)
    return mean, float(weights @ (theta - mean) ** 2) ** 0.5


def stock_loss(elbo, guide, problem: zoo.Problem, particles: int = 400) -> tuple[float, float]:
    """Mean and standard error of stock Pyro's loss at the guide's present parameters."""
    args, kwargs = problem.arguments()
    losses = torch.tensor([elbo().loss(problem.model, guide, *args, **kwargs) for _ in range(particles)])
    return float(losses.mean()), float(losses.std()) / particles**0.5


def fixed_normal(model):
    return normal(model, init=lambda site: torch.tensor(LOC, dtype=F64).sigmoid(), init_scale=SCALE)


def fixed_auto(model):
    return AutoNormal(model, init_loc_fn=lambda site: torch.tensor(LOC, dtype=F64).sigmoid(), init_scale=SCALE)


@pytest.mark.parametrize(
    ("family", "elbo", "right"),
    [
        (fixed_normal, Trace_ELBO, True),
        (fixed_normal, TraceMeanField_ELBO, True),
        (fixed_auto, Trace_ELBO, True),
        (fixed_auto, TraceMeanField_ELBO, False),  # the twin: KL of Delta sites, whose log density is ignored
    ],
    ids=["normal, Trace", "normal, MeanField", "AutoNormal, Trace", "AutoNormal, MeanField: the twin"],
)
def test_stock_elbos_of_a_constrained_site(family, elbo, right) -> None:
    """Within 4 standard errors (alpha 6e-5) of quadrature with the Jacobian; the twin, of the one without."""
    problem = coin()
    with pyro.get_param_store().scope(), seeded(1):
        loss, error = stock_loss(elbo, family(problem.model), problem)
    assert -loss == pytest.approx(coin_elbo(LOC, SCALE, jacobian=right), abs=4 * error)
    assert abs(-loss - coin_elbo(LOC, SCALE, jacobian=not right)) > 10 * error


def test_where_the_lost_jacobian_leads() -> None:
    """Mean .700, sd .137 in place of the posterior's .6667, .1307."""
    assert optimum(jacobian=True) == pytest.approx((0.6667, 0.1307), abs=2e-3)
    assert optimum(jacobian=False) == pytest.approx((0.700, 0.137), abs=4e-3)


# -- stock Pyro --------------------------------------------------------------------------------------------


def schools(x, y=None):
    mu = pyro.sample("mu", dist.Normal(x.new_zeros(()), 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(x.new_ones(())))
    with pyro.plate("data", x.shape[0]):
        eta = pyro.sample("eta", dist.Normal(x.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(mu + tau * eta, 1.0), obs=y)


def moving(x, y=None):
    u = pyro.sample("u", dist.LogNormal(x.new_zeros(()), 1.0))
    v = pyro.sample("v", dist.Uniform(x.new_zeros(()), u))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(v, 1.0), obs=y)


def own(model) -> zoo.Problem:
    x = torch.zeros(6, 0, dtype=F64)
    return zoo.Problem(model.__name__, model, zoo.Data(x, torch.linspace(-1, 2, 6, dtype=F64)))


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceMeanField_ELBO])
@pytest.mark.parametrize(
    "problem",
    [lambda: own(schools), lambda: own(moving), lambda: zoo.load("bnn_regression", hidden=3)],
    ids=["a local site", "a moving support", "bnn"],
)
def test_stock_svi_takes_the_guides_without_a_warning(problem, elbo) -> None:
    """Plates, shapes and names match; any warning is an error here."""
    problem = problem()
    args, kwargs = problem.arguments()
    for family in (normal, point):
        with pyro.get_param_store().scope(), seeded(2), pyro.validation_enabled(True):
            svi = SVI(problem.model, family(problem.model), pyro.optim.Adam({"lr": 0.01}), elbo())
            assert all(math.isfinite(svi.step(*args, **kwargs)) for _ in range(3))
            kinds = {name.split(".")[-1] for name in pyro.get_param_store()}
    assert kinds <= {"loc", "scale", "point"}


def test_a_guide_is_an_ordinary_pyro_guide() -> None:
    problem = own(schools)
    args, kwargs = problem.arguments()
    with pyro.get_param_store().scope(), seeded(0):
        guide = normal(problem.model, point=("mu",))
        trace = poutine.trace(guide).get_trace(*args, **kwargs)
        names = set(pyro.get_param_store().keys())
    assert names == {"mu.point", "tau.loc", "tau.scale", "eta.loc", "eta.scale"}
    assert guide.mean_field
    assert isinstance(trace.nodes["eta"]["fn"], dist.Normal)
    assert isinstance(trace.nodes["tau"]["fn"], dist.TransformedDistribution)
    assert isinstance(trace.nodes["mu"]["fn"], dist.Delta)
    assert trace.nodes["eta"]["cond_indep_stack"][0].name == "data"


# -- densities ---------------------------------------------------------------------------------------------


def one(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=F64)


SITES = {
    "real": lambda: dist.Normal(0 * one(3), 1.0).to_event(1),
    "positive": lambda: dist.LogNormal(0 * one(2), 1.0).to_event(1),
    "unit interval": lambda: dist.Beta(2 * one(), one()),
    "interval": lambda: dist.Uniform(-one(2), 3 * one(2)).to_event(1),
    "simplex": lambda: dist.Dirichlet(one(4)),
    "correlation": lambda: dist.LKJCholesky(3, one()),
    "positive definite": lambda: dist.ImproperUniform(constraints.positive_definite, (), (3, 3)),
    "improper": lambda: dist.ImproperUniform(constraints.real, (), (2,)),
    "ordered": lambda: dist.ImproperUniform(constraints.ordered_vector, (), (3,)),
}


@pytest.mark.parametrize("support", SITES)
def test_log_q_in_unconstrained_space_is_a_normal(support) -> None:
    """log q(theta) + log |dtheta / du| = sum log N(u | loc, scale): exact for every draw and support."""

    def model(x, y=None):
        pyro.sample("theta", SITES[support]())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x.new_zeros(()), 1.0), obs=y)

    q = variational(own(model), init_scale=0.3)
    noise = q.noise(0, 0, 0, (5,))
    _, _, logq = q.draw(q.start[0], noise)
    expected = dist.Normal(noise.new_zeros(()), 1.0).log_prob(noise).sum(1) - noise.shape[1] * math.log(0.3)
    torch.testing.assert_close(logq, expected, rtol=1e-8, atol=1e-8)
    assert q.points == ()


def test_a_moving_support_is_followed() -> None:
    """v ~ U(0, u): every v lies below its own u, and log q is a Normal's; frozen bounds would break both."""
    q = variational(own(moving), init_scale=1.0)
    noise = q.noise(0, 0, 0, (200,))
    values, _, logq = q.draw(q.start[0], noise)
    assert (values["v"] < values["u"]).all()
    assert (values["v"] > values["u"].min()).any()  # the frozen bound's range is left
    expected = dist.Normal(noise.new_zeros(()), 1.0).log_prob(noise).sum(1)
    torch.testing.assert_close(logq, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("m", "s", "t", "kl"), [(0.5, 0.3, 1.0, 0.873972804326), (-1.0, 2.0, 0.5, 8.113705638880)])
def test_kl_between_normals_is_analytic(m, s, t, kl) -> None:
    """The same for every draw: KL(N(m, s^2) || N(0, t^2))."""

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(x.new_zeros(1), t).to_event(1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(w, 1.0), obs=y)

    q = variational(own(model), init=lambda site: torch.full((1,), m, dtype=F64), init_scale=s)
    terms = q.estimate(q.start[0], q.noise(0, 0, 0, (4,)))
    torch.testing.assert_close(terms.kl, torch.full((4,), kl, dtype=F64), rtol=1e-9, atol=0)
    torch.testing.assert_close(terms.elbo, terms.expected_log_likelihood - terms.kl)


# -- points ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [normal, AutoNormal], ids=["normal", "AutoNormal"])
def test_point_sites_do_not_move(family) -> None:
    q = variational(own(schools), family, ("mu", "tau"))
    values, lp, logq = q.draw(q.start[0], q.noise(0, 0, 0, (8,)))
    assert set(q.points) == {"mu", "tau"}
    assert all((values[name] == values[name][0]).all() for name in ("mu", "tau"))
    assert values["eta"].std(0).min() > 0
    assert torch.isfinite(lp + logq).all()


def test_with_points_keeps_the_rest_of_the_family() -> None:
    problem = own(schools)
    guide = with_points(normal, problem.model, ["mu"])
    assert guide.mean_field
    assert not with_points(AutoNormal, problem.model, ["mu"]).mean_field
    with pyro.get_param_store().scope(), seeded(0):
        args, kwargs = problem.arguments()
        assert set(guide(*args, **kwargs)) == {"mu", "tau", "eta"}


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="init_scale must be positive"):
        normal(schools, init_scale=0.0)
    with pytest.raises(ValueError, match=r"point must name latent sites .*'eta'.* got \['sigma'\]"):
        variational(own(schools), "normal", ("sigma",))

    def discrete(x, y=None):
        z = pyro.sample("z", dist.Bernoulli(x.new_tensor(0.5)))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(z, 1.0), obs=y)

    with pytest.raises(ValueError, match="site 'z' is discrete"):
        variational(own(discrete))
