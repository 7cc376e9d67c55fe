"""full_rank and low_rank: densities, gradients on batches, stock Pyro, and optima known in closed form."""

from __future__ import annotations

import math
import subprocess
import sys

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO

import zoo
from guides.full_rank import full_rank
from guides.low_rank import low_rank
from tests import right_answers as right
from tests.refusals import refused
from tests.small_models import two_weights
from tests.test_acceptance_methods import SVI as FIT
from tests.test_acceptance_methods import assert_close_svi, assert_elbo, only
from tests.test_guides import LOC, SCALE, SITES, coin, coin_elbo, moving, one, own, schools, stock_loss, variational
from tests.test_svi import NOISE, D, N, expected, line
from zoo.core.randomness import seeded
from zoo.infer.batches import batch_rows
from zoo.infer.evidence import evidence_bar
from zoo.infer.methods import svi
from zoo.infer.prepared import Batch, quiet

F64 = torch.float64
FAMILIES = {"full_rank": full_rank, "low_rank": low_rank}


def scrambled(q) -> torch.Tensor:
    """Parameters away from their start, every correlation at work."""
    generator = torch.Generator().manual_seed(5)
    return q.start[0] + 0.4 * torch.randn(q.layout.size, generator=generator, dtype=F64)


def gaussian(family: str, q, flat: torch.Tensor) -> dist.MultivariateNormal:
    """The family's formula: N(loc, L L^T), L = diag(scale) tril; N(loc, S (I + F F^T) S)."""
    part = {name.split(".")[1]: value for name, value in q.layout.split(flat).items()}
    scale = part["scale"].exp().diag()
    if family == "full_rank":
        tril = part["tril"].tril(-1) + torch.eye(len(scale), dtype=F64)
        return dist.MultivariateNormal(part["loc"], scale_tril=scale @ tril)
    factor = part["factor"]
    inner = torch.eye(len(scale), dtype=F64) + factor @ factor.T
    return dist.MultivariateNormal(part["loc"], scale @ inner @ scale)


def two_sites(support):
    """A constrained site beside a real one, so that there is something to correlate with."""

    def model(x, y=None):
        pyro.sample("first", dist.Normal(one(2), 1.0).to_event(1))
        pyro.sample("theta", SITES[support]())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x.new_zeros(()), 1.0), obs=y)

    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("support", SITES)
def test_log_q_is_the_familys_gaussian_in_unconstrained_space(family, support) -> None:
    """log q(theta) + log |dtheta / du| = log N(u | loc, covariance), for every support. Twin: the mean field."""
    from zoo.infer.density import density

    problem = own(two_sites(support))
    q = variational(problem, family, **({"rank": 2} if family == "low_rank" else {}))
    flat, noise = scrambled(q), q.noise(0, 0, 0, (5,))
    values, lp, logq = q.draw(flat, noise)
    u = density(problem).unconstrain(values)
    law = gaussian(family, q, flat)
    torch.testing.assert_close(logq, law.log_prob(u), rtol=1e-6, atol=1e-6)
    apart = dist.Normal(law.loc, law.stddev).to_event(1).log_prob(u)
    assert (logq - apart).abs().max() > 1e-2
    torch.testing.assert_close(lp - logq, q.estimate(flat, noise).elbo)
    assert q.points == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_the_stated_covariance(family) -> None:
    """1e5 draws: every entry of the covariance within 5 standard errors (alpha 1e-5 for 6 entries)."""
    q = variational(own(two_sites("unit interval")), family)
    flat = scrambled(q)
    values, _, _ = q.draw(flat, q.noise(0, 0, 0, (100_000,)))
    u = torch.cat([values["first"], values["theta"].logit()[:, None]], 1)
    law = gaussian(family, q, flat)
    right_one = law.covariance_matrix
    error = ((right_one.square() + right_one.diag().outer(right_one.diag())) / 1e5).sqrt()
    assert ((u.T.cov() - right_one).abs() < 5 * error).all()
    assert ((right_one.diag().diag() - right_one).abs() > 5 * error).any()  # the twin: no correlations


@pytest.mark.parametrize("family", FAMILIES)
def test_a_moving_support_is_followed(family) -> None:
    q = variational(own(moving), family, init_scale=1.0)
    values, lp, logq = q.draw(q.start[0], q.noise(0, 0, 0, (200,)))
    assert (values["v"] < values["u"]).all()
    assert (values["v"] > values["u"].min()).any()  # the frozen bound's range is left
    u = torch.stack([values["u"].log(), (values["v"] / values["u"]).logit()], 1)
    torch.testing.assert_close(logq, gaussian(family, q, q.start[0]).log_prob(u), rtol=1e-6, atol=1e-6)
    assert torch.isfinite(lp).all()


# -- stock Pyro --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [lambda: own(schools), lambda: own(moving)], ids=["a local site", "moving"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stock_svi_takes_the_guides_without_a_warning(family, problem) -> None:
    """Plates, shapes and names match, with a plate of particles in front of all too."""
    problem = problem()
    args, kwargs = problem.arguments()
    with pyro.get_param_store().scope(), seeded(2), pyro.validation_enabled(True):
        guide = FAMILIES[family](problem.model)
        svi_ = SVI(problem.model, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
        assert all(math.isfinite(svi_.step(*args, **kwargs)) for _ in range(3))
        assert {name.split(".")[0] for name in pyro.get_param_store()} == {family}
        one_by_one = Trace_ELBO(num_particles=400)
        at_once = Trace_ELBO(num_particles=4000, vectorize_particles=True, max_plate_nesting=1)
        losses = [loss.loss(problem.model, guide, *args, **kwargs) for loss in (one_by_one, at_once)]
    assert losses[0] == pytest.approx(losses[1], abs=0.5)


def test_stock_elbos_of_a_constrained_site() -> None:
    """Quadrature with the Jacobian, within 4 standard errors (alpha 6e-5). Twin: TraceMeanField_ELBO loses it."""
    problem = coin()

    def fixed(model):
        return full_rank(model, init=lambda site: torch.tensor(LOC, dtype=F64).sigmoid(), init_scale=SCALE)

    with pyro.get_param_store().scope(), seeded(1):
        loss, error = stock_loss(Trace_ELBO, fixed(problem.model), problem)
        lost, _ = stock_loss(TraceMeanField_ELBO, fixed(problem.model), problem)
    assert -loss == pytest.approx(coin_elbo(LOC, SCALE, jacobian=True), abs=4 * error)
    assert abs(-lost - coin_elbo(LOC, SCALE, jacobian=True)) > 10 * error


# -- batches, restarts, processes --------------------------------------------------------------------------


def analytic_elbo(problem: zoo.Problem, law: dist.MultivariateNormal) -> float:
    """ELBO of N(m, S) on linear regression with known noise, prior sd 1.5."""
    x, y, t = problem.data.x, problem.data.y, 1.5
    m, s = law.loc, law.covariance_matrix
    square = (y - x @ m).square().sum() + ((x @ s) * x).sum()
    likelihood = -0.5 * N * math.log(2 * math.pi * NOISE**2) - 0.5 * square / NOISE**2
    kl = 0.5 * ((s.trace() + m @ m) / t**2 - D + D * math.log(t**2) - torch.logdet(s))
    return float(likelihood - kl)


@pytest.mark.parametrize("size", [1, 10, N])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_batch_size_has_the_same_expected_loss_and_gradient(family, size) -> None:
    """Averaged over whole epochs: the analytic ELBO and the full gradient, to 1e-9. Twin: no n / M."""
    problem = line()
    q = variational(problem, family)
    flat = scrambled(q)
    answer = analytic_elbo(problem, gaussian(family, q, flat))
    full, elbo = expected(q, flat, Batch(), 1.0)
    assert elbo == pytest.approx(answer, abs=1e-9)
    rows = batch_rows(N, size, seed=0, restart=0, first=0, count=math.lcm(N, size) // size)

    def mean(scale: float) -> tuple[torch.Tensor, float]:
        found = [expected(q, flat, Batch(problem.data.x[r], problem.data.y[r]), scale) for r in rows]
        return torch.stack([g for g, _ in found]).mean(0), sum(e for _, e in found) / len(found)

    grad, elbo = mean(N / size)
    torch.testing.assert_close(grad, full, rtol=1e-8, atol=1e-8)
    assert elbo == pytest.approx(answer, abs=1e-9)
    if size < N:
        assert abs(mean(1.0)[1] - answer) > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_restarts_run_at_once_and_are_what_they_are_alone(family) -> None:
    options = {"guide": family, "steps": 30, "draws": 4, "seed": 4, "batch_size": 5}
    alone, together = svi.fit(line(), **options), svi.fit(line(), restarts=3, **options)
    assert together.settings["engine"] == "eager"
    torch.testing.assert_close(together.draws["w"][:1], alone.draws["w"])
    assert not torch.allclose(together.draws["w"][0], together.draws["w"][1])


FRESH = """
import torch, zoo
def fit(d):
    generator = torch.Generator().manual_seed(d)
    x = torch.randn(15, d, generator=generator, dtype=torch.float64)
    problem = zoo.load("linear_regression", zoo.Data(x, x.sum(1)))
    return zoo.run(problem, "svi", guide="full_rank", steps=20, draws=2, engine="eager", seed=1).draws["w"]
"""


@pytest.mark.slow
def test_a_fit_after_a_smaller_one_is_that_of_a_fresh_process() -> None:
    """Nothing of the first fit (parameters, shapes) is left for the second."""
    space: dict = {}
    exec(FRESH, space)
    small, large = space["fit"](3), space["fit"](5)
    command = [sys.executable, "-W", "ignore", "-c", FRESH + "print(fit(5).double().flatten().tolist())"]
    fresh = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (small.shape[-1], large.shape[-1]) == (3, 5)
    assert large.flatten().tolist() == eval(fresh)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_vanishes_draw_by_draw_where_q_is_exact(family) -> None:
    """At the posterior; twin: with log q's derivative at a fixed draw, it is 0 in the mean only."""
    problem = line()
    exact = problem.exact(problem.data, **problem.hyper).posterior["w"]
    q = variational(problem, family)
    covariance = exact.covariance_matrix
    if family == "full_rank":
        scale = torch.linalg.cholesky(covariance).diag()
        part = {"tril": torch.linalg.cholesky(covariance) / scale[:, None]}
    else:  # C = S (I + F F^T) S: scale^2 the smaller eigenvalue, F along the other's vector
        values, vectors = torch.linalg.eigh(covariance)
        scale = values[:1].sqrt().expand(D)
        part = {"factor": (vectors[:, 1:] * (values[1:] - values[0]).sqrt()) / scale[:, None]}
    part |= {"loc": exact.loc, "scale": scale.log()}
    flat = torch.cat([part[name.split(".")[1]].reshape(-1) for name in q.layout.shapes])
    noise = q.noise(0, 0, 0, (1, 1))
    with quiet():
        along, terms = q.gradient(flat[None], noise)
        q.along = False
        usual, _ = q.gradient(flat[None], noise)
    assert float(terms.elbo) == pytest.approx(problem.exact(problem.data, **problem.hyper).log_evidence, abs=1e-9)
    torch.testing.assert_close(along, torch.zeros_like(along), rtol=0, atol=1e-8)
    assert usual.abs().max() > 0.1


# -- known optima ------------------------------------------------------------------------------------------


def the_line() -> zoo.Problem:
    x = torch.linspace(0, 2, 25, dtype=F64)[:, None]
    data = zoo.Data(x, torch.tensor(right.LINE_Y, dtype=F64))
    return zoo.load("linear_regression", data=data, prior_scale=0.5**0.5, noise=0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_line_is_exact(family) -> None:
    """In two dimensions rank 1 is full: ELBO = log evidence, and every draw's. Twin: the mean-field answer."""
    fit = zoo.run(the_line(), "svi", guide=family, seed=3, **{**FIT, "steps": 1500, "lr": 0.04})
    assert fit.ok, fit.outcome
    both = torch.cat([only(fit, "b")[..., None], only(fit, "w")], -1)
    assert_close_svi(both, right.LINE["mean"], right.LINE["sd"])
    assert_elbo(fit, right.LINE["log_evidence"], right.LINE["log_evidence"])
    assert float((fit.stats["lp"] - fit.stats["logq"]).std()) < 0.2
    with pytest.raises(AssertionError):
        assert_close_svi(both, right.LINE["mean"], right.LINE["mean_field_sd"])
    with pytest.raises(AssertionError):
        assert_elbo(fit, right.LINE["mean_field_elbo"], right.LINE["log_evidence"])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_coin_keeps_its_jacobian(family) -> None:
    """Beta(1, 1), 7 of 10: mean .6667, sd .1307, within .02. Twin: without the Jacobian .700, .137."""
    fit = zoo.run(coin(), "svi", guide=family, seed=3, **{**FIT, "steps": 600, "lr": 0.03})
    theta = only(fit, "theta")
    assert_close_svi(theta, right.COIN_UNIFORM["mean"], right.COIN_UNIFORM["sd"])
    assert float(theta.mean()) == pytest.approx(right.COIN_UNIFORM["mean"], abs=0.02)
    assert float(theta.std()) == pytest.approx(right.COIN_UNIFORM["sd"], abs=0.02)
    with pytest.raises(AssertionError):
        assert_close_svi(theta, 0.700, 0.137)


def correlated() -> zoo.Problem:
    """Six inputs, two clusters of three that nearly repeat each other."""
    generator = torch.Generator().manual_seed(8)
    base = torch.randn(30, 2, generator=generator, dtype=F64).repeat_interleave(3, 1)
    x = base + 0.5 * torch.randn(30, 6, generator=generator, dtype=F64)
    y = x.sum(1) + 0.5 * torch.randn(30, generator=generator, dtype=F64)
    return zoo.load("linear_regression", zoo.Data(x, y), bias=False, noise=0.5)


@pytest.mark.slow
def test_low_rank_lies_between_mean_field_and_full_rank() -> None:
    """normal < rank 1 < rank 2 < full_rank = log evidence, each step by more than .1 nat and 5 errors."""
    problem, options = correlated(), {"steps": 1500, "lr": 0.03, "particles": 4, "draws": 10, "seed": 0}
    evidence = problem.exact(problem.data, **problem.hyper).log_evidence
    found = [zoo.run(problem, "svi", guide="normal", **options)]
    found += [zoo.run(problem, "svi", guide="low_rank", guide_options={"rank": r}, **options) for r in (1, 2)]
    found += [zoo.run(problem, "svi", guide="full_rank", **options)]
    elbo, error = zip(*((fit.settings["elbo"], fit.settings["elbo_se"]) for fit in found), strict=True)
    for i in range(3):
        assert elbo[i + 1] - elbo[i] > max(0.1, 5 * math.hypot(error[i], error[i + 1])), elbo
    assert elbo[3] == pytest.approx(evidence, abs=0.02 + 4 * error[3])
    assert all(e <= evidence + 4 * s for e, s in zip(elbo, error, strict=True))


def test_the_bar_of_the_evidence_empties() -> None:
    """full_rank on the line: ELBO + KL = log evidence at every moment, and KL goes to 0."""
    bar = evidence_bar(the_line(), "full_rank", steps=600, lr=0.05, moments=4)
    assert [m.elbo + m.kl for m in bar] == pytest.approx([right.LINE["log_evidence"]] * 4, abs=1e-6)
    assert 0 < bar[-1].kl < 0.02 < bar[0].kl


@pytest.mark.slow
def test_the_network_with_two_weights() -> None:
    """full_rank beats the mean-field optimum -2.8666 by .2 nat and stays below one mode's share of the evidence."""
    fit = zoo.run(two_weights(), "svi", guide="full_rank", seed=3, restarts=2, **FIT)
    elbo, error = fit.settings["elbo"], fit.settings["elbo_se"]
    answer = right.TWO_WEIGHTS
    assert elbo > answer["mean_field_elbo"] + 0.2
    # A Gaussian sits in one of two mirrored modes: half of the mass, log 2 below the log evidence.
    assert elbo < answer["log_evidence"] - math.log(2) + 4 * error
    mean_field = zoo.run(two_weights(), "svi", guide="normal", seed=3, restarts=2, **FIT)  # the twin
    assert mean_field.settings["elbo"] < answer["mean_field_elbo"] + 0.1


# -- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_point_sites_do_not_move_and_take_no_part(family) -> None:
    q = variational(own(schools), family, ("mu", "tau"))
    values, lp, logq = q.draw(q.start[0], q.noise(0, 0, 0, (8,)))
    assert set(q.points) == {"mu", "tau"}
    assert {"mu.point", "tau.point"} < set(q.layout.shapes)
    assert len(q.layout.split(q.start[0])[f"{family}.loc"]) == 6
    assert values["eta"].std(0).min() > 0
    assert torch.isfinite(lp + logq).all()
    nothing = variational(own(schools), family, ("mu", "tau", "eta"))
    assert nothing.noise_size == 0


def test_bad_options_are_refused() -> None:
    problem = line()
    refused(lambda: low_rank(schools, rank=0), "at least 1, got 0", "'normal'")
    refused(lambda: low_rank(schools, rank=True), "at least 1, got True")
    refused(lambda: full_rank(schools, init_scale=-1.0), "init_scale must be positive and finite, got -1")
    refused(lambda: variational(problem, "low_rank", rank=3), "at most the 2 coordinates, got 3", "'full_rank'")
    refused(lambda: variational(problem, "full_rank", ("q",)), r"point must name latent sites \['w'\]")
    wide = zoo.Problem("wide", problem.model, zoo.Data(torch.zeros(2, 10_001), torch.zeros(2)), hyper={"bias": False})
    refused(lambda: variational(wide, "full_rank"), "10001 x 10001", "'low_rank'")


@pytest.mark.parametrize("family", [*FAMILIES, "normal"])
def test_local_latents_and_minibatches(family) -> None:
    """A batch of the data, or a subsampled plate in stock Pyro: refused by name."""
    refused(
        lambda: svi.fit(own(schools), guide=family, batch_size=2, steps=2), "batch of 2 of 6 rows", "batch_size=None"
    )

    def subsampled(x, y=None):
        with pyro.plate("rows", 6, subsample_size=2) as i:
            z = pyro.sample("z", dist.Normal(x.new_zeros(()), 1.0))
            pyro.sample("y", dist.Normal(z, 1.0), obs=y[i])

    from zoo.infer.families import families

    guide = families()[family](subsampled)
    with pyro.get_param_store().scope():
        refused(lambda: guide(torch.zeros(6, 1), torch.zeros(6)), "'z'", "'rows', which shows 2 of its 6 rows")
