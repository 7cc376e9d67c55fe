"""Dropout networks on all splits of a UCI table in one fit: the restarts of svi's own gradient, each with its rows.

gal2016    loss of their code, in the weights V of inverted dropout, biases without decay:
           1/B sum (y - f)^2 + lambda |V|^2,  lambda = l^2 (1 - p) / (2 N tau)
elbo       the objective of `guides.bernoulli_dropout` under w, b ~ N(0, 1 / l^2), y ~ N(f, 1 / tau), in M

The first is climbed as an objective of `guides.multiplicative` too, whose penalty at noise sd 1 is
|V|^2 / ((1 - p) 2 s^2 N) beside 1/(2 B) sum (y - f)^2: so s = sqrt(2 tau) / (l (1 - p)), and flat priors of biases.

Source: Gal & Ghahramani 2016, section 5.3 and their code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions.transforms import AffineTransform

import zoo
from guides.bernoulli_dropout import bernoulli_dropout
from guides.multiplicative import multiplicative
from zoo.core.base_noise import BaseNoise
from zoo.core.passes import log_likelihood_of_passes
from zoo.data import uci
from zoo.infer.adam import B1, B2, Pace, adam
from zoo.infer.elbo import Parameters
from zoo.infer.graph import compile_graph, trace
from zoo.infer.prepared import Batch, prepare, quiet
from zoo.infer.variational import Variational

HIDDEN, RATE, LENGTH_SCALE, LR, BATCH = 50, 0.05, 0.01, 1e-3, 128
TAU = {"boston": 0.159708, "concrete": 0.055732, "kin8nm": 192.48291, "protein": 0.064442, "yacht": 0.54187}
OBJECTIVES = ("gal2016", "elbo")
FLAT = 1e4


class Splits(NamedTuple):
    """Standardised x (split, n, d) and y (split, n); x_test; y_test in original units; y's mean and sd (split, 1)."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    loc: Tensor
    scale: Tensor


class Fitted(NamedTuple):
    """All splits' parameters (split, size), and seconds of compiling and climbing."""

    variational: Variational
    params: Tensor
    compiling: float
    climbing: float


def stacked(name: str, count: int) -> Splits:
    """The first `count` published splits, which all have the same number of rows."""
    each = [uci.load(name, split).to(dtype=torch.float32) for split in range(count)]
    x, y, x_test, y_test = (torch.stack([getattr(d, key) for d in each]) for key in ("x", "y", "x_test", "y_test"))
    loc, scale = (torch.tensor([[d.info[key]] for d in each], dtype=torch.float64) for key in ("y_loc", "y_scale"))
    return Splits(x, y, x_test, loc + scale * y_test, loc, scale)


def network(x: Tensor, w: dict[str, Any]) -> Tensor:
    """f (..., n) of x (..., n, d)."""
    h = (x @ w["w1"] + w["b1"].unsqueeze(-2)).relu()
    return (h @ w["w2"] + w["b2"].unsqueeze(-2)).squeeze(-1)


def make_model(features: int, prior: float, bias: float) -> Callable[..., None]:
    """The 1 x 50 ReLU net. The last two columns of x are no inputs: noise sd of the row's split, weight of the row."""
    shapes = {"w1": (features, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 1), "b2": (1,)}

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = {
            name: pyro.sample(name, dist.Normal(x.new_zeros(s), prior if len(s) == 2 else bias).to_event(len(s)))
            for name, s in shapes.items()
        }
        with pyro.plate("data", x.shape[0]), poutine.scale(scale=x[:, -1]):
            pyro.sample("y", dist.Normal(network(x[:, :-2], w), x[:, -2]), obs=y)

    return model


def objective(name: str, tau: float, features: int) -> tuple[Callable[..., None], Any]:
    """The model and the family of guides of an objective."""
    if name == "elbo":
        return make_model(features, 1 / LENGTH_SCALE, 1 / LENGTH_SCALE), lambda m: bernoulli_dropout(m, RATE)
    noise = dist.TransformedDistribution(dist.Bernoulli(torch.tensor(1 - RATE)), [AffineTransform(0.0, 1 / (1 - RATE))])
    model = make_model(features, math.sqrt(2 * tau) / (LENGTH_SCALE * (1 - RATE)), FLAT)
    return model, lambda m: multiplicative(m, noise=noise)


def batches(n: int, size: int, epochs: int, generator: torch.Generator, splits: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows (split, size) and their weights (size,): shuffled epochs, whose last batch is short.

    A short batch is filled up with rows of weight 0, and the others weigh more: a mean over them.
    """
    for _ in range(epochs):
        order = torch.rand(splits, n, generator=generator).argsort(1)
        for begin in range(0, n, size):
            rows = order[:, begin : begin + size]
            real = rows.shape[1]
            weights = torch.zeros(size)
            weights[:real] = size / real
            yield torch.cat([rows, order[:, : size - real]], 1), weights


def fit(
    data: Splits,
    name: str,
    tau: float,
    *,
    epochs: int = 400,
    batch: int = BATCH,
    seed: int = 0,
    engine: str = "compiled",
) -> Fitted:
    """Adam with a constant rate on all splits at once; masks of their own for every row.

    Args:
        data: The splits.
        name: "gal2016" or "elbo".
        tau: Precision of y in original units.
        epochs: Passes through the rows.
        batch: Rows of a step.
        seed: Of starts, batches and masks.
        engine: "compiled" or "eager".
    """
    splits, n, features = data.x.shape
    sd = torch.ones(splits) if name == "gal2016" else (tau**-0.5 / data.scale[:, 0]).float()
    x = torch.cat([data.x, sd[:, None, None].expand(-1, n, 1), torch.ones(splits, n, 1)], 2)
    model, family = objective(name, tau, features)
    problem = zoo.Problem(name, model, zoo.Data(x[0], data.y[0]))
    prepared = [prepare(family(model), problem, 1000 * seed + split) for split in range(splits)]
    variational, size = Variational(problem, prepared), min(batch, n)

    def step(params: Tensor, m: Tensor, v: Tensor, noise: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        grad, _ = variational.gradient(params, noise, Batch(*rest[3:], shared=False), n / size)
        return adam(params, m, v, grad, Pace(*rest[:3]))

    generator, each = torch.Generator().manual_seed(seed), torch.arange(splits)[:, None]
    start, lr = variational.start.clone(), torch.tensor(LR)
    state: tuple[Tensor, ...] = (start, torch.zeros_like(start), torch.zeros_like(start))
    shape, call, begun = (splits, 1, size, variational.noise_size), None, time.perf_counter()
    compiling = 0.0
    with quiet(), torch.no_grad():
        for t, (rows, weights) in enumerate(batches(n, size, epochs, generator, splits), start=1):
            inputs = x[each, rows]
            inputs[..., -1] = weights
            pace = (lr, torch.tensor(1 - B1**t), torch.tensor(1 - B2**t))
            given = (*state, torch.randn(shape, generator=generator), *pace, inputs, data.y[each, rows])
            if call is None:
                call = compile_graph(step, given).call if engine == "compiled" else trace(step, given)
                compiling = time.perf_counter() - begun
            state = call(*given)
    return Fitted(variational, state[0], compiling, time.perf_counter() - begun - compiling)


def scores(fitted: Fitted, data: Splits, tau: float, *, count: int = 1000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Test RMSE and log likelihood (split,) in original units of `count` stochastic passes."""
    variational, generator = fitted.variational, torch.Generator().manual_seed(seed)

    def weights(flat: Tensor, e: Tensor) -> dict[str, Tensor]:
        args, kwargs = variational.problem.arguments()
        with Parameters(variational.layout.split(flat), variational.layout.constraints), BaseNoise(e):
            return dict(variational.guide(*args, **kwargs))

    rmse, log_lik = [], []
    for i, flat in enumerate(fitted.params):
        found = []
        for e in torch.randn(count, variational.noise_size, generator=generator).split(200):
            with quiet(), torch.no_grad():
                found.append(network(data.x_test[i], torch.func.vmap(weights, (None, 0))(flat, e)))
        f = data.loc[i] + data.scale[i] * torch.cat(found).double()
        rmse.append((f.mean(0) - data.y_test[i]).square().mean().sqrt())
        log_lik.append(log_likelihood_of_passes(f, data.y_test[i], tau).mean())
    return torch.stack(rmse), torch.stack(log_lik)
