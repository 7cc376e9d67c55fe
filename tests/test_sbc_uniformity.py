"""Tests of uniform ranks against enumeration and simulation; each check has a twin that must fail it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from zoo.report.calibrated import table
from zoo.report.ranks import rank_among, thinned
from zoo.report.uniformity import chi_square, counts_below, ecdf_band, ecdf_p, holm, inside_probability, least_p

ALPHA = 1e-4  # the chance that a right rate fails one check below


def is_rate(hits: int, of: int, rate: float) -> bool:
    return bool(stats.binomtest(hits, of, rate).pvalue > ALPHA)


def test_counts_below_by_hand() -> None:
    assert counts_below([0, 0, 2, 3], 3).tolist() == [2, 2, 3]


@pytest.mark.parametrize(("n", "most"), [(3, 2), (4, 3), (5, 1)])
def test_inside_probability_is_that_of_all_ranks(n: int, most: int) -> None:
    rng = np.random.default_rng(0)
    allowed = rng.random((most, n + 1)) < 0.7
    every = list(itertools.product(range(most + 1), repeat=n))
    inside = [bool(allowed[np.arange(most), counts_below(ranks, most)].all()) for ranks in every]
    assert inside_probability(allowed, n) == pytest.approx(np.mean(inside), abs=1e-12)


@pytest.mark.parametrize(("n", "most", "alpha"), [(100, 63, 0.05), (100, 99, 0.01), (20, 7, 0.05)])
def test_band_has_its_coverage(n: int, most: int, alpha: float) -> None:
    """Twin: the pointwise band, each rank at alpha for itself, is left far more often."""
    rng = np.random.default_rng(1)
    below = rng.multinomial(n, np.full(most + 1, 1 / (most + 1)), size=20_000).cumsum(1)[:, :-1]

    def left(low: np.ndarray, high: np.ndarray) -> int:
        return int(((below < low) | (below > high)).any(1).sum())

    low, high = ecdf_band(n, most, alpha)
    c = np.arange(n + 1)
    exact = 1 - inside_probability((c >= low[:, None]) & (c <= high[:, None]), n)
    assert 0.8 * alpha < exact <= alpha
    assert is_rate(left(low, high), len(below), exact)
    z = np.arange(1, most + 1) / (most + 1)
    pointwise = stats.binom.ppf(alpha / 2, n, z), stats.binom.isf(alpha / 2, n, z)
    assert not is_rate(left(*pointwise), len(below), exact)


def test_p_is_at_most_alpha_exactly_outside_the_band() -> None:
    rng = np.random.default_rng(2)
    low, high = ecdf_band(30, 15, 0.1)
    outside = []
    for shape in rng.uniform(0.7, 1.3, 200):
        ranks = np.floor(16 * rng.beta(shape, shape, 30)).astype(int)
        below = counts_below(ranks, 15)
        outside.append(bool(((below < low) | (below > high)).any()))
        assert (ecdf_p(ranks, 15) <= 0.1) == outside[-1]
    assert 10 < sum(outside) < 190


def test_chi_square_is_that_of_all_ranks() -> None:
    """10 ranks of 4 values in two bins: X = 2 (k - 5)^2 / 5, k binomial."""
    x, p = chi_square([0] * 6 + [1] * 2 + [3] * 2, 3)
    assert x == pytest.approx(2 * 9 / 5)
    exact = 2 * float(stats.binom.cdf(2, 10, 0.5))
    assert is_rate(round(p * 20_001) - 1, 20_000, exact)
    assert not is_rate(round(p * 20_001) - 1, 20_000, float(stats.chi2.sf(x, 1)))


@pytest.mark.parametrize(("n", "most"), [(1, 7), (3, 3), (10, 2)])
def test_least_p_is_that_of_all_ranks(n: int, most: int) -> None:
    every = [np.repeat(np.arange(most + 1), c) for c in itertools.product(range(n + 1), repeat=most + 1) if sum(c) == n]
    right = min(min(chi_square(ranks, most)[1], ecdf_p(ranks, most)) for ranks in every)
    assert least_p(n, most) == pytest.approx(right, rel=1e-9)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


def coin_ranks(rng: np.random.Generator, sets: int, wide: float = 1.0) -> np.ndarray:
    """Ranks (sets, 1) of theta ~ U(0, 1) among 15 draws of Beta(1 + k, 3 - k) after two flips; `wide` breaks them."""
    theta = rng.random(sets)
    heads = rng.binomial(2, theta)
    draws = rng.beta(1 + heads, 3 - heads, size=(15, sets))
    return rank_among(0.5 + wide * (draws - 0.5), theta, 15, rng)[:, None]


def test_false_alarms_come_at_their_rate() -> None:
    """Each test at its own alpha, both together at no more. Twin: draws pulled together to 70 %."""
    rng = np.random.default_rng(3)
    found = [table(coin_ranks(rng, 50), ["theta"], 15, 0.05).iloc[0] for _ in range(600)]
    for name in ("p", "p_ecdf"):
        assert is_rate(sum(row[name] <= 0.05 for row in found), 600, 0.05), name
    alarms = sum(row["p_holm"] <= 0.05 for row in found)
    assert stats.binomtest(alarms, 600, 0.05, alternative="greater").pvalue > ALPHA
    broken = [table(coin_ranks(rng, 50, 0.7), ["theta"], 15, 0.05).iloc[0] for _ in range(60)]
    assert stats.binomtest(sum(row["p_holm"] <= 0.05 for row in broken), 60, 0.05, alternative="greater").pvalue < ALPHA


def test_ranks_among_ties_are_uniform() -> None:
    """Draws and truth of a die: nearly all are tied. Twin: ties count as above the truth."""
    rng = np.random.default_rng(4)
    truth, draws = rng.integers(0, 6, 6000), rng.integers(0, 6, (15, 6000))
    below = (draws < truth).sum(0)
    assert stats.chisquare(np.bincount(rank_among(draws, truth, 15, rng), minlength=16)).pvalue > ALPHA
    assert stats.chisquare(np.bincount(below, minlength=16)).pvalue < ALPHA


def test_ranks_among_fewer_draws_are_uniform_too() -> None:
    """6 draws, L = 15. Twin: the rank among 6 stretched, not spread."""
    rng = np.random.default_rng(5)
    truth, draws = rng.normal(size=6000), rng.normal(size=(6, 6000))
    stretched = (draws < truth).sum(0) * 15 // 6
    assert stats.chisquare(np.bincount(rank_among(draws, truth, 15, rng), minlength=16)).pvalue > ALPHA
    assert stats.chisquare(np.bincount(stretched, minlength=16)).pvalue < ALPHA


def test_thinning_is_even_and_goes_by_weight() -> None:
    import torch

    values = np.arange(8.0).reshape(2, 4, 1)
    assert thinned(values, None, 4)[:, 0].tolist() == [0, 2, 4, 6]
    assert thinned(values, torch.tensor([[0.0, 0, 0, 0], [1, 1, 0, 2]]), 4)[:, 0].tolist() == [4, 5, 7, 7]
