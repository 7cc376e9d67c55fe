"""What kernels are made of: acceptance ratios, proposals, momentum, schedules. To rounding, hardly a draw.

Right answers: torch's own normal densities and SGD, the leapfrog, exact recursions. Broken twins: no correction, the
unit mass, another learning rate, momenta not shifted, no weights.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernel_runs import gaussian, march, normals, scalar
from tests.test_kernel_flows import TWO, curved
from tests.test_kernel_laws import some_mass
from tests.test_nuts import banana, exact_draws
from zoo.infer.kernels import mala, mh, sgld
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import unit

# -- points that are none ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hmc", "nuts", "chees", "mclmc", "mclmc_unadjusted", "mala", "mh", "minibatch_mh"])
@pytest.mark.parametrize("beyond", [math.inf, -math.inf, math.nan])
def test_a_point_without_a_finite_density_is_no_draw(name: str, beyond: float) -> None:
    """Of N(0, I) cut off at 1, where lp is +inf (an overflow, as of a Gamma near 0), -inf or NaN. Twin: not cut off."""
    target, start = gaussian(torch.eye(2, dtype=torch.float64)), torch.zeros(50, 2, dtype=torch.float64)

    def cut(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        lp, grad = target(q)
        return torch.where(q[:, 0] > 1, beyond, lp), grad

    own: dict[str, Any] = {"batch_size": 1} if name == "minibatch_mh" else {}
    found, free = (march(name, start, one, 0.7, 40, n=3, **own).position[..., 0] for one in (cut, target))
    assert float(found.max()) <= 1 < float(free.max())
    assert bool((found[-1] != found[20]).any())  # and no chain stays for ever


# -- acceptance ratios -------------------------------------------------------------------------------------


def two_points() -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    a, b = exact_draws(50, 1), exact_draws(50, 2)
    return (a, *banana(a)), (b, *banana(b))


def test_ratio_of_mala() -> None:
    """Antisymmetric to 1e-10, and the lecture's formula with torch's own normal density. Twin: no correction."""
    old, new = two_points()
    mass, h = some_mass(), torch.tensor(0.3, dtype=torch.float64)
    assert float((mala.log_ratio(old, new, h, mass) + mala.log_ratio(new, old, h, mass)).abs().max()) < 1e-10

    def log_q(to: Any, start: Any) -> Tensor:
        return torch.distributions.Normal(start[0] + h * start[2], (2 * h).sqrt()).log_prob(to[0]).sum(-1)

    right = new[1] - old[1] + log_q(old, new) - log_q(new, old)
    found = mala.log_ratio(old, new, h, unit(TWO))
    torch.testing.assert_close(found, right, rtol=0, atol=1e-10)
    assert not torch.allclose(found, new[1] - old[1], rtol=0, atol=1e-10)
    one_way = new[1] - old[1] - log_q(new, old)
    back = old[1] - new[1] - log_q(old, new)
    assert float((one_way + back).abs().max()) > 1e-10


def test_ratio_of_mh() -> None:
    """log p' - log p: antisymmetric, and of the right sign."""
    old, new = two_points()
    torch.testing.assert_close(mh.log_ratio(old[1], new[1]), new[1] - old[1], rtol=0, atol=1e-12)
    assert float((mh.log_ratio(old[1], new[1]) + mh.log_ratio(new[1], old[1])).abs().max()) < 1e-10


def test_proposals_are_as_wide_as_the_mass_says() -> None:
    """mh moves by e D A z, mala by h M^-1 grad + sqrt(2 h) D A z: covariance 2 h M^-1. Twin: the unit mass."""
    mass, start = some_mass(), torch.zeros(2, 2, dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    stretch = eye + mass.vectors @ (mass.stretch - 1).diag() @ mass.vectors.T
    root = mass.scale.diag() @ stretch

    def change(noise: Any) -> Any:
        return {"proposal": eye[None], "uniform": 0 * noise["uniform"]}

    for name, size in (("mh", 0.3), ("mala", math.sqrt(2 * 0.3))):
        moved = march(name, start, gaussian(eye), 0.3, 1, mass=mass, change=change).position[0]
        torch.testing.assert_close(moved.T @ moved, size**2 * root @ root.T, rtol=1e-12, atol=1e-12)
        plain = march(name, start, gaussian(eye), 0.3, 1, change=change).position[0]
        assert not torch.allclose(plain.T @ plain, size**2 * root @ root.T)


# -- momentum ----------------------------------------------------------------------------------------------


def quiet(noise: Any) -> Any:
    return {name: 0 * value for name, value in noise.items()}


def sgd_path(start: Tensor, lr: float, momentum_: float, steps: int) -> Tensor:
    w = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([w], lr=lr, momentum=momentum_)
    path = []
    for _ in range(steps):
        w.grad = -banana(w.detach())[1]
        optimiser.step()
        path.append(w.detach().clone())
    return torch.stack(path)


def test_momentum_is_that_of_torch() -> None:
    """p' = (1 - b) p - b g, W' = W + eta p' is SGD(lr = eta b, momentum = 1 - b), to 1e-12. Twin: lr = eta."""
    start, b, eta = exact_draws(5, 1), 0.1, 0.2
    found = march("naive_momentum", start, curved, eta, 60, friction=b, change=quiet).position
    torch.testing.assert_close(found, sgd_path(start, eta * b, 1 - b, 60), rtol=0, atol=1e-12)
    assert not torch.allclose(found, sgd_path(start, eta, 1 - b, 60), rtol=0, atol=1e-12)


def test_sghmc_is_momentum_too() -> None:
    """v' = (1 - alpha) v - eta g, theta' = theta + v' is SGD(lr = eta, momentum = 1 - alpha), to 1e-12."""
    start = exact_draws(5, 1)
    found = march("sghmc", start, curved, 0.02, 60, friction=0.1, change=quiet).position
    torch.testing.assert_close(found, sgd_path(start, 0.02, 0.9, 60), rtol=0, atol=1e-12)


def leapfrog_path(start: Tensor, p: Tensor, h: float, steps: int) -> Tensor:
    at, path = torch.stack([start, p, banana(start)[1]], 1), []
    for _ in range(steps):
        at, _ = leapfrog(at, curved, at.new_tensor(h), unit(start[0]))
        path.append(at[:, 0])
    return torch.stack(path)


@pytest.mark.parametrize("name", ["naive_momentum", "sghmc"])
def test_without_damping_momentum_is_leapfrog_shifted_by_half_a_step(name: str) -> None:
    """b -> 0 and no noise: symplectic Euler of step e, e^2 = eta b (sghmc: eta), whose momenta live half a step before.

    From p_0 - (e/2) g(q_0) its positions are leapfrog's from p_0, to 1e-10. Twin: from p_0, not shifted.
    """
    start, p, e, b = exact_draws(10, 1), normals(torch.eye(2, dtype=torch.float64), 10, 2), 0.1, 1e-14
    right = leapfrog_path(start, p, e, 30)
    # naive momentum is (b / e) times the leapfrog's, sghmc's velocity e times
    eta, unit_of, field = (e**2 / b, b / e, "momentum") if name == "naive_momentum" else (e**2, e, "velocity")

    def path(momenta: Tensor) -> Tensor:
        return march(
            name, start, curved, eta, 30, friction=b, change=quiet,
            begin=lambda state: state._replace(**{field: unit_of * momenta}),
        ).position  # fmt: skip

    torch.testing.assert_close(path(p - 0.5 * e * banana(start)[1]), right, rtol=0, atol=1e-10)
    assert not torch.allclose(path(p), right, rtol=0, atol=1e-10)


# -- decreasing steps --------------------------------------------------------------------------------------


def flat(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return q.sum(-1), torch.ones_like(q)


@pytest.mark.parametrize(("gamma", "b"), [(0.55, 30.0), (1.0, 10.0), (0, 1000.0)])
def test_steps_and_weights_are_the_schedule(gamma: float, b: float) -> None:
    """h_t = h_0 (1 + t / b)^-gamma across blocks of noise; draws are weighted by the step that led to them."""
    right = 0.4 * (1 + torch.arange(70, dtype=torch.float64) / b) ** -gamma
    path = march("sgld", torch.zeros(1, 1, dtype=torch.float64), flat, 0.4, 70, gamma=gamma, b=b, change=quiet).position
    steps = torch.diff(path[:, 0, 0], prepend=path.new_zeros(1)) * 2  # h / 2 times a gradient of 1
    torch.testing.assert_close(steps, right, rtol=1e-12, atol=1e-13)
    weights = sgld.weights(
        torch.arange(1, 71, dtype=torch.float64),
        {"step_size": 0.4, "clock": 64.0},
        sgld.setup(1, gamma=gamma, b=b).constants,
    )
    assert weights is None if gamma == 0 else torch.allclose(weights, right, rtol=1e-12, atol=0)


def weighted_variance(h: Tensor) -> tuple[float, float]:
    """sum h_t v_t / sum h_t on N(0, 1), v_t the exact variance after step t, v_0 = 1; and the plain mean of v_t."""
    v, seen = 1.0, []
    for step in h.tolist():
        v = (1 - step / 2) ** 2 * v + step
        seen.append(v)
    found = torch.tensor(seen, dtype=torch.float64)
    return float((h * found).sum() / h.sum()), float(found.mean())


def test_weighted_averages_of_decreasing_steps_converge() -> None:
    """On N(0, 1), h_t = (1 + t / 5)^-.6: weighted second moments are the exact recursion's, 4 standard errors.

    That recursion is off by sum h_t^2 / (4 sum h_t) to first order (here within 15 %), which tends to 0: 1.2 % after
    60,000 steps. Twins: no weights; a constant step, 33 % off for ever.
    """
    n, b, gamma = 600, 5.0, 0.6
    h = (1 + torch.arange(100 * n, dtype=torch.float64) / b) ** -gamma
    right, plain = weighted_variance(h[:n])
    start = normals(scalar(1.0), 4000, 1)
    square = march("sgld", start, gaussian(scalar(1.0)), 1.0, n, gamma=gamma, b=b).position[..., 0] ** 2
    constants = sgld.setup(1, gamma=gamma, b=b).constants
    weights = sgld.weights(torch.arange(1, n + 1, dtype=torch.float64), {"step_size": 1.0}, constants)
    assert weights is not None
    each = (weights[:, None] * square).sum(0) / weights.sum()
    room = 4 * float(each.std()) / 4000**0.5  # alpha 6e-5
    assert float(each.mean()) == pytest.approx(right, abs=room)
    assert float(square.mean()) != pytest.approx(right, abs=room)
    far = [weighted_variance(h[:m])[0] - 1 for m in (n, 10 * n, 100 * n)]
    assert far[0] > far[1] > far[2] > 0
    assert far[2] == pytest.approx(float((h**2).sum() / h.sum() / 4), rel=0.15)
    assert weighted_variance(torch.ones(n, dtype=torch.float64))[0] == pytest.approx(4 / 3, rel=1e-3)
    assert plain < right
