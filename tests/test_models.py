"""The models' densities against formulas written by hand, and their exact answers against brute force."""

from __future__ import annotations

import dataclasses
import importlib
import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import special, stats
from torch.fx.experimental.proxy_tensor import make_fx

import zoo
from tests.refusals import refused
from tests.statistics import assert_close_iid, quadrature
from zoo.core import priors, scales
from zoo.core.conjugate import linear_gaussian
from zoo.core.handlers import pyro_state
from zoo.core.sites import sites
from zoo.core.trial import log_joint
from zoo.data import toy
from zoo.infer.methods import prior

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def log_normal(value: torch.Tensor, sd: float = 1.0) -> float:
    return float(stats.norm.logpdf(np.asarray(value), scale=sd).sum())


# -- densities -----------------------------------------------------------------------------------------------


def test_logistic_density_is_the_formula():
    x, y = normal(20, 3), (normal(20, seed=1) > 0).to(F64)
    w, b = normal(3, seed=2), normal(1, seed=3)[0]
    p = torch.sigmoid(x @ w + b)
    right = float((y * p.log() + (1 - y) * (1 - p).log()).sum()) + log_normal(w, 2.0) + log_normal(b, 2.0)
    problem = zoo.load("logistic_regression", zoo.Data(x, y), prior_scale=2.0)
    assert float(log_joint(problem, {"w": w, "b": b})) == pytest.approx(right, rel=1e-12)


def softmax_joint(x, y, w, b):
    s = (x @ w + b).exp()
    p = s / s.sum(1, keepdim=True)
    return float(p[range(len(y)), y].log().sum()) + log_normal(w) + log_normal(b)


def test_softmax_density_is_the_formula():
    """exp(s_ik) / sum_j exp(s_ij); the slide's exp(s_i) / sum_k exp(s_k), a sum over rows, is another number."""
    x, y = normal(20, 3), torch.arange(20) % 4
    w, b = normal(3, 4, seed=2), normal(4, seed=3)
    problem = zoo.load("softmax_regression", zoo.Data(x, y))
    assert problem.hyper == {"classes": 4}
    found = float(log_joint(problem, {"w": w, "b": b}))
    assert found == pytest.approx(softmax_joint(x, y, w, b), rel=1e-12)
    over_rows = (x @ w + b).softmax(0)[range(20), y].log().sum()
    assert abs(found - log_normal(w) - log_normal(b) - float(over_rows)) > 1


def test_two_classes_by_softmax_are_a_logistic_regression_of_the_difference():
    """Scores w0, w1 of sd s: the logit's weights w1 - w0 have sd s sqrt(2); p(y) is that of the difference."""
    x, y = normal(20, 3), (normal(20, seed=1) > 0).long()
    w, b = normal(3, 2, seed=2), normal(2, seed=3)
    two = zoo.run(zoo.load("softmax_regression", zoo.Data(x, y)), "prior", draws=1)
    two = dataclasses.replace(two, draws={"w": w[None, None], "b": b[None, None]})
    one = zoo.run(zoo.load("logistic_regression", zoo.Data(x, y)), "prior", draws=1)
    one = dataclasses.replace(one, draws={"w": (w[:, 1] - w[:, 0])[None, None], "b": (b[1] - b[0])[None, None]})
    torch.testing.assert_close(two.log_likelihood(), one.log_likelihood())
    torch.testing.assert_close(two.predict()["mean"][..., 1], one.predict()["mean"])


@pytest.mark.parametrize("classes", [2, 3])
def test_no_hidden_layer_is_a_linear_classifier(classes):
    x, y = normal(8, 3), torch.arange(8) % classes
    network = zoo.load("bnn_classification", zoo.Data(x, y), hidden=(), scaling="none")
    w, b = normal(3, 1 if classes == 2 else 3, seed=2), normal(1 if classes == 2 else 3, seed=3)
    if classes == 2:
        right = log_joint(zoo.load("logistic_regression", zoo.Data(x, y)), {"w": w[:, 0], "b": b[0]})
    else:
        right = log_joint(zoo.load("softmax_regression", zoo.Data(x, y)), {"w": w, "b": b})
    assert float(log_joint(network, {"w1": w, "b1": b})) == pytest.approx(float(right), rel=1e-12)


@pytest.mark.parametrize("name", ["softmax_regression", "bnn_classification"])
@pytest.mark.parametrize("table, classes", [("iris", 3), ("digits", 10), ("breast_cancer", 2)])
def test_the_number_of_classes_is_read_off_a_table(name, table, classes):
    problem = zoo.load(name, table)
    assert problem.hyper["classes"] == classes
    f = sites(problem)
    assert len(problem.data.info["classes"]) == classes
    assert f.observed["y"].shape == problem.data.y.shape


def test_labels_of_many_classes():
    x = normal(6, 2)

    def load(y, name="softmax_regression", **hyper):
        return zoo.load(name, zoo.Data(x, y), **hyper)

    assert load(torch.tensor([-1, 1, 1, -1, 1, 1])).data.y.tolist() == [0, 1, 1, 0, 1, 1]
    assert load(torch.tensor([0.0, 2, 1, 0, 2, 1])).data.y.dtype == torch.int64
    assert load([0, 1, 0, 1, 1, 1], classes=5).hyper["classes"] == 5
    refused(lambda: load([0, 1, 2, 0, 1, 2], classes=2), "classes must be at least the 3", "got 2")
    refused(lambda: load([1.5, 0, 1, 0, 1, 1]), "whole numbers 0 ... k - 1", "1.5", "return_inverse")
    refused(lambda: load([-2, 0, 1, 0, 1, 1]), "whole numbers", "-2")
    refused(lambda: load([0, 1999, 2001, 2003, 1, 1]), "in 6 rows", "classes=2004")
    refused(lambda: load(torch.zeros(6, 3)), r"labels must be \(n,\)", "argmax")
    named = zoo.Data(x, [0, 1, 2, 3, 0, 1], info={"classes": ["a", "b"]})
    refused(lambda: zoo.load("bnn_classification", named), "whole numbers", "4 different")


def test_moons_and_wheel_are_what_they_say():
    """Every class has its share, and noise-free moons lie on their half circles."""
    moons, wheel = toy.moons(n=2000, noise=1e-9), toy.wheel(n=3000, classes=4)
    upper = moons.x[moons.y == 0] + torch.tensor([0.5, 0.25])
    torch.testing.assert_close(upper.norm(dim=1), torch.ones(len(upper)), atol=1e-5, rtol=0)
    assert float(upper[:, 1].min()) > -1e-5
    lower = moons.x[moons.y == 1] + torch.tensor([-0.5, -0.25])
    torch.testing.assert_close(lower.norm(dim=1), torch.ones(len(lower)), atol=1e-5, rtol=0)
    assert float(lower[:, 1].max()) < 1e-5
    assert abs(float((moons.y == 0).float().mean()) - 0.5) < 0.05
    centres = torch.stack([wheel.x[wheel.y == j].mean(0) for j in range(4)])
    right = 2.0 * torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    assert float((centres - right).abs().max()) < 5 / 700**0.5


@pytest.mark.parametrize(
    ("hyper", "sds"),
    [
        ({}, [1 / math.sqrt(3), 1, 0.5, 1]),
        ({"scaling": "none"}, [1, 1, 1, 1]),
        ({"prior_scale": (2.0, 3.0)}, [2 / math.sqrt(3), 2, 1.5, 3]),
        ({"alpha": (4.0, 0.25), "scaling": "none"}, [0.5, 0.5, 2, 2]),
    ],
)
def test_network_density_is_the_formula(hyper, sds):
    x, y = normal(6, 3), normal(6, seed=1)
    values = {
        "w1": normal(3, 4, seed=2),
        "b1": normal(4, seed=3),
        "w2": normal(4, 1, seed=4),
        "b2": normal(1, seed=5),
    }
    f = ((x @ values["w1"] + values["b1"]).tanh() @ values["w2"] + values["b2"])[:, 0]
    right = log_normal(y - f, 0.3) + sum(log_normal(v, sd) for v, sd in zip(values.values(), sds, strict=True))
    problem = zoo.load("bnn_regression", zoo.Data(x, y), hidden=4, noise=0.3, **hyper)
    assert float(log_joint(problem, values)) == pytest.approx(right, rel=1e-12)


def test_no_hidden_layer_is_linear_regression():
    x, y = normal(6, 3), normal(6, seed=1)
    w, b = normal(3, seed=2), normal(1, seed=3)
    network = zoo.load("bnn_regression", zoo.Data(x, y), hidden=(), noise=0.6, scaling="none")
    line = zoo.load("linear_regression", zoo.Data(x, y))
    got = log_joint(network, {"w1": w[:, None], "b1": b})
    assert float(got) == pytest.approx(float(log_joint(line, {"w": w, "b": b[0]})), rel=1e-12)


def test_the_lecture_network_has_152_parameters():
    latent = sites(zoo.load("bnn_regression", scaling="none")).latent
    assert [math.prod(site.shape) for site in latent.values()] == [50, 50, 50, 1, 1]


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        ({"activation": "tahn"}, "'tahn'.*mean 'tanh'"),
        ({"prior": "gauss"}, "unknown prior 'gauss'.*normal"),
        ({"scaling": "fan"}, "'fan_in' or 'none', got 'fan'"),
        ({"prior_scale": (1.0, 1.0, 1.0)}, "one number or 2, one a weight layer, got 3"),
        ({"alpha": 2.0, "prior_scale": 2.0}, "got both"),
    ],
)
def test_hyperparameters_that_mean_nothing_are_refused(hyper, message):
    with pytest.raises(ValueError, match=message) as error:
        sites(zoo.load("bnn_regression", **hyper))
    assert "\n" not in str(error.value)


NO_SCALE = (0, -1, float("nan"), float("inf"), "x", None, True, 10**400)
NO_COUNT = (0, -1, 2.5, "x", None, True)
WRONG = [
    *(("coin_flip", {name: v}) for name in ("a", "b") for v in NO_SCALE),
    *(
        ("linear_regression", {name: v})
        for name in ("noise", "prior_scale")
        for v in NO_SCALE
        if (name, v) != ("noise", None)
    ),
    *(("bnn_regression", {"noise": v}) for v in NO_SCALE if v is not None),
    *(("bnn_regression", {"alpha": v}) for v in NO_SCALE if v is not None),
    *(("bnn_regression", {"prior_scale": v}) for v in (*NO_SCALE, (1.0, 0.0), (1.0, "x"), (1.0,), "xy", ())),
    *((name, {"prior_scale": v}) for name in ("logistic_regression", "softmax_regression") for v in NO_SCALE),
    *((name, {"prior_scale": "learnt"}) for name in ("linear_regression", "bnn_classification")),
    *((name, {"alpha": v}) for name in ("linear_regression", "softmax_regression") for v in NO_SCALE if v is not None),
    *((name, {"alpha": "learned"}) for name in ("logistic_regression", "bnn_classification")),
    *((name, {"classes": v}) for name in ("softmax_regression", "bnn_classification") for v in NO_COUNT),
    *(("bnn_regression", {"hidden": v}) for v in (*NO_COUNT, (3, 0), (3, "x"), "xy", (2.0,))),
    *((name, {"outputs": v}) for name in ("linear_regression", "bnn_regression") for v in NO_COUNT),
    *((name, {"bias": v}) for name in ("linear_regression", "logistic_regression") for v in (0, 1, "x", None)),
]


@pytest.mark.parametrize("name, hyper", WRONG, ids=str)
def test_hyperparameters_of_the_wrong_kind_are_refused_by_name(name, hyper):
    module, (word,) = importlib.import_module(f"zoo.{name}"), hyper
    data = module.prepare(module.data())
    refused(lambda: module.model(data.x, data.y, **hyper), rf"^{word}\b", "got")
    if hasattr(module, "exact"):
        refused(lambda: module.exact(data, **hyper), rf"^{word}\b", "got")


@pytest.mark.parametrize("number", [float, int, torch.tensor, np.float64])
def test_numbers_of_every_kind_are_taken(number):
    zoo.coin_flip.model(torch.zeros(2, 0), a=number(2.0), b=number(2.0))
    zoo.linear_regression.model(normal(3, 1).float(), noise=number(2.0), prior_scale=number(2.0))
    zoo.bnn_regression.model(normal(3, 1), noise=number(2.0), prior_scale=(number(2.0), 1), hidden=np.int64(3))


def test_a_tensor_hyperparameter_may_be_traced_and_batched():
    def f(scale):
        layers = scales.layer_scales(1.0, scale, 2)
        return priors.weights("normal", layers[0], (3,), scale).log_prob(torch.ones(3))

    scale = torch.tensor([0.5, 2.0])
    with pyro_state(validate=False):
        right = torch.stack([f(s) for s in scale])
        torch.testing.assert_close(torch.func.vmap(f)(scale), right)
        torch.testing.assert_close(make_fx(f)(scale[0])(scale[1]), right[1])


@pytest.mark.parametrize(
    "make",
    [
        *(lambda v=v: toy.line(n=v) for v in NO_COUNT),
        *(lambda v=v: toy.line(outputs=v) for v in NO_COUNT),
        *(lambda v=v: toy.sin_x_plus_x(n=v) for v in NO_COUNT),
        *(lambda v=v: toy.blobs(d=v) for v in NO_COUNT),
        *(lambda v=v: toy.moons(n=v) for v in NO_COUNT),
        *(lambda v=v: toy.wheel(classes=v) for v in NO_COUNT),
        *(lambda v=v: toy.flips(n=v) for v in NO_COUNT),
        *(lambda v=v: toy.flips(n=3, heads=v) for v in (-1, 4, 1.5, "x")),
    ],
)
def test_sizes_of_generated_data_are_whole_numbers(make):
    refused(make, "^(n|outputs|d|heads|classes) must be", "whole number", "got")


# -- exact answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [0, 1, 4, None])
def test_coin_against_quadrature(rows):
    problem = zoo.load("coin_flip", n=9, heads=6, a=1.5, b=0.7)
    y = problem.data.y[:rows].numpy()
    answer = zoo.coin_flip.exact(problem.data, rows=rows, a=1.5, b=0.7)

    def log_f(u):  # in logits, where the density of Beta(1.5, .7) has no singular end
        log_p, log_not_p = -np.logaddexp(0, -u[:, 0]), -np.logaddexp(0, u[:, 0])
        before = 1.5 * log_p + 0.7 * log_not_p - special.betaln(1.5, 0.7)
        return before + log_p * y.sum() + log_not_p * (1 - y).sum()

    found = quadrature(log_f, [(-50.0, 60.0)], nodes=1000)
    assert answer.log_evidence == pytest.approx(found.log_z, abs=1e-7)
    mean = found.mean(lambda u: special.expit(u[:, 0]))
    assert float(answer.posterior["theta"].mean) == pytest.approx(float(mean), abs=1e-7)
    assert float(answer.predictive(torch.empty(3, 0)).mean[2]) == pytest.approx(float(mean), abs=1e-7)


@pytest.mark.parametrize("k", [1, 3])
def test_linear_gaussian_against_brute_force(k):
    x, y = normal(12, 4), normal(12, k, seed=1)
    answer = linear_gaussian(x, y, prior_scale=1.7, noise=0.4)
    cov = 1.7**2 * (x @ x.T).numpy() + 0.4**2 * np.eye(12)
    evidence = sum(stats.multivariate_normal.logpdf(y[:, j], cov=cov) for j in range(k))
    assert float(answer.log_evidence) == pytest.approx(evidence, rel=1e-11)
    precision = torch.eye(4, dtype=F64) / 1.7**2 + x.T @ x / 0.4**2
    torch.testing.assert_close(answer.covariance, torch.linalg.inv(precision))
    torch.testing.assert_close(answer.mean, torch.linalg.solve(precision, x.T @ y / 0.4**2))


def test_linear_gaussian_survives_an_offset_of_1e8():
    """QR keeps half the digits where the normal equations lose all of them."""
    x = torch.cat([normal(50, 1), torch.ones(50, 1, dtype=F64)], 1)
    far = x @ torch.tensor([[1.0, 0.0], [1e8, 1.0]], dtype=F64)  # column 0 shifted by 1e8
    y = x[:, :1] * 2 + 0.1 * normal(50, 1, seed=1)
    right = x @ linear_gaussian(x, y, prior_scale=1e9, noise=0.1).mean
    fitted = far @ linear_gaussian(far, y, prior_scale=1e9, noise=0.1).mean
    torch.testing.assert_close(fitted, right, atol=1e-4, rtol=0)
    twin = far @ torch.linalg.solve_ex(far.T @ far, far.T @ y)[0]  # on some machines singular: infinite
    assert not float((twin - right).abs().max()) < 0.1


def test_parts_add_up_to_the_predictive():
    data = zoo.Data(normal(9, 2), normal(9, 3, seed=1))
    x, hyper = normal(5, 2, seed=2), {"noise": 0.3, "outputs": 3, "prior_scale": 2.0}
    at = zoo.linear_regression.parts(data, x, **hyper)
    predictive = zoo.linear_regression.exact(data, **hyper).predictive(x)
    assert predictive.batch_shape == (5,)
    torch.testing.assert_close(predictive.mean, at["mean"])
    torch.testing.assert_close(predictive.variance, at["epistemic"] + at["aleatoric"])
    assert float(at["aleatoric"].max()) == pytest.approx(0.09)
    more = zoo.linear_regression.parts(data, x, rows=4, **hyper)
    assert (more["epistemic"] > at["epistemic"]).all()  # more data shrink this part
    assert torch.equal(more["aleatoric"], at["aleatoric"])  # and not this one


@pytest.mark.parametrize("hyper", [{}, {"bias": False}, {"outputs": 2}, {"noise": 0.2, "prior_scale": 3.0}])
def test_exact_draws_have_the_evidence_at_every_one(hyper):
    y = normal(15, 2, seed=1) if "outputs" in hyper else normal(15, seed=1)
    fit = zoo.run(zoo.load("linear_regression", zoo.Data(normal(15, 3), y), **hyper), "exact", chains=2, draws=50)
    gap = fit.stats["lp"] - fit.stats["logq"]
    assert gap.shape == (2, 50)
    torch.testing.assert_close(gap, torch.full_like(gap, fit.settings["log_evidence"]), rtol=1e-10, atol=1e-9)
    assert fit.kind == "iid"
    assert not fit.history


def _correlated() -> zoo.Problem:
    x = 3 + normal(20, 1)  # far from 0: slope and intercept pull against each other
    return zoo.load("linear_regression", zoo.Data(x, x[:, 0] + 0.6 * normal(20, seed=1)))


def test_exact_draws_are_joint():
    """Mean and sd of w, b and w + b, alpha 1e-4; drawing w and b apart fails on w + b."""
    problem = _correlated()
    fit = zoo.run(problem, "exact", draws=20000, seed=1)
    joint = fit.exact.posterior["w", "b"]
    turn = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=F64)
    mean, sd = turn @ joint.mean, (turn @ joint.covariance_matrix @ turn.T).diagonal().sqrt()

    def sums(w, b):
        return torch.stack([w, b], -1) @ turn.T

    w, b = fit.draws["w"][..., 0], fit.draws["b"]
    assert_close_iid(sums(w, b), mean, sd)
    with pytest.raises(AssertionError, match="sd of coordinate 2"):
        assert_close_iid(sums(w, b.flip(1)), mean, sd)


def test_exact_after_some_rows_is_a_posterior_of_other_data():
    problem = zoo.load("coin_flip", n=10, heads=7)
    five, all_rows = zoo.run(problem, "exact", rows=5), zoo.run(problem, "exact")
    assert five.problem.hash != all_rows.problem.hash
    assert five.settings["log_evidence"] == pytest.approx(
        float((five.stats["lp"] - five.stats["logq"]).mean()), abs=1e-5
    )
    none = zoo.run(problem, "exact", rows=0, draws=20000)
    assert_close_iid(none.draws["theta"], 0.5, 12**-0.5)
    with pytest.raises(ValueError, match="between 0 and the 10 rows"):
        zoo.run(problem, "exact", rows=11)


def test_exact_of_a_model_without_one_names_what_works():
    with pytest.raises(ValueError, match=r"'bnn_regression' has no exact.*nuts"):
        zoo.run("bnn_regression", "exact")


def test_exact_must_cover_every_latent():
    def exact(data):
        return zoo.Exact({"b": dist.Normal(0.0, 1.0)}, None, 0.0)

    problem = _correlated()
    with pytest.raises(ValueError, match="every latent site"):
        zoo.run(zoo.Problem("half", problem.model, problem.data, exact=exact), "exact")


def test_theta_that_rounds_to_one_stays_inside():
    fit = zoo.run(zoo.load("coin_flip", a=1e6), "exact", draws=2000)
    assert torch.isfinite(fit.stats["lp"]).all()
    assert float(fit.draws["theta"].max()) < 1


# -- the prior -----------------------------------------------------------------------------------------------


def funnel(x, y=None):
    scale = pyro.sample("scale", dist.LogNormal(x.new_zeros(()), 0.5))
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), scale))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(w, 1.0), obs=y)


def test_prior_of_independent_sites_is_drawn_at_once_and_right():
    problem = zoo.load("coin_flip", a=2.0, b=5.0)
    assert prior._independent(problem, sites(problem).latent)
    draws = zoo.run(problem, "prior", draws=10000, chains=2, seed=3).draws["theta"]
    assert draws.shape == (2, 10000)
    assert_close_iid(draws, 2 / 7, math.sqrt(10 / (49 * 8)))
    with pytest.raises(AssertionError):  # twin: the posterior of two heads, a look at y
        assert_close_iid(zoo.run(problem, "exact", draws=20000).draws["theta"], 2 / 7)


def test_prior_of_dependent_sites_is_drawn_in_order():
    """w / scale ~ N(0, 1) and E w^2 = E scale^2, alpha 1e-4; drawing w from the first run's scale fails."""
    problem = zoo.Problem("funnel", funnel, zoo.Data(torch.zeros(2, 0), torch.zeros(2)))
    latent = sites(problem).latent
    assert not prior._independent(problem, latent)
    draws = zoo.run(problem, "prior", draws=2000, seed=1).draws
    assert_close_iid(draws["w"] / draws["scale"], 0.0, 1.0)
    frozen, _ = prior._at_once(problem, latent, 2000)
    with pytest.raises(AssertionError, match="sd of coordinate 0"):
        assert_close_iid((frozen["w"] / frozen["scale"])[None], 0.0, 1.0)


def test_prior_of_a_branching_model_is_drawn_in_order():
    def model(x, y=None):
        first = pyro.sample("first", dist.Normal(x.new_zeros(()), 1.0))
        pyro.sample("second", dist.Normal(x.new_zeros(()), 1.0 if first < 9 else 2.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(first, 1.0), obs=y)

    problem = zoo.Problem("branch", model, zoo.Data(torch.zeros(2, 0), torch.zeros(2)))
    assert not prior._independent(problem, sites(problem).latent)


def test_prior_lp_and_log_likelihood_are_the_density():
    from zoo.infer.density import density

    funnelled = zoo.Problem("funnel", funnel, zoo.Data(torch.zeros(2, 0, dtype=F64), normal(2)))
    network = zoo.load("bnn_regression", hidden=3).to(dtype=F64)
    for problem in (funnelled, network):
        fit = zoo.run(problem, "prior", draws=5)
        target = density(problem)
        position = target.unconstrain({name: value[0] for name, value in fit.draws.items()})
        right = target.log_prob(position) - fit.log_likelihood()[0].sum(-1)
        torch.testing.assert_close(fit.stats["lp"][0], right, rtol=1e-9, atol=1e-9)


def test_prior_leaves_the_param_store_as_found():
    def model(x, y=None):
        scale = pyro.param("scale", torch.ones(()), constraint=dist.constraints.positive)
        w = pyro.sample("w", dist.Normal(pyro.param("loc", torch.zeros(())), scale))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(w.expand(x.shape[0]), 1.0), obs=y)

    store = pyro.get_param_store()
    with store.scope():
        kept = pyro.param("loc", torch.tensor(50.0))
        draws = prior.fit(zoo.Problem("p", model, zoo.Data(torch.zeros(3, 0))), draws=20).draws["w"]
        assert set(store.keys()) == {"loc"}
        assert pyro.param("loc") is kept
        assert abs(float(draws.mean()) - 50) < 5


@pytest.mark.parametrize("handler", ["mask", "scale"])
def test_prior_of_a_site_with_a_tensor_mask_or_scale(handler):
    weights = torch.tensor([1.0, 0.0, 1.0])
    inside = pyro.poutine.mask(mask=weights > 0) if handler == "mask" else pyro.poutine.scale(scale=weights + 1)

    def model(x, y=None):
        with pyro.plate("three", 3), inside:
            w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(w.sum().expand(x.shape[0]), 1.0), obs=y)

    fit = prior.fit(zoo.Problem("masked", model, zoo.Data(torch.zeros(2, 0))), draws=4)
    terms = dist.Normal(0.0, 1.0).log_prob(fit.draws["w"]).double()
    counted = weights if handler == "mask" else weights + 1
    torch.testing.assert_close(fit.stats["lp"], (terms * counted).sum(-1), rtol=1e-6, atol=1e-6)


def test_prior_looks_at_no_y():
    x = normal(5, 2)
    one, two, none = (zoo.load("linear_regression", zoo.Data(x, y)) for y in (normal(5), normal(5) + 9, None))
    draws = [zoo.run(p, "prior", draws=10, seed=4).draws["w"] for p in (one, two, none)]
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(draws[0], draws[2])


def test_improper_priors_are_refused_by_name():
    def model(x, y=None):
        flat = pyro.sample("flat", dist.ImproperUniform(dist.constraints.real, (), (2,)))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ flat, 1.0), obs=y)

    with pytest.raises(ValueError, match="site 'flat' has an improper prior"):
        zoo.run(zoo.Problem("flat", model, zoo.Data(torch.ones(4, 2), torch.ones(4))), "prior")


@pytest.mark.parametrize("method", ["prior", "exact"])
def test_draws_follow_the_seed_and_leave_the_generator(method):
    before = torch.random.get_rng_state()
    first, again, other = (zoo.run("linear_regression", method, draws=5, seed=s).draws["w"] for s in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
