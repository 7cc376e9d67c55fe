"""Stock `pyro.infer.mcmc` kernels, one chain after another in this process: the trusted reference.

No worker processes: draws and errors arrive as they are, Ctrl-C works, and chain c depends on (seed, c) only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyro.infer.mcmc as mcmc
import torch
from torch import Tensor

from zoo.core.handlers import pyro_state
from zoo.core.no_result import NoResult
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.core.randomness import seeded

from .density import Density, density
from .interrupt import stoppable
from .progress import progress as progress_bar
from .seeds import block_seed
from .starts import starts
from .threads import running_on, threads_for_size
from .verdict import judged

log = logging.getLogger("zoo")
KERNELS = ("nuts", "hmc")


class Chain(NamedTuple):
    """One chain after warm-up: positions (draw, dim), lp (draw,), diverging (draw,), its step size."""

    position: Tensor
    lp: Tensor
    diverging: Tensor
    step_size: float


def fit_stock(
    problem: Problem,
    kernel: str = "nuts",
    *,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    thin: int = 1,
    init: Any = "uniform",
    seed: int = 0,
    target_accept: float = 0.8,
    max_depth: int = 10,
    step_size: float | None = None,
    length: float | None = None,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Posterior:
    """Runs `pyro.infer.mcmc.NUTS` or `HMC` on the problem's density.

    Args:
        problem: The problem, on its device and in its dtype.
        kernel: "nuts" or "hmc".
        chains: Number of chains.
        warmup: Iterations in which step size and diagonal mass are tuned; not kept.
        draws: Draws a chain, after warm-up and thinning.
        thin: Keep every `thin`-th draw.
        init: See `zoo.infer.starts`.
        seed: Chain c depends on (seed, c) only.
        target_accept: Acceptance that the step size is tuned to.
        max_depth: NUTS: at most 2^max_depth - 1 leapfrog steps a draw.
        step_size: A fixed step size; None: tuned in warm-up.
        length: HMC: integration time of a trajectory; None: 2 pi.
        progress: None: only in a terminal.
        max_seconds: End in order after this long and keep what there is.

    Returns:
        `Posterior` of kind "markov"; stats lp, diverging; settings engine "pyro", step_size of each chain.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}.")
    begun = time.perf_counter()
    target = density(problem, "loop")
    at = starts(target, chains, seed, init, seconds=max_seconds)
    each = warmup + draws * thin
    rows = max((site.shape[0] for site in target.sites.observed.values() if site.shape), default=1)
    threads = threads_for_size(rows, target.dim)
    found: list[Chain] = []
    with stoppable(max_seconds) as stop, progress_bar(f"{kernel} (pyro)", chains * each, progress) as show:
        for c in range(chains):
            if stop():
                break
            sampler = _sampler(kernel, target, at[c], target_accept, max_depth, step_size, length)
            # The chain's own place in the bar, not whichever c the loop has reached.
            report = _shifted(show, c * each, f"chain {c + 1} of {chains}")
            with seeded(block_seed(seed, c, 0, kernel), target.device), pyro_state(validate=False), running_on(threads):
                found.append(_run(sampler, target, warmup, draws, thin, stop, report))
        reason = stop()
    return _posterior(target, kernel, found, chains, draws, reason, time.perf_counter() - begun)


def own_options(kernel: str, own: dict[str, Any]) -> dict[str, Any]:
    """The kernel's own options in the form `fit_stock` takes them; the others are refused by name."""
    allowed = {"nuts": ("max_depth",), "hmc": ("length",)}.get(kernel)
    if allowed is None:
        raise ValueError(f"engine='pyro' has the kernels {', '.join(KERNELS)}, got {kernel!r}. Use engine='auto'.")
    for name in own:
        if name not in allowed:
            raise ValueError(f"engine='pyro' takes no {name} for {kernel}, only {', '.join(allowed)}. Leave it out.")
    return own


def _shifted(show: Callable[..., None], before: int, text: str) -> Callable[[int], None]:
    return lambda done: show(before + done, text)


def _sampler(
    kernel: str,
    target: Density,
    start: Tensor,
    target_accept: float,
    max_depth: int,
    step_size: float | None,
    length: float | None,
) -> Any:
    """A stock kernel on our density: stock `initialize_model` would freeze supports that move."""

    def potential(params: dict[str, Tensor]) -> Tensor:
        return -target.log_density(params["u"]).to(start.dtype)

    common: dict[str, Any] = {
        "potential_fn": potential,
        "step_size": 1.0 if step_size is None else step_size,
        "adapt_step_size": step_size is None,
        "target_accept_prob": target_accept,
    }
    if kernel == "nuts":
        sampler = mcmc.NUTS(max_tree_depth=max_depth, **common)
    else:
        sampler = mcmc.HMC(trajectory_length=length, **common)
    sampler.initial_params = {"u": start}
    return sampler


def _run(
    sampler: Any,
    target: Density,
    warmup: int,
    draws: int,
    thin: int,
    stop: Callable[[], str],
    show: Callable[[int], None],
) -> Chain:
    """Warm-up and draws of one chain, fewer if it is stopped."""
    sampler.setup(warmup)
    params = sampler.initial_params
    kept: list[Tensor] = []
    diverging: list[bool] = []
    for i in range(warmup + draws * thin):
        if stop():
            break
        before = len(sampler._divergences)
        params = sampler.sample(params)
        if i >= warmup and (i - warmup + 1) % thin == 0:
            kept.append(params["u"].detach())
            diverging.append(len(sampler._divergences) > before)
        if (i + 1) % 20 == 0:
            show(i + 1)
    step_size = float(sampler.step_size)
    sampler.cleanup()
    position = torch.stack(kept) if kept else torch.empty(0, target.dim)
    lp = target.log_prob(position) if kept else torch.empty(0, dtype=torch.float64)
    return Chain(position, lp, torch.tensor(diverging, dtype=torch.bool), step_size)


def _posterior(
    target: Density, kernel: str, found: list[Chain], chains: int, draws: int, reason: str, seconds: float
) -> Posterior:
    whole = [chain for chain in found if len(chain.lp) == draws]
    if len(whole) < chains:  # stopped: whole chains if there are any, else what the first one has
        found = whole or found[:1]
    kept = len(found[0].lp) if found else 0
    if not kept:
        raise NoResult(f"{kernel} ended before its first draw ({reason}). Give it more time, or lower warmup.")
    stats = {name: torch.stack([getattr(chain, name) for chain in found]) for name in ("lp", "diverging")}
    if len(whole) < chains:
        reason = f"{reason} after {len(found)} of {chains} chains"
    posterior = Posterior(
        target.problem,
        kernel,
        "markov",
        target.constrain(torch.stack([chain.position for chain in found])),
        stats=stats,
        seconds={"compile": 0.0, "warmup": 0.0, "sample": seconds},
        settings={"engine": "pyro", "step_size": [chain.step_size for chain in found]},
    )
    return judged(posterior, reason if len(whole) < chains else "")
