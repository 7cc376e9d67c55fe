"""Posteriors made by hand for the tests of reports: draws of known distributions, no inference."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import zoo


def line(x: Tensor, y: Tensor | None = None, *, sd: float = 0.5) -> Tensor:
    """w ~ N(0, 1) (d,); noise ~ HalfNormal(1); f = x w (n,); y ~ N(f, sd noise)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[1]), 1.0).to_event(1))
    noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, sd * noise), obs=y)
    return f


def classes(x: Tensor, y: Tensor | None = None) -> Tensor:
    """w ~ N(0, 1) (d, 3); f = x w (n, 3) logits; y ~ Categorical(f)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[1], 3), 1.0).to_event(2))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Categorical(logits=f), obs=y)
    return f


def signs(x: Tensor, y: Tensor | None = None) -> Tensor:
    """w ~ N(0, 1) (d,); f = x w (n,) logits; y ~ Bernoulli(f)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[1]), 1.0).to_event(1))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(logits=f), obs=y)
    return f


def schools(J: int, y: Tensor, sigma: Tensor) -> None:
    """Eight schools, non-centred: data in a dict, one of them a plain number."""
    mu = pyro.sample("mu", dist.Normal(sigma.new_zeros(()), 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(sigma.new_full((), 5.0)))
    with pyro.plate("school", J):
        eta = pyro.sample("eta", dist.Normal(sigma.new_zeros(()), 1.0))
        pyro.sample("effect", dist.Normal(mu + tau * eta, sigma), obs=y)


def two_sites(x: Tensor, y: Tensor, label: Tensor, group: Tensor) -> None:
    """Counts of six rows and labels of nine: two plates, two observed sites of whole numbers, an index as data."""
    rate = pyro.sample("rate", dist.LogNormal(x.new_zeros(3), 0.5).to_event(1))
    with pyro.plate("row", len(group)):
        pyro.sample("count", dist.Poisson(rate[group]), obs=y)
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 3), 1.0).to_event(2))
    with pyro.plate("picture", len(label)):
        pyro.sample("effect", dist.Categorical(logits=x @ w), obs=label)


def two_sites_fit(shape: tuple[int, int] = (2, 100)) -> zoo.Posterior:
    """Draws near the prior of `two_sites`, with a warm-up, integer data and weights."""
    g = generator()
    data = {
        "x": torch.randn(9, 2, generator=g),
        "y": torch.tensor([0.0, 2.0, 1.0, 3.0, 1.0, 0.0]),
        "label": torch.tensor([0, 1, 2, 0, 1, 2, 2, 1, 0]),
        "group": torch.tensor([0, 0, 1, 1, 2, 2]),
    }

    def draws(count: int) -> dict[str, Tensor]:
        rate = (0.2 * torch.randn(shape[0], count, 3, generator=g)).exp()
        return {"rate": rate, "w": 0.3 * torch.randn(shape[0], count, 2, 3, generator=g)}

    stats = {"lp": torch.randn(*shape, generator=g, dtype=torch.float64), "steps": torch.full(shape, 3)}
    warm = {"accept": torch.rand(shape[0], 20, generator=g), "step_size": torch.rand(shape[0], 20, generator=g)}
    return zoo.Posterior(
        zoo.Problem("two sites", two_sites, data),
        "nuts",
        "markov",
        draws(shape[1]),
        stats=stats,
        warmup={"draws": draws(20), "stats": warm},
        settings={"seed": 0},
    )


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Fails where something inside warns, by `warnings` or in ArviZ's log."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("arviz", "arviz_base", "arviz_stats", "arviz_plots")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # ArviZ 0.23's own, under matplotlib 3.11 and pandas 3.1, whatever it is given.
            warnings.filterwarnings("ignore", message="Passing a dict or None as alias_mapping")
            warnings.filterwarnings("ignore", message="The inplace keyword in DataFrame.sort_values")
            yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert not said, said


SCHOOLS = {
    "J": 8,
    "y": torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    "sigma": torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def line_problem(*, n: int = 12, d: int = 2, dtype: torch.dtype = torch.float32, **info: Any) -> zoo.Problem:
    """A line with test rows; the first test row is zero, so that f is constant there."""
    g = generator(1)
    x = torch.randn(n, d, generator=g, dtype=dtype)
    y = x.sum(1) + 0.5 * torch.randn(n, generator=g, dtype=dtype)
    test = torch.cat([x.new_zeros(1, d), x[:4] + 0.1])
    return zoo.Problem("my line", line, zoo.Data(x, y, test, test.sum(1), info=info), hyper={"sd": 0.5})


def line_fit(
    problem: zoo.Problem | None = None,
    shape: tuple[int, int] = (4, 250),
    *,
    seed: int = 0,
    mean: float = 1.0,
    sd: float = 0.2,
    method: str = "nuts",
    kind: str = "markov",
    **options: Any,
) -> zoo.Posterior:
    """Independent draws w ~ N(mean, sd), noise ~ |N(1, .1)|, with a sampler's statistics."""
    problem = problem or line_problem()
    g, dtype = generator(seed), problem.tensor.dtype
    d = problem.data.x.shape[1]  # type: ignore[union-attr]
    draws = {
        "w": mean + sd * torch.randn(*shape, d, generator=g, dtype=dtype),
        "noise": (1 + 0.02 * torch.randn(*shape, generator=g, dtype=dtype)).abs(),
    }
    stats = {
        "lp": torch.randn(*shape, generator=g, dtype=torch.float64),
        "energy": torch.randn(*shape, generator=g, dtype=torch.float64),
        "accept": torch.rand(*shape, generator=g),
        "depth": torch.full(shape, 2),
        "steps": torch.full(shape, 3),
        "diverging": torch.zeros(shape, dtype=torch.bool),
        "step_size": torch.full((shape[0],), 0.25),
    }
    filled = {"stats": stats, "seconds": {"warmup": 1.0, "sample": 1.0}, "settings": {"seed": seed}} | options
    return zoo.Posterior(problem, method, kind, draws, **filled)
