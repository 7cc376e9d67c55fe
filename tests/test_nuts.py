"""NUTS is exact: from exact draws of a curved target it must lead to exact draws; six broken twins must not.

Chains start in the target's law, so after any number of iterations each chain's state still has that law. Chains
are independent, which gives exact standard errors without any autocorrelation.
"""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import zoo
from zoo.infer.kernels import nuts
from zoo.infer.mass import unit
from zoo.infer.noise import BLOCK, noise_block

MAX_DEPTH = 4
STEP = 0.35
CHAINS, ITERATIONS = 40_000, 25  # 1e6 draws
ALPHA = 1e-4


def banana(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x ~ N(0, 1), y given x ~ N(x^2 - 1, .5): log density (chain,) and gradient (chain, 2)."""
    x, y = q.unbind(-1)
    e = (y - x**2 + 1) / 0.5
    return -0.5 * (x**2 + e**2), torch.stack([-x + 2 * x * e / 0.5, -e / 0.5], -1)


def exact_draws(chains: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    n = torch.randn(chains, 2, generator=generator, dtype=torch.float64)
    return torch.stack([n[:, 0], n[:, 0] ** 2 - 1 + 0.5 * n[:, 1]], -1)


def big_noise(iterations: int, chains: int, seed: int, max_depth: int = MAX_DEPTH) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "momentum": torch.randn(iterations, chains, 2, generator=generator, dtype=torch.float64),
        "choice": torch.rand(iterations, chains, max_depth, 3, generator=generator, dtype=torch.float64),
    }


def run(position: torch.Tensor, noise: dict[str, torch.Tensor], max_depth: int = MAX_DEPTH) -> torch.Tensor:
    """All iterations of all chains on the banana: positions (iteration, chain, 2)."""
    lp, grad = banana(position)
    constants = nuts.setup(2, max_depth=max_depth).constants
    state = nuts.init(position, lp, grad, constants)
    iterations = len(noise["momentum"])
    out = position.new_zeros(iterations, len(position), 2)
    limit = torch.tensor(iterations)
    while int(state.completed.min()) < iterations:
        state, draw = nuts.step(
            state, banana, noise, step_size=position.new_tensor(STEP), mass=unit(position[0]),
            stop=limit, **constants,
        )  # fmt: skip
        chain = draw.done.nonzero()[:, 0]
        out[draw.iteration[chain], chain] = draw.position[chain]
    return out


def p_value(draws: torch.Tensor) -> float:
    """Bonferroni-corrected p of: the last iteration's bins of both whitened coordinates, and chain means of moments."""
    x, y = draws.unbind(-1)
    e = (y - x**2 + 1) / 0.5
    values = []
    for z in (x, e):
        bins = torch.histc(torch.special.ndtr(z[-1]), bins=20, min=0, max=1).numpy()
        values.append(stats.chisquare(bins).pvalue)
        for power, truth in ((1, 0.0), (2, 1.0), (4, 3.0)):
            means = (z**power).mean(0)
            score = (means.mean() - truth) / (means.std() / math.sqrt(len(means)))
            values.append(2 * stats.norm.sf(abs(float(score))))
    return float(min(values) * len(values))


def exactness(chains: int = CHAINS) -> float:
    return p_value(run(exact_draws(chains, 1), big_noise(ITERATIONS, chains, 2)))


@pytest.mark.slow
def test_exact_draws_stay_exact() -> None:
    assert exactness() > ALPHA


def always_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._begin_half

    def twin(s: nuts.State, choice: torch.Tensor) -> nuts.State:
        return original(s, torch.cat([torch.zeros_like(choice[:, :1]), choice[:, 1:]], 1))

    monkeypatch.setattr(nuts, "_begin_half", twin)


def keeps_turned_half(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._check_subtrees

    def twin(s: nuts.State, *rest: torch.Tensor) -> tuple[nuts.State, torch.Tensor]:
        s, turned = original(s, *rest)
        take = turned & (s.uniform < (s.weights[:, 1] - s.weights[:, 0]).clamp(max=0).exp())
        return s._replace(best=nuts.where(take, s.half, s.best), best_e=nuts.where(take, s.half_e, s.best_e)), turned

    monkeypatch.setattr(nuts, "_check_subtrees", twin)


def takes_last_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._add_leaf

    def twin(s: nuts.State, at: torch.Tensor, lp: torch.Tensor, mass: torch.Tensor, active: torch.Tensor):
        new, diverging = original(s, at, lp, mass, active)
        energy = -lp + nuts.kinetic(at[:, 1], mass)
        half_e = nuts.where(active, torch.stack([lp, energy], 1), s.half_e)
        return new._replace(half=nuts.where(active, at[:, ::2], s.half), half_e=half_e), diverging

    monkeypatch.setattr(nuts, "_add_leaf", twin)


def no_subtree_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._check_subtrees
    monkeypatch.setattr(nuts, "_check_subtrees", lambda s, *rest: (original(s, *rest)[0], torch.zeros_like(s.fresh)))


def wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._add_leaf

    def twin(s: nuts.State, at: torch.Tensor, lp: torch.Tensor, mass: torch.Tensor, active: torch.Tensor):
        mirrored = 2 * (nuts.kinetic(at[:, 1], mass) - s.energy_0) - lp
        new, diverging = original(s, at, mirrored, mass, active)
        take = (new.half_e[:, 0] == mirrored) & active
        return new._replace(half_e=nuts.where(take, torch.stack([lp, new.half_e[:, 1]], 1), new.half_e)), diverging

    monkeypatch.setattr(nuts, "_add_leaf", twin)


def uniform_not_rescaled(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nuts._add_leaf

    def twin(s: nuts.State, *rest: torch.Tensor):
        new, diverging = original(s, *rest)
        return new._replace(uniform=s.uniform), diverging

    monkeypatch.setattr(nuts, "_add_leaf", twin)


TWINS = (
    always_forward,
    keeps_turned_half,
    takes_last_leaf,
    no_subtree_checks,
    wrong_sign,
    uniform_not_rescaled,
)


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(twin, monkeypatch: pytest.MonkeyPatch) -> None:
    twin(monkeypatch)
    assert exactness() < ALPHA


def test_leaf_slots_are_the_aligned_subtrees() -> None:
    """Brute force: leaf n closes the aligned sub-trees [n - 2^k + 1, n] with n + 1 divisible by 2^k, k >= 1."""
    stored: dict[int, int] = {}
    for n, (low, high) in enumerate(nuts.leaf_slots(6).tolist()):
        if n % 2 == 0:
            stored[high] = n
            assert low > high
            continue
        starts = {n - 2**k + 1 for k in range(1, 7) if (n + 1) % 2**k == 0}
        assert {stored[slot] for slot in range(low, high + 1)} == starts


def test_steps_count_the_leaves() -> None:
    """A trajectory has 2^depth - 1 leaves, and up to 2^depth more where it dropped its last half."""
    position, noise = exact_draws(50, 3), big_noise(10, 50, 4)
    lp, grad = banana(position)
    constants = nuts.setup(2, max_depth=MAX_DEPTH).constants
    state, seen = nuts.init(position, lp, grad, constants), 0
    for _ in range(200):
        state, draw = nuts.step(
            state, banana, noise, step_size=position.new_tensor(STEP), mass=unit(position[0]),
            stop=torch.tensor(10), **constants,
        )  # fmt: skip
        depth, steps = draw.depth[draw.done], draw.steps[draw.done]
        assert bool(((steps >= 2**depth - 1) & (steps <= 2 ** (depth + 1) - 1)).all())
        assert bool((depth <= MAX_DEPTH).all())
        seen += len(depth)
    assert seen == 500


def test_one_leaf_halves_equal_a_metropolis_step_by_hand() -> None:
    """max_depth 1: one leapfrog step in a random direction, accepted with probability min(1, exp(H_0 - H))."""
    position, noise = exact_draws(1000, 5), big_noise(1, 1000, 6, max_depth=1)
    new = run(position, noise, max_depth=1)[0]
    p = noise["momentum"][0]
    choice = noise["choice"][0, :, 0]
    size = torch.tensor(STEP, dtype=torch.float64)
    e = torch.where(choice[:, 0] < 0.5, size, -size)[:, None]
    lp, g = banana(position)
    half = p + 0.5 * e * g
    q = position + e * half
    lp_1, g_1 = banana(q)
    p_1 = half + 0.5 * e * g_1
    change = (lp_1 - 0.5 * (p_1**2).sum(-1)) - (lp - 0.5 * (p**2).sum(-1))
    expected = torch.where((choice[:, 2] < change.exp())[:, None], q, position)
    assert torch.allclose(new, expected, rtol=0, atol=1e-12)


def test_leapfrog_is_reversible_and_keeps_volume() -> None:
    mass = unit(torch.empty(2, dtype=torch.float64))._replace(
        scale=torch.tensor([0.7, 1.9], dtype=torch.float64).sqrt()
    )
    at = torch.stack([exact_draws(20, 7), exact_draws(20, 8), torch.zeros(20, 2, dtype=torch.float64)], 1)
    at[:, 2] = banana(at[:, 0])[1]
    step = at.new_full((20, 1), 0.1)
    there, _ = nuts.leapfrog(at, banana, step, mass)
    back, _ = nuts.leapfrog(there, banana, -step, mass)
    assert torch.allclose(back, at, atol=1e-10)

    def flow(qp: torch.Tensor) -> torch.Tensor:
        q, p = qp[None, :2], qp[None, 2:]
        new, _ = nuts.leapfrog(torch.stack([q, p, banana(q)[1]], 1), banana, step[:1], mass)
        return new[0, :2].reshape(-1)

    jacobian = torch.autograd.functional.jacobian(flow, torch.cat([at[0, 0], at[0, 1]]))
    assert float(torch.linalg.det(jacobian)) == pytest.approx(1, abs=1e-10)


def test_a_chain_does_not_know_how_many_others_there_are() -> None:
    shapes = nuts.setup(3, max_depth=5).noise
    like = torch.zeros(1)
    few = noise_block(shapes, seed=1, block=2, chains=2, like=like)
    many = noise_block(shapes, seed=1, block=2, chains=7, like=like)
    assert few["momentum"].shape == (BLOCK, 2, 3)
    assert few["choice"].shape == (BLOCK, 2, 5, 3)
    for name in few:
        assert torch.equal(few[name], many[name][:, :2])
        assert not torch.equal(many[name][:, 0], many[name][:, 1])
    later = noise_block(shapes, seed=1, block=3, chains=2, like=like)
    assert not torch.equal(few["momentum"], later["momentum"])


def small(chains: int, **options):
    problem = zoo.load("logistic_regression", n=30)
    return zoo.run(problem, "nuts", engine="eager", chains=chains, seed=3, progress=False, **options)


def test_same_call_same_bits_and_chains_apart() -> None:
    fixed = {"draws": 70, "warmup": 0, "step_size": 0.5, "max_depth": 3}
    two, again, five = small(2, **fixed), small(2, **fixed), small(5, **fixed)
    for name, value in two.draws.items():
        assert torch.equal(value, again.draws[name])
        assert torch.equal(value, five.draws[name][:2])


def test_thinning_keeps_every_kth_draw() -> None:
    fixed = {"warmup": 0, "step_size": 0.5, "max_depth": 3}
    all_, some = small(2, draws=60, **fixed), small(2, draws=20, thin=3, **fixed)
    assert torch.equal(all_.draws["w"][:, 2::3], some.draws["w"])
    assert torch.equal(all_.stats["lp"][:, 2::3], some.stats["lp"])


def test_stats_agree_with_the_draws() -> None:
    from zoo.infer.density import density

    fit = small(2, draws=20, warmup=30)
    d = density(fit.problem)
    lp = d.log_prob(d.unconstrain(fit.draws).reshape(-1, d.dim)).reshape(2, 20)
    assert torch.allclose(fit.stats["lp"], lp, atol=1e-4)
    assert bool((fit.stats["energy"] >= -fit.stats["lp"] - 1e-6).all())
    assert fit.stats["diverging"].dtype == torch.bool
    assert not fit.stats["diverging"].any()
    assert set(fit.seconds) == {"compile", "warmup", "sample"}
