"""The public tables under $ZOO_DATA, prepared as the published answers prepare them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import zoo


def concrete(folder: Path, split: int = 0) -> zoo.Data:
    """UCI concrete, one of Gal's 20 splits: 927 rows, 8 columns standardised and a column of ones last.

    y is standardised with the training mean and population sd, which stand in info as y_loc and y_scale.
    """
    table = np.loadtxt(folder / "uci" / "concrete" / "data.txt")
    generator = np.random.RandomState(1)
    for _ in range(split + 1):
        order = generator.choice(len(table), len(table), replace=False)
    cut = round(0.9 * len(table))
    train, test = table[order[:cut]], table[order[cut:]]
    loc, scale = train.mean(0), train.std(0)

    def ready(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.from_numpy((rows - loc) / scale)
        return torch.cat([z[:, :-1], torch.ones(len(z), 1, dtype=z.dtype)], 1), z[:, -1]

    info = {"y_loc": float(loc[-1]), "y_scale": float(scale[-1]), "source": f"UCI concrete, split {split}"}
    return zoo.Data(*ready(train), *ready(test), info=info)


def german_credit(folder: Path) -> zoo.Data:
    """Statlog German credit (numeric), 1000 rows: 24 columns standardised, then ones; y = 1: bad."""
    table = np.loadtxt(folder / "german_credit" / "german_credit_numeric.csv", delimiter=",")
    x = table[:, :-1]
    x = np.concatenate([(x - x.mean(0)) / x.std(0), np.ones((len(x), 1))], 1)
    return zoo.Data(torch.from_numpy(x), torch.from_numpy((table[:, -1] == 2).astype(np.float64)))
