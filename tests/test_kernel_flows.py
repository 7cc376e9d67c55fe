"""The flows that trajectories follow, leapfrog and mclmc's step: to rounding, no draws.

Right answers: invariants, autograd Jacobians. Broken twins: Euler's steps, no flip, volume terms left out or wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernel_runs import draw_noise, gaussian, kernel_of, normals, scalar
from tests.test_kernel_laws import some_mass
from tests.test_nuts import banana, exact_draws
from zoo.infer.kernels import mclmc
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import Mass, kinetic, momentum, unit

Flow = Callable[[Tensor], Tensor]
TWO = torch.zeros(2, dtype=torch.float64)


def curved(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return banana(q)


def points(integrator: str, mass: Mass, chains: int = 20) -> Tensor:
    """(chain, 3, 2) positions, momenta, gradients of the banana, momenta as the integrator has them."""
    q, z = exact_draws(chains, 7), normals(torch.eye(2, dtype=torch.float64), chains, 8)
    p = mclmc.direction(z, mass) if integrator == "mclmc" else momentum(z, mass)
    return torch.stack([q, p, banana(q)[1]], 1)


def trajectory(integrator: str, at: Tensor, steps: int, h: float, mass: Mass) -> tuple[Tensor, Tensor]:
    """`at` and energies (chain,) after some steps of the leapfrog or of mclmc."""
    one = mclmc.integrate if integrator == "mclmc" else leapfrog
    energy = mclmc.kinetic if integrator == "mclmc" else kinetic
    lp = banana(at[:, 0])[0]
    for _ in range(steps):
        at, lp = one(at, curved, at.new_tensor(h), mass)
    return at, -lp + energy(at[:, 1], mass)


def flipped(at: Tensor) -> Tensor:
    return at * at.new_tensor([1.0, -1.0, 1.0])[:, None]


BOTH = pytest.mark.parametrize("integrator", ["leapfrog", "mclmc"])


@BOTH
def test_reversible(integrator: str) -> None:
    """There, momentum flipped, and back: to 1e-10. Twin: no flip."""
    mass = some_mass()
    at = points(integrator, mass)
    there, _ = trajectory(integrator, at, 15, 0.1, mass)
    back, _ = trajectory(integrator, flipped(there), 15, 0.1, mass)
    torch.testing.assert_close(flipped(back), at, rtol=0, atol=1e-10)
    unflipped, _ = trajectory(integrator, there, 15, 0.1, mass)
    assert float((unflipped - at).abs().max()) > 0.1


@BOTH
def test_energy_error_is_antisymmetric(integrator: str) -> None:
    """H at the two ends of a trajectory and of the reversed one: errors E and -E, to 1e-10. Twin: not flipped."""
    mass = some_mass()
    at = points(integrator, mass)
    _, before = trajectory(integrator, at, 0, 0.3, mass)
    there, after = trajectory(integrator, at, 4, 0.3, mass)
    _, back = trajectory(integrator, flipped(there), 4, 0.3, mass)
    _, wrong = trajectory(integrator, there, 4, 0.3, mass)
    assert float((after - before).abs().max()) > 0.01
    torch.testing.assert_close(back - after, before - after, rtol=0, atol=1e-10)
    assert not torch.allclose(wrong - after, before - after, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "energy"), [("hmc", kinetic), ("mclmc", mclmc.kinetic)])
def test_acceptance_of_a_step_is_antisymmetric(name: str, energy: Callable[..., Tensor]) -> None:
    """The kernel's own acceptance there, min(1, exp(-E)), and back, momentum flipped, min(1, exp(E)), to 1e-10.

    Twin: not flipped, which does not even come back.
    """
    kernel, start, mass = kernel_of(name), exact_draws(50, 3), unit(TWO)
    setup = kernel.setup(2)
    numbers = {"step_size": start.new_tensor(0.15), "length": start.new_tensor(0.6)}
    noise = draw_noise(setup.noise, 0, 0, 1, 50, torch.Generator().manual_seed(1))
    noise["uniform"] *= 0

    def go(q: Tensor, normal: Tensor) -> Any:
        state, noises = kernel.init(q, *banana(q), setup.constants), {**noise, "momentum": normal}
        while int(state.completed.min()) < 1:
            state, _ = kernel.step(state, curved, noises, mass=mass, stop=torch.tensor(1), **numbers, **setup.constants)
        return state

    there = go(start, noise["momentum"])
    p = there.at[:, 1]
    error = -banana(there.at[:, 0])[0] + energy(p, mass) - there.start_e[:, 1]
    back, wrong = (go(there.draw[:, 0], sign * p[None]) for sign in (-1, 1))
    torch.testing.assert_close(back.draw[:, 0], start, rtol=0, atol=1e-10)
    torch.testing.assert_close(there.chance, (-error).exp().clamp(max=1), rtol=0, atol=1e-10)
    torch.testing.assert_close(back.chance, error.exp().clamp(max=1), rtol=0, atol=1e-10)
    assert 0 < int((error > 0.01).sum()) < 50
    assert not torch.allclose(wrong.draw[:, 0], start, rtol=0, atol=1e-10)


def phase_flow(steps: int, h: float, mass: Mass) -> Flow:
    def flow(qp: Tensor) -> Tensor:
        q, p = qp[None, :2], qp[None, 2:]
        return trajectory("leapfrog", torch.stack([q, p, banana(q)[1]], 1), steps, h, mass)[0][0, :2].reshape(-1)

    return flow


def test_leapfrog_keeps_volume() -> None:
    """The Jacobian's determinant is 1 to 1e-10. Twin: Euler's step, both halves from the old point."""

    def euler(qp: Tensor) -> Tensor:
        q, p = qp[None, :2], qp[None, 2:]
        return torch.cat([q + 0.2 * p, p + 0.2 * banana(q)[1]], 1)[0]

    for at in points("leapfrog", some_mass(), 5):
        start = at[:2].reshape(-1)
        jacobian = torch.autograd.functional.jacobian(phase_flow(3, 0.2, some_mass()), start)
        assert float(torch.linalg.det(jacobian)) == pytest.approx(1, abs=1e-10)
        assert float(torch.linalg.det(torch.autograd.functional.jacobian(euler, start))) != pytest.approx(1, abs=1e-10)


def steep(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A quartic in four coordinates that depend on each other."""
    s = (q**2).sum(-1, keepdim=True)
    return (-0.25 * s**2).sum(-1) - q.prod(-1), -s * q - torch.stack(
        [q[..., [j for j in range(4) if j != i]].prod(-1) for i in range(4)], -1
    )


def sphere_jacobian(q: Tensor, u: Tensor, steps: int, mass: Mass) -> tuple[float, float]:
    """log |det| of (q, u) -> (q', u') on R^d x the sphere, in orthonormal tangent bases; and the change of log |p|."""

    def flow(x: Tensor) -> Tensor:
        at = torch.stack([x[None, :4], x[None, 4:], steep(x[None, :4])[1]], 1)
        for _ in range(steps):
            at, _ = mclmc.integrate(at, steep, at.new_tensor(0.4), mass)
        return torch.cat([at[0, 0], at[0, 1]])

    def on_sphere(x: Tensor) -> Tensor:
        end = flow(x)
        return torch.cat([end[:4], end[4:] / end[4:].norm()])

    start = torch.cat([q, u])
    end = flow(start)
    bases = []
    for direction in (u, end[4:] / end[4:].norm()):
        tangent = torch.linalg.svd(direction[None])[2][1:].T  # orthogonal to the direction
        bases.append(torch.block_diag(torch.eye(4, dtype=torch.float64), tangent))
    jacobian = torch.autograd.functional.jacobian(on_sphere, start)
    return float((bases[1].T @ jacobian @ bases[0]).det().abs().log()), float(end[4:].norm().log())


@pytest.mark.parametrize("steps", [1, 3])
def test_the_volume_of_mclmc_is_what_its_energy_counts(steps: int) -> None:
    """A step changes the volume of (q, u) by r^(1 - d), |p| by r: to 1e-10, so exp(-H) dq du is kept.

    Twins: no volume change; d in place of d - 1.
    """
    generator = torch.Generator().manual_seed(3)
    scale = torch.tensor([0.7, 1.0, 1.3, 2.0], dtype=torch.float64)
    mass = unit(scale)._replace(scale=scale)
    for _ in range(3):
        q, z = torch.randn(2, 1, 4, generator=generator, dtype=torch.float64)
        u = mclmc.direction(z, mass)
        assert float(u.norm()) == pytest.approx(1, abs=1e-12)
        volume, log_r = sphere_jacobian(q[0], u[0], steps, mass)
        assert volume == pytest.approx(-3 * log_r, abs=1e-10)
        gained = float(mclmc.kinetic(math.exp(log_r) * u, mass) - mclmc.kinetic(u, mass))
        assert gained == pytest.approx(-volume, abs=1e-10)
        assert volume != pytest.approx(0, abs=1e-10)
        assert volume != pytest.approx(-4 * log_r, abs=1e-10)


def order(error: Callable[[float], float]) -> float:
    """The observed order at h = .01: log2 of the errors at h and h / 2."""
    return math.log2(error(0.01) / error(0.005))


@BOTH
def test_energy_error_of_second_order(integrator: str) -> None:
    """After time 1, 2 within .05. Twin: symplectic Euler (the gradient's half steps made one whole), 1."""
    mass = some_mass()
    at = points(integrator, mass)
    _, before = trajectory(integrator, at, 0, 0.0, mass)

    def error(h: float) -> float:
        return float((trajectory(integrator, at, round(1 / h), h, mass)[1] - before).abs().mean())

    def euler(h: float) -> float:
        q, p = at[:, 0], at[:, 1]
        h0 = -banana(q)[0] + 0.5 * (p**2).sum(-1)
        for _ in range(round(1 / h)):
            p = p + h * banana(q)[1]
            q = q + h * p
        return float((-banana(q)[0] + 0.5 * (p**2).sum(-1) - h0).abs().mean())

    assert order(error) == pytest.approx(2, abs=0.05)
    assert order(euler) != pytest.approx(2, abs=0.05)


def oscillator(h: float, steps: int) -> tuple[Tensor, Tensor]:
    """q and p (step,) of the leapfrog on q^2 / 2 + p^2 / 2 from (1, .3)."""
    target, at = gaussian(scalar(1.0)), torch.tensor([[[1.0], [0.3], [-1.0]]], dtype=torch.float64)
    path = [at]
    for _ in range(steps):
        at, _ = leapfrog(at, target, at.new_tensor(h), unit(at[0, 0]))
        path.append(at)
    found = torch.cat(path)
    return found[:, 0, 0], found[:, 1, 0]


@pytest.mark.parametrize("h", [0.1, 0.5, 1.0, 1.9])
def test_harmonic_oscillator(h: float) -> None:
    """(1 - h^2/4) q^2 + p^2 is kept to 1e-12 over 500 steps. Twin: q^2 + p^2."""
    q, p = oscillator(h, 500)
    kept = (1 - h**2 / 4) * q**2 + p**2
    assert float((kept / kept[0] - 1).abs().max()) < 1e-12
    assert float(((q**2 + p**2) / (1 + 0.09) - 1).abs().max()) > 1e-4


def test_stable_below_two_and_not_above() -> None:
    assert float(oscillator(1.99, 2000)[0].abs().max()) < 10
    assert float(oscillator(2.01, 2000)[0].abs().max()) > 1e10
