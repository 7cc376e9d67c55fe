"""`fit`: the one loop that drives every kernel: start, warm up, collect, report."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from . import adapt
from .density import Density, density
from .engine import Drive, choose_engine, compiled_drive, eager_drive
from .graph import COMPILING
from .interrupt import stoppable
from .kernel import Draw
from .noise import BLOCK, block_seed, noise_block
from .progress import progress as progress_bar
from .starts import starts

log = logging.getLogger("zoo")
Stats = dict[str, Tensor]
Stop = Callable[[], str]
Show = Callable[..., None]
FIELDS = ("lp", "energy", "accept", "depth", "steps", "diverging")


@dataclasses.dataclass
class Run:
    """The chains of one run and how far they are: what `advance` moves on."""

    density: Density
    shapes: dict[str, Any]
    seed: int
    kernel: Any
    state: Any
    inverse_mass: Tensor
    step_size: float = 1.0
    drive: Drive | None = None
    iteration: int = 0
    noise: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def fill_noise(self) -> None:
        """The block of noise that belongs to the current iteration; counts start anew."""
        completed = self.state.completed
        self.noise = noise_block(
            self.shapes, seed=self.seed, block=self.iteration // BLOCK, chains=len(completed), like=self.inverse_mass
        )
        self.state = self.state._replace(completed=torch.zeros_like(completed))


def advance(run: Run, iterations: int, stop: Stop) -> tuple[Tensor, Stats, int]:
    """Runs every chain `iterations` further, all within one block of noise.

    Returns:
        Positions (chain, iterations, dim), stats (chain, iterations), and how many of them every chain completed:
        all, unless `stop` said to end early.
    """
    offset, chains, like = run.iteration % BLOCK, len(run.state.completed), run.inverse_mass
    if offset == 0:
        run.fill_noise()
    positions = like.new_zeros(chains, iterations, run.density.dim)
    stats = {name: like.new_zeros(chains, iterations, dtype=torch.float64) for name in FIELDS}
    assert run.drive is not None
    run.state = run.drive(
        run.state,
        run.noise,
        like.new_tensor(run.step_size),
        like,
        offset + iterations,
        lambda draw: _keep(draw, offset, positions, stats),
        stop,
    )
    completed = int(run.state.completed.min()) - offset
    run.iteration += completed
    return positions, stats, completed


def _keep(draw: Draw, offset: int, positions: Tensor, stats: Stats) -> None:
    """Writes the completed iterations to their places."""
    if not bool(draw.done.any()):
        return
    chain = draw.done.nonzero()[:, 0]
    at = draw.iteration[chain] - offset
    positions[chain, at] = draw.position[chain]
    for name in FIELDS:
        stats[name][chain, at] = getattr(draw, name)[chain].double()


def warm_up(run: Run, warmup: int, target: float, fixed: bool, stop: Stop, show: Show) -> None:
    """Tunes step size and mass, one iteration of all chains at a time; `fixed` leaves the step size alone."""
    first, ends = adapt.windows(warmup)
    averaging = adapt.restart(run.step_size)
    spread = adapt.no_spread(run.inverse_mass, len(run.state.completed))
    for i in range(1, warmup + 1):
        position, stats, completed = advance(run, 1, stop)
        if not completed:
            return
        accept = float(stats["accept"].mean())
        averaging = adapt.update(averaging, accept, target)
        run.step_size = run.step_size if fixed else adapt.now(averaging)
        spread = adapt.add(spread, position[:, 0]) if i > first else spread
        if i in ends:
            run.inverse_mass = adapt.inverse_mass(spread, run.inverse_mass)
            spread = adapt.no_spread(run.inverse_mass, len(run.state.completed))
            run.step_size = run.step_size if fixed else first_step_size(run, i)
            averaging = adapt.restart(run.step_size)
        show(i, f"warm-up, accept {accept:.2f}, step {run.step_size:.2g}")
    run.step_size = run.step_size if fixed or not warmup else adapt.average(averaging)


def first_step_size(run: Run, when: int) -> float:
    """A step size to begin tuning with, at the chains' present positions."""
    generator = torch.Generator().manual_seed(block_seed(run.seed, 0, when, "step size"))
    at = run.kernel.position_of(run.state)
    momentum = torch.randn(at.shape, generator=generator, dtype=torch.float64).to(at)
    return adapt.reasonable_step(run.density, at, run.inverse_mass, momentum, run.step_size)


def collect(run: Run, draws: int, thin: int, stop: Stop, show: Show) -> tuple[Tensor, Stats]:
    """Draws of all chains after warm-up, (chain, draw, dim), every `thin`-th iteration."""
    run.iteration = -(-run.iteration // BLOCK) * BLOCK  # sampling begins with a block of its own
    positions: list[Tensor] = []
    stats: list[Stats] = []
    wanted, kept, divergences = draws * thin, 0, 0
    while kept < wanted and not stop():
        position, stat, completed = advance(run, min(BLOCK, wanted - kept), stop)
        positions.append(position[:, :completed])
        stats.append({name: value[:, :completed] for name, value in stat.items()})
        kept += completed
        divergences += int(stats[-1]["diverging"].sum())
        show(kept, f"accept {float(stats[-1]['accept'].mean()):.2f}, {divergences} divergences")
    whole = torch.cat([run.inverse_mass.new_zeros(len(run.state.completed), 0, run.density.dim), *positions], 1)
    return whole[:, thin - 1 :: thin], {
        name: torch.cat([stat[name] for stat in stats], 1)[:, thin - 1 :: thin] for name in FIELDS if stats
    }


def _prepare(
    problem: Problem,
    kernel: Any,
    engine: str,
    chains: int,
    seed: int,
    init: Any,
    max_depth: int,
    iterations: int,
    show: Show,
) -> tuple[Run, str, float]:
    """The chains at their starts with a step function; also the engine chosen and the seconds to compile."""
    target = density(problem, "loop" if engine == "loop" else "auto")
    engine = choose_engine(engine, target, iterations)
    position = starts(target, chains, seed, init)
    lp, grad = target.value_and_grad(position)
    state = kernel.init(position, lp, grad, max_depth)
    run = Run(target, kernel.shapes(target.dim, max_depth), seed, kernel, state, torch.ones_like(position[0]))
    fixed = {name: value.to(position.device) for name, value in kernel.constants(max_depth).items()}
    if engine != "compiled":
        run.drive = eager_drive(kernel, target, fixed)
        return run, engine, 0.0
    show(0, COMPILING)
    run.fill_noise()
    one = torch.tensor(1, device=position.device)
    example = (run.state, run.noise, position.new_tensor(1.0), run.inverse_mass, one)
    run.drive, engine, seconds = compiled_drive(kernel, target, fixed, example)
    return run, engine, seconds


def fit(
    problem: Problem,
    *,
    kernel: Any,
    seed: int = 0,
    draws: int = 1000,
    chains: int = 4,
    warmup: int = 1000,
    thin: int = 1,
    init: Any = "uniform",
    step_size: float | None = None,
    target_accept: float | None = None,
    max_depth: int = 10,
    engine: str = "auto",
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Posterior:
    """Runs a Markov kernel on all chains at once.

    Args:
        problem: The problem, on its device and in its dtype.
        kernel: A kernel module, see `zoo.infer.kernel`.
        seed: Chain c's noise depends on (seed, c) only.
        draws: Draws a chain, after warm-up and thinning.
        chains: Number of chains: one batch on one device.
        warmup: Iterations in which step size and mass are tuned; not kept.
        thin: Keep every `thin`-th draw.
        init: See `zoo.infer.starts`.
        step_size: A fixed step size; None: tuned in warm-up.
        target_accept: Acceptance to tune to, between 0 and 1; None: the kernel's own.
        max_depth: At most 2^max_depth - 1 leapfrog steps a draw.
        engine: "auto", "compiled", "eager", "loop" or "pyro" (stock pyro.infer.mcmc, chains in turn).
        progress: None: only in a terminal.
        max_seconds: End in order after this long and keep what there is.

    Returns:
        `Posterior` of kind "markov".
    """
    name = kernel.__name__.rpartition(".")[2]
    _check_options(step_size, max_depth)
    target = _target(kernel, target_accept)
    if engine == "pyro":
        from . import stock

        return stock.fit_stock(
            problem, name, chains=chains, warmup=warmup, draws=draws, thin=thin, init=init, seed=seed,
            target_accept=target, max_depth=max_depth, step_size=step_size, progress=progress, max_seconds=max_seconds,
        )  # fmt: skip
    total = warmup + draws * thin
    with stoppable(max_seconds) as stop, progress_bar(name, total, progress) as show:
        run, engine, compiling = _prepare(problem, kernel, engine, chains, seed, init, max_depth, total, show)
        begun = time.perf_counter()
        run.step_size = first_step_size(run, 0) if step_size is None else step_size
        warm_up(run, warmup, target, step_size is not None, stop, show)
        warmed = time.perf_counter()
        whole, stats = collect(run, draws, thin, stop, lambda done, text: show(warmup + done, text))
        reason = stop() if whole.shape[1] < draws else ""
    seconds = {"compile": compiling, "warmup": warmed - begun, "sample": time.perf_counter() - warmed}
    return _posterior(run, name, whole, stats, reason, seconds, engine)


def _check_options(step_size: float | None, max_depth: int) -> None:
    if step_size is not None and not 0 < step_size < float("inf"):
        raise ValueError(f"step_size must be positive, got {step_size!r}. Leave it out to have it tuned.")
    if isinstance(max_depth, bool) or not isinstance(max_depth, int) or not 1 <= max_depth <= 15:
        raise ValueError(f"max_depth must be a whole number from 1 to 15, got {max_depth!r}. Usual: 10.")


def _target(kernel: Any, target_accept: float | None) -> float:
    if target_accept is None:
        return float(kernel.TARGET_ACCEPT)
    if not 0 < target_accept < 1:
        raise ValueError(f"target_accept must lie between 0 and 1, got {target_accept!r}. Usual: .6 to .99.")
    return target_accept


def _posterior(
    run: Run, method: str, whole: Tensor, stats: Stats, reason: str, seconds: dict[str, float], engine: str
) -> Posterior:
    kept = whole.shape[1]
    if not kept:
        raise RuntimeError(
            f"{method} ended before its first draw ({reason or 'no draws'}). Give it more time, or lower warmup."
        )
    divergences = int(stats["diverging"].sum())
    outcome = f"{reason} after {kept} draws" if reason else "ok"
    if divergences and not reason:
        outcome = f"{divergences} of {whole.shape[0] * kept} draws diverged: raise target_accept, or reparameterise"
    discrete = {"depth": torch.int64, "steps": torch.int64, "diverging": torch.bool}
    kinds = {name: value.to(discrete.get(name, value.dtype)) for name, value in stats.items()}
    settings = {"engine": engine, "step_size": run.step_size}
    draws = run.density.constrain(whole)
    return Posterior(
        run.density.problem, method, "markov", draws, stats=kinds, seconds=seconds, settings=settings, outcome=outcome
    )
