"""A coin: what is P(heads) after a few flips?

    theta ~ Beta(a, b)                 ()
    y_i   ~ Bernoulli(theta)           (n,)    i = 1 ... n

The model has no inputs: x is (n, 0). f = theta in every row, (n,).

Compare: theta, a single probability, is identifiable, so draws of different methods may be compared directly.

Exact: with k heads in n flips theta | y ~ Beta(a + k, b + n - k), and the sequence has
p(y) = B(a + k, b + n - k) / B(a, b).

Slide prints p(theta | x) = p(x | theta) p(theta) (Leal-Taixe); this computes the same divided by p(x).

Source: Yandex, "What is probability? Two coin flips"; Bishop 2006, section 2.1.
"""

from __future__ import annotations

import functools

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from zoo.core.checks import positive
from zoo.core.problem import Data, Exact
from zoo.data import labels, toy

COMPARE = ("theta",)
CLASSIFY = True
prepare = labels.binary


def data(seed: int = 0, n: int = 2, heads: int | None = None) -> Data:
    """Two flips, both heads; or `heads` of n."""
    return toy.flips(seed, n, heads)


def model(x: Tensor, y: Tensor | None = None, *, a: float = 1.0, b: float = 1.0) -> Tensor:
    positive("a", a)
    positive("b", b)
    theta = pyro.sample("theta", dist.Beta(x.new_full((), a), x.new_full((), b)))  # ()
    f = pyro.deterministic("f", theta.expand(x.shape[0]))  # (n,)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Bernoulli(f), obs=y)  # (n,)
    return f


def exact(data: Data, *, rows: int | None = None, a: float = 1.0, b: float = 1.0) -> Exact:
    """Posterior, predictive and log evidence of the sequence after the first `rows` flips (None: all)."""
    positive("a", a)
    positive("b", b)
    y = data.x.new_empty(0) if data.y is None else data.y[:rows]
    y = y.to(torch.float64)
    before = dist.Beta(y.new_tensor(a), y.new_tensor(b))
    after = dist.Beta(a + y.sum(), b + (1 - y).sum())
    log_evidence = float(_log_b(after) - _log_b(before))
    return Exact({"theta": after}, functools.partial(_predictive, after.mean), log_evidence)


def _predictive(mean: Tensor, x: Tensor) -> dist.Distribution:
    return dist.Bernoulli(mean.expand(x.shape[0]))  # (m,)


def _log_b(beta: dist.Beta) -> Tensor:
    a, b = beta.concentration1, beta.concentration0
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
