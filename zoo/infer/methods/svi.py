"""Stochastic variational inference: the member of a family q closest to the posterior, by gradient ascent.

    ELBO(q) = E_q[log p(y | theta)] - KL(q, prior) = log p(y) - KL(q, posterior)
    estimated by (n / M) sum_{i in batch} log p(y_i | theta) - KL,  theta = g(parameters, noise)

The prior counts once, whatever M: the estimate is unbiased for every batch size.

Slide prints sum_{i in batch} log p - KL and the update theta + eta Delta with Delta = grad(-ELBO) (Thome);
this computes (n / M) sum_{i in batch} log p - KL and goes uphill.

Source: Thome, "Stochastic variational inference, Algorithm 1"; Kingma & Welling 2014.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from guides.options import names
from zoo.core.base_noise import Unanswerable
from zoo.core.local import affordable_draws, local_sites
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.core.randomness import seeded
from zoo.core.sites import sites
from zoo.infer.adam import schedule
from zoo.infer.ascent import Climb, climb
from zoo.infer.checkpoint import Checkpoint
from zoo.infer.convergence import at_rest, still_climbing
from zoo.infer.estimate import chunk, estimate
from zoo.infer.families import choose, make
from zoo.infer.interrupt import stoppable
from zoo.infer.large import draws_that_fit, measured_rows
from zoo.infer.looped import Looped
from zoo.infer.prepared import Batch, HiddenParameters, Prepared, prepare
from zoo.infer.progress import progress as progress_bar
from zoo.infer.score import GRADIENTS
from zoo.infer.seeds import block_seed
from zoo.infer.step_source import Fit
from zoo.infer.variational import Variational

logger = logging.getLogger("zoo")
FULL_PACE = 0.9  # of the way that so many steps at their lr can go


def fit(
    problem: Problem,
    *,
    guide: Any = None,
    guide_options: dict[str, Any] | None = None,
    steps: int = 5000,
    lr: float = 0.01,
    particles: int = 1,
    batch_size: int | None = None,
    restarts: int = 1,
    point: Sequence[str] = (),
    gradient: str = "pathwise",
    noise_per: str | None = None,
    draws: int = 1000,
    stop: str = "steps",
    seed: int = 0,
    engine: str = "auto",
    progress: bool | None = None,
    max_seconds: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Fits a guide and draws from it.

    Args:
        problem: The problem, on its device and in its dtype.
        guide: A name in guides/, a factory model -> guide, a Pyro autoguide class or instance; None: the
            model's own guide, or "normal".
        guide_options: Keyword arguments of the guide's family.
        steps: Steps of Adam.
        lr: Its learning rate: constant for the first half of the steps, then a cosine down to lr / 100.
        particles: Draws of the guide for each gradient.
        batch_size: Rows for each gradient; None: all of them.
        restarts: Independent fits, each from its own start; they are the chain axis of the draws.
        point: Sites that get a point estimate instead of a distribution.
        gradient: "pathwise": along the draws, which are functions of the parameters. "score": of log q at the draws,
            for guides that cannot be reparameterised, at the price of variance; see `zoo.infer.score`.
        noise_per: "batch": all rows of a step share each particle's draw. "row": every row has its own, which has the
            same mean and less variance; see `zoo.infer.rows`. None: the guide's own choice, rows for dropout's masks.
        draws: Draws from each fitted guide.
        stop: "steps": after `steps` steps. "converged": `steps` are the most; once the ELBO lies still, after t
            steps at the full rate (looked at from 500 on), the rate falls over the next t and the run ends. The
            result is that of steps=2 t, which settings call steps_taken.
        seed: Restart r's start, noise and batches depend on (seed, r) only.
        engine: "auto", "compiled", "eager" or "loop", see `zoo.infer.ascent`.
        progress: None: only in a terminal.
        max_seconds: End in order after this long and keep what there is.
        checkpoint: A directory: the fit is kept in it, and the same call goes on where it was, see `zoo.run`.

    Returns:
        `Posterior` of kind "iid"; history elbo, expected_log_likelihood, kl (restart, step); stats lp, logq (not
        where q has no density); settings elbo (of the best restart), elbo_se, elbo_restarts, best, elbo_is_bound,
        no_density (why q has none, or ""), point, engine.

    Raises:
        ValueError: For options out of range, unknown guides, and guides that do not fit the model.
    """
    check(problem, lr, particles, batch_size, stop, gradient, noise_per)
    point, guide_options = names("point", point), options_of(guide_options)
    begun = time.perf_counter()
    family = guide if guide is not None else (problem.guide or "normal")
    variational = set_up(problem, family, guide_options, point, restarts, seed, gradient=gradient, noise_per=noise_per)
    if batch_size is not None:
        variational.check_batch(batch_size)
    set_up_in = time.perf_counter() - begun
    with stoppable(max_seconds) as ended, progress_bar("svi", steps, progress) as show:
        climbed = climb(
            variational, steps=steps, lr=lr, particles=particles,
            batch_size=None if batch_size == len(problem.tensor) else batch_size,
            seed=seed, engine=engine, early=stop == "converged", stop=ended, show=show, kept=checkpoint,
        )  # fmt: skip
    if checkpoint is not None:
        checkpoint.unfinished = bool(climbed.reason)
    warmed = time.perf_counter()
    local = local_sites(problem)
    draws = affordable_draws(problem, draws, restarts) if local else draws
    values, stats = _draws(variational, climbed.params, draws, seed)
    settings = _settings(variational, climbed, seed, family) | ({"draws": draws} if local else {})
    if local and guide is not None and not isinstance(guide, str):
        problem = dataclasses.replace(problem, guide=guide)  # which later gives the latents of new rows
    seconds = {
        "compile": climbed.compiling,
        "warmup": set_up_in + climbed.seconds,
        "sample": time.perf_counter() - warmed,
    }
    return Posterior(
        problem, "svi", "iid", values, stats=stats, history=climbed.history,
        seconds=seconds, settings=settings, outcome=outcome_of(climbed, stop, variational.start, lr),
        params=variational.layout.named(climbed.params) if local else {},
    )  # fmt: skip


def check(
    problem: Problem, lr: float, particles: int, batch_size: int | None, stop: str, gradient: str, noise_per: str | None
) -> None:
    """ValueError for options out of range, and for batches of data whose rows have no plate."""
    _check_gradient(gradient, noise_per)
    if not lr > 0:
        raise ValueError(f"lr must be positive, got {lr!r}. Try 0.01.")
    if particles < 1:
        raise ValueError(f"particles must be a whole number, at least 1, got {particles!r}.")
    if stop not in ("steps", "converged"):
        raise ValueError(f"stop must be 'steps' or 'converged', got {stop!r}. Leave it out for all the steps.")
    if batch_size is None:
        return
    if not isinstance(problem.data, Data):
        raise ValueError("batch_size needs a problem on zoo.Data; this one is on a dict. Leave batch_size out.")
    n = len(problem.data.x)
    if not 1 <= batch_size <= n:
        raise ValueError(f"batch_size must be between 1 and the {n} rows of the data, got {batch_size!r}.")
    outside = [name for name, site in sites(problem).observed.items() if not site.local] if batch_size < n else []
    if outside:  # it would count once instead of n / M times
        raise ValueError(
            f"batch_size={batch_size}: observed site '{outside[0]}' lies outside plate '{problem.names['plate']}', so "
            "its rows cannot be weighted. Put it inside, or leave batch_size out."
        )


def _check_gradient(gradient: str, noise_per: str | None) -> None:
    if gradient not in GRADIENTS:
        raise ValueError(f"gradient must be 'pathwise' or 'score', got {gradient!r}. Leave it out for 'pathwise'.")
    if noise_per not in (None, "batch", "row"):
        raise ValueError(f"noise_per must be 'batch' or 'row', got {noise_per!r}. Leave it out for the guide's choice.")
    if gradient == "score" and noise_per == "row":
        raise ValueError("noise_per='row' needs gradient='pathwise', got 'score'. Leave noise_per out.")


def options_of(options: Any) -> dict[str, Any]:
    """A guide's options as a dict; ValueError for anything else."""
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"guide_options must be a dict, got {options!r}. For example guide_options={{'rank': 3}}.")
    return dict(options or {})


def set_up(
    problem: Problem,
    guide: Any,
    options: dict[str, Any],
    point: Sequence[str],
    restarts: int,
    seed: int,
    *,
    gradient: str = "pathwise",
    noise_per: str | None = None,
) -> Fit:
    """The guide's parameters at each restart's start, on the engine that the guide allows."""
    prepared = first_runs(problem, guide, options, point, restarts, seed)
    return on_engine(problem, prepared, gradient=gradient, noise_per=noise_per)


def first_runs(
    problem: Problem, guide: Any, options: dict[str, Any], point: Sequence[str], restarts: int, seed: int
) -> list[Prepared]:
    """The guide, once run, at each restart's start."""
    factory = choose(guide, options, point)
    prepared = []
    for r in range(restarts):
        start = block_seed(seed, r, 0, "guide")
        with seeded(start, problem.tensor.device):  # a factory may draw its networks' first weights
            made = make(factory, problem.model)
        prepared.append(prepare(made, problem, start))
    return prepared


def on_engine(problem: Problem, prepared: list[Prepared], *, gradient: str, noise_per: str | None) -> Fit:
    """The engine that guide and model allow: "vmap", or "loop" where they cannot be vectorised, which is said."""
    try:
        fit = Variational(problem, prepared, gradient=gradient, noise_per=noise_per)
        fit.check_vmap()
    except (Unanswerable, HiddenParameters, RuntimeError) as error:
        why = " ".join(str(error).split()).split(". ")[0]
        if noise_per == "row":
            raise ValueError(
                f"noise_per='row' needs guide and model in vectorised form ({why}). Use noise_per='batch'."
            ) from None
        logger.info("svi: one particle at a time (engine 'loop'), because guide or model can't be vectorised: %s", why)
        return Looped(problem, prepared, gradient=gradient)
    return fit


# -- after the ascent --------------------------------------------------------------------------------------


def _draws(fit: Fit, params: Tensor, draws: int, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """{site: (restart, draw, *shape)} and stats lp, logq (restart, draw)."""
    draws = draws_that_fit(fit, draws)
    batch, scale, some = measured_rows(fit, draws)
    rows = []
    for r, flat in enumerate(params):
        noise = fit.noise(seed, r, 0, (draws,), "draws", rows=some)
        rows.append(drawn(fit, flat, noise, batch, scale))
    stats = {"lp": torch.stack([row[1] for row in rows]), "logq": torch.stack([row[2] for row in rows])}
    if fit.no_density or some:
        del stats["logq"]
    return {name: torch.stack([row[0][name] for row in rows]) for name in rows[0][0]}, stats


def drawn(
    fit: Fit, flat: Tensor, noise: Tensor, batch: Batch, scale: float = 1.0
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """{site: (draw, *shape)}, lp and logq (draw,) of one restart's parameters, as many at once as memory allows."""
    parts = [fit.draw(flat, part, batch, scale) for part in noise.split(chunk(fit))]
    values = {name: torch.cat([part[0][name] for part in parts]) for name in parts[0][0]}
    return values, torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts])


def _settings(fit: Fit, climbed: Climb, seed: int, guide: Any) -> dict[str, Any]:
    found = estimate(fit, climbed.params, seed)
    return {
        "engine": climbed.engine,
        "guide": guide if isinstance(guide, str) else getattr(guide, "__name__", type(guide).__name__),
        "point": list(fit.points),
        "steps_taken": climbed.history["elbo"].shape[1],
        "elbo": found.elbo,
        "elbo_se": found.error,
        "elbo_restarts": found.each,
        "best": found.best,
        # A point has no density: its ELBO is log p(y, m) and bounds nothing.
        "elbo_is_bound": not fit.points and not fit.no_density,
        "no_density": fit.no_density,
    }


def outcome_of(climbed: Climb, stop: str, start: Tensor, lr: float) -> str:
    """What came of an ascent from these parameters (restart, size): "ok", or why not and what to do."""
    elbo = climbed.history["elbo"]
    if climbed.bad is not None:
        step, restart = climbed.bad
        where = f" of restart {restart}" if len(elbo) > 1 else ""
        return (
            f"the ELBO or its gradient is not finite at step {step}{where}: lower lr, raise particles, or "
            "start elsewhere (guide_options={'init': ...}); what is kept is the last finite step"
        )
    if climbed.reason:
        return f"{climbed.reason} after {elbo.shape[1]} steps"
    steps, parameters = elbo.shape[1], start.shape[1]
    # One that has gone as far as lr lets it has not turned round: its ELBO may be too large to show the climb.
    reached = (climbed.params - start).abs().amax(1) > FULL_PACE * float(schedule(steps, lr, start).lr.sum())
    moving = [r for r, curve in enumerate(elbo) if still_climbing(curve) or not at_rest(curve, parameters=parameters)]
    if bool(reached.any()) and not moving:
        return "not converged: a parameter has moved at the full lr to the end: raise lr or steps, or scale x and y"
    if moving:
        which = f" (restarts {moving})" if len(elbo) > 1 else ""
        more = "raise steps" if stop == "steps" else "use stop='steps' with more of them"
        return f"not converged: {more} or lower lr{which}"
    return "ok"
