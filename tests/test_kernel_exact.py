"""Kernels with an accept step are exact: chains that start in a law keep it; without the step, or with it wrong, not.

Gaussians with rho = .9 and a mass that is not the unit matrix, the double well U = -2 t^2 + t^4 (exact law by
quadrature), a banana for those that need two coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernel_runs import ALPHA, Marched, Noise, gaussian, march, normals, p_of_bins, p_of_mean, p_of_normal
from tests.test_kernel_laws import RHO, accepted, some_mass
from tests.test_nuts import banana, exact_draws
from tests.test_nuts import p_value as p_of_banana
from zoo.infer.kernels import mala, mclmc, mclmc_unadjusted

Twin = Callable[[pytest.MonkeyPatch], Callable[[Noise], Noise]]
CHAINS = 20_000


# -- broken twins: each returns the change of the noise that it makes ---------------------------------------


def same(noise: Noise) -> Noise:
    return noise


def no_accept_step(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    return accepted


def noise_times_1_3(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    def change(noise: Noise) -> Noise:
        return {name: 1.3 * value if name in ("proposal", "momentum") else value for name, value in noise.items()}

    return change


def no_correction(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    """mala without log q(W | W') - log q(W' | W)."""
    patch.setattr(mala, "log_q", lambda to, start, grad, h, mass: 0.0 * to.sum(-1))
    return same


def no_sign(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    """mala with log q(W' | W) - log q(W | W')."""
    original = mala.log_q
    patch.setattr(mala, "log_q", lambda to, start, grad, h, mass: -original(to, start, grad, h, mass))
    return same


def no_volume(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    """mclmc that accepts by the density alone."""
    original = mclmc.kinetic
    patch.setattr(mclmc, "kinetic", lambda p, mass: 0 * original(p, mass))
    return same


def half_of_the_volume(patch: pytest.MonkeyPatch) -> Callable[[Noise], Noise]:
    """mclmc that counts the turn's volume once where it happens twice."""
    original = mclmc.kinetic
    patch.setattr(mclmc, "kinetic", lambda p, mass: 0.5 * original(p, mass))
    return same


# -- a correlated Gaussian ---------------------------------------------------------------------------------


# kernel, step size, iterations, options, tuned numbers, twins. mh's noise times 1.3 is another step size, and a
# direction's length is 1 whatever the noise: no twins of mh and mclmc.
EXACT = [
    ("mh", 40_000, 0.6, 20, {}, {}, (no_accept_step,)),
    ("mala", 60_000, 0.12, 20, {}, {}, (no_accept_step, noise_times_1_3, no_correction, no_sign)),
    ("hmc", 20_000, 0.5, 6, {}, {"length": 1.2}, (no_accept_step, noise_times_1_3)),
    ("mclmc", 40_000, 0.35, 6, {}, {"length": 1.5}, (no_accept_step, no_volume, half_of_the_volume)),
]
SLOW = [
    ("chees", 20_000, 0.45, 10, {}, {"length": 1.2}, (no_accept_step, noise_times_1_3)),
    ("nuts", 40_000, 0.5, 5, {"max_depth": 4}, {}, (noise_times_1_3,)),
]


def check_gaussian(name: str, chains: int, h: float, iterations: int, own: dict, tuned: dict, twins: tuple) -> None:
    start, target = normals(RHO, chains, 1), gaussian(torch.linalg.inv(RHO))

    def run(change: Any, share: int = 1) -> Marched:
        few = start[::share]
        return march(name, few, target, h, iterations, mass=some_mass(), tuned=tuned, change=change, **own)

    found = run(same)
    assert p_of_normal(found.position, RHO) > ALPHA
    second = torch.einsum("tci,tcj->ij", found.position, found.position) / found.position[..., 0].numel()
    torch.testing.assert_close(second, RHO, rtol=0.01, atol=0)
    assert 0.3 < float(found.accept.mean()) < 0.99
    for twin in twins:
        with pytest.MonkeyPatch.context() as patch:
            assert p_of_normal(run(twin(patch), 3).position, RHO) < ALPHA, twin.__name__


@pytest.mark.parametrize("case", EXACT, ids=[case[0] for case in EXACT])
def test_correlated_gaussian(case: tuple) -> None:
    """Exact at alpha 1e-4, and within 1 % where ULA and SGLD are off by 1.3 % and more; its twins are not."""
    check_gaussian(*case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=[case[0] for case in SLOW])
def test_correlated_gaussian_of_long_trajectories(case: tuple) -> None:
    check_gaussian(*case)


@pytest.mark.parametrize(("name", "h", "tuned"), [("mala", 0.12, {}), ("hmc", 0.5, {"length": 0.9})])
def test_a_wrong_drift_costs_acceptance_and_nothing_else(name: str, h: float, tuned: dict[str, float]) -> None:
    """Gradients times 2: the accept step makes up for any drift, so here drift x 2 is no broken twin."""
    start, target = normals(RHO, CHAINS, 1), gaussian(torch.linalg.inv(RHO))

    def steeper(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        lp, grad = target(q)
        return lp, 2 * grad

    right, steep = (march(name, start, to, h, 6, mass=some_mass(), tuned=tuned) for to in (target, steeper))
    assert p_of_normal(steep.position, RHO) > ALPHA
    assert float(steep.accept.mean()) < float(right.accept.mean()) - 0.05


# -- the double well ---------------------------------------------------------------------------------------


GRID = torch.linspace(-3, 3, 60_001, dtype=torch.float64)
MASS = torch.exp(2 * GRID**2 - GRID**4)
CDF = torch.cumulative_trapezoid(MASS, GRID) / torch.trapezoid(MASS, GRID)
MOMENTS = {2: 0.8327454871, 4: 1.0827454871}
MIDDLE = 0.2194372661


def double_well(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """log p = 2 t^2 - t^4."""
    return (2 * q**2 - q**4).sum(-1), 4 * q - 4 * q**3


def cdf(t: Tensor) -> Tensor:
    return CDF[((t - GRID[0]) / (GRID[1] - GRID[0])).long().clamp(0, len(CDF) - 1)]


def double_well_draws(chains: int, seed: int) -> Tensor:
    """Exact draws (chain, 1) by the inverse distribution function."""
    u = torch.rand(chains, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return GRID[1:][torch.searchsorted(CDF, u).clamp(max=len(CDF) - 1)][:, None]


def double_well_p(found: Marched) -> float:
    """Bonferroni over 20 bins of the last iteration, and t, t^2, t^4, |t| < .5 over all."""
    t = found.position[..., 0]
    values = [p_of_bins(t[-1], cdf), p_of_mean(t, 0.0), p_of_mean((t.abs() < 0.5).double(), MIDDLE)]
    values += [p_of_mean(t**power, right) for power, right in MOMENTS.items()]
    return min(values) * len(values)


def test_the_quadrature_is_the_published_one() -> None:
    for power, right in MOMENTS.items():
        assert float(torch.trapezoid(MASS * GRID**power, GRID) / torch.trapezoid(MASS, GRID)) == pytest.approx(right)
    inside = cdf(torch.tensor([0.5], dtype=torch.float64)) - cdf(torch.tensor([-0.5], dtype=torch.float64))
    assert float(inside) == pytest.approx(MIDDLE, abs=1e-4)
    start = double_well_draws(CHAINS, 1)
    assert p_of_bins(start[:, 0], cdf) > ALPHA
    assert p_of_bins(1.05 * start[:, 0], cdf) < ALPHA


WELL = [
    ("mh", 60_000, 1.5, 20, {}, {}, (no_accept_step,)),
    ("mala", 60_000, 0.1, 20, {}, {}, (no_accept_step, noise_times_1_3, no_correction, no_sign)),
    ("hmc", 30_000, 0.35, 10, {}, {"length": 0.9}, (no_accept_step, noise_times_1_3)),
]


def check_well(name: str, chains: int, h: float, iterations: int, own: dict, tuned: dict, twins: tuple) -> None:
    start = double_well_draws(chains, 1)

    def run(change: Any, share: int = 1) -> Marched:
        return march(name, start[::share], double_well, h, iterations, tuned=tuned, change=change, **own)

    found = run(same)
    assert double_well_p(found) > ALPHA
    t = found.position
    for power, right in MOMENTS.items():
        assert float((t**power).mean()) == pytest.approx(right, rel=0.01)
    assert float((t.abs() < 0.5).double().mean()) == pytest.approx(MIDDLE, rel=0.01)
    for twin in twins:
        with pytest.MonkeyPatch.context() as patch:
            assert double_well_p(run(twin(patch), 3)) < ALPHA, twin.__name__


@pytest.mark.parametrize("case", WELL, ids=[case[0] for case in WELL])
def test_double_well(case: tuple) -> None:
    """Chi-square of 20 bins and moments at alpha 1e-4, moments within 1 %; the twins fail."""
    check_well(*case)


@pytest.mark.slow
def test_double_well_of_nuts() -> None:
    check_well("nuts", 40_000, 0.35, 8, {"max_depth": 4}, {}, (noise_times_1_3,))


# -- mclmc -------------------------------------------------------------------------------------------------


def curved(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return banana(q)


@pytest.mark.parametrize("twin", [None, no_accept_step, no_volume, half_of_the_volume])
def test_mclmc_keeps_the_law_of_a_banana(twin: Twin | None, monkeypatch: pytest.MonkeyPatch) -> None:
    change = twin(monkeypatch) if twin else same
    found = march("mclmc", exact_draws(CHAINS, 1), curved, 0.5, 15, tuned={"length": 1.5}, change=change)
    assert (p_of_banana(found.position) > ALPHA) == (twin is None)


def test_mclmc_in_many_dimensions() -> None:
    """10 coordinates, sds from .5 to 2: exact at alpha 1e-4; twin: the volume as in 9 dimensions."""
    covariance = torch.linspace(0.5, 2, 10, dtype=torch.float64).square().diag()
    start, target = normals(covariance, 5000, 1), gaussian(torch.linalg.inv(covariance))

    def p() -> float:
        found = march("mclmc", start, target, 2.0, 15, tuned={"length": 5.0})
        assert 0.3 < float(found.accept.mean()) < 0.95
        return p_of_normal(found.position, covariance)

    assert p() > ALPHA
    original = mclmc.kinetic
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mclmc, "kinetic", lambda q, mass: 8 / 9 * original(q, mass))
        assert p() < ALPHA


def any_direction(state: mclmc_unadjusted.State) -> mclmc_unadjusted.State:
    """mclmc_unadjusted starts along the gradient; its law has directions uniform."""
    u = normals(torch.eye(2, dtype=torch.float64), len(state.lp), 2)
    return state._replace(at=torch.stack([state.at[:, 0], u / u.norm(dim=1, keepdim=True), state.at[:, 2]], 1))


def test_unadjusted_mclmc_is_nearly_right_with_short_steps_only() -> None:
    """Whitened second moments on rho = .9 stay within 1.5 % for e = .1, not for e = .4.

    Twin: a gradient half as steep (u turns half as fast), which doubles them.
    """
    mass, start = some_mass(), normals(RHO, CHAINS, 1)

    def size(h: float, sharpness: float = 1.0) -> float:
        target = gaussian(sharpness * torch.linalg.inv(RHO))
        found = march("mclmc_unadjusted", start, target, h, 30, keep=20, mass=mass, begin=any_direction)
        z = torch.linalg.solve_triangular(torch.linalg.cholesky(RHO), found.position.transpose(-1, -2), upper=False)
        return float(z.square().mean())

    assert size(0.1) == pytest.approx(1, abs=0.015)
    assert size(0.4) != pytest.approx(1, abs=0.015)
    assert size(0.1, sharpness=0.5) != pytest.approx(1, abs=0.015)


# -- acceptance --------------------------------------------------------------------------------------------


TABLE = [(1.0, 0.783653), (0.5, 0.920833), (0.2, 0.979875), (0.1, 0.992883), (0.05, 0.997484), (0.01, 0.999775)]


@pytest.mark.parametrize(("h", "right"), TABLE)
def test_stationary_acceptance_of_mala(h: float, right: float) -> None:
    """N(0, 1), within 4 standard errors of 400,000 proposals. Twin: h as SGLD has it, (h/2) g and sqrt(h) n."""
    start, target = normals(torch.ones(1, 1, dtype=torch.float64), 40_000, 3), gaussian(torch.ones(1, 1).double())

    def off(size: float) -> float:
        chains = march("mala", start, target, size, 10, seed=4).accept.mean(0)
        return abs(float(chains.mean()) - right) / (float(chains.std() / len(chains) ** 0.5) + 5e-7)  # the last digit

    assert off(h) < 4
    assert off(h / 2) > 4


def test_mala_refuses_by_the_power_three_halves() -> None:
    """1 - a -> .2251 h^1.5."""
    assert (1 - TABLE[-1][1]) / TABLE[-1][0] ** 1.5 == pytest.approx(0.2251, rel=2e-3)
    start, target = normals(torch.ones(1, 1, dtype=torch.float64), 200_000, 3), gaussian(torch.ones(1, 1).double())
    accept = march("mala", start, target, 1e-3, 2, seed=4).accept
    assert float((1 - accept).mean()) / 1e-3**1.5 == pytest.approx(0.2251, rel=0.02)
