"""Many rows in pieces, for functions whose result at a row does not look at the others.

One draw of a convolutional network holds some ten thousand numbers of every image while it computes: 60,000 images at
once are gigabytes for an answer of a few megabytes.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

MOST = 2_000_000  # rows x pixels of a piece


def pieces(data: Any, rows: int, pixels: int, most: int = MOST) -> list[tuple[Any, int]]:
    """The model's arguments for some rows after others, and how many those are.

    Args:
        data: (args, kwargs); tensors of `rows` rows among args are cut.
        rows: Of the longest tensor in data.
        pixels: Numbers of a row.
        most: Rows x pixels of a piece, at least two rows each.
    """
    size = max(2, most // max(1, pixels))
    if rows <= size:
        return [(data, rows)]
    args, kwargs = data
    leaves, spec = pytree.tree_flatten(args)
    first = size - (rows % size == 0)  # pieces of one size would not tell which results have an entry a row
    out = []
    for begin, end in itertools.pairwise([0, *range(first, rows, size), rows]):
        mine = [v[begin:end] if isinstance(v, Tensor) and v.shape[:1] == (rows,) else v for v in leaves]
        out.append(((pytree.tree_unflatten(mine, spec), kwargs), end - begin))
    return out


def joined(parts: list[Any], sizes: list[int]) -> Any:
    """The trees of tensors (draw, ...) of all pieces as one: those with an entry a row are put one after another."""
    found = [pytree.tree_flatten(part) for part in parts]
    together = []
    for same in zip(*(leaves for leaves, _ in found), strict=True):
        by_row = all(leaf.dim() > 1 and leaf.shape[1] == size for leaf, size in zip(same, sizes, strict=True))
        together.append(torch.cat(same, 1) if by_row else same[0])
    return pytree.tree_unflatten(together, found[0][1])
