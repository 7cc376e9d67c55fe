"""`fit`: the one loop that drives every kernel: start, warm up, collect, judge."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from zoo.core.no_result import NoResult
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem

from . import mass as masses
from .centred import centred, may_centre
from .checkpoint import Checkpoint, noted
from .density import Density, density
from .engine import choose_engine
from .graph import COMPILING
from .interrupt import stoppable
from .journal import Journal
from .march import POSITION, Run, Show, Stats, at_start, put_on
from .piece_size import in_pieces
from .prior_width import width_for
from .progress import progress as progress_bar
from .sampling import collect
from .starts import starts
from .stream import Stream, stride
from .stuck import Watch, patience
from .subsample import batch_size, check_subsample
from .verdict import judged
from .warmup import Plan, warm

log = logging.getLogger("zoo")


def first_run(
    target: Density, kernel: Any, own: dict[str, Any], kind: str, chains: int, seed: int, init: Any,
    at: Tensor | None = None, seconds: float | None = None,
) -> Run:  # fmt: skip
    """Chains at their starts, or at positions (chain, dim), with nothing learned yet; `own` options, `kind` of mass."""
    width = width_for(kind, target, seed)
    position = starts(target, chains, seed, init, width, seconds) if at is None else at
    setup, state = at_start(kernel, target, position, own)
    mass = masses.unit(position[0], masses.rank_of(kind, target.dim))
    prior = None if width is None else width.scale
    mass = mass if prior is None else mass._replace(scale=prior)
    watch = Watch(_name(kernel), patience(setup.target or kernel.TARGET_ACCEPT))
    size = batch_size(setup.noise)
    n = check_subsample(target.problem, target.sites, size) if size else 0
    tuned = {"step_size": 1.0, **setup.tuned}
    return Run(target, kernel, setup, seed, state, mass, tuned, watch, width=prior, rows=n)


def _prepare(
    problem: Problem, kernel: Any, own: dict[str, Any], engine: str, chains: int, seed: int, init: Any,
    kind: str, centre: bool, temperature: float, draws: int, iterations: int, seconds: float | None, journal: Journal,
    show: Show,
) -> Run:  # fmt: skip
    """The chains at their starts, or about where they were stored, with a step function; tells the journal which."""
    target = density(problem, "loop" if engine == "loop" else "auto", temperature)
    target = centred(target) if may_centre(kernel, target.dim, own, kind, centre) else target
    engine = choose_engine(engine, target, iterations)
    if engine == "compiled" and batch_size(kernel.setup(target.dim, **own).noise) is None:
        target = in_pieces(target, chains)
    at = journal.stored["run"]["position"] if journal.stored else None
    run = first_run(target, kernel, own, kind, chains, seed, init, at, seconds)
    if engine == "compiled":
        show(0, COMPILING)
    engine, compiling = put_on(engine, run)
    journal.seconds["compile"] += compiling
    journal.begin(engine, stride(chains * draws * target.dim, journal.kept is not None))
    return run


def _name(kernel: Any) -> str:
    return str(kernel.__name__.rpartition(".")[2])


def fit(
    problem: Problem,
    *,
    kernel: Any,
    seed: int = 0,
    draws: int = 1000,
    chains: int | None = None,
    warmup: int = 1000,
    thin: int = 1,
    init: Any = "uniform",
    step_size: float | None = None,
    target_accept: float | None = None,
    mass: str = "diagonal",
    centre: bool = True,
    temperature: float = 1.0,
    engine: str = "auto",
    keep_warmup: bool = False,
    progress: bool | None = None,
    max_seconds: float | None = None,
    checkpoint: Checkpoint | None = None,
    **own: Any,
) -> Posterior:
    """Runs a Markov kernel on all chains at once.

    Args:
        problem: The problem, on its device and in its dtype.
        kernel: A kernel module, see `zoo.infer.kernel`.
        seed: Chain c's noise depends on (seed, c) only.
        draws: Draws a chain, after warm-up and thinning.
        chains: Number of chains, one batch on one device; None: the kernel's usual number (4; 16 for chees).
        warmup: Iterations in which step size and mass are tuned; not kept.
        thin: Keep every `thin`-th draw.
        init: See `zoo.infer.starts`.
        step_size: A fixed step size; None: tuned in warm-up.
        target_accept: Acceptance to tune to, between 0 and 1; None: the kernel's own. sgld and its kind have none.
        mass: "diagonal", "low_rank" (10 directions beside the diagonal) or "dense", learned in warm-up; "unit":
            none; "prior": as wide as the prior, which suits networks, and chains that start "uniform" do so in its
            units. A step size is in units of the mass.
        centre: Sample the mean of f over the rows in place of an intercept, where the model has one: the same draws by
            longer steps, see `zoo.infer.centred`. mass="unit", minibatches, methods without a target_accept (sgld and
            its kind) and engine="pyro" never do.
        temperature: T of the target p(theta | y)^(1/T), T = 1 the posterior; below 1 is a "cold posterior".
        engine: "auto", "compiled", "eager", "loop" or "pyro" (stock pyro.infer.mcmc, chains in turn).
        keep_warmup: Also keep what was drawn in warm-up, as `posterior.warmup`.
        progress: None: only in a terminal.
        max_seconds: End in order after this long and keep what there is.
        checkpoint: A directory: the run is kept in it, and the same call goes on where it was, see `zoo.run`.
        own: The kernel's own options, see its `setup`.

    Returns:
        `Posterior` of kind "markov"; its outcome is the verdict of `zoo.infer.verdict`.
    """
    chains = chains_of(kernel, chains)
    check_target(kernel, target_accept)
    if isinstance(temperature, bool) or not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be a positive number, got {temperature!r}. 1 is the posterior itself.")
    if engine == "pyro":
        if mass != "diagonal" or temperature != 1.0 or keep_warmup:
            raise ValueError(
                "engine='pyro' takes mass='diagonal', temperature=1 and no keep_warmup. Use engine='auto'."
            )
        from . import stock

        with noted(checkpoint, max_seconds):
            return stock.fit_stock(
                problem, _name(kernel), chains=chains, warmup=warmup, draws=draws, thin=thin, init=init, seed=seed,
                target_accept=target_accept or kernel.TARGET_ACCEPT, step_size=step_size, progress=progress,
                max_seconds=max_seconds, **stock.own_options(_name(kernel), own),
            )  # fmt: skip
    total = warmup + draws * thin
    with stoppable(max_seconds) as stop, progress_bar(_name(kernel), total, progress) as show:
        journal = Journal(checkpoint)
        engine = engine if checkpoint is None else checkpoint.engine(engine)
        run = _prepare(
            problem, kernel, own, engine, chains, seed, init, mass, centre, temperature, draws, total, max_seconds,
            journal, show,
        )  # fmt: skip
        target = target_accept or run.setup.target or kernel.TARGET_ACCEPT
        warmed = warm(run, Plan(warmup, target, mass, step_size, keep_warmup), journal, stop, show)
        journal.tick("warmup")
        reason = stop()
        if warmed:
            reason = collect(run, draws, thin, journal, stop, lambda done, text: show(warmup + done, text))
            journal.tick("sample")
    settings = {"engine": journal.engine, "mass": mass, "temperature": temperature, "chains": chains, **run.tuned}
    return _posterior(run, journal, reason, settings, thin)


def chains_of(kernel: Any, chains: int | None) -> int:
    """The number of chains: as given, or the kernel's usual one; ValueError where it needs more."""
    chains = getattr(kernel, "CHAINS", 4) if chains is None else chains
    least = getattr(kernel, "LEAST_CHAINS", 1)
    if chains < least:
        raise ValueError(
            f"{_name(kernel)} learns from all chains together and needs at least {least}, got {chains}. "
            "Raise chains, or use 'nuts'."
        )
    return chains


def check_target(kernel: Any, target_accept: float | None) -> None:
    """ValueError for an acceptance to tune to that is none, or of a kernel that has none."""
    if target_accept is None:
        return
    if kernel.TARGET_ACCEPT is None:
        raise ValueError(f"{_name(kernel)} accepts everything, so it takes no target_accept. Give a step_size.")
    if not 0 < target_accept < 1:
        raise ValueError(f"target_accept must lie between 0 and 1, got {target_accept!r}. Usual: .6 to .99.")


def _typed(stats: Stats) -> Stats:
    discrete = {"depth": torch.int64, "steps": torch.int64, "diverging": torch.bool}
    return {name: value.to(discrete.get(name, value.dtype)) for name, value in stats.items()}


def _posterior(run: Run, journal: Journal, reason: str, settings: dict[str, Any], thin: int) -> Posterior:
    whole, stats = _drawn(run, journal.draws)
    method = _name(run.kernel)
    if not whole.shape[1]:
        go_on = f"; {journal.kept.how_to_go_on()}" if journal.kept else ""
        raise NoResult(
            f"{method} ended before its first draw ({reason or 'no draws'}{go_on}). Give it more time, or lower warmup."
        )
    warmup = None
    if journal.warmup.count:
        before, known = _drawn(run, journal.warmup)
        warmup = {"draws": run.density.constrain(before), "stats": _typed(known)}
    if "lp" not in stats:  # of all rows: what a kernel on minibatches has not seen
        stats["lp"] = run.density.log_prob(whole.flatten(0, 1)).reshape(whole.shape[:2])
    intercept = run.density.intercept
    posterior = Posterior(
        run.density.problem, method, "markov", run.density.constrain(whole),
        weights=weights_of(run, whole, thin * journal.draws.step), stats=_typed(stats), seconds=journal.seconds,
        settings=settings | {"centred": intercept.site if intercept else None}, warmup=warmup,
    )  # fmt: skip
    return judged(posterior, reason, run.setup.biased)


def _drawn(run: Run, stream: Stream) -> tuple[Tensor, Stats]:
    """Positions (chain, draw, dim) and stats (chain, draw) of a stream."""
    stats = stream.whole()
    none = run.mass.scale.new_zeros(len(run.state.completed), 0, run.density.dim)
    return stats.pop(POSITION, none), stats


def weights_of(run: Run, whole: Tensor, thin: int) -> Tensor | None:
    """Weights (chain, draw) of a kernel whose draws do not count alike."""
    if not hasattr(run.kernel, "weights"):
        return None
    t = torch.arange(1, whole.shape[1] + 1, dtype=torch.float64) * thin
    each = run.kernel.weights(t, run.tuned, run.setup.constants)
    return None if each is None else each.expand(whole.shape[:2]).clone()
