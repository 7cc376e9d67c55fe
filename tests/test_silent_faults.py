"""Inputs that once gave a wrong number without a word; each is now refused in one line, or right."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

import zoo
from zoo.infer.density import density

from .refusals import refused

X = torch.linspace(-1, 1, 6)[:, None]
Y = torch.linspace(0, 1, 6)


def line(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(w * x[:, 0], 0.1), obs=y)


def cut_off(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(w.item() * x[:, 0], 0.1), obs=y)


def subsampled(x: torch.Tensor, y: torch.Tensor) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("data", x.shape[0], subsample_size=2) as rows:
        pyro.sample("y", dist.Normal(w * x[rows, 0], 0.1), obs=y[rows])


def twice(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    line(x, y)


@pytest.mark.parametrize("method", ["map", "laplace", "nuts"])
def test_a_gradient_cut_off_by_item_is_refused(method: str) -> None:
    problem = zoo.Problem("cut", cut_off, zoo.Data(X, Y))
    refused(lambda: zoo.run(problem, method), "cut", r"\.item\(\)")


@pytest.mark.parametrize("method", ["map", "laplace", "nuts"])
def test_a_random_density_is_refused_and_the_generator_left_alone(method: str) -> None:
    problem = zoo.Problem("random", subsampled, {"x": X, "y": Y})
    before = torch.get_rng_state()
    refused(lambda: zoo.run(problem, method), "random", "subsampled plate")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_site_sampled_twice_is_refused() -> None:
    for method in ("map", "nuts", "svi"):
        refused(lambda m=method: zoo.run(zoo.Problem("twice", twice, zoo.Data(X, Y)), m), "'w'", "twice")


def test_handlers_go_around_the_model_not_around_the_run() -> None:
    problem = zoo.Problem("line", line, zoo.Data(X, Y))
    with poutine.scale(scale=0.5):
        refused(lambda: zoo.run(problem, "map"), "handler")
    half = zoo.Problem("half", poutine.scale(line, 0.5), zoo.Data(X, Y))
    point = torch.zeros(1, 1)
    assert float(density(half).log_prob(point)) == pytest.approx(0.5 * float(density(problem).log_prob(point)))


def test_new_labels_and_targets_are_checked_before_they_are_scored() -> None:
    labels = zoo.load("logistic_regression", data=zoo.Data(X, (Y > 0.5).float()))
    fit = zoo.run(labels, "map")
    refused(lambda: fit.log_likelihood(X, torch.full((6,), -1.0)), "'y'")
    refused(lambda: fit.log_likelihood(X, torch.full((6,), 3.0)), "'y'")
    real = zoo.run(zoo.load("linear_regression", data=zoo.Data(X, Y)), "exact", draws=10)
    refused(lambda: real.log_likelihood(X, torch.randn(6, 6)), r"\(6, 6\)")
    refused(lambda: real.log_likelihood(torch.randn(6, 2), Y), r"\(6, 2\)")
    assert real.log_likelihood(X, Y).shape == (1, 10, 6)


def test_numbers_that_a_cast_would_change() -> None:
    refused(lambda: zoo.Data(X, torch.complex(Y, Y)), "real numbers")
    refused(lambda: zoo.Data(X.to_sparse(), Y), "dense")
    fit = zoo.run(zoo.load("linear_regression", data=zoo.Data(X, Y)), "exact", draws=10)
    refused(lambda: fit.predict(torch.full((2, 1), 1e39, dtype=torch.float64)), "finite")


@pytest.mark.parametrize("device", ["banana", "meta", 3.5])
def test_devices_that_are_not_there(device: object) -> None:
    refused(lambda: zoo.run("coin_flip", "exact", device=device), "device")


def test_seeds_and_data_of_the_wrong_kind() -> None:
    for seed in (2**70, -1, 1.5):
        refused(lambda s=seed: zoo.load("coin_flip", seed=s), "seed")
    refused(lambda: zoo.load("linear_regression", data=(X, Y)), "zoo.Data", error=TypeError)
