"""The laws of the kernels without an accept step, on Gaussians: by Lyapunov's equation to 1e-9, and by running them.

Right answers: closed forms of the lectures. Each broken twin is a change of what the kernel is given that amounts to
another kernel: noise times 1.3 or 2^(1/2), gradients (the drift) times 2, no use of the gradient noise's variance.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.kernel_runs import (
    ALPHA,
    Noise,
    gaussian,
    linear_map,
    march,
    normals,
    p_of_normal,
    scalar,
    speed_of,
)
from zoo.infer.mass import Mass, unit

RHO = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
EYE = torch.eye(2, dtype=torch.float64)
CONSTANT: dict[str, Any] = {"gamma": 0}


def louder(noise: Noise) -> Noise:
    """Noise times 1.3, uniform numbers and rows left as they are."""
    return {name: value if name in ("rows", "uniform") else 1.3 * value for name, value in noise.items()}


def sgld(a: float, h: float) -> float:
    return 1 / (a * (1 - h * a / 4))


def ula(a: float, h: float) -> float:
    return 1 / (a * (1 - h * a / 2))


def naive(a: float, b: float, eta: float, sigma: float) -> float:
    return (2 - b) * eta * sigma**2 / (a * b**2 * (4 - 2 * b - eta * a * b))


def sghmc(a: float, eta: float, alpha: float) -> float:
    return 1 / (a * (1 - eta * a / (2 * (2 - alpha))))


# kernel, its options, a, step size, printed variance, formula
LAWS = [
    ("sgld", CONSTANT, 1.0, 0.5, 1.142857143, sgld(1, 0.5)),
    ("sgld", CONSTANT, 101.0, 1e-3, 0.010157, sgld(101, 1e-3)),
    ("sgld", CONSTANT, 101.0, 1e-2, 0.013245, sgld(101, 1e-2)),
    ("mala", {}, 1.0, 0.1, 1.052631579, ula(1, 0.1)),  # nothing refused: ULA
    ("mala", {}, 3.0, 0.2, None, ula(3, 0.2)),
    ("printed_sgld", {}, 1.0, 0.01, 0.5025125628, 1 / (2 - 0.01)),
    ("printed_sgld", {"slip": "noise"}, 3.0, 0.1, None, 1 / (3 * (2 - 0.3))),
    ("printed_sgld", {"slip": "both", "batch_size": 10}, 1.0, 0.01, 0.0526315789, 1 / (10 * (2 - 0.1))),
    ("naive_momentum", {"friction": 0.1}, 1.0, 0.1, 5.0131926121, naive(1, 0.1, 0.1, 1)),
    ("naive_momentum", {"friction": 0.5}, 1.0, 0.2, 0.4137931034, naive(1, 0.5, 0.2, 1)),
    ("naive_momentum", {"friction": 0.3, "sigma": 0.4}, 5.0, 0.2, None, naive(5, 0.3, 0.2, 0.4)),
    ("sghmc", {"friction": 0.05}, 1.0, 0.05, 1.012987013, sghmc(1, 0.05, 0.05)),
    ("sghmc", {"friction": 0.1}, 1.0, 0.1, 1.027027027, sghmc(1, 0.1, 0.1)),
    ("sghmc", {"friction": 0.1}, 1.0, 0.01, 1.002638522, sghmc(1, 0.01, 0.1)),
    ("sghmc", {"friction": 1.0}, 1.0, 0.25, 1.142857143, sgld(1, 0.5)),  # no velocity left: SGLD with h = 2 eta
]


@pytest.mark.parametrize(("name", "own", "a", "h", "printed", "formula"), LAWS)
def test_variance_on_a_gaussian(name: str, own: dict, a: float, h: float, printed: Any, formula: float) -> None:
    """Twins: noise times 1.3, drift times 2."""

    def variance(**broken: Any) -> float:
        return float(linear_map(name, scalar(a), h, **own, **broken).law()[0, 0])

    assert variance() == pytest.approx(formula, rel=1e-9)
    if printed is not None:
        assert variance() == pytest.approx(printed, rel=1e-4 if printed < 0.02 else 1e-9)
    assert variance(change=louder) == pytest.approx(1.69 * formula, rel=1e-9)
    assert variance(drift=2.0) != pytest.approx(formula, rel=1e-2)


def test_the_printed_slips_sample_powers_of_the_density() -> None:
    """As eta -> 0 the slides sample p^2, and p^(2 M)."""
    assert float(linear_map("printed_sgld", scalar(3.0), 1e-6).law()) == pytest.approx(1 / 6, rel=1e-5)
    both = linear_map("printed_sgld", scalar(3.0), 1e-6, slip="both", batch_size=10)
    assert float(both.law()) == pytest.approx(1 / 60, rel=1e-4)


@pytest.mark.parametrize(
    ("h", "c", "position", "velocity"), [(0.05, 0.05, 1.012987013, 0.051948052), (0.1, 0.1, 1.027027027, 0.108108108)]
)
def test_sghmc_position_and_velocity(h: float, c: float, position: float, velocity: float) -> None:
    """eta is the acceptance's h, alpha its c; velocities have a variance near eta. Twin: without friction's noise."""
    law = linear_map("sghmc", scalar(1.0), h, friction=c).law()
    assert law.diagonal().tolist() == pytest.approx([position, velocity], rel=1e-8)
    twin = linear_map("sghmc", scalar(1.0), h, friction=c, change=lambda n: {"kick": n["kick"] / 2**0.5}).law()
    assert twin.diagonal().tolist() == pytest.approx([position / 2, velocity / 2], rel=1e-8)


@pytest.mark.parametrize("variance", [0.0, 0.3, 1.0, 1.9])
def test_sghmc_leaves_out_what_the_gradients_noise_heats(variance: float) -> None:
    """1.0270270270 for every V with beta = eta V / 2; 1.5405405405 at V = 1 with beta = 0."""

    def law(given: float) -> float:
        found = linear_map("sghmc", scalar(1.0), 0.1, friction=0.1, gradient_noise=given)
        return float(found.law(scalar(variance))[0, 0])

    assert law(variance) == pytest.approx(1.0270270270, rel=1e-9)
    if variance:
        assert law(0.0) == pytest.approx(1.0270270270 * (1 + variance / 2), rel=1e-9)
    if variance == 1.0:
        assert law(0.0) == pytest.approx(1.5405405405, rel=1e-9)


def test_correlated_gaussian_with_and_without_gradient_noise() -> None:
    """rho = .9, h = .05. The noise of a gradient of variance V adds (h^2 / 4) V to the h injected."""
    found = linear_map("sgld", torch.linalg.inv(RHO), 0.05, gamma=0)
    assert found.law()[0].tolist() == pytest.approx([1.0134342479, 0.8991485336], rel=1e-9)
    assert found.law(EYE)[0].tolist() == pytest.approx([1.026102176, 0.9103878903], rel=1e-9)
    twin = linear_map("sgld", torch.linalg.inv(RHO), 0.05, gamma=0, change=louder)
    assert twin.law()[0].tolist() != pytest.approx([1.0134342479, 0.8991485336], rel=1e-2)


def test_sigma_is_right_for_one_width_only() -> None:
    """naive_momentum: the sigma that is right for a = 1 (variance a^-1 to 1e-9) gives 2.5 a^-1 for a = 4."""
    sigma = naive(1, 0.5, 1.0, 1.0) ** -0.5
    for a, times in ((1.0, 1.0), (4.0, 2.5)):
        variance = float(linear_map("naive_momentum", scalar(a), 1.0, friction=0.5, sigma=sigma).law()[0, 0])
        assert variance * a == pytest.approx(times, rel=1e-9)


# -- the preconditioner ------------------------------------------------------------------------------------


def some_mass() -> Mass:
    """Scales .7 and 1.6, and one direction stretched by 1.5."""
    angle = torch.tensor([[math.cos(0.4)], [math.sin(0.4)]], dtype=torch.float64)
    scale = torch.tensor([0.7, 1.6], dtype=torch.float64)
    return unit(scale, 1)._replace(scale=scale, vectors=angle, stretch=scale.new_tensor([1.5]))


@pytest.mark.parametrize(
    ("name", "h", "own"),
    [("sgld", 0.05, CONSTANT), ("mala", 0.05, {}), ("sghmc", 0.05, {}), ("naive_momentum", 0.05, {}),
     ("printed_sgld", 0.05, {})],
)  # fmt: skip
def test_the_mass_is_a_change_of_coordinates(name: str, h: float, own: dict) -> None:
    """q = R z with M^-1 = R R^T: the law of q is R (law of z with the unit mass) R^T. Twin: M ignored."""
    mass, precision = some_mass(), torch.linalg.inv(RHO)
    stretch = EYE + mass.vectors @ (mass.stretch - 1).diag() @ mass.vectors.T
    root = mass.scale.diag() @ stretch
    plain = linear_map(name, root.T @ precision @ root, h, **own).law()[:2, :2]
    found = linear_map(name, precision, h, mass=mass, **own).law()[:2, :2]
    torch.testing.assert_close(found, root @ plain @ root.T, rtol=1e-9, atol=0)
    ignored = linear_map(name, precision, h, **own).law()[:2, :2]
    assert not torch.allclose(ignored, root @ plain @ root.T, rtol=1e-9, atol=0)


# -- the same laws, by running -----------------------------------------------------------------------------


RUNS = [case for case in LAWS if case[4] is not None and case[3] >= 1e-2]


def accepted(noise: Noise) -> Noise:
    """All proposals accepted: mala becomes ULA."""
    return {name: 0 * value if name == "uniform" else value for name, value in noise.items()}


@pytest.mark.parametrize(("name", "own", "a", "h", "printed", "formula"), RUNS)
def test_variance_when_it_runs(name: str, own: dict, a: float, h: float, printed: float, formula: float) -> None:
    """60,000 chains from its own law, 8 steps on: alpha 1e-4, and within 2 % (3.5 standard errors).

    Twin: noise times 1.3.
    """
    law, speed, own = linear_map(name, scalar(a), h, **own).law(), speed_of(name), {**own}
    start = normals(law, 60_000, 1)
    if "batch_size" in own:
        own["sampling"] = "replacement"

    def draws(change: Any) -> torch.Tensor:
        return march(
            name, start[:, :1], gaussian(scalar(a)), h, 8, keep=1, n=10, change=change,
            begin=lambda state: state._replace(**{speed: start[:, 1:]}) if speed else state, **own,
        ).position  # fmt: skip

    found = draws(accepted)
    assert p_of_normal(found, scalar(formula)) > ALPHA
    assert float(found.var()) == pytest.approx(printed, rel=0.02)
    assert p_of_normal(draws(lambda noise: louder(accepted(noise))), scalar(formula)) < ALPHA
