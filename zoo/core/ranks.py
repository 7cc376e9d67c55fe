"""Ranks of many quantities by one sort: normal scores, distances from the median, quantiles.

A sort is what ranks cost. So the scores of the draws, those of their distances from the median and the quantiles all
come from one: the distances on either side of the median lie in order already, and need only be merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]


class Sorted(NamedTuple):
    """Rows in order: `values` (k, S) ascend, `places` (k, S) say where in its row each number was."""

    values: Array
    places: NDArray[np.intp]


def sort_rows(rows: Array) -> Sorted:
    """Each row (k, S) in order; none of its numbers is NaN."""
    places = np.argsort(rows, axis=1)
    return Sorted(np.take_along_axis(rows, places, axis=1), places)


def from_median(ordered: Sorted) -> Sorted:
    """|x - median| of each row's numbers, in order, with their places in the row."""
    size = ordered.values.shape[1]
    median = ordered.values[:, (size - 1) // 2 : size // 2 + 1].mean(axis=1)
    apart = np.abs(ordered.values - median[:, None])
    merged = np.argsort(apart, axis=1, kind="stable")  # which finds the two runs that are in order, and merges them
    return Sorted(np.take_along_axis(apart, merged, axis=1), np.take_along_axis(ordered.places, merged, axis=1))


def scores(ordered: Sorted) -> Array:
    """Normal scores of the ranks in each row, Phi^-1((rank - 3/8) / (S + 1/4)), at the numbers' places (k, S).

    Equal numbers have the mean of their ranks. A rank is a whole or a half number of at most S: Phi^-1 of those is
    computed once, for all rows.
    """
    rows, size = ordered.values.shape
    table = special.ndtri((np.arange(2 * size - 1) / 2 + 1 - 0.375) / (size + 0.25))
    found = np.repeat(table[None, ::2], rows, axis=0)
    members, twice = _ties(ordered.values)
    found.reshape(-1)[members] = table[twice]
    out = np.empty_like(found)
    np.put_along_axis(out, ordered.places, found, axis=1)
    return out


def _ties(values: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where equal numbers lie in sorted rows, places in all of them together; and twice their mean place in a row."""
    size = values.shape[1]
    row, column = np.nonzero(values[:, 1:] == values[:, :-1])
    pairs = row * size + column  # each number that equals the next one
    begins = np.flatnonzero(np.diff(pairs, prepend=-2) != 1)
    first, length = pairs[begins], np.diff(begins, append=len(pairs)) + 1
    inside = np.arange(length.sum()) - np.repeat(length.cumsum() - length, length)
    return np.repeat(first, length) + inside, np.repeat(2 * (first % size) + length - 1, length)


def quantile(ordered: Sorted, level: float) -> Array:
    """numpy's quantile of each row: between the two numbers next to place p (S - 1), linearly; (k,)."""
    whole, part = divmod(level * (ordered.values.shape[1] - 1), 1.0)
    low = ordered.values[:, int(whole)]
    high = ordered.values[:, min(int(whole) + 1, ordered.values.shape[1] - 1)]
    # As numpy does it: from the nearer end, so that the upper end is hit exactly.
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
