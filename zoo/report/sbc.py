"""Simulation-based calibration: is what a method returns the posterior, whatever the data?

    theta ~ p(theta),  y ~ p(y | x, theta),  draws ~ the method's posterior of y:
    the rank of theta among the draws is uniform for every quantity if the method is right

Ranks that pile up at both ends: too narrow; in the middle: too wide; at one end: shifted.

Source: Talts et al. 2018; Saeilynoja, Buerkner & Vehtari 2022 (the band); Modrak et al. 2023 (the log likelihood).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from zoo.core.checks import check_seed, whole
from zoo.core.no_result import NoResult
from zoo.core.problem import Problem
from zoo.infer.dispatch import asked_of, load, methods, run
from zoo.infer.each import fits
from zoo.infer.interrupt import stoppable
from zoo.infer.progress import progress as progress_bar
from zoo.infer.seeds import block_seed
from zoo.infer.simulated import Simulated, check_simulable, simulated
from zoo.infer.threads import running_on

from .calibrated import Calibrated, Seen
from .ranks import ranked

# Draws of a Markov chain for each that is kept: an autocorrelation time of so many is thinned away. (With 4, `chees` on
# the lecture BNN keeps 21 to 63 of 63.)
LONGER = 16
NOT_HERE = ("checkpoint", "checkpoint_seconds", "keep_warmup")


def sbc(
    problem: Problem | str,
    method: str,
    *,
    data_sets: int = 100,
    draws: int = 63,
    alpha: float = 0.01,
    seed: int = 0,
    dtype: Any = None,
    device: Any = None,
    progress: bool | None = None,
    max_seconds: float | None = None,
    **options: Any,
) -> Calibrated:
    """Simulation-based calibration of a method on a model, at the inputs of a problem.

    Parameters are drawn from the model's own prior and y from the model given them and x; the method is fitted to each
    y, and the true value of every compared quantity is ranked among its draws: f at 20 rows of x_test or fewer,
    scalars such as the noise, and the log likelihood of y. Uniform ranks pass; data sets too few to
    fail, and ranks of fits none of which is ok, are undecided.

    Samplers run many data sets as one batch, each with chains, step size, mass and trajectory length of its own; none
    waits for another, and the place of one that is done is taken by the next. svi climbs all of them at once, each
    with its own start, noise and end, and so does laplace to its modes. One after another go exact and prior, svi
    where rows have latents of their own or q has more than 50,000 parameters, models that vmap refuses, and
    engine="loop" or "pyro".

    Args:
        problem: A problem, or a lecture model's name; its y is not looked at.
        method: Any that gives draws: exact, svi, laplace, nuts, chees, sgld, ... (map gives a point).
        data_sets: How many to simulate.
        draws: L: the draws that the truth is ranked among. Samplers draw 16 times as many over all chains and keep
            every 16th, or fewer where they mix worse (see `zoo.report.ranks`); raise thin then.
        alpha: The chance that a right method fails, over all quantities and both tests together (Holm).
        seed: Data set i and its fit depend on (seed, i) only.
        dtype, device: As for `zoo.run`.
        progress: None: only in a terminal.
        max_seconds: End in order after this long. What was ranked by then is kept, as after Ctrl-C.
        options: The method's own, see `zoo show METHOD`.

    Returns:
        `Calibrated`: print it; `passed`, `state`, `table`, `ranks`, `plot(path)`.

    Raises:
        ValueError: For a model that no data can be simulated from (an improper prior), a method without draws, and
            options that the method does not know.
        NoResult: If it was stopped before the first data set was done.

    Source: Talts, Betancourt, Simpson, Vehtari & Gelman 2018, "Validating Bayesian inference algorithms".
    """
    problem = load(problem) if isinstance(problem, str) else problem
    _check(problem, method, draws, alpha, options)
    data_sets, seed, begun = whole("data_sets", data_sets), check_seed(seed), time.perf_counter()
    check_simulable(problem)
    problem = run(problem, "prior", draws=1, dtype=dtype, device=device).problem
    made = [simulated(problem, i, seed) for i in range(data_sets)]
    options = options | _lengths(method, draws, options)
    seen = Seen()
    with stoppable(max_seconds) as stop, progress_bar(f"sbc {method}", data_sets, progress) as show:
        seeds = [block_seed(seed, i, 0, "fit") for i in range(data_sets)]
        for found in _ranks(made, method, options, seeds, draws, stop):
            seen.add(*found)
            show(len(seen.ranks))
        reason = stop()
    if not seen.ranks:
        raise NoResult(f"sbc ended before its first data set was done ({reason}). Give it more time.")
    settings = {"options": options, "seed": seed, "asked": data_sets, "seconds": time.perf_counter() - begun}
    return seen.judged(problem.name, method, draws, alpha, reason, settings)


def _ranks(
    made: list[Simulated], method: str, options: dict[str, Any], seeds: list[int], draws: int, stop: Any
) -> Iterator[tuple[Any, ...]]:
    for i, fit in fits([one.problem for one in made], method, options, seeds, stop):
        with running_on(1):  # a few rows: threads would only wait for each other
            found = ranked(fit, made[i].truth, draws, np.random.default_rng(seeds[i]))
        yield i, fit, found


def _check(problem: Any, method: str, draws: int, alpha: float, options: dict[str, Any]) -> None:
    """What can be said before anything runs."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a zoo.Problem, got {type(problem).__name__}. Make one: zoo.load(name).")
    if method == "map":
        raise ValueError("map gives a point, and a truth has no rank among one draw. Use laplace, svi or nuts.")
    whole("draws", draws)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}. Usual: 0.01.")
    for name in NOT_HERE:
        if name in options:
            raise ValueError(f"{name} is no option of sbc, which makes many fits and keeps none. Leave it out.")
    asked_of(method, options)


def _lengths(method: str, draws: int, options: dict[str, Any]) -> dict[str, int]:
    """Draws of each fit: L where they are independent, so many a chain where they are not."""
    module = importlib.import_module(methods()[method])
    if hasattr(module, "fit"):
        return {"draws": draws}
    given: Any = options.get("chains")
    chains: int = given or getattr(module, "CHAINS", 4)
    return {"draws": max(4, -(-LONGER * draws // chains))}
