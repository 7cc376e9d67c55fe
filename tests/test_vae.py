"""The variational autoencoder against probabilistic PCA, which its linear form is.

Right answers: pPCA's likelihood in closed form (Tipping & Bishop 1999), its exact posterior, and what a trained linear
VAE can at best reach. Broken twins: no n / M; the code's KL once a batch; a bound that is minimised.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.right_answers import PPCA
from zoo.data.images import unlabelled
from zoo.infer.prepared import Batch, prepare, quiet
from zoo.infer.variational import Variational

F64 = torch.float64


def digits() -> Tensor:
    """All 1,797 digits / 16, (1797, 64)."""
    data = unlabelled(0, "digits")
    assert data.y is not None
    assert data.y_test is not None
    return torch.cat([data.y, data.y_test]).double()


def ppca(y: Tensor, q: int) -> dict[str, Tensor]:
    """pPCA's maximum likelihood: decoder weights (q, d) whose rows are orthogonal, so that p(z | y) is diagonal."""
    mean = y.mean(0)
    values, vectors = torch.linalg.eigh((y - mean).T @ (y - mean) / len(y))
    values, vectors = values.flip(0), vectors.flip(1)
    variance = values[q:].mean()
    w = (vectors[:, :q] * (values[:q] - variance).sqrt()).T
    d = y.shape[1]
    log_p = -0.5 * (d * math.log(2 * math.pi) + values[:q].log().sum() + (d - q) * variance.log() + d)
    return {"w": w, "b": mean, "variance": variance, "log_p": log_p}


def with_optimum(problem: zoo.Problem, best: dict[str, Tensor], latent: int) -> tuple[Variational, Tensor]:
    """The engine and flat parameters at which q is p(z | y), z ~ N(M^-1 W (y - b), s^2 M^-1), M = W W^T + s^2 I."""
    assert problem.guide is not None
    fit = Variational(problem, [prepare(problem.guide(problem.model), problem, 0)])
    m, s2 = (best["w"] @ best["w"].T).diagonal() + best["variance"], best["variance"]
    to_loc = best["w"].T / m  # (d, latent)
    values = {
        "w1.point": best["w"], "b1.point": best["b"], "noise.point": s2.sqrt().log(),
        "encoder.w1": torch.cat([to_loc, torch.zeros_like(to_loc)], 1),
        "encoder.b1": torch.cat([-best["b"] @ to_loc, 0.5 * (s2 / m).log()]),
    }  # fmt: skip
    return fit, torch.cat([values[name].reshape(-1) for name in fit.layout.shapes])


def linear(y: Tensor, latent: int, **more: Any) -> zoo.Problem:
    x = y.new_empty(len(y), 0)
    options = {"latent": latent, "hidden": (), "likelihood": "normal", "prior_scale": 1e3} | more
    return zoo.load("vae", zoo.Data(x, y), **options)


def sigma_points(rows: int, latent: int) -> Tensor:
    """Noise (2 latent, rows * latent) with mean 0 and covariance I for each row: exact for quadratic functions."""
    each = math.sqrt(latent) * torch.cat([torch.eye(latent), -torch.eye(latent)]).double()
    return each.repeat(1, rows)


def row_log_p(y: Tensor, best: dict[str, Tensor]) -> Tensor:
    covariance = best["w"].T @ best["w"] + best["variance"] * torch.eye(y.shape[1], dtype=F64)
    return torch.distributions.MultivariateNormal(best["b"], covariance).log_prob(y)


# -- the closed form -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("latent", PPCA)
def test_the_closed_form_is_the_published_number(latent: int) -> None:
    best = ppca(digits(), latent)
    assert float(best["log_p"]) == pytest.approx(PPCA[latent]["elbo"], abs=1e-7)
    assert float(best["variance"]) == pytest.approx(PPCA[latent]["variance"], abs=1e-9)
    assert float(row_log_p(digits(), best).mean()) == pytest.approx(float(best["log_p"]), abs=1e-9)


@pytest.mark.parametrize("latent", PPCA)
def test_reconstruction_less_kl_is_log_p_where_q_is_exact(latent: int) -> None:
    """Row by row: E_q log p(y | z) - KL(q || p(z)) + KL(q || p(z | y)) = log p(y), the last 0 at the exact q.

    And at another q, whose gap is known: sds doubled. Twin: the loss in the bound's place, minus it.
    """
    y = digits()
    best = ppca(y, latent)
    for i in range(0, 1797, 900):
        problem = linear(y[i : i + 1], latent)
        fit, flat = with_optimum(problem, best, latent)
        terms = fit.estimate(flat, sigma_points(1, latent))
        bound = float((terms.elbo + _log_prior(problem, best)).mean())
        right = float(row_log_p(y[i : i + 1], best))
        assert bound == pytest.approx(right, abs=1e-8)
        assert abs(-bound - right) > 1e-8  # twin
        wide = flat.clone()
        fit.layout.split(wide)["encoder.b1"][latent:] += math.log(2)
        gap = latent * (0.5 * 4 - 0.5 - math.log(2))  # KL(N(m, 4 s^2) || N(m, s^2))
        terms = fit.estimate(wide, sigma_points(1, latent))
        assert float((terms.elbo + _log_prior(problem, best)).mean()) + gap == pytest.approx(right, abs=1e-8)


def _log_prior(problem: zoo.Problem, best: dict[str, Tensor]) -> Tensor:
    """Minus log p of the point estimates, which is no part of the bound."""
    zero = torch.zeros((), dtype=F64)
    weights = torch.distributions.Normal(zero, zero + problem.hyper["prior_scale"])
    noise = torch.distributions.HalfNormal(zero + 1).log_prob(best["variance"].sqrt())
    return -(weights.log_prob(best["w"]).sum() + weights.log_prob(best["b"]).sum() + noise)


@pytest.mark.parametrize("latent", [2, 8])
def test_one_draw_of_the_exact_q_gives_log_p(latent: int) -> None:
    """p(y | z) p(z) / q(z | y) is the same for every z: log_marginal is exact with one draw, bound has gap 0."""
    y = digits()[:50]
    best = ppca(digits(), latent)
    problem = linear(y, latent)
    fit, flat = with_optimum(problem, best, latent)
    posterior = zoo.run(problem, "svi", steps=1, draws=2, engine="eager")
    draws = {"w1": best["w"], "b1": best["b"], "noise": best["variance"].sqrt()}
    exact = dataclasses.replace(
        posterior,
        draws={n: v[None, None].repeat(1, 2, *[1] * v.dim()) for n, v in draws.items()} | {"z": posterior.draws["z"]},
        params=fit.layout.named(flat[None]),
    )
    for k in (1, 3):
        torch.testing.assert_close(zoo.log_marginal(exact, draws=k)[0], row_log_p(y, best), rtol=0, atol=1e-8)
    terms = zoo.bound(exact, draws=2000)
    gap = row_log_p(y, best) - (terms["reconstruction"] - terms["kl"])[0]
    assert float(gap.mean().abs()) < 4 * math.sqrt(latent / 2) / math.sqrt(2000 * 50)  # the sd of a draw
    assert float(terms["weights"]) == pytest.approx(float(_log_prior(problem, best)), abs=1e-8)


# -- minibatches ---------------------------------------------------------------------------------------------


def tiny() -> tuple[Variational, Tensor, Tensor]:
    y = torch.rand(4, 6, generator=torch.Generator().manual_seed(0), dtype=F64)
    problem = zoo.load("vae", zoo.Data(y.new_empty(4, 0), y), hidden=3, binarise=True)
    assert problem.guide is not None
    fit = Variational(problem, [prepare(problem.guide(problem.model), problem, 1)])
    return fit, fit.start[0], torch.randn(4, 2, generator=torch.Generator().manual_seed(2), dtype=F64)


def mean_over_batches(fit: Variational, flat: Tensor, noise: Tensor, size: int, scale: float) -> tuple[Tensor, Any]:
    """Mean gradient and terms over all batches of `size` rows, each row with its own noise."""
    data: Any = fit.problem.data
    grads, terms = [], []
    for rows in itertools.combinations(range(4), size):
        with quiet():
            batch = Batch(data.x[list(rows)], data.y[list(rows)])
            grad, term = fit.gradient(flat[None], noise[list(rows)].reshape(1, 1, -1), batch, scale)
        grads.append(grad[0])
        terms.append(torch.stack([t[0] for t in term]))
    return torch.stack(grads).mean(0), torch.stack(terms).mean(0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_mean_minibatch_elbo_is_the_full_one(size: int) -> None:
    """All batches, each row with its own noise: ELBO and gradient to 1e-10. Twins: no n / M; KL of z once a batch."""
    fit, flat, noise = tiny()
    assert (fit.noise_for(size), fit.noise_for(None)) == (2 * size, 8)
    with quiet():
        full_grad, full = fit.gradient(flat[None], noise.reshape(1, 1, -1))
    grad, terms = mean_over_batches(fit, flat, noise, size, 4 / size)
    torch.testing.assert_close(grad, full_grad[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(terms, torch.stack([t[0] for t in full]), rtol=1e-10, atol=1e-10)
    if size < 4:
        unscaled = mean_over_batches(fit, flat, noise, size, 1.0)[1]
        once = terms[1] - unscaled[2]  # likelihood scaled, the whole KL not
        assert abs(float(unscaled[0] - full.elbo)) > 0.1
        assert abs(float(once - full.elbo)) > 0.01


# -- training ------------------------------------------------------------------------------------------------


def best_of(fit: zoo.Posterior, y: Tensor) -> tuple[float, float]:
    """(ELBO an image in closed form, prior terms apart; variance) of a trained linear VAE."""
    w, b, sd = (fit.draws[name][0, 0].double() for name in ("w1", "b1", "noise"))
    code = {name: value[0].double() for name, value in fit.encode(y).items()}
    off = (y - code["loc"] @ w - b).square().sum(1) + code["scale"].square() @ w.square().sum(1)
    reconstruction = -0.5 * off / sd**2 - y.shape[1] * (sd.log() + 0.5 * math.log(2 * math.pi))
    kl = 0.5 * (code["loc"].square() + code["scale"].square() - 1 - 2 * code["scale"].log()).sum(1)
    return float((reconstruction - kl).mean()), float(sd**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latent", "within", "options"),
    [
        (2, 0.05, {"steps": 2000}),
        (2, 0.05, {"steps": 4000, "batch_size": 256}),
        (8, 0.2, {"steps": 3000}),
    ],
)
def test_a_trained_linear_vae_is_ppca(latent: int, within: float, options: dict[str, Any]) -> None:
    y = digits().float()
    fit = zoo.run(linear(y, latent, prior_scale=100.0), "svi", lr=0.01, draws=2, engine="eager", **options)
    elbo, variance = best_of(fit, y.double())
    right = PPCA[latent]
    assert right["elbo"] - within < elbo < right["elbo"] + 1e-6
    assert variance == pytest.approx(right["variance"], rel=0.02)
    # what svi reports is the same number, with the prior terms in it
    terms = zoo.bound(fit, draws=20)
    assert float((terms["reconstruction"] - terms["kl"]).mean()) == pytest.approx(elbo, abs=0.05)
    assert fit.settings["elbo"] / len(y) == pytest.approx(elbo - float(terms["weights"]) / len(y), abs=0.05)


@pytest.mark.slow
def test_compiled_steps_are_the_eager_ones() -> None:
    problem = zoo.load("vae", n=64, m=8, hidden=8)
    runs = [
        zoo.run(problem, "svi", steps=40, batch_size=16, restarts=2, draws=2, engine=engine)
        for engine in ("eager", "compiled")
    ]
    assert [run.settings["engine"] for run in runs] == ["eager", "compiled"]
    torch.testing.assert_close(runs[0].history["elbo"], runs[1].history["elbo"], rtol=1e-4, atol=1e-2)
    for name, value in runs[0].params.items():
        torch.testing.assert_close(value, runs[1].params[name], rtol=1e-3, atol=1e-3)


def test_the_bound_rises_and_every_step_is_of_it() -> None:
    """elbo = expected log likelihood - kl at every step, and it is the bound that rises: the loss is minus it."""
    fit = zoo.run(zoo.load("vae", n=60, m=8, hidden=8), "svi", steps=150, draws=2, engine="eager", batch_size=20)
    history = {name: value[0] for name, value in fit.history.items()}
    torch.testing.assert_close(history["elbo"], history["expected_log_likelihood"] - history["kl"])
    assert float(history["elbo"][-30:].mean()) > float(history["elbo"][:30].mean()) + 100
    assert torch.isfinite(history["elbo"]).all()


def test_weights_may_be_normals() -> None:
    """guide_options={"weights": "normal"}: a posterior for the decoder, the encoder's weights stay parameters."""
    problem = zoo.load("vae", n=40, m=8, hidden=4)
    fit = zoo.run(problem, "svi", steps=100, draws=20, engine="eager", guide_options={"weights": "normal"})
    assert fit.settings["point"] == []
    assert float(fit.draws["w1"].std(1).min()) > 0
    assert {"encoder.w1", "w1.loc", "w1.scale"} <= set(fit.params)
    assert torch.isfinite(zoo.log_marginal(fit, draws=20)).all()
