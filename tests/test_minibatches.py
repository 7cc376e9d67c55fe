"""Minibatches: gradients unbiased to rounding, their noise by formula.

Right answers: averages over all batches of tiny data, sampling theory. Broken twins: the slide's sum (the prior M
times), no n / M, the other way of sampling.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy import stats
from torch import Tensor

import zoo
from tests.cases import CASES, Case, problem
from tests.kernel_runs import ALPHA, rows_of
from zoo.infer.density import Density
from zoo.infer.noise import noise_block
from zoo.infer.subsample import check_subsample

N = 4


def batches_of(size: int, n: int = N) -> Tensor:
    """All batches of `size` of n rows, (batch, size)."""
    return torch.tensor(list(itertools.combinations(range(n), size)))


def in_float64(case: Case) -> zoo.Problem:
    found = problem(case, n=N, d=2)
    data = found.data
    assert isinstance(data, zoo.Data)
    assert data.y is not None
    y = data.y.double() if data.y.is_floating_point() else data.y
    return zoo.load(case.model, zoo.Data(data.x.double(), y), **case.hyper)


# -- the gradient's mean -----------------------------------------------------------------------------------


LOCAL = [case for case in CASES if case.local]  # a latent of a row has no place in another batch
GLOBAL = [case for case in CASES if not case.local]


@pytest.mark.parametrize("case", LOCAL, ids=[case.id for case in LOCAL])
def test_minibatches_of_a_latent_of_each_row_are_refused(case: Case) -> None:
    target = Density(in_float64(case))
    with pytest.raises(ValueError, match="value for every row"):
        check_subsample(target.problem, target.sites, 2)


@pytest.mark.parametrize("case", GLOBAL, ids=[case.id for case in GLOBAL])
def test_the_mean_minibatch_gradient_is_the_full_one(case: Case) -> None:
    """At a fixed point, over all batches of 1, 2 and all of 4 rows: value and gradient to 1e-10.

    Twin: the slide's sum over the batch of N-scaled terms, each with the prior (M times gradient and prior); and the
    sum without n / M.
    """
    target = Density(in_float64(case))
    check_subsample(target.problem, target.sites, 2)
    generator = torch.Generator().manual_seed(1)
    point = 0.5 * torch.randn(1, target.dim, generator=generator, dtype=torch.float64)
    value, grad = target.value_and_grad(point)

    def mean(rows: Tensor) -> tuple[Tensor, Tensor]:
        values, grads = target.value_and_grad(point.expand(len(rows), -1), rows)
        return values.mean(0, keepdim=True), grads.mean(0, keepdim=True)

    for size in (1, 2, N):
        found = mean(batches_of(size))
        torch.testing.assert_close(found[0], value, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found[1], grad, rtol=1e-10, atol=1e-10)
    _, single = target.value_and_grad(point.expand(N, -1), batches_of(1))
    slide = torch.stack([single[rows].sum(0) for rows in batches_of(2)]).mean(0, keepdim=True)
    torch.testing.assert_close(slide, 2 * grad, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(slide, grad, rtol=1e-10, atol=1e-10)


def test_without_n_over_m_the_mean_is_another() -> None:
    """Twin of the test above: the data's gradient is a half of what it is, the prior's all of it."""
    case = CASES[2]
    target = Density(in_float64(case))
    point = torch.full((1, target.dim), 0.3, dtype=torch.float64)
    _, full = target.value_and_grad(point)
    rows = batches_of(2)
    few = [
        zoo.load(case.model, zoo.Data(target.problem.data.x[r], target.problem.data.y[r]), **case.hyper) for r in rows
    ]
    unscaled = torch.stack([Density(p).value_and_grad(point)[1] for p in few]).mean(0)
    assert not torch.allclose(unscaled, full, rtol=1e-10, atol=1e-10)


def test_temperature_means_the_same_for_every_batch_size() -> None:
    """p^(1 / T): the mean minibatch gradient at T is the full gradient at T, a T-th of that at 1."""
    cold, warm = Density(in_float64(CASES[2])), Density(in_float64(CASES[2]), temperature=4.0)
    point = torch.full((1, cold.dim), 0.3, dtype=torch.float64)
    for size in (1, 2, N):
        rows = batches_of(size)
        _, grads = warm.value_and_grad(point.expand(len(rows), -1), rows)
        torch.testing.assert_close(
            4 * grads.mean(0, keepdim=True), cold.value_and_grad(point)[1], rtol=1e-10, atol=1e-10
        )


# -- the gradient's noise ----------------------------------------------------------------------------------


def row_gradients(n: int) -> tuple[Density, Tensor, Tensor]:
    """A line on n rows, a point, and the data gradients of its rows (n, dim)."""
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(n, 1, generator=generator).double(), torch.randn(n, generator=generator).double()
    target = Density(zoo.load("linear_regression", zoo.Data(x, y)))
    point = torch.full((1, target.dim), 0.3, dtype=torch.float64)
    _, scaled = target.value_and_grad(point.expand(n, -1), torch.arange(n)[:, None])
    return target, point, scaled / n  # the prior shifts all of them alike


@pytest.mark.parametrize("size", [1, 2, 3])
def test_noise_of_the_gradient(size: int) -> None:
    """Over all equally likely batches: with replacement n^2 / M S^2, without n (n - M) / M S_{n-1}^2, to 1e-10.

    Each other's twin.
    """
    n = 6
    target, point, rows = row_gradients(n)
    right = {
        "replacement": n**2 / size * rows.var(0, correction=0),
        "epochs": n * (n - size) / size * rows.var(0, correction=1),
    }
    every = {"replacement": torch.tensor(list(itertools.product(range(n), repeat=size))), "epochs": batches_of(size, n)}
    found = {}
    for sampling, batches in every.items():
        _, grads = target.value_and_grad(point.expand(len(batches), -1), batches)
        found[sampling] = grads.var(0, correction=0)
        torch.testing.assert_close(found[sampling], right[sampling], rtol=1e-10, atol=1e-10)
    assert (size == 1) == torch.allclose(found["epochs"], right["replacement"], rtol=1e-10)


@pytest.mark.parametrize("own", [True, False], ids=["zoo.infer.noise", "tests.kernel_runs"])
@pytest.mark.parametrize("sampling", ["replacement", "epochs"])
def test_batches_are_equally_likely(sampling: str, own: bool) -> None:
    """Chi-square at alpha 1e-4 of ordered pairs of 6 rows: all 36, or the 30 without repeats. Each other's twin."""
    if own:
        shapes = {"rows": (sampling, (2,))}
        rows = noise_block(shapes, seed=1, block=0, chains=60, like=torch.zeros(1), n=6)["rows"]
    else:
        rows = rows_of(sampling, (2,), 6, 64, 60, torch.Generator().manual_seed(1))
    counts = (rows[..., 0] * 6 + rows[..., 1]).flatten().bincount(minlength=36).reshape(6, 6)
    off = counts[~torch.eye(6, dtype=torch.bool)]
    assert stats.chisquare(off.numpy()).pvalue > ALPHA
    assert (stats.chisquare(counts.flatten().numpy()).pvalue > ALPHA) == (sampling == "replacement")
    assert (int(counts.diagonal().sum()) == 0) == (sampling == "epochs")
