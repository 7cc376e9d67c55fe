"""The refusal of a model that gold does not cover, before anything runs.

A reference posterior is 16 chains x 1,000 draws of every unknown, judged at f. It is made of models whose unknowns are
weights and scalars, a few thousand at most: `zoo gold --help` says which.
"""

from __future__ import annotations

from zoo.core.problem import Problem
from zoo.core.sites import sites
from zoo.infer.stream import CAP


def check_covered(problem: Problem, numbers: int) -> None:
    """Refuses a model whose posterior gold does not cover.

    Args:
        problem: The problem.
        numbers: Draws of all chains together, at least.

    Raises:
        ValueError: For latents of single rows, and for more unknowns than so many draws can be kept of.
    """
    latent = sites(problem).latent
    if own := [name for name, site in latent.items() if site.local]:
        raise ValueError(
            f"gold does not cover {problem.name}: every row has a '{own[0]}' of its own, so new rows, at which gold is "
            "compared, know nothing of those it was learned from. Score it by zoo.bound and zoo.log_marginal."
        )
    size = sum(site.unconstrained_shape.numel() for site in latent.values())
    if size * numbers > CAP:
        last = " Its last layer alone can be given to NUTS: zoo.lenet.features." if problem.name == "lenet" else ""
        raise ValueError(
            f"gold does not cover {problem.name} with {size:,} unknowns: {numbers:,} draws of them are more than "
            f"{CAP:g} numbers. Make a smaller version of it (--set), of at most {CAP // numbers:,}.{last}"
        )
