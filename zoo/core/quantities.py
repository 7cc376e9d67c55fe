"""What is compared between posteriors: outputs at the test inputs and identifiable scalars, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .layout import layout, row_latents
from .posterior import Posterior
from .problem import Data
from .tensors import to_numpy

# More coordinates of one quantity are thinned evenly: the answer does not change, the memory does.
MOST = 2000


class Quantity(NamedTuple):
    """One compared thing.

    Args:
        values: (chain, draw, k).
        labels: k names, such as "f[3]".
        point: Whether the method gave it a point estimate.
    """

    values: NDArray[np.floating]
    labels: list[str]
    point: bool = False


def point_sites(posterior: Posterior) -> tuple[str, ...]:
    """Sites that have a point estimate instead of a distribution."""
    return tuple(name for name in posterior.settings.get("point") or () if name in posterior.draws)


def test_inputs(posterior: Posterior) -> Tensor | None:
    """x_test where there is one, else None: the training inputs."""
    data = posterior.problem.data
    return data.x_test if isinstance(data, Data) else None


def predicted(posterior: Posterior, x: Tensor | None = None) -> dict[str, Tensor]:
    """Predictions at x (None: the training inputs), or {} where all that is compared is drawn already."""
    wanted = posterior.problem.compare
    return {} if wanted is not None and set(wanted) <= set(posterior.draws) else posterior.predict(x)


def quantities(posterior: Posterior, predicted: dict[str, Tensor]) -> dict[str, Quantity]:
    """{name: Quantity} of a posterior.

    `f`; for classifiers the mean of y (class probabilities) too; the sites in `problem.compare`; scalar
    latents on a bounded support (a noise sd, a rate). Weights of a network are left out: they permute. A
    model without f and without `compare` is compared on every latent site outside the data plate; a row's own
    latents are compared where `compare` names them.

    Args:
        posterior: Any method's result.
        predicted: Its predictions at the test inputs.
    """
    plan, problem = layout(posterior), posterior.problem
    names = list(problem.compare or (problem.names["f"],))
    if problem.compare is None and problem.names["f"] not in predicted:
        names = [name for name in posterior.draws if name not in row_latents(posterior)]
    if plan.classifies and "mean" in predicted:
        names.append("mean")
    names += [name for name in plan.bounded if name not in names]
    out = {}
    for name in names:
        found = posterior.draws.get(name, predicted.get(name))
        if found is not None:
            out[name] = _quantity(name, found, name in point_sites(posterior))
    return out


def _quantity(name: str, value: Tensor, point: bool) -> Quantity:
    shape = tuple(value.shape[2:])
    flat = to_numpy(value).reshape(*value.shape[:2], -1)
    kept = thin(flat.shape[2], MOST)
    if not shape:
        return Quantity(flat, [name], point)
    places = zip(*np.unravel_index(kept, shape), strict=True)
    labels = [f"{name}[{', '.join(str(int(i)) for i in place)}]" for place in places]
    return Quantity(flat[:, :, kept], labels, point)


def thin(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` of `count` places, evenly spread."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)
