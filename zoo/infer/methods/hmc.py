"""Hamiltonian Monte Carlo: a trajectory of fixed length, accepted or refused as a whole.

    H(w, p) = -log pi(w) + p^T M^-1 p / 2,    p ~ N(0, M)
    leapfrog: p += (h / 2) grad log pi,  w += h M^-1 p,  p += (h / 2) grad log pi,  length / h times
    accept with probability min(1, exp(H - H'))

Slide prints a = max(ratio, 1) and W + eta p with unit mass (Ambrogioni); this computes min(1, ratio) and
W + h M^-1 p.

Source: Ambrogioni, "Hamiltonian Monte Carlo"; Neal 2011.
"""

from __future__ import annotations

from typing import Any

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.infer.stock import fit_stock

ENGINES = ("pyro",)


def fit(
    problem: Problem,
    *,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    thin: int = 1,
    init: Any = "uniform",
    step_size: float | None = None,
    target_accept: float = 0.8,
    length: float | None = None,
    engine: str = "pyro",
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Posterior:
    """Draws by HMC with tuned step size and diagonal mass.

    Args:
        problem: The problem, on its device and in its dtype.
        chains: Number of chains, one after another.
        warmup: Iterations in which step size and mass are tuned; not kept.
        draws: Draws a chain, after warm-up and thinning.
        thin: Keep every `thin`-th draw.
        init: Where chains start, see `zoo.infer.starts`.
        step_size: A fixed step size; None: tuned in warm-up.
        target_accept: Acceptance that the step size is tuned to, between 0 and 1.
        length: Integration time of a trajectory; None: 2 pi.
        engine: "pyro": stock pyro.infer.mcmc.
        seed: Chain c depends on (seed, c) only.
        progress: None: only in a terminal.
        max_seconds: End in order after this long and keep what there is.

    Returns:
        `Posterior` of kind "markov"; stats lp, diverging.

    Raises:
        ValueError: For an engine other than "pyro".
    """
    if engine not in ENGINES:
        raise ValueError(f"hmc has the engine 'pyro' only, got {engine!r}. For a compiled sampler use 'nuts'.")
    if not 0 < target_accept < 1:
        raise ValueError(f"target_accept must lie between 0 and 1, got {target_accept!r}. Usual: .6 to .99.")
    return fit_stock(
        problem, "hmc", chains=chains, warmup=warmup, draws=draws, thin=thin, init=init, seed=seed,
        target_accept=target_accept, step_size=step_size, length=length, progress=progress,
        max_seconds=max_seconds,
    )  # fmt: skip
