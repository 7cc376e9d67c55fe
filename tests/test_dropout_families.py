"""gaussian_dropout, mixture, concrete_dropout, multiplicative: KLs, objectives and variances with right answers."""

from __future__ import annotations

import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import init_to_value
from scipy import stats
from scipy.integrate import quad
from torch.distributions.transforms import AffineTransform

import zoo
from guides.concrete_dropout import concrete_dropout, entropy
from guides.gaussian_dropout import gaussian_dropout
from guides.mixture import kl_apart, mixture
from guides.multiplicative import multiplicative
from guides.noise import moments, quantile
from tests.refusals import refused
from tests.statistics import z_for
from tests.test_dropout import M1, M2, NOISE, B, S, net, problem, started
from tests.test_guides import variational
from zoo.core.randomness import seeded
from zoo.infer.prepared import quiet
from zoo.infer.variational import Variational

F64 = torch.float64
SQUARES = float(M1.square().sum() + M2.square().sum()) / (2 * S**2)
BIAS = float(B.square().sum()) / (2 * S**2)


def dropout_noise(p: float):
    """Inverted dropout: Bernoulli(1 - p) / (1 - p)."""
    return dist.TransformedDistribution(dist.Bernoulli(torch.tensor(1 - p)), [AffineTransform(0.0, 1 / (1 - p))])


def prior_only(guide, m, prior_scale: float = 1.0, **options) -> Variational:
    """The guide at M = m (in, out), on a model whose likelihood is masked."""
    m = torch.as_tensor(m, dtype=F64)

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(x.new_zeros(m.shape), prior_scale).to_event(2))
        with pyro.plate("data", x.shape[0]), poutine.mask(mask=False):
            pyro.sample("y", dist.Normal((x @ w)[:, 0], 1.0), obs=y)

    data = zoo.Data(torch.ones(2, len(m), dtype=F64), torch.zeros(2, dtype=F64))
    return variational(zoo.Problem("prior", model, data), guide, init=init_to_value(values={"w": m}), **options)


def kls(q: Variational, draws: int) -> torch.Tensor:
    return q.estimate(q.start[0], q.noise(0, 0, 0, (draws,))).kl


def close(values: torch.Tensor, right: float, errors: float = 4.0) -> bool:
    """Whether the mean is within 4 standard errors (alpha 6e-5)."""
    return abs(float(values.mean()) - right) < errors * float(values.std()) / len(values) ** 0.5


# -- gaussian_dropout --------------------------------------------------------------------------------------


def test_weight_noise_has_the_exact_kl() -> None:
    """m = (.7, -1.3), s = .8, alpha = .25: 2.1632242, for every draw; twin: without the 1 + alpha."""
    q = prior_only(gaussian_dropout, [[0.7], [-1.3]], prior_scale=0.8, rate=0.2)
    found = kls(q, 3)
    torch.testing.assert_close(found, torch.full((3,), 2.1632242, dtype=F64), rtol=1e-7, atol=0)
    m2 = np.array([0.49, 1.69]) / 0.64
    assert abs(float((m2 - 1 - np.log(0.25 * m2)).sum()) / 2 - 2.1632242) > 0.1


def test_weight_noise_is_a_bound_and_its_kl_stock_pyros() -> None:
    q = prior_only(gaussian_dropout, [[0.7], [-1.3]], prior_scale=0.8, rate=0.2)
    assert q.no_density == ""
    assert not q.by_row
    assert q.points == ()
    args, kwargs = q.problem.arguments()
    with pyro.get_param_store().scope(), seeded(0):
        one = float(TraceMeanField_ELBO().loss(q.problem.model, q.guide, *args, **kwargs))
        many = torch.tensor([Trace_ELBO().loss(q.problem.model, q.guide, *args, **kwargs) for _ in range(2000)])
    assert one == pytest.approx(2.1632242, rel=1e-7)
    assert close(many.double(), 2.1632242)


def test_unit_noise_is_an_objective() -> None:
    """(1 + alpha) |M|^2 / (2 s^2) for every draw, and stock Trace_ELBO's; the KL of weights is another number."""
    q = variational(problem(), gaussian_dropout, rate=0.2, noise="unit", init=started())
    torch.testing.assert_close(kls(q, 3), torch.full((3,), 1.25 * SQUARES + BIAS, dtype=F64))
    assert "no density" in q.no_density
    assert q.by_row
    w1 = q.draw(q.start[0], q.noise(0, 0, 0, (4,)))[0]["w1"]
    z = w1 / M1
    torch.testing.assert_close(z[..., 0], z[..., 1])  # one factor a row
    assert abs(float(z[0, 0, 0] - z[0, 1, 0])) > 1e-6
    weights = variational(problem(), gaussian_dropout, rate=0.2, init=started())
    assert abs(float(kls(weights, 1)[0]) - 1.25 * SQUARES - BIAS) > 0.1


@pytest.mark.parametrize("noise", ["weight", "unit"])
def test_gaussian_dropout_without_noise_is_a_point(noise) -> None:
    q = variational(problem(), gaussian_dropout, rate=0.0, noise=noise, init=started())
    assert set(q.points) == {"w1", "b1", "w2"}
    torch.testing.assert_close(kls(q, 1), torch.full((1,), SQUARES + BIAS, dtype=F64))


# -- a linear unit -----------------------------------------------------------------------------------------

W, X, BIAS_UNIT = (0.5, -1.2, 2.0, 0.3), (1.0, 2.0, -0.5, 4.0), 0.7
UNIT = {0.1: 0.938888889, 0.2: 2.1125, 0.5: 8.45}


def unit_model(x, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(4, 1), 1.0).to_event(2))
    b = pyro.sample("b", dist.Normal(x.new_zeros(1), 1.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal((x @ w + b)[:, 0], 1.0), obs=y)


def unit(guide, p: float, shrink: float = 1.0, **options) -> torch.Tensor:
    """f of 1e5 draws of a linear unit with M = w / shrink."""
    w = torch.tensor(W, dtype=F64)[:, None] / shrink
    data = zoo.Data(torch.tensor([X], dtype=F64), torch.zeros(1, dtype=F64))
    init = init_to_value(values={"w": w, "b": torch.tensor([BIAS_UNIT], dtype=F64)})
    q = variational(zoo.Problem("unit", unit_model, data), guide, init=init, **options)
    draws = q.draw(q.start[0], q.noise(1, 0, 0, (100_000,)))[0]
    return (data.x[0] @ draws["w"])[:, 0] + draws["b"][:, 0]


FAMILIES = {
    "dropout": lambda p: unit("bernoulli_dropout", p, shrink=1 - p, rate=p),
    "gaussian, unit": lambda p: unit(gaussian_dropout, p, rate=p, noise="unit"),
    "gaussian, weight": lambda p: unit(gaussian_dropout, p, rate=p, noise="weight"),
    "multiplicative": lambda p: unit(multiplicative, p, noise=dropout_noise(p)),
    "connections": lambda p: unit(multiplicative, p, noise=dropout_noise(p), on="connections"),
    "concrete": lambda p: unit(concrete_dropout, p, shrink=1 - p, rate=p, temperature=1e-4),
    "mixture": lambda p: unit(mixture, p, shrink=1 - p, rate=p, scale=1e-5),
}


def assert_unit(f: torch.Tensor, variance: float) -> None:
    """Mean -1 and the variance, at alpha 1e-4 over both."""
    z, centred = z_for(1e-4, 2), f - f.mean()
    assert float(f.mean()) == pytest.approx(-1.0, abs=z * (variance / len(f)) ** 0.5)
    error = float((centred.pow(4).mean() - centred.square().mean() ** 2) / len(f)) ** 0.5
    assert float(f.var()) == pytest.approx(variance, abs=z * error)


@pytest.mark.parametrize("p", UNIT)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_noises_give_a_linear_unit_the_same_variance(family, p) -> None:
    """p / (1 - p) sum w^2 x^2. Twin: M not scaled up by 1 / (1 - p)."""
    f = FAMILIES[family](p)
    assert_unit(f, UNIT[p])
    with pytest.raises(AssertionError):
        assert_unit(unit("bernoulli_dropout", p, rate=p), UNIT[p])


# -- dropout is not DropConnect ----------------------------------------------------------------------------


def outputs(guide, **options) -> torch.Tensor:
    """Both outputs (2, draws) of x = (1, 2), W = ((1, -1), (.5, 2))."""
    x = torch.tensor([[1.0, 2.0]], dtype=F64)

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(x.new_zeros(2, 2), 1.0).to_event(2))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ w, 1.0).to_event(1), obs=y)

    w = torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=F64)
    data = zoo.Data(x, torch.zeros(1, 2, dtype=F64))
    q = variational(zoo.Problem("outputs", model, data), guide, init=init_to_value(values={"w": w}), **options)
    return (x @ q.draw(q.start[0], q.noise(0, 0, 0, (100_000,)))[0]["w"])[:, 0].T


@pytest.mark.parametrize(
    ("on", "right"), [("units", ((0.5, 0.75), (0.75, 4.25))), ("weights", ((0.5, 0.0), (0.0, 4.25)))]
)
def test_masks_of_inputs_correlate_outputs_masks_of_weights_do_not(on, right) -> None:
    """p = .2, inverted; every entry of the covariance within 5 errors (alpha 2e-6). Each is the other's twin."""
    f = outputs(multiplicative, noise=dropout_noise(0.2), on=on)
    centred = f - f.mean(1, keepdim=True)
    products = centred[:, None] * centred[None]
    error = products.std(-1) / 100_000**0.5
    right = torch.tensor(right, dtype=F64)
    assert ((products.mean(-1) - right).abs() < 5 * error).all()
    other = 0.75 - right[0, 1]
    assert abs(float(products.mean(-1)[0, 1]) - other) > 50 * float(error[0, 1])


# -- mixture -----------------------------------------------------------------------------------------------

MIXTURES = {(2.0, 0.05, 0.5): 2.8038350930, (2.0, 0.05, 0.1): 3.9718993002, (1.0, 0.02, 0.2): 3.3118205819}


@pytest.mark.parametrize("case", MIXTURES)
def test_the_mixtures_kl_is_that_of_quadrature(case) -> None:
    """One weight: 4 standard errors (alpha 6e-5), and `kl_apart`. Twin: the slide's constant K (1 + log 2 pi)."""
    m, s, p = case

    def density(w: float) -> float:
        return (1 - p) * stats.norm.pdf(w, m, s) + p * stats.norm.pdf(w, 0, s)

    def term(w: float) -> float:
        q = density(w)
        return q * (math.log(q) - stats.norm.logpdf(w)) if q > 0 else 0.0

    right = sum(quad(term, c - 9 * s, c + 9 * s, points=[c], limit=200)[0] for c in (0.0, m))
    assert right == pytest.approx(MIXTURES[case], abs=1e-8)
    assert float(kl_apart(torch.tensor([m], dtype=F64), s, p)) == pytest.approx(right, abs=1e-8)
    q = prior_only(mixture, [[m]], rate=p, scale=s)
    found = kls(q, 100_000)
    assert close(found, right)
    assert q.no_density == ""
    square, entropy_ = (1 - p) * m**2 / 2, -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert not close(found, square + (s**2 - 1 - math.log(s**2)) / 2 + (1 + math.log(2 * math.pi)) - entropy_)


def test_the_mixture_of_rows_is_not_that_of_weights() -> None:
    """K = 3 weights of one row: one H(p) for the row, three for its weights."""
    m = [[2.0, -1.5, 1.0]]
    row = kl_apart(torch.tensor(m[0], dtype=F64), 0.05, 0.3)
    weights = kl_apart(torch.tensor(m[0], dtype=F64)[:, None], 0.05, 0.3).sum()
    assert float(row - weights) == pytest.approx(2 * float(entropy(torch.tensor(0.3))), rel=1e-5)
    for on, right, wrong in (("rows", row, weights), ("weights", weights, row)):
        found = kls(prior_only(mixture, m, rate=0.3, scale=0.05, on=on), 50_000)
        assert close(found, float(right))
        assert not close(found, float(wrong))


def test_the_mixtures_gradient_tends_to_l2() -> None:
    """d KL / d M -> (1 - p) M as scale -> 0: what is left is weight decay."""
    m = torch.tensor([[2.0, -1.5], [0.7, 1.0]], dtype=F64)
    for scale in (0.1, 0.01):
        q = prior_only(mixture, m, rate=0.3, scale=scale)
        noise = q.noise(0, 0, 0, (1, 4000))
        with quiet():
            grad = -q.gradient(q.start, noise)[0].reshape(2, 2)
        # One row's keep rate in 4,000 draws has sd .0072; the rest vanishes with the scale.
        assert ((grad - 0.7 * m).abs() < 5 * 0.0073 * m.abs() + 3 * scale).all()
    assert ((grad - m).abs() > 0.1).all()


# -- concrete_dropout --------------------------------------------------------------------------------------


def test_the_concrete_objective_is_the_formula() -> None:
    """(1 - p) |M|^2 / (2 s^2) - K H(p) a layer; twins without the entropy, and with one H a layer."""
    q = variational(problem(), concrete_dropout, rate=(0.2, 0.3), init=started())
    squares = [float(m.square().sum()) / (2 * S**2) for m in (M1, M2)]
    coins = [float(entropy(torch.tensor(p, dtype=F64))) for p in (0.2, 0.3)]
    right = 0.8 * squares[0] + 0.7 * squares[1] + BIAS - 2 * coins[0] - 2 * coins[1]
    torch.testing.assert_close(kls(q, 3), torch.full((3,), right, dtype=F64))
    for twin in (right + 2 * sum(coins), right + sum(coins)):
        assert abs(twin - right) > 0.1
    assert set(q.layout.shapes) == {"w1.weight", "w1.rate", "b1.point", "w2.weight", "w2.rate"}
    args, kwargs = problem().arguments()
    with pyro.get_param_store().scope(), seeded(0), pyro.validation_enabled(True):
        guide = concrete_dropout(net, rate=(0.2, 0.3), init=started())
        guide(*args, **kwargs)
        state = torch.get_rng_state()
        w = poutine.trace(guide).get_trace(*args, **kwargs).nodes
        torch.set_rng_state(state)
        loss = Trace_ELBO().loss(net, guide, *args, **kwargs)
        f = ((args[0] @ w["w1"]["value"] + B).tanh() @ w["w2"]["value"]).squeeze(-1)
    assert -loss == pytest.approx(dist.Normal(f, NOISE).log_prob(args[1]).sum().item() - right, rel=1e-10)


def test_cold_concrete_masks_are_those_of_dropout() -> None:
    """The share of zeros is p (alpha 6e-5), the rest ones, for temperature -> 0; warm ones lie between."""
    for p in (0.1, 0.6):
        q = prior_only(concrete_dropout, torch.ones(10, 1), rate=p, temperature=1e-4)
        z = q.draw(q.start[0], q.noise(0, 0, 0, (10_000,)))[0]["w"]
        off, on = (z < 1e-6).double(), (z > 1 - 1e-6).double()
        assert float((off + on).mean()) > 0.995
        assert float(off.mean()) == pytest.approx(p, abs=4 * (p * (1 - p) / 1e5) ** 0.5 + 1e-3)
    q = prior_only(concrete_dropout, torch.ones(10, 1), rate=0.5, temperature=1.0)
    z = q.draw(q.start[0], q.noise(0, 0, 0, (10_000,)))[0]["w"]
    assert float(((z > 0.1) & (z < 0.9)).double().mean()) == pytest.approx(0.8, abs=0.01)  # at 1 and .5: uniform


def test_without_data_concrete_dropout_goes_to_a_half() -> None:
    q = prior_only(concrete_dropout, torch.ones(3, 2), rate=0.1)
    fitted = zoo.run(
        q.problem, "svi", guide=concrete_dropout, guide_options={"rate": 0.1}, steps=800, lr=0.05, draws=4000,
    )  # fmt: skip
    z_off = (fitted.draws["w"].abs().max(-1).values < 1e-3).double()  # M is nearly 0
    assert float(fitted.settings["elbo"]) == pytest.approx(3 * math.log(2), abs=1e-3)
    assert float(z_off.mean()) > 0.9


# -- multiplicative ----------------------------------------------------------------------------------------


def test_dropout_by_its_noise_is_bernoulli_dropout() -> None:
    """V = (1 - p) M: the same objective of the same masks. Twin: without scaling M."""
    p = 0.3
    ours = variational(problem(), multiplicative, noise=dropout_noise(p), init=started(), on="units")
    scaled = {name: value if name == "b1" else value / (1 - p) for name, value in started_values().items()}
    right = variational(problem(), "bernoulli_dropout", rate=p, init=started(scaled))
    torch.testing.assert_close(kls(ours, 1), kls(right, 1), rtol=1e-6, atol=1e-6)
    a, b = (q.estimate(q.start[0], q.noise(0, 0, 0, (4000,))).elbo for q in (ours, right))
    torch.testing.assert_close(a.sort().values, b.sort().values, rtol=1e-5, atol=1e-5)
    twin = variational(problem(), "bernoulli_dropout", rate=p, init=started())
    assert abs(float(kls(twin, 1) - kls(ours, 1))) > 0.1


def started_values():
    return {"w1": M1, "b1": B, "w2": M2}


def test_continuous_noise_on_weights_has_a_density() -> None:
    """Uniform(0, 2) on m = 1.5, prior N(0, 1): KL by quadrature; N(1, alpha) is gaussian_dropout's."""
    q = prior_only(multiplicative, [[1.5]], noise=dist.Uniform(0.0, 2.0), on="weights")
    right = quad(lambda w: (math.log(1 / 3) - stats.norm.logpdf(w)) / 3, 0, 3)[0]
    assert close(kls(q, 20_000), right)
    assert q.no_density == ""
    normal = prior_only(multiplicative, [[0.7], [-1.3]], prior_scale=0.8, noise=dist.Normal(1.0, 0.5), on="weights")
    assert close(kls(normal, 50_000), 2.1632242)


@pytest.mark.parametrize(
    ("noise", "on", "reason"),
    [
        (dist.Uniform(0.0, 2.0), "units", "one factor for a whole row"),
        (dropout_noise(0.2), "units", "atoms"),
        (dropout_noise(0.2), "weights", "atoms"),
        (dist.Uniform(0.0, 2.0), "connections", ""),
    ],
)
def test_where_kl_is_undefined_is_said(noise, on, reason) -> None:
    q = variational(problem(), multiplicative, noise=noise, on=on, init=started())
    assert reason in q.no_density
    assert bool(reason) == bool(q.no_density)
    assert q.by_row == (on != "weights")
    if reason:
        square = float(noise.variance + 1) if on == "units" and isinstance(noise, dist.Uniform) else 1.25
        torch.testing.assert_close(
            kls(q, 2), torch.full((2,), square * SQUARES + BIAS, dtype=F64), rtol=1e-6, atol=1e-6
        )


def test_noise_without_an_inverse_runs_by_loop() -> None:
    """Gamma(4, 4): mean 1; torch has no inverse of its distribution function."""
    gamma = dist.Gamma(4.0, 4.0)
    assert quantile(gamma) is None
    fitted = zoo.run(
        problem().to(dtype=torch.float32), "svi", guide=multiplicative, guide_options={"noise": gamma}, steps=3,
        draws=20,
    )  # fmt: skip
    assert fitted.settings["engine"] == "loop"
    assert fitted.settings["no_density"]


@pytest.mark.parametrize(
    ("noise", "right"),
    [
        (dist.Normal(1.0, 0.5), stats.norm(1, 0.5)),
        (dist.Uniform(0.0, 2.0), stats.uniform(0, 2)),
        (dist.Exponential(1.0), stats.expon()),
        (dist.LogNormal(-0.125, 0.5), stats.lognorm(0.5, scale=math.exp(-0.125))),
        (dist.Laplace(1.0, 0.3), stats.laplace(1, 0.3)),
    ],
    ids=["normal", "uniform", "exponential", "log normal", "laplace"],
)
def test_noise_is_the_quantile_of_a_standard_normal(noise, right) -> None:
    e = torch.linspace(-4, 4, 33, dtype=F64)
    np.testing.assert_allclose(quantile(noise)(e), right.ppf(stats.norm.cdf(e)), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(moments(noise), (right.mean(), right.var() + right.mean() ** 2), rtol=2e-3)


def test_discrete_noise_takes_its_values_in_their_shares() -> None:
    function = quantile(dropout_noise(0.2))
    e = torch.tensor([-9.0, stats.norm.ppf(0.199), stats.norm.ppf(0.201), 9.0], dtype=F64)
    torch.testing.assert_close(function(e), torch.tensor([0.0, 0.0, 1.25, 1.25], dtype=F64))
    assert moments(dropout_noise(0.2)) == pytest.approx((1.0, 1.25))


# -- bad input ---------------------------------------------------------------------------------------------


def test_bad_words_are_refused() -> None:
    refused(lambda: gaussian_dropout(net, noise="units"), "'weight' or 'unit'")
    refused(lambda: gaussian_dropout(net, rate=1.0), "0 <= p < 1")
    refused(lambda: mixture(net, scale=0.0), "scale must be positive")
    refused(lambda: mixture(net, on="units"), "'rows' or 'weights'")
    refused(lambda: concrete_dropout(net, temperature=0), "temperature must be positive")
    refused(lambda: variational(problem(), concrete_dropout, rate=0.0), "above 0", "bernoulli_dropout")
    refused(lambda: multiplicative(net, on="rows"), "'units', 'weights' or 'connections'")
    refused(lambda: multiplicative(net, noise=dist.Normal(0.0, 1.0)), "mean 1", "got mean 0")
    refused(lambda: multiplicative(net, noise=dist.Bernoulli(0.8)), "mean 1", "got mean 0.8")
    refused(lambda: multiplicative(net, noise=dist.Poisson(1.0)), "finitely many values", "Poisson")
    refused(lambda: multiplicative(net, noise=dist.Cauchy(1.0, 1.0)), "mean 1")
    refused(lambda: multiplicative(net, noise=dist.Normal(torch.ones(3), 1.0)), "single number")
    refused(lambda: multiplicative(net, noise=0.5), "Pyro distribution", "float", error=TypeError)
