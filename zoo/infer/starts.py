"""Where chains start."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zoo.core.handlers import LogProb, pyro_state
from zoo.core.posterior import Posterior

from .density import Density
from .prior_width import Width
from .seeds import block_seed

TRIES = 100


def starts(
    density: Density, chains: int, seed: int, init: Any = "uniform", width: Width | None = None,
    seconds: float | None = None,
) -> Tensor:  # fmt: skip
    """Starting positions (chain, dim) with finite log density and gradient.

    Args:
        density: The density.
        chains: How many.
        seed: Chain c's start depends on (seed, c) only.
        init: "uniform" (U(-2, 2) on unconstrained coordinates, up to 100 tries a chain), "prior", "map", or a
            Posterior of the same model, whose draws are used evenly.
        width: The units of "uniform", about their centre; None: 1, about 0.
        seconds: The time that "map" may take; None: as long as it does.

    Raises:
        ValueError: If a chain finds no finite point, naming the first site whose log probability is not finite.
    """
    if isinstance(init, Posterior):
        _check_sites(density, init)
        values = {b.name: init.draws[b.name].flatten(0, 1) for b in density.blocks}
        count = next(iter(values.values())).shape[0]
        keep = torch.linspace(0, count - 1, chains).round().long()
        at = {n: v[keep.to(v.device)].to(dtype=density.dtype, device=density.device) for n, v in values.items()}
        return _finite(density, density.unconstrain(at))
    if init == "prior":
        from .methods import prior

        return starts(density, chains, seed, prior.fit(density.problem, draws=chains, seed=seed))
    if init == "map":
        from .methods import map as maximum

        return starts(
            density, chains, seed, maximum.fit(density.problem, restarts=chains, seed=seed, max_seconds=seconds)
        )
    if init != "uniform":
        raise ValueError(f"init must be 'uniform', 'prior', 'map' or a Posterior, got {init!r}.")
    return torch.stack([_uniform(density, chain, seed, width) for chain in range(chains)])


def _check_sites(density: Density, init: Posterior) -> None:
    """ValueError where a posterior has not all of the model's latent sites, or in other shapes."""
    got = {name: tuple(value.shape[2:]) for name, value in init.draws.items()}
    wrong = [
        f"'{b.name}' {tuple(b.shape)}, got {got.get(b.name)}" for b in density.blocks if got.get(b.name) != b.shape
    ]
    if wrong:
        raise ValueError(
            f"init must be a Posterior of this very model: {density.problem.name} has site {wrong[0]} in that by "
            f"{init.method} on {init.problem.name}. Start with init='uniform', or run that method on this problem."
        )


def _uniform(density: Density, chain: int, seed: int, width: Width | None) -> Tensor:
    generator = torch.Generator().manual_seed(block_seed(seed, chain, 0, "start"))
    for _ in range(TRIES):
        point = torch.rand(1, density.dim, generator=generator, dtype=torch.float64) * 4 - 2
        point = point.to(dtype=density.dtype, device=density.device)
        point = point if width is None else width.centre + width.scale * point
        lp, grad = density.value_and_grad(point)
        if bool(torch.isfinite(lp).all()) and bool(torch.isfinite(grad).all()):
            return point[0]
    of = "" if width is None else " of the prior's sds"
    raise ValueError(
        f"no finite starting point for chain {chain} in {TRIES} tries from U(-2, 2){of}: "
        f"{_culprit(density, point[0])}. "
        "Check that site's scale and support, or start elsewhere: init='prior' or init='map'."
    )


def _culprit(density: Density, point: Tensor) -> str:
    args, kwargs = density.problem.arguments()
    with pyro_state(validate=False), torch.no_grad(), LogProb() as log_prob:
        with density.at(point):
            density.problem.model(*args, **kwargs)
    for name, value in log_prob.sites.items():
        if not torch.isfinite(value):
            return f"site '{name}' has log probability {value.item()}"
    return "the gradient is not finite"


def _finite(density: Density, position: Tensor) -> Tensor:
    lp, _ = density.value_and_grad(position)
    bad = int((~torch.isfinite(lp)).sum())
    if bad:
        raise ValueError(
            f"{bad} of {len(lp)} given starting points have no finite log density: "
            f"{_culprit(density, position[int((~torch.isfinite(lp)).nonzero()[0])])}. Start with init='uniform'."
        )
    return position
