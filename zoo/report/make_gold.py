"""`make_gold`: a run long enough to be a reference, its certificates, and the file; or a refusal that names why.

16 dispersed chains x 1,000 draws in float64, doubled until f at every probe, every compared scalar and its log, and
lp have R-hat < 1.01 and bulk and tail ESS > 4,000; at 64,000 draws or the time given it refuses. At most one draw in
1,000 may diverge, and where any did a second run at target_accept .99 must agree; E-BFMI > .3 in every chain.
Weights may be bimodal; f that differs between chains is refused by its R-hat.

Source: Magnusson et al. 2024, "posteriordb" (reference draws and how they are judged); Vehtari et al. 2021 (limits).
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyro.distributions import constraints

import zoo
from zoo.core.diagnostics import bfmi, constant, mixing
from zoo.core.layout import layout
from zoo.core.no_result import NoResult
from zoo.core.paths import target_file
from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.core.quantities import Quantity, quantities
from zoo.core.quantities import predicted as predicted_at
from zoo.core.sites import sites
from zoo.core.tensors import to_numpy
from zoo.infer.atomic import read_json
from zoo.infer.checkpoint import CALL
from zoo.infer.verdict import BFMI, LIMITS, Limit

from . import certificates
from .files import write_whole
from .gold import FORMAT, Gold, key, probe_inputs, probe_rows
from .gold_covers import check_covered
from .gold_means import is_of_f
from .summaries import rounded, summary
from .units_apart import y_units

CHAINS, DRAWS, MOST_DRAWS = 16, 1000, 64_000
LEAST_ESS = 4000.0
DIVERGING = 1 / 1000
CAREFUL = 0.99
KEPT = 1000
STOCK_ESS = 400.0
PROPER = (constraints.positive, constraints.nonnegative)


def make_gold(
    problem: Problem,
    *,
    name: str = "",
    method: str = "nuts",
    options: dict[str, Any] | None = None,
    second: str = "chees",
    second_options: dict[str, Any] | None = None,
    engine: str = "auto",
    seed: int = 0,
    seconds: float = 600.0,
    command: str = "",
    kept: Path | None = None,
) -> Gold:
    """A reference posterior of a problem with its certificates.

    Args:
        problem: A lecture model's problem, or yours.
        name: The file's name; "" for the problem's.
        method: The sampler.
        options: Options of `method`.
        second: The sampler of the certificate, from draws of the prior.
        second_options: Options of `second`.
        engine: Of both.
        seed: Of the run; the certificate has the next one.
        seconds: Refuse where one of the runs takes longer.
        command: How to make it again.
        kept: A folder in which the runs are kept; the same call goes on with what is there.

    Raises:
        NoResult: Where the run is not good enough to be gold; names the quantity and what to raise.
        ValueError: For a model that gold does not cover, see `zoo.report.gold_covers`.
    """
    problem = problem.to(dtype=torch.float64)
    options = {"engine": engine, "seed": seed, **(options or {})}
    other = {"engine": engine, "seed": seed + 1, "init": "prior", **(second_options or {})}
    check_covered(problem, CHAINS * DRAWS)
    with _folder(kept) as into:
        fit, found = long_run(problem, method, options, LEAST_ESS, seconds, into / "run")
        numbers = _numbers(found)
        proof: dict[str, Any] = {"density": certificates.density(fit), "exact": certificates.exact(fit, found)}
        proof["sampler"] = _agrees(problem, second, other, numbers, seconds, into / "sampler")
        if int(fit.stats["diverging"].sum()):
            careful = options | {"seed": seed + 2, "target_accept": CAREFUL}
            proof["divergences"] = _agrees(problem, method, careful, numbers, seconds, into / "divergences")
    model, digest, hyper = key(problem)
    x, kept_names = probe_inputs(problem), _drawn(found, probe_rows(problem))
    return Gold({
        "zoo_gold": FORMAT, "name": name or problem.name, "model": model, "hyper": hyper, "command": command,
        "data": {
            "hash": digest, "probes": probe_rows(problem), "x": None if x is None else rounded(to_numpy(x), 9),
            "y_units": y_units(problem.data, layout(fit).family),
        },
        "run": _run(fit, seed), "versions": fit.settings["versions"], "quantities": numbers,
        "draws": {n: _joint(found[n]) for n in kept_names},
        "certificates": {word: what for word, what in proof.items() if what is not None},
    })  # fmt: skip


def _drawn(found: dict[str, Quantity], rows: list[int] | None) -> list[str]:
    """The quantities whose draws the file holds: class probabilities only where they are no logistic of f."""
    names = [name for name in found if name != "lp" and not name.startswith("log ")]
    return [name for name in names if name != "mean" or not is_of_f(found, len(rows or ()))]


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Where the runs are kept; a folder that is gone when they are refused is not named as one to go on from."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as own:
        try:
            yield Path(own)
        except NoResult as error:
            if str(own) not in str(error):
                raise
            go_on = r"to go on, make the same call, or: zoo resume [^);]*"
            said = "nothing of it is kept: say --checkpoint DIR (kept=) for a run that can be gone on with"
            raise NoResult(re.sub(go_on, said, str(error))) from None


def _numbers(found: dict[str, Quantity]) -> dict[str, dict[str, Any]]:
    return {name: {"labels": quantity.labels, **summary(quantity.values)} for name, quantity in found.items()}


def _agrees(
    problem: Problem, method: str, options: dict[str, Any], numbers: dict[str, Any], seconds: float, kept: Path
) -> dict[str, Any]:
    """Another run's certificate; refuses where the two disagree."""
    _, again = long_run(problem, method, options, certificates.LEAST_ESS, seconds, kept)
    return {"method": method, **certificates.agreement(numbers, _numbers(again), problem.name)}


def add_stock(gold: Gold, problem: Problem, seed: int = 0, seconds: float = 600.0) -> Gold:
    """Gold with the certificate of stock pyro.infer.mcmc NUTS, which must reach an effective size of 400 in that time.

    Raises:
        NoResult: Where it does not, or where the two disagree.
    """
    problem, begun = problem.to(dtype=torch.float64), time.monotonic()
    fit = zoo.run(
        problem, "nuts", engine="pyro", chains=4, warmup=500, draws=1000, seed=seed, max_seconds=seconds, progress=None
    )
    found = judged_quantities(fit)
    if short := shortcoming(found, STOCK_ESS):
        raise NoResult(f"no certificate for {gold.name}: stock NUTS, {short} in {seconds:g} s.")
    proof = certificates.agreement(gold.facts["quantities"], _numbers(found), gold.name)
    proof |= {"method": "pyro.infer.mcmc.NUTS", "seconds": round(time.monotonic() - begun)}
    return Gold(gold.facts | {"certificates": gold.facts["certificates"] | {"stock": proof}})


def long_run(
    problem: Problem, method: str, options: dict[str, Any], least: float, seconds: float, kept: Path
) -> tuple[Posterior, dict[str, Quantity]]:
    """A run doubled until every quantity has that effective size; also the quantities.

    Args:
        problem, method, options: What is run.
        least: Bulk and tail ESS of every quantity.
        seconds: Refuse after so long.
        kept: The checkpoint: draws are added to what is there.

    Raises:
        NoResult: At 64,000 draws or when the time is over.
    """
    until = time.monotonic() + seconds
    draws = read_json(kept / CALL)["draws"] if (kept / CALL).exists() else DRAWS
    while True:
        left = max(until - time.monotonic(), 0.01)
        given: dict[str, Any] = {"chains": CHAINS, "draws": draws, "progress": None, "max_seconds": left} | options
        fit = zoo.run(problem, method, checkpoint=kept, **given)
        found = judged_quantities(fit)
        short = shortcoming(found, least)
        if not short:
            _check_energy(fit)
            return fit, found
        over = "in the time given" if fit.shape[1] < draws else f"of {CHAINS * draws} draws"
        if fit.shape[1] < draws or 2 * CHAINS * draws > MOST_DRAWS:
            raise NoResult(f"no gold for {problem.name} by {method}: {short} {over}. Raise thin or warmup, or seconds.")
        draws *= 2


def judged_quantities(fit: Posterior) -> dict[str, Quantity]:
    """What is compared at the probes; beside it the log of positive scalars, and lp."""
    found = quantities(fit, predicted_at(fit, probe_inputs(fit.problem)))
    positive = [n for n, site in sites(fit.problem).latent.items() if site.fn.support in PROPER]
    for name in [n for n in positive if n in found]:
        found[f"log {name}"] = Quantity(np.log(found[name].values), [f"log {label}" for label in found[name].labels])
    found["lp"] = Quantity(to_numpy(fit.stats["lp"])[:, :, None], ["lp"])
    return found


def shortcoming(found: dict[str, Quantity], least: float) -> str:
    """The first limit that a quantity does not pass, with name, value and limit; "" if all pass."""
    for limit in LIMITS:
        allowed = limit._replace(limit=least) if "ESS" in limit.name else limit
        for quantity in found.values():
            if short := _short(allowed, quantity):
                return short
    return ""


def _short(limit: Limit, quantity: Quantity) -> str:
    values = np.asarray(quantity.values)[:, :, ~constant(quantity.values)]
    labels = [label for label, fixed in zip(quantity.labels, constant(quantity.values), strict=True) if not fixed]
    if not labels:
        return ""
    measured = limit.part(mixing(values))
    worst = limit.worst(measured)
    if limit.passes(float(measured[worst])):
        return ""
    return f"{limit.name} of {labels[worst]} is {measured[worst]:.4g}, limit {limit.limit:g},"


def _check_energy(fit: Posterior) -> None:
    count, total = int(fit.stats["diverging"].sum()), fit.stats["diverging"].numel()
    if count > DIVERGING * total:
        raise NoResult(
            f"no gold for {fit.problem.name}: {count} of {total} draws diverged, limit 1 in 1,000. Raise "
            "target_accept, or reparameterise the model."
        )
    if "energy" in fit.stats:
        value = bfmi(to_numpy(fit.stats["energy"]).astype(np.float64))
        if not value.min() > BFMI:
            raise NoResult(
                f"no gold for {fit.problem.name}: E-BFMI of chain {int(value.argmin())} is {value.min():.2f}, limit "
                f"{BFMI}. Raise warmup, or reparameterise heavy tails."
            )


def _run(fit: Posterior, seed: int) -> dict[str, Any]:
    chains, draws = fit.shape
    out = {
        "method": fit.method, "seed": seed, "chains": chains, "draws": draws,
        "options": {n: v for n, v in fit.settings["options"].items() if n != "max_seconds"},
        "engine": fit.settings["engine"], "step_size": fit.settings["step_size"],
        "divergences": int(fit.stats["diverging"].sum()), "seconds": round(sum(fit.seconds.values()), 1),
        "gradients": int(fit.stats["steps"].sum()),
    }  # fmt: skip
    if "energy" in fit.stats:
        out["least_bfmi"] = round(float(bfmi(to_numpy(fit.stats["energy"]).astype(np.float64)).min()), 3)
    return out


def _joint(quantity: Quantity) -> Any:
    """1,000 draws (1000, k), evenly spread over all chains, the same ones for every quantity."""
    flat = quantity.values.reshape(-1, quantity.values.shape[2])
    return rounded(flat[np.linspace(0, len(flat) - 1, KEPT).round().astype(int)], 6)


def write_gold(gold: Gold, path: Path) -> Path:
    """Writes the file whole or not at all; returns its path."""
    text = json.dumps(gold.facts, indent=None, separators=(",", ":")).replace(',"', ',\n"')
    write_whole(target_file(path, path.name), path, (text + "\n").encode())
    return path
