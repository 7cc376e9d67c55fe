"""Ranks by one sort, and what is judged by them, are scipy's, numpy's and ArviZ's to the last digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from zoo.core import diagnostics, ranks
from zoo.core.ranks import Sorted

SHAPE = (3, 4, 50)  # (k, chain, draw)


def rows(kind: str) -> np.ndarray:
    """Numbers (k, chain, draw): of many, of few, or of float32, with zeros of both signs."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=SHAPE)
    if kind == "ties":
        return np.round(draws)
    if kind == "float32":
        draws[:, :, ::7] = 0.0
        draws[:, :, ::14] = -0.0
        return draws.astype(np.float32).astype(np.float64)
    draws[1] = np.where(draws[1] > 0, 1.0, 0.0) if kind == "two values" else draws[1]
    return draws


KINDS = ("many", "ties", "float32", "two values")


def right_scores(flat: np.ndarray) -> np.ndarray:
    return special.ndtri((stats.rankdata(flat, axis=1) - 0.375) / (flat.shape[1] + 0.25))


def first_come(ordered: Sorted) -> np.ndarray:
    """A broken twin: ties in the order in which they lie."""
    size = ordered.values.shape[1]
    found = special.ndtri((np.arange(1, size + 1) - 0.375) / (size + 0.25))
    out = np.empty_like(ordered.values)
    np.put_along_axis(out, ordered.places, found[None], axis=1)
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("short", [0, 1])
def test_scores_are_those_of_scipys_ranks(kind: str, short: int) -> None:
    """Bit for bit, of the draws and of their distances from the median; of an odd number, too. Twin: `first_come`."""
    flat = rows(kind).reshape(3, -1)[:, short:]
    ordered = ranks.sort_rows(flat)
    folded = np.abs(flat - np.median(flat, axis=1)[:, None])
    assert np.array_equal(ranks.scores(ordered), right_scores(flat))
    assert np.array_equal(ranks.scores(ranks.from_median(ordered)), right_scores(folded))
    assert np.array_equal(first_come(ordered), right_scores(flat)) is (kind == "many")


@pytest.mark.parametrize("level", [0.0, 0.05, 0.5, 0.77, 0.95, 1.0])
def test_quantiles_are_numpys(level: float) -> None:
    flat = rows("many").reshape(3, -1)
    assert np.array_equal(ranks.quantile(ranks.sort_rows(flat), level), np.quantile(flat, level, axis=1))


def judged(draws: np.ndarray) -> np.ndarray:
    """R-hat, bulk and tail ESS (3, k) by ArviZ's definitions, one after another."""
    return np.stack([diagnostics.rhat(draws), diagnostics.ess(draws, "bulk"), diagnostics.ess(draws, "tail")])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws", [50, 49])
def test_one_sort_is_three(kind: str, draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mixing` is `rhat` and `ess`, also for constants, for NaN, and over several blocks. Twin: unfolded R-hat."""
    given = np.moveaxis(rows(kind)[:, :, :draws], 0, 2)
    given = np.concatenate([given, np.ones_like(given[:, :, :1]), np.where(given > 1, np.nan, given)[:, :, :1]], axis=2)
    given[0, :, 0] *= 3  # chains of one mean and several widths
    right = judged(given)
    monkeypatch.setattr(diagnostics, "BLOCK", 400)
    np.testing.assert_allclose(np.stack(diagnostics.mixing(given)), right, rtol=1e-12)
    same: Callable[[Sorted], Sorted] = lambda ordered: ordered  # noqa: E731
    monkeypatch.setattr(diagnostics, "from_median", same)
    assert np.nanmax(np.abs(diagnostics.mixing(given).rhat - right[0])) > 1e-3


def test_few_draws_are_not_judged() -> None:
    found = diagnostics.mixing(np.random.default_rng(0).normal(size=(4, 3, 2)))
    assert np.isnan(np.stack(found)).all()
