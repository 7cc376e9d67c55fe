"""`check_stable`: a model must sample the same sites, of the same shapes, in every run."""

from __future__ import annotations

import torch
from torch import Tensor

from guides.supports import unconstrain

from .explained import explained
from .handlers import Record, Unconstrained, pyro_state
from .problem import Problem
from .randomness import untouched
from .sites import Sites


def check_stable(problem: Problem, found: Sites) -> None:
    """Runs the model at t(u) and t(-u), u where it was traced: so a branch on the sign of a latent is seen too.

    Args:
        problem: The problem; without targets its y is sampled, and the generators are put back.
        found: What `sites` saw of it.

    Raises:
        ValueError: Naming the sites, or the shapes, that differ.
    """
    u = {}
    for name, value in found.values.items():
        transform = unconstrain(found.latent[name].fn.support, name)
        u[name] = transform.inv(value)
    first = _shapes(problem, u)
    second = _shapes(problem, {name: -value for name, value in u.items()})
    seen = {name: tuple(site.fn.shape()) for name, site in (*found.latent.items(), *found.observed.items())}
    for shapes in (first, second):
        if odd := sorted(seen.keys() - shapes.keys()) or sorted(shapes.keys() - first.keys() - seen.keys()):
            raise ValueError(
                f"model '{problem.name}' samples other sites in another run: '{odd[0]}' is not in all of them. Sample "
                "every site in every run, whatever the values: torch.where instead of if."
            )
        if odd := sorted(name for name in seen if seen[name] != shapes[name]):
            raise ValueError(
                f"site '{odd[0]}' of model '{problem.name}' has shape {seen[odd[0]]} in one run, "
                f"{shapes[odd[0]]} in another. Give it the same shape in every run."
            )


def _shapes(problem: Problem, u: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """{site: shape} of one run at unconstrained coordinates; what has none is sampled."""
    args, kwargs = problem.arguments()
    with pyro_state(validate=False), untouched(problem.tensor.device), torch.no_grad(), Record() as record:
        with Unconstrained(u), explained(problem, "fails in another run"):
            problem.model(*args, **kwargs)
    return {name: tuple(msg["fn"].shape()) for name, msg in record.sites.items()}
