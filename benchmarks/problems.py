"""The three problems of the benchmarks, the same float32 data for every side, and how effective draws are counted.

lecture_bnn   bnn_regression(scaling="none"): 152 parameters, 100 rows of y = sin(x) + x + N(0, .1)
logistic      logistic_regression: 25 parameters, 1,000 rows of 24 standard normal columns
boston_bnn    bnn_regression(hidden=(50, 50)): 3,302 parameters, 506 rows of 13 columns, the size of Boston housing
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import zoo

NAMES = ("lecture_bnn", "logistic", "boston_bnn")


def problem(name: str) -> zoo.Problem:
    """A problem by its name."""
    if name == "lecture_bnn":
        return zoo.load("bnn_regression", scaling="none", n=100)
    x, y = _logistic() if name == "logistic" else _boston()
    data = zoo.Data(torch.as_tensor(x), torch.as_tensor(y))
    if name == "logistic":
        return zoo.load("logistic_regression", data)
    return zoo.load("bnn_regression", data, hidden=(50, 50))


def _logistic() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 24))
    chance = 1 / (1 + np.exp(-(x @ rng.normal(size=24) * 0.3)))
    return x.astype(np.float32), (rng.uniform(size=1000) < chance).astype(np.float32)


def _boston() -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of two projections, standardised: as hard as a table of that size, and without a file."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(506, 13))
    a, b = (x @ rng.normal(size=(13, 2)) / 13**0.5).T
    y = np.sin(2 * a) + a * b + 0.3 * rng.normal(size=506)
    return x.astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32)


def write(name: str, folder: Path) -> Path:
    """The data as an .npz that peers read."""
    data, path = problem(name).data, folder / f"{name}.npz"
    np.savez(path, x=data.x.numpy(), y=data.y.numpy())
    return path


def least_ess(path: Path) -> float:
    """The smallest bulk ESS of f at the data and of log noise, from the draws that a side saved.

    Args:
        path: An .npz with `f` (chain, draw, n) and, where the noise is learned, `noise` (chain, draw).
    """
    from zoo.core.diagnostics import ess

    saved = np.load(path)
    found = [float(ess(saved["f"]).min())]
    if "noise" in saved:
        found.append(float(ess(np.log(saved["noise"]))))
    return min(found)
