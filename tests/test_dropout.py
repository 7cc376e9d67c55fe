"""bernoulli_dropout: the objective against sums over all masks, stock Pyro, rows, kernels, refusals."""

from __future__ import annotations

import itertools
import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import init_to_value
from torch.nn import functional

import zoo
from guides.bernoulli_dropout import bernoulli_dropout
from guides.matrices import glorot
from tests.refusals import refused
from tests.test_guides import variational
from zoo.core.randomness import seeded
from zoo.infer.evidence import evidence_bar
from zoo.infer.prepared import Batch, quiet
from zoo.infer.product import Product
from zoo.report.density_ratio import density_facts

F64 = torch.float64
P, S, NOISE = 0.3, 0.8, 0.5
M1 = torch.tensor([[0.7, -0.4], [0.2, 1.1]], dtype=F64)
M2 = torch.tensor([[0.9], [-0.6]], dtype=F64)
B = torch.tensor([0.3, -0.1], dtype=F64)
START = {"w1": M1, "b1": B, "w2": M2}


def net(x, y=None):
    """2-2-1, tanh, one bias vector; priors N(0, .8^2)."""
    w1 = pyro.sample("w1", dist.Normal(x.new_zeros(2, 2), S).to_event(2))
    b1 = pyro.sample("b1", dist.Normal(x.new_zeros(2), S).to_event(1))
    w2 = pyro.sample("w2", dist.Normal(x.new_zeros(2, 1), S).to_event(2))
    f = pyro.deterministic("f", ((x @ w1 + b1).tanh() @ w2).squeeze(-1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, NOISE), obs=y)


def problem(rows: int = 5) -> zoo.Problem:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 2, generator=generator, dtype=F64)
    return zoo.Problem("net", net, zoo.Data(x, torch.linspace(-1, 1, rows, dtype=F64)))


def started(values=None):
    return init_to_value(values=START if values is None else values)


def log_likelihood(data: zoo.Data, w1, w2) -> torch.Tensor:
    f = ((data.x @ w1 + B).tanh() @ w2).squeeze(-1)
    return dist.Normal(f, NOISE).log_prob(data.y)


def penalty(p1: float, p2: float) -> float:
    """sum (1 - p) |M|^2 / (2 s^2) + |b|^2 / (2 s^2)."""
    return float(((1 - p1) * M1.square().sum() + (1 - p2) * M2.square().sum() + B.square().sum()) / (2 * S**2))


def masks():
    """(probability, z1, z2) of all 16 masks."""
    for bits in itertools.product([0.0, 1.0], repeat=4):
        chance = math.prod(1 - P if bit else P for bit in bits)
        z = torch.tensor(bits, dtype=F64)
        yield chance, z[:2], z[2:]


def objective() -> float:
    """E_z log p(y | diag(z) M) - penalty, by the sum over all masks."""
    data = problem().data
    terms = [c * log_likelihood(data, z1[:, None] * M1, z2[:, None] * M2).sum() for c, z1, z2 in masks()]
    return float(sum(terms)) - penalty(P, P)


def fit(**options):
    return variational(problem(), bernoulli_dropout, rate=P, init=started(), **options)


# -- the objective -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["draw", "row"])
def test_the_objective_is_the_sum_over_all_masks(mask) -> None:
    """Within 4 standard errors (alpha 6e-5). Twins: penalties |M|^2, and (1 - p)^2 |M|^2, lie far outside."""
    q = fit(mask=mask)
    assert q.by_row == (mask == "row")
    shape = (20_000, 5) if q.by_row else (20_000,)
    with quiet():
        each = torch.func.vmap(lambda e: q.terms(q.start[0], e[None], None, None, 1.0).elbo)(q.noise(0, 0, 0, shape))
    error = float(each.std()) / 20_000**0.5
    right = objective()
    assert float(each.mean()) == pytest.approx(right, abs=4 * error)
    squares = float((M1.square().sum() + M2.square().sum()) / (2 * S**2))
    for twin in (-P * squares, ((1 - P) - (1 - P) ** 2) * squares):
        assert abs(float(each.mean()) - (right + twin)) > 10 * error


def test_rows_of_their_own_have_less_variance() -> None:
    def variance(mask: str) -> float:
        q = fit(mask=mask)
        shape = (4000, 5) if q.by_row else (4000,)
        noise = q.noise(0, 0, 0, shape)
        with quiet():
            return float(torch.func.vmap(lambda e: q.terms(q.start[0], e[None], None, None, 1.0).elbo)(noise).var())

    assert variance("row") < 0.6 * variance("draw")


def test_stock_trace_elbo_is_the_objective_at_its_masks() -> None:
    """Exactly, mask by mask: log p(y | z M) - penalty; and TraceMeanField_ELBO, the twin, is something else."""
    data, (args, kwargs) = problem().data, problem().arguments()
    with pyro.get_param_store().scope(), seeded(3), pyro.validation_enabled(True):
        guide = bernoulli_dropout(net, rate=(0.2, P), init=started())
        guide(*args, **kwargs)
        for seed in range(8):
            torch.manual_seed(seed)
            w = poutine.trace(guide).get_trace(*args, **kwargs).nodes
            right = log_likelihood(data, w["w1"]["value"], w["w2"]["value"]).sum().item() - penalty(0.2, P)
            torch.manual_seed(seed)
            assert -Trace_ELBO().loss(net, guide, *args, **kwargs) == pytest.approx(right, rel=1e-10)
            torch.manual_seed(seed)
            assert abs(-TraceMeanField_ELBO().loss(net, guide, *args, **kwargs) - right) > 0.1


@pytest.mark.slow
def test_stock_svi_and_ours_have_the_same_expectation() -> None:
    """Both within 4 standard errors of the sum over masks, on the same guide, after three stock steps too."""
    args, kwargs = problem().arguments()
    with pyro.get_param_store().scope(), seeded(0):
        guide = bernoulli_dropout(net, rate=P, init=started())
        loss = torch.tensor([-Trace_ELBO().loss(net, guide, *args, **kwargs) for _ in range(1000)])
        svi = SVI(net, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
        assert all(math.isfinite(svi.step(*args, **kwargs)) for _ in range(3))
        assert set(pyro.get_param_store()) == {"w1.weight", "b1.point", "w2.weight"}
    assert float(loss.mean()) == pytest.approx(objective(), abs=4 * float(loss.std()) / 1000**0.5)


def matrix(x, y=None):
    """One matrix, written so that a plate of particles may stand in front."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3, 1), S).to_event(2))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal((x * w[..., 0]).sum(-1), NOISE), obs=y)


@pytest.mark.parametrize("rate", [0.0, pytest.param(P, marks=pytest.mark.slow)])
def test_vectorised_particles_leave_the_loss_unchanged(rate) -> None:
    """Trap: a log density without the particles' axis would count once a particle: 4 times the penalty."""
    x, y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=F64), torch.ones(6, dtype=F64)
    m = torch.tensor([[1.5], [-2.0], [0.5]], dtype=F64)
    with pyro.get_param_store().scope(), seeded(0):
        guide = bernoulli_dropout(matrix, rate=rate, init=started({"w": m}))
        one = torch.tensor([Trace_ELBO().loss(matrix, guide, x, y) for _ in range(1 if rate == 0 else 3000)], dtype=F64)
        many = [
            Trace_ELBO(num_particles=k, vectorize_particles=True, max_plate_nesting=1).loss(matrix, guide, x, y)
            for k in (4, 4000)
        ]
    error = 0.0 if rate == 0 else float(one.std())
    assert many[0] == pytest.approx(float(one.mean()), abs=5 * error / 2 + 1e-9)
    assert many[1] == pytest.approx(float(one.mean()), abs=5 * error * (1 / 3000 + 1 / 4000) ** 0.5 + 1e-9)
    q = variational(zoo.Problem("matrix", matrix, zoo.Data(x, y)), bernoulli_dropout, rate=rate, init=started({"w": m}))
    four = [float(q.terms(q.start[0], q.noise(s, 0, 0, (4,)), None, None, 1.0).elbo) for s in range(400)]
    assert -sum(four) / 400 == pytest.approx(float(one.mean()), abs=5 * error * (1 / 3000 + 1 / 1600) ** 0.5 + 1e-9)


# -- rows --------------------------------------------------------------------------------------------------


def gradient(q, noise, batch=None, scale=1.0):
    with quiet():
        return q.gradient(q.start, noise, batch or Batch(), scale)


def test_a_row_is_a_network_of_its_own() -> None:
    """Value and gradient are those of rows with their masks one by one, with n / M; so is the product z M."""
    q, data = fit(), problem().data
    rows = torch.tensor([3, 0, 2])
    noise = q.noise(0, 0, 0, (1, 2, 3))
    grad, terms = gradient(q, noise, Batch(data.x[rows], data.y[rows]), 5 / 3)
    m1, b1, m2 = (v.requires_grad_() for v in (M1.clone(), B.clone(), M2.clone()))
    parts, threshold = [], torch.distributions.Normal(0, 1).icdf(torch.tensor(P, dtype=F64))
    for e in noise[0]:
        for i, row in zip(rows, e, strict=True):
            z = (row > threshold).double()
            f = ((data.x[i] * z[:2]) @ m1 + b1).tanh() * z[2:] @ m2
            parts.append(dist.Normal(f[0], NOISE).log_prob(data.y[i]))
    square = ((1 - P) * (m1.square().sum() + m2.square().sum()) + b1.square().sum()) / (2 * S**2)
    elbo = 5 / 3 * sum(parts) / 2 - square
    torch.testing.assert_close(terms.elbo[0], elbo.detach())
    assert list(q.layout.shapes) == ["w1.weight", "b1.point", "w2.weight"]
    whole = torch.cat([g.reshape(-1) for g in torch.autograd.grad(elbo, (m1, b1, m2))])
    torch.testing.assert_close(grad[0], whole)
    assert q.unmultiplied
    q.unmultiplied = False
    torch.testing.assert_close(gradient(q, noise, Batch(data.x[rows], data.y[rows]), 5 / 3)[0], grad)


def test_draws_share_one_mask() -> None:
    """Rows of zeros in every draw, in a share of p; what a posterior's predictions, and ArviZ, see."""
    posterior = zoo.run(problem(), "svi", guide=bernoulli_dropout, guide_options={"rate": P}, steps=5, draws=2000)
    w1 = posterior.draws["w1"][0]
    off = (w1 == 0).all(-1)
    assert ((w1 == 0).any(-1) == off).all()
    assert float(off.double().mean()) == pytest.approx(P, abs=4 * (P * (1 - P) / 4000) ** 0.5)
    assert posterior.predict()["f"].shape == (1, 2000, 5)


def tied(x, y=None):
    """Rows that depend on one another: no row on its own gives its f."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 1), S).to_event(2))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(((x - x.mean(0)) @ w)[:, 0], NOISE), obs=y)


def test_rows_that_depend_on_each_other_are_seen(caplog) -> None:
    caplog.set_level("INFO", "zoo")
    posterior = zoo.run(zoo.Problem("tied", tied, problem().data), "svi", guide="bernoulli_dropout", steps=3)
    assert "cannot be evaluated row by row" in caplog.text
    assert posterior.draws["w"].shape == (1, 1000, 2, 1)


def slices(x, y=None):
    """Uses its matrices in other ways than x @ w."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 2), S).to_event(2))
    f = functional.linear(x, w.T)[:, 0] + (x * w[0]).sum(-1) - w.square().mean() + torch.einsum("ni,ij->n", x, -w)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, NOISE), obs=y)


def test_matrices_may_be_used_in_any_way() -> None:
    q = variational(zoo.Problem("slices", slices, problem().data), bernoulli_dropout, rate=P)
    assert q.by_row
    assert q.unmultiplied
    noise = q.noise(0, 0, 0, (1, 1, 5))
    grad, terms = gradient(q, noise)
    q.unmultiplied = False
    again, same = gradient(q, noise)
    torch.testing.assert_close(grad, again)
    torch.testing.assert_close(terms.elbo, same.elbo)


def test_a_product_is_multiplied_out_but_in_a_layers_call() -> None:
    z, m, x = torch.tensor([[1.0], [0.0]]), torch.randn(2, 3), torch.randn(4, 2)
    w = Product(z, m)
    torch.testing.assert_close(x @ w, x @ (z * m))
    torch.testing.assert_close(w @ m.T, (z * m) @ m.T)
    torch.testing.assert_close(torch.cat([w, w]), torch.cat([z * m, z * m]))
    assert w.shape == (2, 3)
    torch.testing.assert_close(2 * w - 1, 2 * z * m - 1)


# -- kernels, priors, biases -------------------------------------------------------------------------------


def convolutional(x, y=None):
    k = pyro.sample("k", dist.Normal(x.new_zeros(2, 3, 2, 2), S).to_event(4))
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 1), S).to_event(2))
    h = functional.conv2d(x.reshape(-1, 3, 3, 3), k).relu().mean((2, 3))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal((h @ w)[:, 0], NOISE), obs=y)


def test_kernels_lose_input_channels() -> None:
    """Axis 1 of (out, in, height, width); by row and unmultiplied the same gradient as multiplied out."""
    generator = torch.Generator().manual_seed(0)
    data = zoo.Data(torch.randn(4, 27, generator=generator, dtype=F64), torch.zeros(4, dtype=F64))
    q = variational(zoo.Problem("convolutional", convolutional, data), bernoulli_dropout, rate=(0.5, 0.0))
    assert q.noise_size == 3
    k = q.draw(q.start[0], q.noise(0, 0, 0, (50,)))[0]["k"]
    off = (k == 0).all(-1).all(-1).all(1)
    assert ((k == 0).any(-1).any(-1).any(1) == off).all()
    assert 0.3 < float(off.double().mean()) < 0.7
    noise = q.noise(0, 0, 0, (1, 1, 4))
    assert q.unmultiplied
    grad = gradient(q, noise)[0]
    q.unmultiplied = False
    torch.testing.assert_close(gradient(q, noise)[0], grad)


@pytest.mark.parametrize(("where", "off"), [("all", {"k", "w"}), ("inner", {"w"}), ("conv", {"k"})])
def test_where_leaves_the_other_layers_alone(where, off) -> None:
    """Zeros in the layers that the word means, and in no other; each is the twin of the other two."""
    data = zoo.Data(torch.ones(4, 27, dtype=F64), torch.zeros(4, dtype=F64))
    q = variational(zoo.Problem("convolutional", convolutional, data), bernoulli_dropout, rate=0.5, where=where)
    draws = q.draw(q.start[0], q.noise(0, 0, 0, (50,)))[0]
    assert {name for name in ("k", "w") if (draws[name] == 0).any()} == off
    assert set(q.points) == {"k", "w"} - off


def test_a_where_that_means_nothing_is_refused() -> None:
    refused(lambda: bernoulli_dropout(net, where="hidden"), "'all', 'inner' or 'conv'")
    refused(lambda: variational(problem(), bernoulli_dropout, where="conv"), "needs kernels", "w1, w2")
    line = zoo.load("linear_regression", outputs=2)
    refused(lambda: variational(line, bernoulli_dropout, where="inner"), "a second matrix", "sites are w.")


def other_priors(x, y=None):
    a = pyro.sample("a", dist.Normal(x.new_full((2, 1), 0.5), S).to_event(2))
    b = pyro.sample("b", dist.Laplace(x.new_zeros(2, 1), S).to_event(2))
    with pyro.plate("data", x.shape[0]), poutine.mask(mask=False):
        pyro.sample("y", dist.Normal((x @ (a + b))[:, 0], NOISE), obs=y)


def test_other_priors_have_their_own_penalty() -> None:
    """E_z[-log p(z M)], of N(.5, s^2) without its log normaliser and of Laplace(0, s) with it, by sums over masks."""
    m = torch.tensor([[1.5], [-0.5]], dtype=F64)
    q = variational(
        zoo.Problem("other", other_priors, problem().data), bernoulli_dropout, rate=P, init=started({"a": m, "b": m})
    )
    terms = q.estimate(q.start[0], q.noise(0, 0, 0, (20_000,)))
    keep = ((m - 0.5).square() / (2 * S**2)).sum() * (1 - P) + P * 2 * 0.25 / (2 * S**2)
    laplace = dist.Laplace(torch.zeros(2, 1, dtype=F64), S)
    right = keep - (1 - P) * laplace.log_prob(m).sum() - P * laplace.log_prob(0 * m).sum()
    error = float(terms.kl.std()) / 20_000**0.5
    assert float(terms.kl.mean()) == pytest.approx(float(right), abs=4 * error)


def hierarchical(x, y=None):
    s = pyro.sample("s", dist.LogNormal(x.new_zeros(()), 1.0))
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 1), s).to_event(2))
    with pyro.plate("data", x.shape[0]), poutine.mask(mask=False):
        pyro.sample("y", dist.Normal((x @ w)[:, 0], NOISE), obs=y)


def test_a_prior_whose_scale_is_latent_keeps_its_log_normaliser() -> None:
    """(1 - p) |M|^2 / (2 s^2) + K log(s sqrt(2 pi)) - log p(s) at s = 2, where the prior of first trace had .5."""
    m = torch.tensor([[1.5], [-0.5]], dtype=F64)
    at = init_to_value(values={"w": m, "s": torch.tensor(2.0, dtype=F64)})
    q = variational(zoo.Problem("hierarchical", hierarchical, problem().data), bernoulli_dropout, rate=P, init=at)
    flat = torch.cat([q.start[0][:1] * 0 + math.log(2.0), m.reshape(-1)])
    assert list(q.layout.shapes) == ["s.point", "w.weight"]
    s = torch.tensor(2.0, dtype=F64)
    log_s = dist.LogNormal(0 * s, 1.0).log_prob(s)
    right = (1 - P) * m.square().sum() / 8 + 2 * torch.log(s * (2 * math.pi) ** 0.5) - log_s
    terms = q.estimate(flat, q.noise(0, 0, 0, (3,)))
    torch.testing.assert_close(terms.kl, right.expand(3), rtol=1e-6, atol=1e-6)
    flat[0] = math.log(0.5)
    assert abs(float(q.estimate(flat, q.noise(0, 0, 0, (1,))).kl[0]) - float(right)) > 0.5


def test_starts_are_glorot_uniform_and_zero() -> None:
    bnn = zoo.load("bnn_regression", hidden=200)
    with pyro.get_param_store().scope(), seeded(0):
        args, kwargs = bnn.arguments()
        bernoulli_dropout(bnn.model)(*args, **kwargs)
        store = {name: value.detach() for name, value in pyro.get_param_store().items()}
    for name, fans in (("w1", 201), ("w2", 201)):
        limit = (6 / fans) ** 0.5
        assert 0.9 * limit < float(store[f"{name}.weight"].abs().max()) <= limit
    assert not store["b1.point"].any()
    assert not store["b2.point"].any()
    kernel = glorot({"fn": dist.Normal(torch.zeros(8, 4, 5, 5), 1.0).to_event(4)})
    assert 0.95 * (6 / 300) ** 0.5 < float(kernel.abs().max()) <= (6 / 300) ** 0.5


def test_biases_may_be_normals() -> None:
    q = variational(problem(), bernoulli_dropout, rate=P, bias="normal", init=started(), init_scale=0.2)
    assert set(q.layout.shapes) == {"w1.weight", "b1.loc", "b1.scale", "w2.weight"}
    assert q.points == ()
    kl = torch.distributions.kl_divergence(dist.Normal(B, 0.2), dist.Normal(0 * B, S)).sum()
    found = q.estimate(q.start[0], q.noise(0, 0, 0, (2,))).kl
    torch.testing.assert_close(found, (kl + penalty(P, P) - B.square().sum() / (2 * S**2)).expand(2))


def test_other_sites_than_those_named_are_points() -> None:
    q = variational(problem(), bernoulli_dropout, rate=P, sites=("w2",), init=started())
    assert set(q.points) == {"w1", "b1"}
    assert float(q.estimate(q.start[0], q.noise(0, 0, 0, (1,))).kl[0]) == pytest.approx(penalty(0.0, P))


# -- no bound ----------------------------------------------------------------------------------------------


def test_without_dropout_it_is_the_point_estimate() -> None:
    """p = 0: the mode, as `map` finds it from there, to 1e-3."""
    options = {"guide_options": {"rate": 0.0, "init": started()}, "steps": 1500, "lr": 0.03, "engine": "eager"}
    fitted = zoo.run(problem(), "svi", guide="bernoulli_dropout", draws=2, **options)
    assert set(fitted.settings["point"]) == {"w1", "b1", "w2"}
    mode = zoo.run(problem(), "map", restarts=8)
    assert float(fitted.stats["lp"][0, 0]) == pytest.approx(float(mode.stats["lp"].max()), abs=2e-3)


def test_it_is_an_objective_and_no_bound() -> None:
    """settings say so; the evidence bar, k-hat and loo refuse it with the reason."""
    fitted = zoo.run(problem(), "svi", guide="bernoulli_dropout", steps=5, draws=50)
    assert fitted.settings["elbo_is_bound"] is False
    assert "logq" not in fitted.stats
    reason = "atoms, so q has no density and its KL is infinite"
    refused(lambda: zoo.loo(fitted), reason, "nuts")
    facts, why = density_facts(fitted)
    assert math.isnan(facts["khat"])
    assert reason in " ".join(why)
    line = zoo.load("linear_regression", outputs=2)
    refused(lambda: evidence_bar(line, "bernoulli_dropout"), reason, "normal")
    assert zoo.run(problem(), "svi", guide="normal", steps=5).settings["elbo_is_bound"]


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1.0, -0.1, 1.5, math.nan, "half", (0.1, 1.0), None, True])
def test_a_rate_outside_its_range_is_refused(rate) -> None:
    refused(lambda: bernoulli_dropout(net, rate=rate), "0 <= p < 1", "point estimate")
    refused(lambda: variational(problem(), bernoulli_dropout, rate=lambda: rate), "0 <= p < 1")


def test_the_wrong_number_of_rates_is_refused() -> None:
    refused(lambda: variational(problem(), bernoulli_dropout, rate=(0.1, 0.2, 0.3)), "one number or 2", "got 3")
    refused(lambda: variational(problem(), bernoulli_dropout, rate=lambda: [0.1]), "one number or 2", "got 1")


def test_a_model_without_matrices_is_refused() -> None:
    coin = zoo.load("coin_flip")
    refused(lambda: variational(coin, bernoulli_dropout), "needs a weight matrix", r"theta \(\)", "'normal'")
    line = zoo.load("linear_regression")
    refused(lambda: zoo.run(line, "svi", guide="bernoulli_dropout"), "needs a weight matrix", r"w \(1,\)")


def test_unknown_words_are_refused() -> None:
    refused(lambda: bernoulli_dropout(net, mask="batch"), "'draw' or 'row'")
    refused(lambda: bernoulli_dropout(net, bias="none"), "'point' or 'normal'")
    refused(lambda: variational(problem(), bernoulli_dropout, sites=("b1",)), r"\['w1', 'w2'\]", "b1")
    refused(lambda: variational(problem(), bernoulli_dropout, points=("b7",)), "point must name latent sites", "b7")
    options = {"guide_options": {"rates": 0.1}}
    refused(lambda: zoo.run(problem(), "svi", guide="bernoulli_dropout", **options), "rate")
