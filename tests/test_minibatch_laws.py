"""The laws of the kernels on minibatches: right ones wider by the gradient's noise, wrong ones wrong as computed.

Right answers: closed forms, a transition matrix on a grid, a linear recursion. Broken twins: no n / M, the gradient
noise left out of the formula, all rows where there were few.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernel_runs import ALPHA, march, normals, p_of_bins, p_of_mean, p_of_normal, scalar

Y = torch.tensor([-1.0, 0.2, 1.7], dtype=torch.float64)  # three observations of N(theta, 1), theta ~ N(0, 1): a = 4


def three_rows(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    y = Y.expand(len(q), -1) if rows is None else Y[rows]
    scale = 3 / y.shape[1]
    lp = -0.5 * (scale * (y - q).square().sum(1) + q[:, 0] ** 2)
    return lp, scale * (y - q).sum(1, keepdim=True) - q


@pytest.mark.parametrize(("name", "h", "own"), [("sgld", 0.1, {"gamma": 0}), ("sghmc", 0.05, {"gradient_noise": 0.0})])
def test_gradient_noise_widens_by_its_variance(name: str, h: float, own: dict[str, Any]) -> None:
    """Batches of 1 of 3 rows, drawn independently: V = n^2 / M S^2 = 9 S^2; variances by formula at alpha 1e-4.

    sgld (h + h^2 V / 4) / (1 - (1 - h a / 2)^2); sghmc, beta = 0, its law times (1 + eta V / (2 alpha)), alpha .3.
    Twins: no n / M (V / 9, and another drift); V left out of the formula.
    """
    a, noise, alpha = 4.0, 9 * float(Y.var(correction=0)), 0.3
    own = {**own, "batch_size": 1, "sampling": "replacement"}
    if name == "sgld":
        clean, right = h / (1 - (1 - h * a / 2) ** 2), (h + h**2 * noise / 4) / (1 - (1 - h * a / 2) ** 2)
    else:
        own["friction"] = alpha
        clean = 1 / (a * (1 - h * a / (2 * (2 - alpha))))
        right = clean * (1 + h * noise / (2 * alpha))
    start = normals(scalar(right), 20_000, 1) + Y.sum() / a

    def unscaled(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        lp, grad = three_rows(q, rows)
        return lp, grad if rows is None else (Y[rows] - q).sum(1, keepdim=True) - q

    def p(target: Any, variance: float) -> float:
        found = march(name, start, target, h, 80, keep=20, n=3, **own).position[..., 0]
        centred = found - Y.sum() / a
        return 2 * min(p_of_mean(centred, 0.0), p_of_mean(centred**2, variance))

    assert p(three_rows, right) > ALPHA
    assert p(three_rows, clean) < ALPHA
    assert p(unscaled, right) < ALPHA


def test_sghmc_with_the_noise_left_out_is_near_the_posterior() -> None:
    """The same batches, V = 9 S^2 given: the law without gradient noise, at alpha 1e-4. Twins: V = 0; epochs, whose
    batches' errors cancel and heat less than is left out, which is why they are not the default.
    """
    a, h, alpha, noise = 4.0, 0.05, 0.5, 9 * float(Y.var(correction=0))
    right = 1 / (a * (1 - h * a / (2 * (2 - alpha))))
    start = normals(scalar(right), 20_000, 1) + Y.sum() / a

    def p(given: float, **own: Any) -> float:
        found = march(
            "sghmc", start, three_rows, h, 80, keep=20, n=3, batch_size=1, friction=alpha, gradient_noise=given, **own
        )
        return p_of_mean((found.position[..., 0] - Y.sum() / a) ** 2, right)

    assert p(noise) > ALPHA
    assert p(0.0) < ALPHA
    assert p(noise, sampling="epochs") < ALPHA


GRID = torch.linspace(-3.5, 4.0, 601, dtype=torch.float64)


def stationary(step: float, scale: float = 3.0) -> Tensor:
    """The stationary masses of minibatch_mh (M = 1 of 3 rows) on the grid, by its transition matrix."""
    width = float(GRID[1] - GRID[0])
    jump = torch.exp(-0.5 * ((GRID[None] - GRID[:, None]) / step) ** 2) / (step * math.sqrt(2 * math.pi)) * width
    accept = torch.zeros_like(jump)
    for y in Y:
        lp = -0.5 * (scale * (y - GRID) ** 2 + GRID**2)
        accept += (lp[None] - lp[:, None]).clamp(max=0).exp() / 3
    moves = jump * accept
    moves.fill_diagonal_(0)
    moves += (1 - moves.sum(1)).diag()
    mass = torch.full_like(GRID, 1 / len(GRID))
    for _ in range(12):  # 2^12 steps
        moves = moves @ moves
    return mass @ moves


def test_minibatch_mh_has_its_own_law_and_not_the_posterior() -> None:
    """20,000 chains in the law of its transition matrix stay in it, alpha 1e-4, 20 bins and two moments.

    Twins: acceptance by all rows (mh); no n / M in the batch's log density.
    """
    step, a = 1.0, 4.0
    mass = stationary(step)
    cumulative = (mass.cumsum(0) / mass.sum()).contiguous()
    mean, square = float((mass * GRID).sum() / mass.sum()), float((mass * GRID**2).sum() / mass.sum())
    assert square - mean**2 > 1.2 / a  # wider than the posterior
    width = float(GRID[1] - GRID[0])
    u = torch.rand(20_000, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    place = torch.searchsorted(cumulative, u[:, 0].contiguous()).clamp(max=len(GRID) - 1)
    start = (GRID[place] + (u[:, 1] - 0.5) * width)[:, None]

    def cdf(t: Tensor) -> Tensor:
        at = ((t - GRID[0]) / width + 0.5).clamp(0, len(GRID) - 1.001)
        left = torch.cat([cumulative.new_zeros(1), cumulative])
        return left[at.long()] + (at - at.long()) * (left[at.long() + 1] - left[at.long()])

    def p(name: str, target: Any = three_rows, **own: Any) -> float:
        t = march(name, start, target, step, 20, n=3, **own).position[..., 0]
        return 3 * min(p_of_bins(t[-1], cdf), p_of_mean(t, mean), p_of_mean(t**2, square))

    def unscaled(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if rows is None:
            return three_rows(q)
        return -0.5 * ((Y[rows] - q).square().sum(1) + q[:, 0] ** 2), -q

    batch = {"batch_size": 1, "sampling": "replacement"}
    assert p("minibatch_mh", **batch) > ALPHA
    assert p("mh") < ALPHA
    assert p("minibatch_mh", unscaled, **batch) < ALPHA


# -- Hamiltonian Monte Carlo on minibatches ----------------------------------------------------------------


def many_means(dim: int, n: int = 20) -> tuple[Any, Tensor]:
    """n observations of N(theta, I) in `dim` coordinates, flat prior: N(mean, I / n); and its mean."""
    y = torch.randn(n, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    total, square = y.sum(0), (y**2).sum()

    def target(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if rows is None:
            return -0.5 * (n * (q**2).sum(1) - 2 * q @ total + square), total - n * q
        batch = y[rows]
        return -0.5 * n / rows.shape[1] * (batch - q[:, None]).square().sum((1, 2)), n * (batch.mean(1) - q)

    return target, y.mean(0)


def test_acceptance_on_minibatches_falls_with_the_dimension() -> None:
    """M = 5 of 20 rows, L = 5 steps, from the posterior, d = 1, 10, 100, 1000. Twin: all rows, where it stays high."""
    accept: dict[int, list[float]] = {5: [], 20: []}
    for dim in (1, 10, 100, 1000):
        target, mean = many_means(dim)
        start = normals(torch.eye(dim, dtype=torch.float64) / 20, 100, 4) + mean
        for size, found in accept.items():
            ran = march("minibatch_hmc", start, target, 0.02, 4, n=20, steps_each=5, batch_size=size, sampling="epochs")
            found.append(float(ran.accept[:1].mean()))  # of chains still in the posterior
    few = accept[5]
    assert few[0] > few[1] > few[2] > few[3]
    assert few[0] > 0.8
    assert few[3] < 0.05
    assert min(accept[20]) > 0.9
    assert not accept[20][3] < 0.05


def by_recursion(a: float, noise: float, h: float, steps: int) -> float:
    """The stationary variance of minibatch_hmc without acceptance on N(0, 1/a), gradients + N(0, noise).

    One trajectory is linear in q_0, p_0 and the L + 1 noises, whose coefficients a leapfrog by hand gives; a noise at
    the end of a step is that of the next one's beginning.
    """
    unit = torch.eye(steps + 3, dtype=torch.float64)
    q, p, xi = unit[0], unit[1], unit[2:]
    force = -a * q + xi[0]
    for i in range(steps):
        p = p + 0.5 * h * force
        q = q + h * p
        force = -a * q + xi[i + 1]
        p = p + 0.5 * h * force
    return float((q[1] ** 2 + noise * (q[2:] ** 2).sum()) / (1 - q[0] ** 2))


def test_hmc_on_minibatches_without_acceptance_is_too_wide() -> None:
    """Its variance is that of the recursion (alpha 1e-4), more than 1.3 times 1 / a. Twin: all rows' gradients."""
    a, h, steps = 4.0, 0.25, 4
    noise = 9 * float(Y.var(correction=0))
    right = by_recursion(a, noise, h, steps)
    assert right > 1.3 / a
    assert by_recursion(a, 0.0, 1e-3, 700) == pytest.approx(1 / a, rel=1e-4)
    start = normals(scalar(right), 20_000, 1) + Y.sum() / a
    own = {"steps_each": steps, "accept": "none", "sampling": "replacement", "batch_size": 1}

    def p(target: Any, variance: float) -> float:
        found = march("minibatch_hmc", start, target, h, 20, keep=10, n=3, **own).position[..., 0]
        return p_of_mean((found - Y.sum() / a) ** 2, variance)

    assert p(three_rows, right) > ALPHA
    assert p(three_rows, 1 / a) < ALPHA
    assert p(lambda q, rows=None: three_rows(q), right) < ALPHA


def test_all_rows_in_each_batch_is_hmc() -> None:
    """With M = n minibatch_hmc keeps the posterior, alpha 1e-4. Twin: without its acceptance, at a long step."""
    start = normals(scalar(0.25), 20_000, 1)

    def p(accept: str) -> float:
        own = {"steps_each": 3, "accept": accept, "batch_size": 3, "sampling": "epochs"}
        found = march("minibatch_hmc", start + Y.sum() / 4, three_rows, 0.7, 10, n=3, **own)
        return p_of_normal(found.position - Y.sum() / 4, scalar(0.25))

    assert p("full") > ALPHA
    assert p("none") < ALPHA
