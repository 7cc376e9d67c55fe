"""THE table: one line a model, with the hyperparameters it is tested with and how many coordinates it has.

A new model is one file in zoo/ and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

import zoo


class Case(NamedTuple):
    """A model with hyperparameters.

    Args:
        model: Its name.
        dim: d -> number of unconstrained coordinates with d input columns.
        targets: (n, generator) -> y.
        hyper: Hyperparameters.
        inputs: False for a model whose x is (n, 0).
        scores: f has one column for each of so many classes; 0: f has the shape of y.
        image: The shape of a row of x where it is an image (channels, height, width), whatever d.
        local: Coordinates that each row adds: latents inside the data plate.
    """

    model: str
    dim: Callable[[int], int]
    targets: Callable[..., torch.Tensor]
    hyper: Mapping[str, Any] = MappingProxyType({})
    inputs: bool = True
    scores: int = 0
    image: tuple[int, ...] = ()
    local: int = 0

    @property
    def id(self) -> str:
        return " ".join([self.model, *(f"{k}={v}" for k, v in self.hyper.items())])


def real(n: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(n, generator=generator)


def columns(k: int) -> Callable[..., torch.Tensor]:
    return lambda n, generator: torch.randn(n, k, generator=generator)


def binary(n: int, generator: torch.Generator) -> torch.Tensor:
    return (torch.rand(n, generator=generator) < 0.5).float()


def pictures(k: int) -> Callable[..., torch.Tensor]:
    return lambda n, generator: (torch.rand(n, k, generator=generator) < 0.5).float()


def classes(k: int) -> Callable[..., torch.Tensor]:
    return lambda n, generator: torch.randint(k, (n,), generator=generator)


TINY = {"channels": (2, 3), "kernel": (3, 2)}  # a LeNet for 8 x 8 images


def pixels(k: int, *size: int) -> Callable[..., torch.Tensor]:
    return lambda n, generator: torch.randint(k, (n, *size), generator=generator)


CASES = [
    Case("coin_flip", lambda d: 1, binary, inputs=False),
    Case("coin_flip", lambda d: 1, binary, {"a": 2.0, "b": 3}, inputs=False),
    Case("linear_regression", lambda d: d + 1, real),
    Case("linear_regression", lambda d: d + 2, real, {"noise": None, "prior_scale": 2}),
    Case("linear_regression", lambda d: d, real, {"bias": False}),
    Case("linear_regression", lambda d: 3 * d + 3, columns(3), {"outputs": 3}),
    Case("linear_regression", lambda d: d + 2, real, {"prior_scale": "learned", "prior": "laplace"}),
    Case("linear_regression", lambda d: d, real, {"bias": False, "prior": "exponential", "alpha": 4.0}),
    Case("logistic_regression", lambda d: d + 1, binary),
    Case("logistic_regression", lambda d: d + 1, binary, {"prior": "uniform"}),
    Case("logistic_regression", lambda d: d + 1, binary, {"prior": "mixture", "prior_options": {"pi": 0.25}}),
    Case("softmax_regression", lambda d: 3 * d + 3, classes(3), {"classes": 3}, scores=3),
    Case("softmax_regression", lambda d: 2 * d, classes(2), {"classes": 2, "bias": False}, scores=2),
    Case("softmax_regression", lambda d: 4 * d + 5, classes(4), {"classes": 4, "prior_scale": "learned"}, scores=4),
    Case("logistic_regression", lambda d: d, binary, {"bias": False, "prior_scale": 0.5}),
    Case("bnn_classification", lambda d: 50 * d + 101, binary),
    Case("bnn_classification", lambda d: 4 * d + 19, classes(3), {"hidden": 4, "classes": 3}, scores=3),
    Case("bnn_classification", lambda d: 3 * d + 9, binary, {"hidden": 3, "prior_scale": "learned"}),
    Case("bnn_regression", lambda d: 50 * d + 102, real),
    Case("bnn_regression", lambda d: 50 * d + 102, real, {"scaling": "none"}),
    Case("bnn_regression", lambda d: 4 * d + 9, real, {"hidden": 4, "noise": 0.1, "activation": "relu"}),
    Case("bnn_regression", lambda d: 3 * d + 29, columns(2), {"hidden": (3, 4), "outputs": 2, "noise": 1.0}),
    Case("bnn_regression", lambda d: 3 * d + 8, real, {"hidden": 3, "prior": "student_t", "prior_options": {"df": 1}}),
    Case("bnn_regression", lambda d: 3 * d + 9, real, {"hidden": 3, "prior_scale": ("learned", 0.5)}),
    Case("bnn_regression", lambda d: 3 * d + 8, real, {"hidden": 3, "alpha": (1.0, 4.0), "activation": "silu"}),
    Case("heteroscedastic_regression", lambda d: 50 * d + 152, real),
    Case("heteroscedastic_regression", lambda d: 2 * d + 2, real, {"hidden": (), "prior_scale": 1e3}),
    Case("heteroscedastic_regression", lambda d: 3 * d + 19, columns(2), {"hidden": 3, "outputs": 2}),
    Case("heteroscedastic_regression", lambda d: 3 * d + 12, real, {"hidden": 3, "prior_scale": ("learned", 0.5)}),
    Case("mc_dropout", lambda d: 50 * d + 101, real),
    Case("mc_dropout", lambda d: 4 * d + 12, real, {"hidden": (4, 1), "p": (0.0, 0.2, 0.5), "noise": None}),
    Case("mc_dropout", lambda d: 3 * d + 7, binary, {"hidden": 3, "classes": 2, "where": "inner"}),
    Case("mc_dropout", lambda d: 4 * d + 19, classes(3), {"hidden": 4, "classes": 3}, scores=3),
    Case("gaussian_dropout", lambda d: 50 * d + 101, real),
    Case("gaussian_dropout", lambda d: 4 * d + 19, classes(3), {"hidden": 4, "classes": 3, "p": 0.5}, scores=3),
    Case("lenet", lambda d: 78, classes(3), {**TINY, "hidden": 4, "classes": 3}, scores=3, image=(1, 8, 8)),
    Case(
        "lenet",
        lambda d: 83,
        classes(4),
        {**TINY, "hidden": 4, "classes": 4, "where": "all"},
        scores=4,
        image=(1, 8, 8),
    ),
    Case(
        "lenet",
        lambda d: 48,
        classes(2),
        {"channels": 2, "hidden": (), "kernel": 3, "classes": 2, "where": "conv"},
        scores=2,
        image=(2, 6, 5),
    ),
    Case("autoencoder", lambda d: 3 * d + 44, pictures(6), {"hidden": 3}),
    Case("autoencoder", lambda d: d + 14, columns(4), {"hidden": 1, "latent": 1, "likelihood": "normal"}),
    Case("stochastic_activation", lambda d: 20 * d + 451, real, local=10),
    Case("stochastic_activation", lambda d: 4 * d + 7, real, {"hidden": (), "units": 2, "objective": "marginal"}),
    Case(
        "stochastic_activation",
        lambda d: 4 * d + 7,
        binary,
        {"hidden": (), "units": 2, "objective": "marginal", "copies": 3, "classes": 2, "link": "relu"},
        local=6,
    ),
    Case(
        "stochastic_activation",
        lambda d: 3 * d + 28,
        classes(3),
        {"hidden": 3, "units": 2, "classes": 3, "link": "tanh"},
        scores=3,
        local=2,
    ),
    Case(
        "segmentation",
        lambda d: 45,
        pixels(3, 5, 4),
        {"channels": (2, 3), "kernel": (3, 1), "classes": 3},
        scores=3,
        image=(1, 5, 4),
    ),
    Case("vae", lambda d: 33, pictures(6), {"hidden": 3}, inputs=False, local=2),
    Case("vae", lambda d: 42, pictures(6), {"hidden": (), "latent": 6, "binarise": True}, inputs=False, local=6),
    Case("cvae", lambda d: 3 * d + 33, pictures(6), {"hidden": 3}, local=2),
    Case("cvae", lambda d: d + 12, columns(4), {"hidden": 1, "likelihood": "normal"}, local=2),
    Case("vae", lambda d: d + 12, columns(4), {"hidden": 1, "likelihood": "normal"}, local=2),
]


def problem(case: Case, n: int = 7, d: int = 3, seed: int = 0) -> zoo.Problem:
    """The case on n rows of noise with d columns, or on n images of noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator) if case.inputs else torch.empty(n, 0)
    if case.image:  # grey values in [0, 1]
        x = torch.rand(n, *case.image, generator=generator)
    return zoo.load(case.model, zoo.Data(x, case.targets(n, generator)), **case.hyper)
