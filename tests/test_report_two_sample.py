"""Joint distances on pairs with closed forms; each check has a twin that must fail it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats

import zoo
from tests import report_cases as cases
from zoo.core.diagnostics import ess
from zoo.core.psis import good_k
from zoo.report.agreement import agreement, entropy, probabilities, total_variation
from zoo.report.density_ratio import density_facts, elbo_gap, khat, log_evidence
from zoo.report.joint import Draws, Part, joint_distances
from zoo.report.marginals import marginal
from zoo.report.two_sample import (
    energy_distance,
    median_distance,
    mmd,
    mmd_p,
    pairs,
    sliced_wasserstein2,
)


def normals(mean: list[float], sd: float, count: int, seed: int) -> np.ndarray:
    return np.asarray(mean) + sd * np.random.default_rng(seed).standard_normal((count, len(mean)))


# (mean of the first, its sd, sd of the second, whose mean is 0); in as many dimensions as the mean has.
PAIRS = [([0.7], 1.0, 1.0), ([0.0], 1.0, 2.0), ([0.6, -0.3, 0.0, 0.9], 1.0, 0.5), ([0.3] * 20, 1.0, 1.3)]


def norm(mean: np.ndarray, sd: float) -> float:
    """E |N(mean, sd^2 I)|, by Kummer's function."""
    k = len(mean)
    ratio = np.exp(special.gammaln((k + 1) / 2) - special.gammaln(k / 2))
    return float(sd * np.sqrt(2) * ratio * special.hyp1f1(-0.5, k / 2, -(mean @ mean) / (2 * sd**2)))


def right_energy(m: list[float], s: float, t: float) -> float:
    mean, zero = np.asarray(m), np.zeros(len(m))
    square = 2 * norm(mean, np.hypot(s, t)) - norm(zero, np.sqrt(2) * s) - norm(zero, np.sqrt(2) * t)
    return float(np.sqrt(square))


def right_mmd(m: list[float], s: float, t: float, width: float) -> float:
    def between(shift: float, spread: float) -> float:
        total = width**2 + spread
        return float((width**2 / total) ** (len(m) / 2) * np.exp(-(shift**2) / (2 * total)))

    shift = float(np.linalg.norm(m))
    return float(np.sqrt(between(0, 2 * s**2) + between(0, 2 * t**2) - 2 * between(shift, s**2 + t**2)))


@pytest.mark.parametrize(("m", "s", "t"), PAIRS)
def test_two_normals_have_closed_forms(m: list[float], s: float, t: float) -> None:
    """SW2^2 = |m|^2 / k + (s - t)^2; the energy distance by E |N|; MMD of a kernel of known width. Within 5 %."""
    a, b = normals(m, s, 1500, 0), normals([0.0] * len(m), t, 1500, 1)
    k, found, width = len(m), pairs(a, b), 1.5
    assert sliced_wasserstein2(a, b) == pytest.approx(np.sqrt(np.dot(m, m) / k + (s - t) ** 2), rel=0.05)
    assert energy_distance(found) == pytest.approx(right_energy(m, s, t), rel=0.05)
    assert mmd(found, width) == pytest.approx(right_mmd(m, s, t, width), rel=0.06)
    # Twins: 1- for 2-Wasserstein (where shapes differ), one pair of terms forgotten, the kernel of width^2.
    assert found.blocks(found.distance)[2] != pytest.approx(right_energy(m, s, t), rel=0.05)
    assert mmd(found, width**2) != pytest.approx(right_mmd(m, s, t, width), rel=0.06)


def test_the_sliced_distance_is_of_order_two() -> None:
    """N(0, 1) and N(0, 2): order 2 gives |s - t| = 1; the twin of order 1 (the competition's "W2") sqrt(2 / pi)."""
    from zoo.report.marginals import wasserstein

    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    assert sliced_wasserstein2(quantiles, 2 * quantiles) == pytest.approx(1.0, abs=2e-3)
    assert wasserstein(quantiles.T, 2 * quantiles.T)[0] == pytest.approx(np.sqrt(2 / np.pi), abs=2e-3)
    fewer = stats.norm.ppf((np.arange(3000) + 0.5) / 3000)[:, None]
    assert sliced_wasserstein2(quantiles, 2 * fewer) == pytest.approx(1.0, abs=5e-3)


def test_the_energy_distance_of_a_line_is_scipys() -> None:
    """scipy's is of the empirical distributions (points paired with themselves too)."""
    a, b = normals([1.0], 1.0, 40, 0), normals([0.0], 2.0, 30, 1)
    own = pairs(a, b, whole=True)
    first = np.abs(a - a.T).mean()
    by_hand = np.sqrt(2 * own.blocks(own.distance)[2] - first - own.blocks(own.distance)[1])
    assert by_hand == pytest.approx(stats.energy_distance(a[:, 0], b[:, 0]), rel=1e-9)


def test_no_distance_grows_with_few_draws_of_the_same() -> None:
    """Means over 200 pairs of samples of 20: 0 within 3 errors; twins with points paired with themselves are not."""
    rng = np.random.default_rng(0)
    energy, kernel, twins = [], [], []
    for _ in range(200):
        found = pairs(rng.standard_normal((20, 3)), rng.standard_normal((20, 3)))
        first, second, between = found.blocks(found.distance)
        energy.append(2 * between - first - second)
        first, second, between = found.blocks(np.exp(-(found.distance**2) / 2))
        kernel.append(first + second - 2 * between)
        twins.append(
            2 * found.distance[:20, 20:].mean() - found.distance[:20, :20].mean() - found.distance[20:, 20:].mean()
        )
    for values, within in ((energy, True), (kernel, True), (twins, False)):
        error = np.std(values) / np.sqrt(len(values))
        assert (abs(np.mean(values)) < 3 * error) == within
    same = normals([0.0, 0.0], 1.0, 100, 0)
    assert (energy_distance(pairs(same, same)), mmd(pairs(same, same)), sliced_wasserstein2(same, same)) == (0, 0, 0)


def test_members_are_all_there_is_of_their_distribution() -> None:
    """Two masses at -1 and 1 against N(0, 1): E|X - Y| = E|N(1, 1)|, E|X - X'| = 2 / sqrt(pi), E|Y - Y'| = 1.

    The twin takes the two for draws of something wider: E|Y - Y'| = 2, and a negative square.
    """
    gold, members = normals([0.0], 1.0, 3000, 0), np.array([[-1.0], [1.0]])
    square = 2 * norm(np.array([1.0]), 1.0) - 2 / np.sqrt(np.pi) - 1
    assert energy_distance(pairs(gold, members, whole=True)) == pytest.approx(np.sqrt(square), rel=0.1)
    assert energy_distance(pairs(gold, members)) == 0.0
    assert np.isnan(mmd_p(pairs(gold[:50], members, whole=True)))
    point = np.zeros((1, 1))
    square = 2 * np.sqrt(2 / np.pi) - 2 / np.sqrt(np.pi)
    assert energy_distance(pairs(gold, point, whole=True)) == pytest.approx(np.sqrt(square), rel=0.05)


def test_the_kernels_width_is_the_median_distance() -> None:
    found = pairs(np.array([[0.0], [1.0]]), np.array([[3.0]]))
    assert median_distance(found) == 2.0
    a, b = normals([1.0], 1.0, 100, 0), normals([0.0], 1.0, 100, 1)
    assert mmd(pairs(a, b)) == pytest.approx(mmd(pairs(10 * a, 10 * b)), rel=1e-9)
    assert mmd(pairs(a, b), 1.0) != pytest.approx(mmd(pairs(10 * a, 10 * b), 1.0), rel=0.1)


def test_p_is_uniform_for_independent_draws_of_the_same() -> None:
    """300 tests at 10 %: between 18 and 43 alarms (a chance of 1e-3 to be outside); a shift is found."""
    rng = np.random.default_rng(0)
    p = [mmd_p(pairs(rng.standard_normal((30, 2)), rng.standard_normal((20, 2))), permutations=99) for _ in range(300)]
    assert 18 <= sum(value <= 0.1 for value in p) <= 43
    assert np.mean(p) == pytest.approx(0.5, abs=0.06)
    assert mmd_p(pairs(rng.standard_normal((60, 2)) + 0.9, rng.standard_normal((60, 2)))) == 0.001
    assert mmd_p(pairs(np.zeros((10, 1)), np.zeros((10, 1)))) == 1.0


def autoregressive(phi: float, seed: int, shift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 200, 3))
    x[:, 0] /= np.sqrt(1 - phi**2)
    for t in range(1, 200):
        x[:, t] += phi * x[:, t - 1]
    return x + shift


def draws_of(values: np.ndarray, kind: str, weights: np.ndarray | None = None) -> Draws:
    judged = float(ess(values).min()) if kind == "markov" else np.nan
    return Draws({"f": Part(values, marginal(values, weights, kind))}, weights, kind, judged)


@pytest.mark.slow
def test_p_of_autocorrelated_draws_and_its_twin() -> None:
    """40 pairs of chains of the same law at 5 %: at most 6 alarms (chance 3e-3 of more for a right test).

    The twin takes all draws for independent, and is alarmed by most pairs.
    """
    alarms = {"markov": 0, "iid": 0}
    for seed in range(40):
        a, b = (autoregressive(0.85, 2 * seed + i) for i in (0, 1))
        for kind in alarms:
            alarms[kind] += joint_distances(draws_of(a, kind), draws_of(b, kind))["mmd_p"] <= 0.05
    assert alarms["markov"] <= 6
    assert alarms["iid"] > 20
    apart = joint_distances(
        draws_of(autoregressive(0.8, 0), "markov"), draws_of(autoregressive(0.8, 1, shift=2.0), "markov")
    )
    assert apart["mmd_p"] <= 0.01


def test_joint_distances_are_in_golds_sds_whatever_the_number_of_points() -> None:
    """Shifted by half a gold sd everywhere: SW2 = .5 and MMD, energy the same in units 100 times as large."""
    rng = np.random.default_rng(0)
    for k in (2, 200):
        scale = np.linspace(1, 100, k)
        gold, other = (rng.standard_normal((1, 3000, k)) * scale for _ in range(2))
        found = joint_distances(draws_of(gold, "iid"), draws_of(other + 0.5 * scale, "iid"))
        assert found["sw2"] == pytest.approx(0.5, rel=0.05)
        assert found["mmd_p"] == 0.001
        same = joint_distances(draws_of(gold, "iid"), draws_of(other, "iid"))
        assert same["sw2"] < 0.1
        assert same["mmd_p"] > 0.01
    # |m|^2 / k and E|X - Y| / sqrt(k) keep their sizes: 2 sqrt(2.25) - 2 sqrt(2), rooted, for many coordinates.
    assert found["energy"] == pytest.approx(np.sqrt(2 * np.sqrt(2.25) - 2 * np.sqrt(2)), rel=0.05)


def test_the_floor_is_what_two_samples_of_gold_give() -> None:
    """Mean of 40 pairs of samples of 300 and 100 within 15 %; twin: two of 300."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        a, b = rng.standard_normal((1, 300, 4)), rng.standard_normal((1, 100, 4))
        found.append(joint_distances(draws_of(a, "iid"), draws_of(b, "iid")))
    seen, floor = (np.mean([row[name] for row in found]) for name in ("sw2", "sw2_floor"))
    assert floor == pytest.approx(seen, rel=0.15)
    twin = joint_distances(draws_of(a, "iid"), draws_of(rng.standard_normal((1, 300, 4)), "iid"))
    assert twin["sw2_floor"] < 0.85 * seen


def test_weights_count_and_what_is_not_finite_is_far() -> None:
    """N(0, 1) weighted to N(.5, 1) against N(.5, 1); the twin ignores the weights."""
    rng = np.random.default_rng(0)
    draws, target = rng.standard_normal((1, 4000, 1)), 0.5 + rng.standard_normal((1, 4000, 1))
    weights = np.exp(0.5 * draws[:, :, 0])
    found = joint_distances(draws_of(target, "iid"), draws_of(draws, "iid", weights))
    twin = joint_distances(draws_of(target, "iid"), draws_of(draws, "iid"))
    assert found["sw2"] < 0.1 < 0.4 < twin["sw2"]
    assert found["mmd_p"] > 0.05 > twin["mmd_p"]
    broken = draws.copy()
    broken[0, 7] = np.inf
    with np.errstate(invalid="ignore"):
        far = joint_distances(draws_of(target, "iid"), draws_of(broken, "iid"))
        lost = joint_distances(draws_of(broken, "iid"), draws_of(target, "iid"))
    assert (far["sw2"], far["energy"], far["mmd"]) == (np.inf,) * 3
    assert all(np.isnan(value) for value in lost.values())
    still = np.zeros((1, 50, 1))
    assert all(np.isnan(value) for value in joint_distances(draws_of(still, "iid"), draws_of(draws, "iid")).values())


# -- class probabilities --------------------------------------------------------------------------------------


def test_agreement_total_variation_and_entropy() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]])
    q = np.array([[0.6, 0.4, 0.0], [0.1, 0.3, 0.6]])
    assert agreement(p, q) == 0.5
    assert total_variation(p, q) == pytest.approx((0.2 + 0.2) / 2)
    assert total_variation(p, q) != pytest.approx(np.abs(p - q).sum(1).mean())  # the twin without the half
    np.testing.assert_allclose(entropy([[0.5, 0.5], [1.0, 0.0]]), [np.log(2), 0.0])


# (to uniform, to one-hot of the argmax, mean max-probability, mean entropy)
PUBLISHED = {
    "imdb": (0.345068, 0.154932, 0.845068, 0.343963),
    "medmnist": (0.666020, 0.256902, 0.743098, 0.683071),
}


@pytest.mark.data
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_probabilities_of_hmc(name: str, zoo_data: Path) -> None:
    """Rows of HMC on IMDB and DermaMNIST, from the competition's starter kit (float32 in print: rows sum to 1)."""
    p = np.loadtxt(zoo_data / "hmc_probabilities" / f"{name}_hmc_probs.csv")
    classes = p.shape[1]
    uniform, one_hot = np.full_like(p, 1 / classes), np.eye(classes)[p.argmax(1)]
    found = (total_variation(p, uniform), total_variation(p, one_hot), p.max(1).mean(), entropy(p).mean())
    np.testing.assert_allclose(found, PUBLISHED[name], atol=6e-7)
    assert agreement(p, one_hot) == 1.0


def test_probabilities_are_averaged_over_draws() -> None:
    """Two classes by one probability, or as many columns; the twin: probabilities of the mean weights."""
    g = cases.generator()
    x = torch.randn(10, 2, generator=g)
    problem = zoo.Problem("mine", cases.signs, zoo.Data(x, torch.ones(10)))
    w = 3 * torch.randn(1, 50, 2, generator=g)
    fit = zoo.Posterior(problem, "nuts", "markov", {"w": w}, weights=torch.rand(1, 50, generator=g))
    p = probabilities(fit, fit.predict())
    assert p is not None
    assert fit.weights is not None
    share = (fit.weights / fit.weights.sum())[0]
    by_hand = (share @ (w[0] @ x.T).sigmoid()).numpy()
    np.testing.assert_allclose(p, np.stack([1 - by_hand, by_hand], 1), atol=1e-6)
    assert np.abs((share @ w[0] @ x.T).sigmoid().numpy() - by_hand).max() > 0.05
    line = cases.line_fit()
    assert probabilities(line, line.predict()) is None


# -- densities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.4, 0.7])
def test_khat_of_a_narrow_normal(sd: float) -> None:
    """p = N(0, 1), q = N(0, sd^2): p / q has Pareto tails of shape 1 - sd^2; the twin q / p has none."""
    x = sd * stats.norm.ppf((np.random.default_rng(0).permutation(100_000) + 0.5) / 100_000)
    ratio = stats.norm.logpdf(x) - stats.norm.logpdf(x, 0, sd)
    assert khat(ratio) == pytest.approx(1 - sd**2, abs=0.12)
    assert khat(-ratio) < 0
    assert (khat(ratio) > good_k(len(x))) == (sd == 0.4)
    assert khat(np.full(100, -3.0)) == -np.inf


def test_the_elbo_gap_is_the_kl() -> None:
    """q = N(.5, .5^2), p = 7 N(0, 1): KL(q, p) = log 2 + (.25 + .25 - 1) / 2; the twin KL(p, q) is another."""
    x = 0.5 + 0.5 * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    ratio = np.log(7) + stats.norm.logpdf(x) - stats.norm.logpdf(x, 0.5, 0.5)
    right = np.log(2) + (0.25 + 0.25 - 1) / 2
    assert elbo_gap(ratio, np.log(7)) == pytest.approx(right, abs=1e-3)
    assert abs((1 + 0.25) / (2 * 0.25) - np.log(2) - 0.5 - right) > 0.5


def test_density_facts_of_methods() -> None:
    """A Gaussian posterior: laplace's q is it. A shifted q has the KL of two normals; points have no density."""
    problem = zoo.load("linear_regression", zoo.linear_regression.data(), noise=0.6)
    exact, laplace, point = (zoo.run(problem, method) for method in ("exact", "laplace", "map"))
    assert density_facts(exact)[0]["khat"] == -np.inf
    for fit in (exact, laplace):
        assert density_facts(fit)[0]["elbo_gap"] == pytest.approx(0.0, abs=1e-3)
    facts, missing = density_facts(point)
    assert all(np.isnan(value) for value in facts.values())
    assert missing == ["k-hat, ELBO gap: points have no density"]
    learned = dataclasses.replace(laplace, problem=zoo.load("linear_regression", noise=None))
    facts, missing = density_facts(learned)
    assert np.isnan(facts["elbo_gap"])
    assert missing == ["ELBO gap: log p(y) is not known in closed form"]
    assert log_evidence(exact) == pytest.approx(exact.settings["log_evidence"])
    nuts = cases.line_fit()
    assert density_facts(nuts)[1] == ["k-hat, ELBO gap: no density q is known at the draws"]
    lost = dataclasses.replace(laplace, stats={**laplace.stats, "lp": laplace.stats["lp"] * np.nan})
    assert density_facts(lost)[1] == ["k-hat, ELBO gap: log p - log q is not finite"]


# -- compare --------------------------------------------------------------------------------------------------


def test_compare_has_them_all_and_says_what_is_missing() -> None:
    problem = zoo.load("linear_regression", noise=0.6)
    exact, laplace, point = (zoo.run(problem, method) for method in ("exact", "laplace", "map"))
    shifted = dataclasses.replace(laplace, draws={n: v + 0.5 for n, v in laplace.draws.items()})
    found = zoo.compare(exact, laplace, shifted, point)
    frame = found.frame.set_index("method")
    near, far, points = (frame.loc[name] for name in ("laplace", "laplace 2", "map"))
    assert near["mmd_p"] > 0.01 > far["mmd_p"]
    assert far["sw2"] > 3 * near["sw2"]
    assert near["sw2"] < 1.5 * near["sw2_floor"]
    assert far["energy"] > 3 * near["energy"]
    assert far["mmd"] > 3 * near["mmd"]
    assert np.isnan(points["mmd_p"])
    assert points["missing"] == "k-hat, ELBO gap: points have no density; p: members are no draws"
    assert np.isnan(frame[["agreement", "tv"]].to_numpy()).all()
    text = str(found)
    assert max(map(len, text.splitlines())) <= 110
    assert "nan" not in text
    assert "No k-hat and ELBO gap: points have no density (map). No p: members are no draws (map)." in text
    assert "agree:" not in text


def test_compare_of_classifiers_says_agreement_and_total_variation() -> None:
    g = cases.generator()
    x, y = torch.randn(10, 2, generator=g), torch.randint(3, (10,), generator=g)
    problem = zoo.Problem("mine", cases.classes, zoo.Data(x, y))
    draws = [torch.randn(2, 200, 2, 3, generator=g) for _ in range(2)]
    a, b = (zoo.Posterior(problem, "nuts", "markov", {"w": w + i}) for i, w in enumerate(draws))
    found = zoo.compare(a, b)
    row = found.frame.iloc[1]
    p, q = (probabilities(fit, fit.predict()) for fit in (a, b))
    assert p is not None
    assert row["agreement"] == (p.argmax(1) == q.argmax(1)).mean()  # type: ignore[union-attr]
    assert row["tv"] == pytest.approx(np.abs(p - q).sum(1).mean() / 2)
    words = str(found).split("method")[2].split("\n")[0].split()
    assert words == ["SW2", "floor", "energy", "MMD", "p", "agree", "TV"]


def test_a_comparison_of_gold_alone_has_no_second_table() -> None:
    text = str(zoo.compare(cases.line_fit()))
    assert text.count("method") == 1


def test_the_same_numbers_every_time() -> None:
    pair: list[Any] = [cases.line_fit(), cases.line_fit(seed=1, kind="iid")]
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first, second = (zoo.compare(*pair).frame for _ in range(2))
    assert first.equals(second)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
