"""Data sets drawn from a model itself: latents from the prior, y given them and the inputs of the problem.

    theta ~ p(theta),  y ~ p(y | x, theta)

Source: Talts et al. 2018, "Validating Bayesian inference algorithms with simulation-based calibration".
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pyro
import torch
from torch import Tensor

from zoo.core import points
from zoo.core.explained import explained
from zoo.core.handlers import Record, is_data, is_factor, pyro_state, store_as_found
from zoo.core.problem import Data, Problem
from zoo.core.randomness import seeded
from zoo.core.sites import is_improper, sites

from .seeds import block_seed


class Simulated(NamedTuple):
    """A data set and what it came from: the problem on it, and {site: the true value}."""

    problem: Problem
    truth: dict[str, Tensor]


def simulated(problem: Problem, index: int, seed: int) -> Simulated:
    """One data set, a function of (seed, index) only; y in the units that the model sees.

    Args:
        problem: The problem: its inputs are kept, what it observed is not looked at.
        index: Which data set.
        seed: Of all of them.
    """
    args, kwargs = problem.inputs()
    model = problem.model if isinstance(problem.data, Data) else pyro.poutine.uncondition(problem.model)
    with store_as_found(), seeded(block_seed(seed, index, 0, "simulated"), problem.tensor.device):
        with explained(problem, "fails at a draw of its prior"), pyro_state(validate=False), torch.no_grad():
            with Record() as record:
                model(*args, **kwargs)
    drawn = {name: message["value"] for name, message in record.sites.items()}
    found = sites(problem)
    truth = {name: drawn[name] for name in found.latent}
    return Simulated(dataclasses.replace(problem, data=_with(problem, drawn)), truth)


def _with(problem: Problem, drawn: dict[str, Tensor]) -> Any:
    """The problem's data with what was drawn in place of what was observed."""
    if isinstance(problem.data, Data):
        found = sites(problem).target
        assert found is not None
        info = {name: fact for name, fact in problem.data.info.items() if name not in ("y_loc", "y_scale")}
        return dataclasses.replace(problem.data, y=drawn[found.name], y_test=None, info=info)
    return problem.data | {argument: drawn[site] for site, argument in _observed(problem).items()}


def _observed(problem: Problem) -> dict[str, str]:
    """{observed site: the argument it scores} of a model on a dict, known by the very tensor that is scored."""
    assert isinstance(problem.data, dict)
    args, kwargs = problem.arguments()
    with store_as_found(), seeded(0, problem.tensor.device), pyro_state(validate=False), torch.no_grad():
        with Record() as record:
            problem.model(*args, **kwargs)
    out = {}
    for name, message in record.sites.items():
        if is_data(message):
            argument = [key for key, value in problem.data.items() if value is message["value"]]
            if not argument:
                raise ValueError(
                    f"observed site '{name}' scores no argument of the model as it is, so simulated data cannot be put "
                    "in its place. Write obs=y, y an argument."
                )
            out[name] = argument[0]
    return out


def check_simulable(problem: Problem) -> None:
    """Refuses a model that is no generative process, or of which some part has no prior.

    Raises:
        ValueError: For an improper prior, a pyro.param, a pyro.factor, a weight of observations; names the site.
    """
    if isinstance(problem.data, Data) and problem.data.y is None and sites(problem).target is None:
        raise ValueError(f"model '{problem.name}' observes nothing, so no data can be simulated from it.")
    _, learned = points.prepared(problem, "svi")
    if learned:
        raise ValueError(
            f"model '{problem.name}' learns '{next(iter(learned))}' as a parameter (pyro.param), which has no prior to "
            "draw from. Make it a sample statement."
        )
    args, kwargs = problem.arguments()
    with store_as_found(), seeded(0, problem.tensor.device), pyro_state(validate=False), torch.no_grad():
        for name in [name for name, site in sites(problem).latent.items() if is_improper(site.fn)]:
            raise ValueError(
                f"site '{name}' has an improper prior (ImproperUniform), so no data can be simulated from the model. "
                "Give it a proper one, a wide Normal."
            )
        with Record() as record:
            problem.model(*args, **kwargs)
    for name, message in record.sites.items():
        scale = message["scale"]
        if is_factor(message) or isinstance(scale, Tensor) or scale != 1.0:
            what = "is a pyro.factor" if is_factor(message) else "has a weight (poutine.scale)"
            raise ValueError(f"site '{name}' {what}, which nothing can be drawn from. Write a model without it.")
