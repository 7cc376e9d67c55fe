"""Minibatches of a density: its data term on M of n rows, scaled by n / M; the prior enters once whatever M is.

    log pi_S(u) = (n / M) sum_{i in S} log p(y_i | theta) + log p(theta) + log |d theta / d u|

E over batches S is log pi(u), exactly, since rows are independent given the latents.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from zoo.core.problem import Data, Problem
from zoo.core.sites import Sites

SAMPLING = ("epochs", "replacement")


def batch_size(noise: dict[str, tuple[str, tuple[int, ...]]]) -> int | None:
    """M of the minibatches among a kernel's noise, None where it uses all rows."""
    return next((shape[-1] for kind, shape in noise.values() if kind in SAMPLING), None)


def check_subsample(problem: Problem, found: Sites, size: int) -> int:
    """The number of rows n of a problem whose data can be cut into batches of `size` rows.

    Raises:
        ValueError: For data in a dict, latents of single rows, data outside the plate, and more rows than there are.
    """
    if not isinstance(problem.data, Data):
        raise ValueError(
            f"batch_size needs data in a zoo.Data, model '{problem.name}' has a dict, whose rows are unknown. "
            "Leave batch_size out."
        )
    n, plate = len(problem.data.x), problem.names["plate"]
    if local := [name for name, site in found.latent.items() if site.local]:
        raise ValueError(
            f"batch_size={size}: latent '{local[0]}' lies inside plate '{plate}', a value for every row, and a batch "
            "has only some rows. Leave batch_size out."
        )
    if outside := [name for name, site in found.observed.items() if not site.local]:
        raise ValueError(
            f"batch_size={size}: observed site '{outside[0]}' lies outside plate '{plate}', so its rows cannot be "
            "weighted. Put it inside, or leave batch_size out."
        )
    if size > n:
        raise ValueError(f"batch_size must be at most the {n} rows of the data, got {size}.")
    return n


def on_rows(arguments: Any, rows: Tensor) -> Any:
    """The model's (args, kwargs) on some rows (M,) of x and y."""
    (x, y), kwargs = arguments
    return (x[rows], y[rows]), kwargs
