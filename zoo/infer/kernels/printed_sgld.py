"""SGLD as the slide prints it: wrong, to be seen wrong. `sgld` is the right one.

    slip="noise":  theta' = theta - eta g + sqrt(eta) n,    where eta / 2 belongs to sqrt(eta)
    slip="both":   theta' = theta - eta sum_{j in S} g_j + sqrt(eta) n,    and no 1 / M: the prior counts M times
                   g_j = grad[ -N log p(y_j | theta) - log p(theta) ]
with g the minibatch gradient of -log p. On N(0, 1/a) without gradient noise the variance is 1 / (a (2 - eta a)), half
the right one: the density sampled is p^2; with both slips 1 / (M a (2 - eta M a)): p^(2 M).

Slide prints both (Ambrogioni); errata 33 and 36. Constant step, in the mass's units.

Source: Ambrogioni, "Stochastic gradient Langevin dynamics".
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.infer.kernel import Draw, Setup, ValueAndGrad
from zoo.infer.kernels import sgld
from zoo.infer.kernels.sgld import State, first_step, init, position_of
from zoo.infer.mass import Mass

__all__ = ["STATS", "TARGET_ACCEPT", "State", "first_step", "init", "position_of", "setup", "step"]

TARGET_ACCEPT = None
STATS = sgld.STATS
SLIPS = ("noise", "both")


def setup(dim: int, *, slip: str = "noise", batch_size: int | None = None, sampling: str = "epochs") -> Setup:
    """Noise and which slips are made.

    Args:
        dim: Number of coordinates.
        slip: "noise" (sqrt(eta) where sqrt(2 eta) belongs) or "both" (and the missing 1/M).
        batch_size: M; None: all rows.
        sampling: As for `sgld`.
    """
    if slip not in SLIPS:
        raise ValueError(f"slip must be one of {', '.join(SLIPS)}, got {slip!r}.")
    if slip == "both" and batch_size is None:
        raise ValueError("slip='both' leaves out the 1/M of a minibatch, so it needs batch_size. Give one.")
    right = sgld.setup(dim, gamma=0, batch_size=batch_size, sampling=sampling)
    drift = float(batch_size or 1) if slip == "both" else 1.0
    power = "p^2" if slip == "noise" else f"p^{2 * int(drift)}"
    biased = f"the slide's formula samples {power} and not p: use 'sgld'"
    return right._replace(constants={"drift": torch.tensor(drift)}, tuned={}, biased=biased)


def step(
    s: State,
    value_and_grad: ValueAndGrad,
    noise: dict[str, Tensor],
    *,
    step_size: Tensor,
    mass: Mass,
    stop: Tensor,
    drift: Tensor,
) -> tuple[State, Draw]:
    """One step of `sgld` with a constant step size and the drift of the module's docstring."""
    one = torch.ones_like(step_size)
    return sgld.step(
        s, value_and_grad, noise, step_size=step_size, mass=mass, stop=stop, clock=0 * one, gamma=0 * one, b=one,
        drift=drift.to(step_size),
    )  # fmt: skip
