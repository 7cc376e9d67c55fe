"""The deterministic autoencoder: its formula, its linear form (principal components), and where it has holes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import zoo
from tests.refusals import refused
from zoo import autoencoder
from zoo.core.pixels import LIKELIHOODS
from zoo.data import toy
from zoo.data.images import unlabelled
from zoo.report.codes import decoded, encoded, spread

SVI = {"steps": 5, "draws": 2, "engine": "eager"}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_code_and_image_are_what_the_docstring_says(likelihood: str) -> None:
    y = torch.rand(9, 6, generator=torch.Generator().manual_seed(0))
    problem = zoo.load("autoencoder", zoo.Data(torch.empty(9, 0), y), hidden=(4, 3), latent=2, likelihood=likelihood)
    fit = zoo.run(problem, "svi", **SVI)
    w = {name: value[0, 0] for name, value in fit.draws.items()}
    assert tuple(w["encoder_w1"].shape) == (6, 3)  # the decoder's layers in reverse
    h, out = y, {}
    for site, prefix in (("z", "encoder_"), ("f", "")):
        for i in (1, 2, 3):
            h = (h.relu() if i > 1 else h) @ w[f"{prefix}w{i}"] + w[f"{prefix}b{i}"]
        out[site] = h
    found = fit.predict(draws=1)
    assert torch.allclose(found["z"][0, 0], out["z"], atol=1e-5)
    assert torch.allclose(found["f"][0, 0], out["f"], atol=1e-5)
    mean = out["f"] if likelihood == "normal" else out["f"].sigmoid()
    assert torch.allclose(found["mean"][0, 0], mean, atol=1e-5)


def test_without_inputs_the_images_are_the_inputs() -> None:
    images = unlabelled(0, "digits", 20, 10)
    data = zoo.load("autoencoder", images).data
    assert torch.equal(data.x, images.y)
    assert torch.equal(data.x_test, images.y_test)
    noisy = dataclasses.replace(images, x=images.y + 0.1, x_test=images.y_test + 0.1)
    kept = zoo.load("autoencoder", noisy).data  # a denoising one
    assert torch.equal(kept.x, noisy.x)
    assert torch.equal(kept.y, images.y)
    assert torch.equal(autoencoder.data(3, 20, 10).y, zoo.load("vae", seed=3, n=20, m=10).data.y)


def test_what_is_no_image_is_refused() -> None:
    refused(lambda: zoo.load("autoencoder", toy.line()), "images must be")
    refused(lambda: zoo.load("autoencoder", zoo.Data(torch.empty(3, 0), torch.randn(3, 4))), r"\[0, 1\]")
    refused(lambda: zoo.run(zoo.load("autoencoder", n=5, m=5, likelihood="normel"), "svi"), "normal")


def pca_error(y: torch.Tensor, k: int) -> float:
    """Squared error left by k principal components: the sum of the other eigenvalues of the covariance."""
    return float(torch.linalg.svdvals(y - y.mean(0))[k:].square().sum())


def test_the_linear_one_finds_the_principal_components() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.randn(60, 3, generator=g) @ torch.randn(3, 6, generator=g) + 0.3 * torch.randn(60, 6, generator=g)
    y = y.double() + 1
    data = zoo.Data(torch.empty(60, 0, dtype=torch.float64), y)
    problem = zoo.load("autoencoder", data, hidden=(), latent=2, likelihood="normal", noise=0.1, prior_scale=100.0)
    fit = zoo.run(problem, "map", restarts=2, seed=0)
    best = int(fit.stats["lp"].argmax())
    error = float((fit.predict()["mean"].flatten(0, 1)[best] - y).square().sum())
    assert pca_error(y, 2) <= error * (1 + 1e-9)  # never better
    assert error < 1.001 * pca_error(y, 2)
    # The twin: one component fewer would be told apart.
    assert pca_error(y, 1) > 1.5 * error


@pytest.mark.slow
def test_its_latent_space_has_holes_where_the_vaes_has_none() -> None:
    data = unlabelled(0, "digits")
    noise = torch.randn(1000, 8, generator=torch.Generator().manual_seed(1))
    far, error, again = {}, {}, {}
    for name in ("autoencoder", "vae"):
        problem = zoo.load(name, data, latent=8, hidden=100)
        fit = zoo.run(problem, "svi", steps=1000, batch_size=100, lr=0.005, draws=2, engine="eager", seed=0)
        x = data.y_test if name == "autoencoder" else data.x_test
        z, (loc, scale), images = encoded(fit), spread(fit), decoded(fit, encoded(fit, data.y_test, x))
        own = z.mean(0) + noise @ torch.linalg.cholesky(z.T.cov() + 1e-6 * torch.eye(8)).T
        far[name] = [nearest(decoded(fit, codes), data.y) for codes in (loc + scale * noise, own, noise)]
        error[name], again[name] = float((images - data.y_test).square().mean().sqrt()), nearest(images, data.y)
    assert error["autoencoder"] < 0.9 * error["vae"], error
    assert min(far["autoencoder"]) > 1.1 * max(far["vae"]), far
    # The twin: codes of images lie in no hole, so that the decoders do not differ there.
    assert again["autoencoder"] < 1.1 * again["vae"], again


def nearest(images: torch.Tensor, known: torch.Tensor) -> float:
    """Root mean square distance of a pixel to the nearest known image, on average."""
    return float(torch.cdist(images, known).min(1).values.mean()) / known.shape[1] ** 0.5
