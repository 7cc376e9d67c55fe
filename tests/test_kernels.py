"""hmc and chees are exact: from exact draws of a curved target they lead to exact draws; their broken twins do not.

As in test_nuts: chains start in the target's law, so after any number of iterations each still has it, and chains
are independent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

import zoo
from tests.test_nuts import ALPHA, banana, exact_draws, p_value
from zoo.core.diagnostics import bfmi
from zoo.infer import adapt
from zoo.infer.kernels import chees, hmc
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import KINDS, Mass, kinetic, momentum, rank_of, stretched, unit, velocity, whitened
from zoo.infer.noise import van_der_corput
from zoo.infer.trajectory import Dynamics, _told
from zoo.infer.verdict import verdict

CHAINS, ITERATIONS, STEP, LENGTH = 20_000, 20, 0.35, 1.2
Target = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def march(
    position: torch.Tensor,
    target: Target,
    iterations: int,
    step: float,
    length: float,
    jitter: float = 1.0,
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions (iteration, chain, dim) and acceptance (iteration, chain) of hmc with unit mass."""
    generator, (chains, dim) = torch.Generator().manual_seed(seed), position.shape
    noise = {
        "momentum": torch.randn(iterations, chains, dim, generator=generator, dtype=torch.float64),
        "uniform": torch.rand(iterations, chains, generator=generator, dtype=torch.float64),
        "fraction": van_der_corput(iterations, 0).double()[:, None].expand(iterations, chains),
    }
    setup = hmc.setup(dim, length=length, jitter=jitter)
    state = hmc.init(position, *target(position), setup.constants)
    out, accept = position.new_zeros(iterations, chains, dim), position.new_zeros(iterations, chains)
    numbers = {"step_size": position.new_tensor(step), "length": position.new_tensor(length)}
    while int(state.completed.min()) < iterations:
        state, draw = hmc.step(
            state, target, noise, mass=unit(position[0]), stop=torch.tensor(iterations), **numbers, **setup.constants
        )
        chain = draw.done.nonzero()[:, 0]
        out[draw.iteration[chain], chain] = draw.position[chain]
        accept[draw.iteration[chain], chain] = draw.accept[chain]
    return out, accept


def test_hmc_keeps_the_law_of_a_banana() -> None:
    draws, accept = march(exact_draws(CHAINS, 1), banana, ITERATIONS, STEP, LENGTH)
    assert p_value(draws) > ALPHA
    assert 0.5 < float(accept.mean()) < 0.98


def test_without_the_accept_step_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    original = hmc.kinetic
    # An energy that is the same everywhere accepts everything.
    monkeypatch.setattr(hmc, "kinetic", lambda p, mass: 0 * original(p, mass))
    draws, _ = march(exact_draws(CHAINS, 1), lambda q: (0 * banana(q)[0], banana(q)[1]), ITERATIONS, STEP, LENGTH)
    assert p_value(draws) < ALPHA


def test_with_the_draws_momentum_half_of_its_size_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    original = hmc.momentum_of
    monkeypatch.setattr(hmc, "momentum_of", lambda normal, mass: 0.5 * original(normal, mass))
    draws, _ = march(exact_draws(CHAINS, 1), banana, ITERATIONS, STEP, LENGTH)
    assert p_value(draws) < ALPHA


def normal(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return -0.5 * (q**2).sum(-1), -q


@pytest.mark.parametrize(
    ("h", "steps", "right"), [(0.5, 3, 0.979491), (1.0, 2, 0.920833), (1.5, 2, 0.933104), (0.25, 6, 0.994998)]
)
def test_stationary_acceptance_on_a_normal(h: float, steps: int, right: float) -> None:
    """lectures.md samplers-6, within 4 standard errors of 400,000 draws; the twin takes one step more."""
    start = torch.randn(20_000, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def off(length: float) -> float:
        _, accept = march(start, normal, 20, h, length, jitter=0.0, seed=4)
        chains = accept.mean(0)
        return abs(float(chains.mean()) - right) / float(chains.std() / len(chains) ** 0.5)

    assert off(h * steps) < 4
    assert off(h * (steps + 1)) > 4


def test_a_fixed_length_of_a_period_stands_still_and_jitter_moves() -> None:
    start = torch.randn(500, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    still, _ = march(start, normal, 1, 0.01, 2 * math.pi, jitter=0.0)
    moved, _ = march(start, normal, 2, 0.01, 2 * math.pi, jitter=1.0)
    assert float((still[0] - start).abs().max()) < 0.05
    assert float((moved[1] - moved[0]).abs().mean()) > 0.5


def mass_of(kind: str, dim: int = 4, count: int = 4000) -> tuple[Mass, torch.Tensor]:
    """The mass learned from draws of a correlated Gaussian, and its covariance."""
    generator = torch.Generator().manual_seed(1)
    root = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    draws = torch.randn(4, count, dim, generator=generator, dtype=torch.float64) @ root.T
    spread = adapt.no_spread(root[0], 4)
    for positions in draws.split((1, 2, count - 3), 1):
        spread = adapt.add(spread, positions)
    scaled = unit(root[0], rank_of(kind, dim, 2))._replace(scale=adapt.scale(spread, torch.ones_like(root[0])))
    return scaled if kind == "diagonal" else stretched(draws, kind, scaled), root @ root.T


@pytest.mark.parametrize("kind", KINDS)
def test_one_form_of_mass(kind: str) -> None:
    """Cov p = M, velocity = M^-1 p, kinetic = p^T M^-1 p / 2, whitened turns M^-1 into I."""
    mass, covariance = mass_of(kind)
    eye = torch.eye(4, dtype=torch.float64)
    inverse = velocity(eye, mass)
    root = momentum(eye, mass)
    assert torch.allclose(root.T @ root @ inverse, eye, atol=1e-10)
    assert torch.allclose(whitened(whitened(inverse, mass).T, mass), eye, atol=1e-10)
    p = torch.arange(4.0, dtype=torch.float64)[None]
    assert float(kinetic(p, mass)) == pytest.approx(float(0.5 * p @ inverse @ p.T))
    if kind == "dense":
        assert torch.allclose(inverse, covariance, rtol=0.1, atol=0.1)
    if kind == "diagonal":
        assert torch.allclose(inverse.diagonal(), covariance.diagonal(), rtol=0.1)


def test_van_der_corput() -> None:
    assert van_der_corput(5, 0).tolist() == [0.5, 0.25, 0.75, 0.125, 0.625]
    assert torch.equal(van_der_corput(3, 2), van_der_corput(5, 0)[2:])


def slope(state: chees.State, speed: torch.Tensor, step_size: float) -> float:
    """d ChEES / d log T of trajectories that have just ended."""
    return chees.slope(chees.rise(state, speed, unit(speed[0])), state.chance, step_size)


def test_the_slope_of_chees_is_that_of_its_criterion() -> None:
    """On N(0, I_d) ChEES(t) = d sin^2 t, so the mean slope at a fixed t is 2 d t sin t cos t; without t it is not."""
    dim, t = 3, 0.9
    generator = torch.Generator().manual_seed(2)
    q, p = torch.randn(2, 200_000, dim, generator=generator, dtype=torch.float64)
    end, speed = q * math.cos(t) + p * math.sin(t), p * math.cos(t) - q * math.sin(t)
    setup = chees.setup(dim)
    state = chees.init(q, *normal(q), setup.constants)
    state = state._replace(
        at=torch.stack([end, speed, -end], 1),
        chance=torch.ones(len(q), dtype=torch.float64),
        steps=torch.full((len(q),), 9),
        centre=torch.zeros_like(q),
    )
    right = 2 * dim * t * math.sin(t) * math.cos(t)
    assert slope(state, speed, t / 9) == pytest.approx(right, rel=0.05)
    assert slope(state, speed, 1 / 9) != pytest.approx(right, rel=0.05)


def test_chees_climbs_where_chains_sit_in_modes_of_their_own() -> None:
    """Modes 100 sds apart: each chain's own centre tells the slope; the mean of all chains drowns it (the twin)."""
    dim, t = 3, 0.9
    generator = torch.Generator().manual_seed(4)
    q, p = torch.randn(2, 2000, dim, generator=generator, dtype=torch.float64)
    modes = 100 * torch.randn(2000, dim, generator=generator, dtype=torch.float64)
    end, speed = q * math.cos(t) + p * math.sin(t) + modes, p * math.cos(t) - q * math.sin(t)
    state = chees.init(q + modes, *normal(q), chees.setup(dim).constants)
    chance, steps = torch.rand(2000, generator=generator, dtype=torch.float64), torch.full((2000,), 9)
    state = state._replace(at=torch.stack([end, speed, -end], 1), chance=chance, steps=steps)
    right = 2 * dim * t * math.sin(t) * math.cos(t)
    own, of_all = state._replace(centre=modes), state._replace(centre=modes.mean(0).expand_as(modes))
    assert slope(own, speed, t / 9) == pytest.approx(right / 2, rel=0.2)  # chains accept half of it on average
    assert slope(of_all, speed, t / 9) != pytest.approx(right / 2, rel=0.2)


def test_an_end_that_is_no_number_says_nothing_of_the_length() -> None:
    """It is refused for certain, chance 0: the slope is that of the other chains."""
    q = torch.tensor([[1.0, 2.0], [torch.inf, 0.0], [torch.nan, 0.0]], dtype=torch.float64)
    state = chees.init(torch.ones_like(q), *normal(torch.ones_like(q)), chees.setup(2).constants)
    state = state._replace(at=torch.stack([q, q, q], 1), steps=torch.full((3,), 2), centre=torch.zeros_like(q))
    said = state._replace(chance=torch.tensor([0.5, 0.0, 0.0], dtype=torch.float64))
    # (5 - 2) (q' . v' = 5) for 2 steps of .1 with chance 1/2, of one chain in three
    assert slope(said, q, 0.1) == pytest.approx(3 * 5 * 2 * 0.1 / 2 / 3)
    assert math.isnan(slope(said._replace(chance=torch.ones(3, dtype=torch.float64)), q, 0.1))  # the twin


def test_a_chain_has_been_where_its_last_draws_are_on_average() -> None:
    """centre: the mean of the first 50 draws, then of some 50; only a chain that is done has one more."""
    draws = torch.randn(80, 2, 3, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    state = chees.init(torch.zeros(2, 3, dtype=torch.float64), *normal(draws[0]), chees.setup(3).constants)
    mean, dynamics = torch.zeros(3, dtype=torch.float64), Dynamics(momentum, kinetic, leapfrog, lambda s, m: s.chance)
    for i, draw in enumerate(draws):
        state = state._replace(draw=torch.stack([draw, draw], 1))
        state, _ = _told(dynamics, state, unit(draw[0]), torch.tensor([True, False]))
        mean = draws[: i + 1, 0].mean(0) if i < 50 else mean + (draw[0] - mean) / 50
    assert torch.allclose(state.centre[0], mean)
    assert float(state.centre[1].abs().max()) == 0.0
    assert state.seen.tolist() == [80, 0]
    assert not torch.allclose(state.centre[0], draws[:, 0].mean(0))  # the twin: of all draws


def test_a_step_size_that_is_only_tried_does_not_drag_the_length_down() -> None:
    climb = chees.begin(1.0)
    for step_size in [0.01] * 40 + [1e-6] + [0.01] * 3:
        climb = chees.climbed(climb, 1.0, step_size, 1000)
    assert 2.0 < math.exp(climb.log_length) <= 5.0


def fit(method: str, **options: object) -> zoo.Posterior:
    problem = zoo.load("logistic_regression", n=30)
    fixed = {"engine": "eager", "dtype": "float64", "seed": 3, "progress": False, "warmup": 200, "draws": 400}
    return zoo.run(problem, method, **(fixed | options))  # type: ignore[arg-type]


@pytest.mark.slow
def test_chees_learns_the_first_maximum_of_its_criterion() -> None:
    """Near a Gaussian that is T = 1.43, where -cos(2 T) sin(2 j T) / (2 j T) is largest for j = 1/2."""
    found = fit("chees", warmup=400, draws=100)
    assert 0.9 < found.settings["length"] < 2.2
    grid = torch.linspace(0.01, 3.0, 3000, dtype=torch.float64)
    best = {j: float(grid[(-torch.cos(2 * grid) * torch.sin(2 * j * grid) / (j * grid)).argmax()]) for j in (0.5, 1.0)}
    assert best == {0.5: pytest.approx(1.434, abs=0.002), 1.0: pytest.approx(1.123, abs=0.002)}
    assert found.shape == (16, 100)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hmc", "chees"])
def test_samplers_agree_with_nuts(method: str) -> None:
    gold, other = fit("nuts", draws=1000, engine="compiled"), fit(method, draws=1000, engine="compiled")
    for name, value in gold.draws.items():
        sd = value.double().flatten(0, 1).std(0)
        # Both have at least 1,500 effective draws: five standard errors of the difference are .18 sd.
        assert bool(((other.draws[name].double().mean((0, 1)) - value.double().mean((0, 1))).abs() < 0.18 * sd).all())
        assert bool(((other.draws[name].double().flatten(0, 1).std(0) / sd - 1).abs() < 0.13).all())


@pytest.mark.parametrize("method", ["hmc", *(pytest.param(m, marks=pytest.mark.slow) for m in ("nuts", "chees"))])
def test_temperature(method: str) -> None:
    """Of a Gaussian of variance 1, p^(1 / T) has variance T: samplers-10."""
    problem = zoo.load(
        "linear_regression", zoo.Data(torch.ones(4, 1), torch.zeros(4)), bias=False, noise=2.0, prior_scale=1e3
    )
    hot = zoo.run(
        problem, method, temperature=4.0, engine="eager", dtype="float64", warmup=100, draws=400, progress=False
    )
    assert float(hot.draws["w"].std()) == pytest.approx(2.0, rel=0.1)


def test_chees_needs_chains() -> None:
    with pytest.raises(ValueError, match="needs at least 4, got 3"):
        fit("chees", chains=3)


def test_warmup_is_kept_on_request() -> None:
    found = fit("hmc", warmup=30, draws=10, keep_warmup=True)
    assert found.warmup is not None
    assert found.warmup["draws"]["w"].shape == (4, 30, 2)
    assert found.warmup["stats"]["accept"].shape == (4, 30)
    assert fit("hmc", warmup=30, draws=10).warmup is None


def test_chains_start_from_a_fit_in_another_dtype() -> None:
    start = fit("hmc", dtype="float32", warmup=5, draws=4)
    assert fit("hmc", init=start, warmup=5, draws=2).draws["w"].dtype == torch.float64


@pytest.mark.slow
def test_the_verdict_names_what_is_not_good_enough() -> None:
    good, short = fit("hmc", draws=1000), fit("hmc", warmup=50, draws=40)
    assert good.ok, good.outcome
    assert verdict(good) == good.settings["verdict"] == []
    assert any(line.startswith("bulk ESS of") and line.endswith("limit 400: raise draws") for line in verdict(short))
    assert short.outcome.startswith("not converged: ")


@pytest.mark.slow
def test_chains_at_different_places_are_not_ok() -> None:
    good = fit("hmc", draws=1000)
    good.draws["w"][0] += 3.0
    assert any(line.startswith("R-hat of f[") for line in verdict(good))


def test_bfmi_by_hand() -> None:
    energy = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]], dtype=torch.float64).numpy()
    assert bfmi(energy).tolist() == pytest.approx([3.0, 3 / 5])


@pytest.mark.slow
def test_weights_that_grow_without_end_are_named() -> None:
    """Growth throughout the draws, and chains far out that disagree: the posterior may be improper."""
    good = fit("hmc", draws=100)
    growing = {**good.draws, "w": good.draws["w"] * torch.linspace(1, 9, 100).double()[None, :, None]}
    apart = {**good.draws, "w": good.draws["w"] * torch.tensor([1e7, 1e9, 1e11, 1e13]).double()[:, None, None]}
    for draws in (growing, apart):
        assert any("improper" in line for line in verdict(dataclasses.replace(good, draws=draws)))
    assert not any("improper" in line for line in verdict(good))


def test_a_stuck_chain_is_said_while_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "zoo")
    fit("hmc", warmup=0, draws=30, step_size=50.0)
    assert "does not move" in caplog.text
    caplog.clear()
    fit("hmc", warmup=100, draws=30)
    assert "does not move" not in caplog.text


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("hmc", {"length": -1.0}, "length must be a positive number, got -1.0"),
        ("hmc", {"jitter": 2}, "jitter must lie between 0 and 1, got 2"),
        ("chees", {"max_steps": 0}, "max_steps must be a whole number"),
        ("nuts", {"mass": "full"}, "mass must be one of diagonal, low_rank, dense, unit, prior, got 'full'"),
        ("nuts", {"temperature": 0.0}, "temperature must be a positive number"),
        ("nuts", {"length": 1.0}, "length"),
        ("chees", {"engine": "pyro"}, "engine='pyro' has the kernels nuts, hmc"),
        ("nuts", {"engine": "pyro", "mass": "dense"}, "engine='pyro' takes mass='diagonal'"),
    ],
)
def test_options_that_mean_nothing(method: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(method, **options)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hmc", "chees"])
def test_compiled_is_eager(method: str) -> None:
    """The same trajectories in float64: four draws, no warm-up."""
    fixed = {"warmup": 0, "draws": 4, "step_size": 0.1, "chains": 4}
    compiled, eager = fit(method, engine="compiled", **fixed), fit(method, **fixed)
    assert compiled.settings["engine"] == "compiled"
    for name, value in eager.draws.items():
        torch.testing.assert_close(compiled.draws[name], value, rtol=1e-6, atol=1e-8)
