"""Priors over weights: their densities, the lecture's two weight sets, learned scales, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import zoo
from tests.refusals import refused
from tests.statistics import assert_close_iid, quadrature
from zoo.core.handlers import pyro_state
from zoo.core.priors import KINDS, weights
from zoo.core.sites import sites
from zoo.core.trial import log_joint

F64 = torch.float64
MODELS = ("linear_regression", "logistic_regression", "softmax_regression", "bnn_regression", "bnn_classification")


def density(kind: str, scale: float, w, **options) -> float:
    w = torch.as_tensor(w, dtype=F64)
    return float(weights(kind, scale, w.shape, w, options).log_prob(w))


# -- densities -----------------------------------------------------------------------------------------------

S1, S2 = 1.7, 1.7 * 0.1
CLOSED_FORMS = {
    "normal": ({}, lambda w: stats.norm.logpdf(w, scale=S1)),
    "laplace": ({}, lambda w: stats.laplace.logpdf(w, scale=S1)),
    "mixture": (
        {"pi": 0.25, "narrow": 0.1},
        lambda w: np.log(0.25 * stats.norm.pdf(w, scale=S1) + 0.75 * stats.norm.pdf(w, scale=S2)),
    ),
    "student_t": ({"df": 4.0}, lambda w: stats.t.logpdf(w, 4.0, scale=S1)),
    "exponential": ({}, lambda w: stats.expon.logpdf(w, scale=S1)),
    "uniform": ({}, lambda w: np.zeros_like(w)),
}


def test_every_kind_has_a_closed_form_here():
    assert set(CLOSED_FORMS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_log_density_is_the_formula(kind):
    options, right = CLOSED_FORMS[kind]
    w = np.array([[0.3, 1e-3, 2.5], [0.0, 7.0, 0.9]])
    assert density(kind, S1, w, **options) == pytest.approx(right(w).sum(), rel=1e-12)
    for entry in (0.3, 2.5):
        assert density(kind, S1, entry, **options) == pytest.approx(float(right(np.array(entry))), rel=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "uniform"])
def test_proper_kinds_integrate_to_one_and_draw_what_they_score(kind):
    """Draws of the prior against the distribution function that its density integrates to, alpha 1e-4."""
    options, _ = CLOSED_FORMS[kind]
    lowest = 0.0 if kind == "exponential" else -np.inf
    total, _ = integrate.quad(lambda w: math.exp(density(kind, S1, w, **options)), lowest, np.inf, limit=200)
    assert total == pytest.approx(1, abs=1e-6)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = weights(kind, S1, (4000,), torch.zeros((), dtype=F64), options).sample().numpy()
    at = np.array([-3.0, -0.3, -0.05, 0.05, 0.3, 3.0])
    below = [
        integrate.quad(lambda w: math.exp(density(kind, S1, w, **options)), lowest, max(a, 0 if lowest == 0 else a))[0]
        for a in at
    ]
    z = stats.norm.isf(1e-4 / 2 / len(at))
    error = np.sqrt(np.array(below) * (1 - np.array(below)) / len(draws))
    seen = (draws[:, None] < at).mean(0)
    assert (np.abs(seen - below) <= z * error + 1e-9).all()
    assert (np.abs((draws[:, None] / 1.2 < at).mean(0) - below) > z * error + 1e-9).any()  # twin: a wrong scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_prior_follows_the_tensor_it_is_like(kind, dtype):
    prior = weights(kind, 0.5, (2, 3), torch.zeros(1, dtype=dtype))
    assert prior.event_shape == (2, 3)
    value = torch.full((2, 3), 0.2, dtype=dtype)
    assert prior.log_prob(value).dtype == dtype
    stacked = torch.stack([value, 2 * value])
    batched = torch.func.vmap(weights(kind, 0.5, (2, 3), value).log_prob)(stacked)
    torch.testing.assert_close(batched, torch.stack([prior.log_prob(v) for v in stacked]))
    with pyro_state(validate=False):
        assert weights(kind, 0.5, (2, 3), value.to("meta")).log_prob(value.to("meta")).device.type == "meta"


# -- which of these weights would you prefer? ----------------------------------------------------------------

# The lecture's numbers fix how many weights there are and three sums over each set, not the weights themselves:
# eight, with sum |w| = 9.842 and sum w^2 = 19.568596 for the first. These are sets with the same sums, found with
# a root finder: (how often, size).
MODEST = [(2, 0.133962325893), (4, 1.000171650962), (2, 2.786694354)]
HUGE = [(3, 0.655711143e11), (4, 1.32901596e11), (1, 1.46650272e11)]
LECTURE = {  # Yandex, "Priors: which of these weights would you prefer?"
    "normal": ({}, -17.1358062656, -5.252817632e22),
    "laplace": ({}, -15.3871774145, -8.7497e11),
    "student_t": ({"df": 1.0}, -16.3083728431, -414.92187719),
}


def weight_set(parts) -> np.ndarray:
    return np.concatenate([np.full(count, size) for count, size in parts])


@pytest.mark.parametrize("kind", LECTURE)
def test_the_lectures_two_weight_sets(kind):
    options, modest, huge = LECTURE[kind]
    assert density(kind, 1.0, weight_set(MODEST), **options) == pytest.approx(modest, abs=1e-7)
    assert density(kind, 1.0, weight_set(HUGE), **options) == pytest.approx(huge, rel=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "uniform"])
def test_nothing_underflows_at_8e11(kind):
    """exp of these log densities is 0; they are finite and fall, in float32 as in float64."""
    for dtype in (torch.float32, F64):
        w = torch.tensor([8e11, 9e11], dtype=dtype)
        prior = weights(kind, 1.0, (), w)
        near, far = prior.log_prob(w[0]), prior.log_prob(w[1])
        assert torch.isfinite(far)
        assert far < near
    product = np.prod(stats.laplace.pdf([8e11, 1.0]))  # twin: the product of densities is no longer a number
    assert product == 0
    assert not np.isfinite(np.log(product, where=product > 0, out=np.array(-np.inf)))


# -- scales --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_all_models_take_the_same_words(name):
    layers = 2 if name.startswith("bnn") else 1
    hyper = {"hidden": 3} if layers == 2 else {}
    scale = zoo.load(name, prior_scale=0.5, **hyper)
    precision = zoo.load(name, alpha=4.0, **hyper)
    values = sites(scale).values
    assert float(log_joint(scale, values)) == pytest.approx(float(log_joint(precision, values)), rel=1e-9)
    assert float(log_joint(zoo.load(name, **hyper), values)) != pytest.approx(float(log_joint(scale, values)))
    for kind in KINDS:
        assert sites(zoo.load(name, prior=kind, **hyper)).latent
    learned = sites(zoo.load(name, prior_scale="learned", **hyper)).latent
    assert {n for n in learned if n.startswith("scale")} == ({"scale1", "scale2"} if layers == 2 else {"scale"})
    assert {n.removesuffix("_raw") for n in learned if n[0] == "w"} == ({"w1", "w2"} if layers == 2 else {"w"})


def test_a_learned_scale_multiplies_raw_weights():
    """log p = HalfNormal(scale) + p(raw) + log p(y | scale raw / sqrt(fan_in)); one scale for w and b of a layer."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 3, generator=generator, dtype=F64), torch.randn(6, generator=generator, dtype=F64)
    problem = zoo.load("bnn_regression", zoo.Data(x, y), hidden=4, noise=0.3, prior="laplace", prior_scale="learned")
    v = sites(problem).values
    w1, b1, w2, b2 = (v[f"{n}_raw"] * v[f"scale{n[1]}"] for n in ("w1", "b1", "w2", "b2"))
    f = ((x @ (w1 / 3**0.5) + b1).tanh() @ (w2 / 2) + b2)[:, 0]
    right = stats.norm.logpdf(y, f, 0.3).sum()
    right += sum(stats.halfnorm.logpdf(float(v[n])) for n in ("scale1", "scale2"))
    right += sum(stats.laplace.logpdf(v[n]).sum() for n in ("w1_raw", "b1_raw", "w2_raw", "b2_raw"))
    assert float(log_joint(problem, v)) == pytest.approx(right, rel=1e-12)


def test_prior_draws_of_a_learned_scale():
    """E w^2 = E scale^2 = 1 and E w^4 / 3 = E scale^4 = 3, alpha 1e-4; weights of their own scale each fail jointly."""
    problem = zoo.load("linear_regression", zoo.Data(torch.eye(2), torch.zeros(2)), prior_scale="learned", bias=False)
    w = zoo.run(problem, "prior", draws=40_000, seed=0).predict()["w"]
    assert w.shape == (1, 40_000, 2)
    one, two = w.double().unbind(-1)
    assert_close_iid(one, 0.0, 1.0)
    assert_close_iid(one * two, 0.0)
    assert_close_iid((one * two).square(), 3.0)  # the scale is shared: E scale^4, not (E scale^2)^2 = 1
    with pytest.raises(AssertionError):
        assert_close_iid((one * two.roll(1)).square(), 3.0)


@pytest.mark.parametrize("method", ["prior", "map", "laplace"])
def test_the_draws_hold_the_weights_of_the_formula(method):
    """w = scale w_raw / sqrt(fan_in) and b = scale b_raw at every draw; w_raw itself is something else."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(9, 2, generator=generator, dtype=F64), torch.randn(9, generator=generator, dtype=F64)
    problem = zoo.load("bnn_regression", zoo.Data(x, y), hidden=3, noise=0.5, prior_scale=("learned", 0.5))
    draws = zoo.run(problem, method, seed=0).draws
    scale = draws["scale1"][..., None]
    torch.testing.assert_close(draws["w1"], scale[..., None] * draws["w1_raw"] / 2**0.5)
    torch.testing.assert_close(draws["b1"], scale * draws["b1_raw"])
    assert "w2_raw" not in draws
    with pytest.raises(AssertionError):
        torch.testing.assert_close(draws["w1"], draws["w1_raw"])


def learned_line() -> zoo.Problem:
    x = torch.tensor([[-1.0], [0.5], [2.0]], dtype=F64)
    return zoo.load("linear_regression", zoo.Data(x, 0.7 * x[:, 0] + 0.1), prior_scale="learned", bias=False, noise=0.5)


def learned_answer():
    """E w, E w^2, log evidence by quadrature over (log scale, raw)."""
    data = learned_line().data
    x, y = data.x[:, 0].numpy(), data.y.numpy()

    def log_f(u):
        s, raw = np.exp(u[:, 0]), u[:, 1]
        fit = stats.norm.logpdf(y, (s * raw)[:, None] * x, 0.5).sum(1)
        return fit + stats.norm.logpdf(raw) + stats.halfnorm.logpdf(s) + u[:, 0]

    found = quadrature(log_f, [(-25.0, 3.0), (-8.0, 8.0)], nodes=600)
    mean = [float(found.mean(lambda u, k=k: (np.exp(u[:, 0]) * u[:, 1]) ** k)) for k in (1, 2)]
    return mean[0], (mean[1] - mean[0] ** 2) ** 0.5, found.log_z


def test_a_learned_scale_by_svi_laplace_map_and_prediction():
    """ELBO below the log evidence and near it; predictions carry w, and f = x w."""
    mean, sd, evidence = learned_answer()
    problem = learned_line()
    fit = zoo.run(problem, "svi", steps=1500, lr=0.02, draws=4000, seed=0)
    elbo = float((fit.stats["lp"] - fit.stats["logq"]).mean())
    assert evidence - 1 < elbo < evidence
    out = fit.predict(torch.tensor([[2.0]], dtype=F64))
    torch.testing.assert_close(out["f"][..., 0], 2 * out["w"][..., 0])
    assert abs(float(out["w"].mean()) - mean) < 0.3 * sd
    assert zoo.run(problem, "laplace", draws=10).ok
    assert zoo.run(problem, "map").ok


@pytest.mark.slow
def test_a_learned_scale_by_nuts():
    """Means within z MCSE of quadrature, alpha 1e-4; the scale left at 1 fails."""
    mean, sd, _ = learned_answer()
    fit = zoo.run(learned_line(), "nuts", chains=8, draws=1500, warmup=300, target_accept=0.95, seed=0)
    w = fit.predict()["w"][..., 0]
    scatter = w.mean(1)  # eight chains are eight independent estimates
    error = float(scatter.std() / 8**0.5)
    assert abs(float(scatter.mean()) - mean) < stats.t.isf(5e-5, 7) * error
    assert float(w.std()) == pytest.approx(sd, rel=0.05)
    fixed = zoo.load("linear_regression", learned_line().data, bias=False, noise=0.5)
    twin = float(fixed.exact(fixed.data, bias=False, noise=0.5).posterior["w"].mean[0])
    assert abs(twin - mean) > stats.t.isf(5e-5, 7) * error


# -- what is refused -----------------------------------------------------------------------------------------


def test_words_and_numbers_that_mean_nothing_are_refused():
    like = torch.zeros(1)
    refused(lambda: weights("gauss", 1.0, (2,), like), "unknown prior 'gauss'", "normal")
    refused(lambda: weights("cauchy", 1.0, (2,), like), "unknown prior 'cauchy'", "student_t")
    refused(lambda: weights("student_t", 1.0, (2,), like, {"nu": 3}), "unknown option 'nu'", "df")
    refused(lambda: weights("laplace", 1.0, (2,), like, {"b": 3}), "prior 'laplace' takes none, got 'b'")
    refused(lambda: weights("student_t", 1.0, (2,), like, {"df": 0}), "'df'", "positive", "got 0")
    refused(lambda: weights("mixture", 1.0, (2,), like, {"pi": 1.0}), "between 0 and 1, got 1.0")
    refused(lambda: weights("mixture", 1.0, (2,), like, [1]), "must be a dict, got")


@pytest.mark.parametrize("hyper", [{"prior_scale": 2.0}, {"alpha": 1.0}, {"prior_scale": "learned"}], ids=str)
def test_a_flat_prior_has_no_scale(hyper):
    (name,) = hyper
    refused(lambda: sites(zoo.load("logistic_regression", prior="uniform", **hyper)), f"^{name} means nothing", "got")


def test_a_flat_prior_cannot_be_drawn_from():
    for name in MODELS:
        refused(lambda n=name: zoo.run(zoo.load(n, prior="uniform"), "prior"), "site 'w1?'", "improper", "nuts")


@pytest.mark.parametrize("hyper", [{"prior": "laplace"}, {"prior_scale": "learned"}, {"noise": None}], ids=str)
def test_exact_wants_a_normal_prior_of_known_scale(hyper):
    refused(lambda: zoo.run(zoo.load("linear_regression", **hyper), "exact"), "exact needs a known noise", "nuts")


def test_exact_takes_a_precision():
    """The slides' alpha: the posterior of prior_scale = alpha^-1/2."""
    one = zoo.run(zoo.load("linear_regression", alpha=4.0), "exact", draws=1)
    two = zoo.run(zoo.load("linear_regression", prior_scale=0.5), "exact", draws=1)
    assert one.settings["log_evidence"] == pytest.approx(two.settings["log_evidence"], rel=1e-12)
    assert one.settings["log_evidence"] != pytest.approx(
        zoo.run("linear_regression", "exact", draws=1).settings["log_evidence"]
    )
