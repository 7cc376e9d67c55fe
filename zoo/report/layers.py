"""The weight layers of a fit, told from the shapes of its sites: matrices (in, out) that follow one another."""

from __future__ import annotations

from typing import NamedTuple

from zoo.core.computed import as_written
from zoo.core.posterior import Posterior
from zoo.core.problem import Data


class Layer(NamedTuple):
    """One layer: the site of its weights (in, out), that of its biases (out,) or None, and the sizes."""

    weights: str
    biases: str | None
    fan_in: int
    width: int


def layers(fit: Posterior) -> list[Layer]:
    """The layers from x to f, or [] where the matrices do not follow one another from the columns of x on."""
    data = fit.problem.data
    if not isinstance(data, Data) or data.x.dim() != 2:
        return []
    shapes = {name: tuple(value.shape[2:]) for name, value in as_written(fit.draws).items()}
    out, width, used = [], data.x.shape[1], set()
    order = list(shapes)
    for place, name in enumerate(order):
        shape = shapes[name]
        if len(shape) != 2:
            continue
        if shape[0] != width:
            return []
        width = shape[1]
        biases = next((n for n in order[place + 1 :] if shapes[n] == (width,) and n not in used), None)
        used.add(biases)
        out.append(Layer(name, biases, *shape))
    return out
