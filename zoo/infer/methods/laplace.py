"""Laplace's approximation: a Gaussian at the mode with the curvature found there.

    q(u) = N(u*, H^-1),   u* = argmax log pi(u),   H = - d^2 log pi(u*) / du^2
    log p(y) ~ log pi(u*) + (dim / 2) log 2 pi - (1 / 2) log det H

u are the unconstrained coordinates and pi their density, Jacobian included, as for AutoLaplaceApproximation
and Stan's laplace. It knows one mode and its curvature: skewness and other modes are lost.

Slide prints grad p(w) = 0 for the mode and Sigma^-1 = Hessian of p(w | X, Y) (Thome); this computes
grad log p(w | X, Y) = 0 and Sigma^-1 = minus the Hessian of log p(w | X, Y) at the mode.

Source: Thome, "Laplace approximation"; Bishop 2006, section 4.4.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.infer.density import Density
from zoo.infer.hessian import hessian
from zoo.infer.interrupt import stoppable
from zoo.infer.lbfgs import ITERATIONS
from zoo.infer.modes import Modes, describe, find_modes
from zoo.infer.progress import progress as progress_bar
from zoo.infer.seeds import block_seed

STRUCTURES, CURVATURES = ("full",), ("hessian",)
POLISH = 3
SINGULAR = 1e-10


class Gaussian(NamedTuple):
    """N(mode, root root^T), and the log density at the mode.

    `log_det` is that of the precision; `flat` counts the directions in which the density does not curve down.
    """

    mode: Tensor
    value: float
    root: Tensor
    log_det: float
    flat: int


def fit(
    problem: Problem,
    *,
    restarts: int = 1,
    structure: str = "full",
    curvature: str = "hessian",
    draws: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Posterior:
    """Finds the mode of the unconstrained density and draws from the Gaussian there.

    Args:
        problem: The problem; mode and curvature are computed in float64 whatever its dtype.
        restarts: Independent climbs, each with its own mode; the chain axis of the draws.
        structure: "full": the whole covariance.
        curvature: "hessian": exact second derivatives.
        draws: Draws from each Gaussian.
        seed: Restart r's start and draws depend on (seed, r) only.
        progress: None: only in a terminal.
        max_seconds: End the climb in order after this long.

    Returns:
        `Posterior` of kind "iid"; stats lp and logq in unconstrained space; settings log_evidence (of the
        highest mode), log_evidence_modes (all different modes together), log_evidence_restarts, best, space.

    Raises:
        ValueError: For an unknown structure or curvature.
    """
    check(structure, curvature)
    begun = time.perf_counter()
    with stoppable(max_seconds) as stop, progress_bar("laplace", ITERATIONS, progress) as show:
        modes = find_modes(problem, jacobian=True, restarts=restarts, seed=seed, stop=stop, show=show)
    return at_modes(problem, modes, draws=draws, seed=seed, begun=begun)


def check(structure: str, curvature: str) -> None:
    """ValueError for what is none of STRUCTURES or CURVATURES."""
    for name, value, known in (("structure", structure, STRUCTURES), ("curvature", curvature, CURVATURES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.")


def at_modes(problem: Problem, modes: Modes, *, draws: int, seed: int, begun: float) -> Posterior:
    """The Gaussians at modes that a search has found, which began at that time; as `fit`."""
    found = [_gaussian(modes.target, u, r not in modes.kinks) for r, u in enumerate(modes.position)]
    warmed = time.perf_counter()
    rows = [_draw(modes.target, g, draws, seed, r) for r, g in enumerate(found)]
    values = modes.target.constrain(torch.stack([row[0] for row in rows]))
    return Posterior(
        problem,
        "laplace",
        "iid",
        {name: value.to(problem.tensor.dtype) for name, value in values.items()},
        stats={"lp": torch.stack([row[1] for row in rows]), "logq": torch.stack([row[2] for row in rows])},
        seconds={"compile": 0.0, "warmup": warmed - begun, "sample": time.perf_counter() - warmed},
        settings=_settings(modes, found),
        outcome=_outcome(modes, found),
    )


def _gaussian(target: Density, u: Tensor, smooth: bool) -> Gaussian:
    """The Gaussian at a mode; a few Newton steps first take the mode to rounding."""
    precision = hessian(target, u)
    for _ in range(POLISH if smooth else 0):
        value, grad = target.value_and_grad(u.unsqueeze(0))
        factor, info = torch.linalg.cholesky_ex(precision)
        if int(info) or float(grad.abs().max()) < 1e-9:
            break
        nearer = u + torch.cholesky_solve(grad[0].unsqueeze(-1), factor).squeeze(-1)
        if not float(target.log_prob(nearer.unsqueeze(0))[0]) >= float(value[0]):
            break
        u, precision = nearer, hessian(target, nearer)
    root, log_det, flat = _root(precision)
    return Gaussian(u, float(target.log_prob(u.unsqueeze(0))[0]), root, log_det, flat)


def _root(precision: Tensor) -> tuple[Tensor, float, int]:
    """A root of the covariance, log det of the precision, and the number of directions that do not curve.

    Judged after scaling every coordinate to curvature 1, so that units do not matter. Directions that do not
    curve get no spread: a Gaussian has no width to give them, and the outcome counts them.
    """
    if not bool(torch.isfinite(precision).all()):
        return torch.zeros_like(precision), math.nan, len(precision)
    diagonal = precision.diagonal()
    unit = torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal)).rsqrt()
    scaled = unit.unsqueeze(1) * precision * unit
    factor, info = torch.linalg.cholesky_ex(scaled)
    if not int(info) and float(factor.diagonal().min()) ** 2 > SINGULAR:
        eye = torch.eye(len(precision), dtype=precision.dtype, device=precision.device)
        root = torch.linalg.solve_triangular(factor.mT, eye, upper=True)
        log_det = 2 * float(factor.diagonal().log().sum() - unit.log().sum())
        return unit.unsqueeze(1) * root, log_det, 0
    values, vectors = torch.linalg.eigh(scaled)
    good = values > SINGULAR
    width = torch.where(good, values.clamp(min=SINGULAR).rsqrt(), torch.zeros_like(values))
    return unit.unsqueeze(1) * vectors * width, math.nan, int((~good).sum())


def _draw(target: Density, q: Gaussian, draws: int, seed: int, restart: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions (draw, dim), lp (draw,) and logq (draw,)."""
    generator = torch.Generator().manual_seed(block_seed(seed, restart, 0, "laplace"))
    e = torch.randn(draws, len(q.mode), generator=generator, dtype=torch.float64).to(q.mode.device)
    positions = q.mode + e @ q.root.mT
    logq = -0.5 * (e.square().sum(-1) + len(q.mode) * math.log(2 * math.pi) - q.log_det)
    lp = torch.cat([target.log_prob(part) for part in positions.split(1000)])
    return positions, lp, logq


def _log_evidence(q: Gaussian) -> float:
    return q.value + 0.5 * (len(q.mode) * math.log(2 * math.pi) - q.log_det)


def _settings(modes: Modes, found: list[Gaussian]) -> dict[str, object]:
    evidence = [_log_evidence(q) for q in found]
    best = max(range(len(found)), key=lambda r: (not math.isnan(evidence[r]), found[r].value))
    together = torch.tensor([evidence[r] for r in _different(found)], dtype=torch.float64).logsumexp(0)
    return {
        "engine": modes.target.engine,
        "space": "unconstrained: with Jacobian",
        "log_evidence": evidence[best],
        "log_evidence_restarts": evidence,
        "log_evidence_modes": float(together),
        "best": best,
    }


def _different(found: list[Gaussian]) -> list[int]:
    """Restarts whose mode no earlier one found: further than .01 of its own widths from all of theirs."""
    kept: list[int] = []
    for r, q in enumerate(found):
        widths = q.root.square().sum(-1).sqrt().clamp(min=1e-12)
        if all(float(((q.mode - found[k].mode) / widths).abs().max()) > 0.01 for k in kept):
            kept.append(r)
    return kept


def _outcome(modes: Modes, found: list[Gaussian]) -> str:
    if trouble := describe(modes):
        return f"{trouble}: the Gaussian there means little; give every site a proper prior"
    if modes.kinks:
        sites = ", ".join(sorted({name for names in modes.kinks.values() for name in names}))
        return f"the mode lies on a kink of the density ({sites}), where no Hessian exists; use svi or nuts"
    flat = [r for r, q in enumerate(found) if q.flat]
    if flat:
        q = found[flat[0]]
        return (
            f"the Hessian at the mode of restart {flat[0]} is not positive definite: {q.flat} of "
            f"{len(q.mode)} directions do not curve, their spread is left out. Use proper priors, more "
            "restarts, svi or nuts"
        )
    return "ok"
