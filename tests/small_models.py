"""Users' own models with known answers: ordinary Pyro functions, nothing of the zoo in them."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import zoo
from tests import right_answers as right

F64 = torch.float64


def no_inputs(y: list[float]) -> zoo.Data:
    """Targets without inputs: x is (n, 0)."""
    return zoo.Data(torch.empty(len(y), 0, dtype=F64), torch.tensor(y, dtype=F64))


def location(y: list[float], prior: str, scale: float, noise: float = 1.0) -> zoo.Problem:
    """theta ~ N(0, scale^2) or Laplace(0, scale); y ~ N(theta, noise^2)."""
    family = {"normal": dist.Normal, "laplace": dist.Laplace}[prior]

    def model(x: Tensor, y: Tensor | None = None) -> None:
        theta = pyro.sample("theta", family(x.new_zeros(()), scale))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(theta, noise), obs=y)

    return zoo.Problem(f"location {prior}", model, no_inputs(y))


def two_weights() -> zoo.Problem:
    """y = w2 tanh(w1 x) + N(0, .3), w1, w2 ~ N(0, 1.5): a network of one unit and no biases."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w1 = pyro.sample("w1", dist.Normal(x.new_zeros(()), 1.5))
        w2 = pyro.sample("w2", dist.Normal(x.new_zeros(()), 1.5))
        f = pyro.deterministic("f", w2 * (w1 * x[:, 0]).tanh())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(f, 0.3), obs=y)

    x = torch.tensor(right.TWO_WEIGHTS_X, dtype=F64)[:, None]
    return zoo.Problem("two weights", model, zoo.Data(x, torch.tensor(right.TWO_WEIGHTS_Y, dtype=F64)))


def steep_line() -> zoo.Problem:
    """X = [[i, 1]], y = i for i = 0 ... 99, w ~ N(5, 10), y ~ N(X w, 1)."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.Normal(x.new_full((2,), 5.0), 10.0).to_event(1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

    i = torch.arange(100, dtype=F64)
    return zoo.Problem("steep line", model, zoo.Data(torch.stack([i, torch.ones_like(i)], 1), i))


def one_logit(m: float = 1.0, v: float = 4.0) -> zoo.Problem:
    """a ~ N(m, v) scalar, one Bernoulli(sigmoid(a)) that was seen and carries no weight."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        a = pyro.sample("a", dist.Normal(x.new_full((), m), v**0.5))
        with pyro.plate("data", x.shape[0]), pyro.poutine.mask(mask=False):
            pyro.sample("y", dist.Bernoulli(logits=a), obs=y)

    return zoo.Problem("one logit", model, no_inputs([1.0]))
