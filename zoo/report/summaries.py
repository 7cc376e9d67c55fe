"""What draws say of each coordinate, with the Monte Carlo error of every number: what a gold file stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.core.diagnostics import constant, ess, mcse_mean, mcse_quantile, mcse_sd, rhat

LEVELS = (1, 5, 25, 50, 75, 95, 99)


def summary(draws: NDArray[np.floating]) -> dict[str, Any]:
    """Numbers for each of k coordinates, JSON-able.

    Args:
        draws: (chain, draw, k).

    Returns:
        {name: k numbers}: mean, sd, mean_square (E f^2), the same with "mcse_" in front, rhat, ess_bulk, ess_tail;
        quantiles and mcse_quantiles are {percent: k numbers}. A constant coordinate has errors 0 and R-hat 1.
    """
    flat = draws.reshape(-1, draws.shape[2]).astype(np.float64)
    numbers = {
        "mean": flat.mean(0),
        "mcse_mean": mcse_mean(draws),
        "sd": np.where(constant(draws), 0.0, flat.std(0, ddof=1)),
        "mcse_sd": mcse_sd(draws),
        "mean_square": (flat**2).mean(0),
        "mcse_mean_square": mcse_mean(draws.astype(np.float64) ** 2),
        "rhat": rhat(draws),
        "ess_bulk": ess(draws, "bulk"),
        "ess_tail": ess(draws, "tail"),
    }
    out: dict[str, Any] = {name: rounded(value, 10) for name, value in numbers.items()}
    out["quantiles"] = {str(p): rounded(np.quantile(flat, p / 100, axis=0), 10) for p in LEVELS}
    out["mcse_quantiles"] = {str(p): rounded(mcse_quantile(draws, p / 100), 4) for p in LEVELS}
    return out


def rounded(values: NDArray[np.floating], digits: int) -> Any:
    """Nested lists of numbers with so many significant digits."""
    if values.ndim == 0:
        return float(f"{float(values):.{digits}g}")
    return [rounded(value, digits) for value in values]
