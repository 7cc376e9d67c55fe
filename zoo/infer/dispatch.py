"""`load` and `run`: from a model's name to a Problem, from a Problem to a Posterior."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pyro.poutine.runtime import am_i_wrapped

import zoo
from zoo.core import points
from zoo.core.checks import check_seed
from zoo.core.computed import with_computed
from zoo.core.handlers import LOCK
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.core.sites import Sites, sites
from zoo.core.stable import check_stable
from zoo.core.words import nearest

from .call import call_of
from .checkpoint import Checkpoint, noted
from .kept import check_directory, kept_fit
from .options import plain_options
from .settings import settings_of
from .sources import find_data, source_options
from .threads import running_on, threads_for_size

NO_DATA_NEEDED = ("prior",)
FOR_ALL = ("progress", "max_seconds")


def methods() -> dict[str, str]:
    """{method: module}: the folders are the list."""
    folders = [f"zoo.infer.{folder}" for folder in ("methods", "kernels")]
    found = {folder: pkgutil.iter_modules(importlib.import_module(folder).__path__) for folder in folders}
    return {module.name: f"{folder}.{module.name}" for folder, modules in found.items() for module in modules}


def _keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def _options(fit: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a method can be asked: its own keywords, and for a kernel those of its `setup`."""
    found = _keywords(fit)
    kernel = fit.keywords["kernel"] if isinstance(fit, functools.partial) else None
    own = _keywords(kernel.setup) if kernel else {}
    return {n: p for n, p in {**found, **own}.items() if n not in ("problem", "kernel", "dim")}


def load(name: str, data: Any = None, seed: int = 0, **options: Any) -> Problem:
    """A lecture model with its data: its own generated ones, yours, or a table's.

    Args:
        name: One of `zoo.names()`.
        data: `zoo.Data`; or a table: the path of a file, a pandas DataFrame or the name of a set such as diabetes
            or uci/concrete, see `zoo.data.tables.load`; or images: a folder of pictures, an .npy, .npz or idx file, see
            `zoo.data.own_images.load`; None for the model's own.
        seed: For the model's own data, and for the split of a table.
        options: Hyperparameters of the model; what its `data` function takes goes there, and for a table what
            `zoo.data.tables.load` takes (target, test, missing, ignore, decimal, split; classify, or classes=k, where
            the model serves measured targets and classes), for images (test, size).

    Raises:
        ValueError: For an unknown name or option, with the nearest right one; and for data the model can't use.
    """
    if name not in zoo.names():
        raise ValueError(nearest(str(name), zoo.names(), "model"))
    seed = check_seed(seed)
    module = importlib.import_module(f"zoo.{name}")
    hyper_names = {n for n, p in _keywords(module.model).items() if p.kind is p.KEYWORD_ONLY}
    source_names = source_options(module, data)
    for option in options:
        if option not in hyper_names | source_names:
            raise ValueError(f"{name}: {nearest(option, hyper_names | source_names, 'option')}")
    # What both the model and its data take (the number of outputs, say) goes to both.
    source = {k: v for k, v in options.items() if k in source_names}
    hyper = {k: v for k, v in options.items() if k in hyper_names}
    if isinstance(data, Data) and (only := sorted(set(source) - hyper_names)):
        raise ValueError(f"{name}: {only} shape the model's own data, but data were given. Leave one out.")
    found = find_data(module, data, seed, source, options)
    return Problem(
        name,
        module.model,
        found,
        hyper=module.complete(found, hyper) if hasattr(module, "complete") else hyper,
        compare=getattr(module, "COMPARE", None),
        guide=getattr(module, "guide", None),
        exact=getattr(module, "exact", None),
    )


def _fit_function(method: str) -> Callable[..., Posterior]:
    known = methods()
    if method not in known:
        raise ValueError(nearest(str(method), known, "method"))
    module = importlib.import_module(known[method])
    if hasattr(module, "fit"):
        return module.fit
    from zoo.infer import chains

    return functools.partial(chains.fit, kernel=module)


def asked_of(method: str, options: dict[str, Any]) -> tuple[Callable[..., Posterior], dict[str, Any], dict[str, Any]]:
    """A method's function, its options as it wants them, and its defaults; ValueError for what it does not know."""
    fit = _fit_function(method)
    allowed = set(_options(fit)) - {"checkpoint"}
    for option in options:
        if option not in allowed | set(FOR_ALL):
            known = allowed | {*FOR_ALL, "dtype", "device", "checkpoint", "checkpoint_seconds"}
            raise ValueError(f"{method}: {nearest(option, known, 'option')}")
    defaults = {n: p.default for n, p in _options(fit).items() if n in allowed}
    # What takes no time worth ending or showing takes these options, too.
    return fit, {n: v for n, v in plain_options(options, defaults).items() if n in allowed}, defaults


def run(
    problem: Problem | str,
    method: str,
    *,
    dtype: torch.dtype | str | None = None,
    device: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 5.0,
    **options: Any,
) -> Posterior:
    """Runs one inference method on a problem.

    With a checkpoint, a run that was killed or stopped is gone on with by the same call, and ends with the same bits as
    one that never stopped (same machine, torch and engine; threads are put back as they were). Samplers and svi go on
    where they were, other methods and engine="pyro" begin again; a finished directory gives its result at once, and
    more `draws` than it holds are added to them. Any other difference is refused.

    Args:
        problem: A `Problem`, or the name of a lecture model.
        method: exact, prior, map, laplace, svi, nuts, hmc, ...: each a file in `zoo/infer`.
        dtype: "float32" or "float64" (or a torch dtype); None: the data's.
        device: None: the data's.
        checkpoint: A directory to keep the run in, new or of this very call, see `zoo.infer.checkpoint`.
        checkpoint_seconds: At least so long between two saves, which come at the ends of blocks of 64 iterations and
            take no more than 2 % of the time; 0: at every block.
        options: seed=0, draws=1000, progress=None (only in a terminal), max_seconds=None, and the method's own. None
            stands for an option's default.

    Returns:
        `Posterior`; its `outcome` says whether the method did what was asked.

    Raises:
        ValueError: For unknown methods or options (with the nearest right one), and for problems that the
            method can't serve; for a checkpoint of another call, in use or damaged.
        OSError: For a checkpoint that cannot be written.
        NoResult: Where a sampler was ended before its first draw.
    """
    if isinstance(problem, str):
        problem = load(problem)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a zoo.Problem, got {type(problem).__name__}. Make one: zoo.load(name).")
    _check_unwrapped()
    _check_default_device(problem)
    fit, options, defaults = asked_of(method, options)
    problem = problem.to(device=_device(device), dtype=_dtype(dtype))
    if checkpoint is None:
        return _fitted(problem, method, fit, options, None)
    check_directory(checkpoint, checkpoint_seconds)
    call = call_of(problem, method, options, defaults)
    return kept_fit(
        checkpoint, checkpoint_seconds, call, problem, lambda kept: _fitted(problem, method, fit, options, kept)
    )


def _fitted(
    problem: Problem, method: str, fit: Callable[..., Posterior], options: dict[str, Any], kept: Checkpoint | None
) -> Posterior:
    problem, options = _with_points(problem, method, options)
    threads = torch.get_num_threads()
    found = sites(problem) if method in NO_DATA_NEEDED else _check_observed(problem)
    check_stable(problem, found)
    if method not in NO_DATA_NEEDED and not isinstance(fit, functools.partial):
        # Kernels choose for themselves: they know their chains.
        rows = found.rows
        each = sum(site.shape.numel() // (rows if site.local else 1) for site in found.latent.values())
        threads = threads_for_size(rows, each)
    start = time.perf_counter()
    with running_on(threads):
        posterior = with_computed(_run(problem, fit, options, kept))
        defaults = {n: p.default for n, p in _options(fit).items() if n != "checkpoint"}
        settings = settings_of(problem, method, defaults | options)
    seconds = posterior.seconds or {"compile": 0.0, "warmup": 0.0, "sample": time.perf_counter() - start}
    return dataclasses.replace(posterior, settings=settings | posterior.settings, seconds=seconds)


def _run(
    problem: Problem, fit: Callable[..., Posterior], options: dict[str, Any], kept: Checkpoint | None
) -> Posterior:
    if kept is None:
        return fit(problem, **options)
    if "checkpoint" in _options(fit):
        return fit(problem, **options, checkpoint=kept)
    with noted(kept, options.get("max_seconds")):
        return fit(problem, **options)


def _device(device: Any) -> Any:
    if device is None:
        return None
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError):
        raise ValueError(f"device {device!r} is not available here. Use 'cpu', or leave it out.") from None
    if found.type == "meta":
        raise ValueError("device 'meta' holds no numbers, so nothing can be run on it. Use 'cpu' or 'cuda'.")
    return found


def _check_default_device(problem: Problem) -> None:
    if "meta" in (problem.tensor.device.type, torch.get_default_device().type):
        raise ValueError(
            "the data, or torch's default device, are on 'meta', which holds no numbers. Make the data and run them "
            "outside torch.device('meta')."
        )


def _with_points(problem: Problem, method: str, options: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
    """The model's parameters (pyro.param) as sites that svi and map estimate as points."""
    problem, names = points.prepared(problem, method)
    if names and method == "svi":
        given = options.get("point", ())
        options = options | {"point": (*names, *((given,) if isinstance(given, str) else given))}
    return problem, options


def _check_unwrapped() -> None:
    with LOCK:
        if am_i_wrapped():
            raise ValueError(
                "zoo.run was called inside a Pyro handler, which would change the model unseen. "
                "Put the handler around the model: zoo.Problem(name, poutine.scale(model, 0.5), data)."
            )


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None) if dtype in ("float32", "float64") else dtype
    if dtype not in (None, torch.float32, torch.float64):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    return dtype


def _check_observed(problem: Problem) -> Sites:
    if isinstance(problem.data, Data) and problem.data.y is None:
        raise ValueError(
            f"problem '{problem.name}' has no y, so there is nothing to learn from. "
            'Give zoo.Data(x, y), or use zoo.run(problem, "prior").'
        )
    found = sites(problem)
    if not found.latent:
        raise ValueError(f"model '{problem.name}' has no latent site. Add a pyro.sample statement without obs.")
    if not found.observed:
        raise ValueError(
            f"model '{problem.name}' has no observed site, so there is nothing to learn from. "
            "Give a sample statement obs=y, or use the method 'prior'."
        )
    return found
