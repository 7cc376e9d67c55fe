"""What a model promises, one function a promise: it returns what it saw, or raises with what failed.

Each takes the problem and its `Sites` and leaves the process as it found it. The caller holds
`pyro_state(validate=False)`.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from . import points
from .handlers import is_deterministic
from .problem import Problem
from .sites import Sites, sites
from .tensors import parameters as parameters_of
from .trial import (
    Draws,
    graph_of_any_rows,
    length,
    local_rows,
    log_joint,
    row_axis,
    row_count,
    row_log_prob,
    run,
    tensors,
    with_rows,
)


def names(problem: Problem, found: Sites) -> str:
    """f and y stand under their names, y inside the plate; without y the model samples it."""
    f, y, plate = (problem.names[key] for key in ("f", "y", "plate"))
    if y not in found.observed:
        raise ValueError(
            f"no observed site '{y}', but {', '.join(found.observed)}: name the target, "
            f"zoo.Problem(..., names={{'y': '{next(iter(found.observed), 'y')}'}})"
        )
    n = row_count(problem)
    if f not in found.deterministic:
        known = f"; the model computes {', '.join(found.deterministic)}" if found.deterministic else ""
        raise ValueError(
            f"no pyro.deterministic('{f}', ...), the output without noise{known}: add it, or name it, "
            f"zoo.Problem(..., names={{'f': ...}})"
        )
    blind = run(problem, found.values, problem.inputs()) if not isinstance(problem.data, dict) else None
    if blind is not None:
        if blind[y]["is_observed"] or tuple(blind[y]["value"].shape) != tuple(found.observed[y].shape):
            raise ValueError(f"model(x) must sample '{y}' with the shape of the targets")
        if blind[f]["value"].shape[:1] != (n,):
            raise ValueError(f"'{f}' must have one row a data point, got shape {tuple(blind[f]['value'].shape)}")
    return f"{f}, {y} and the plate '{plate}' of {n} rows; latents {', '.join(found.latent)}"


def device(problem: Problem, found: Sites) -> str:
    """Every tensor follows the device of x: seen on `meta`, which refuses any tensor of another device."""
    values = {name: value.to("meta") for name, value in found.values.items()}
    messages = run(problem.to(device="meta"), values)
    for name, msg in messages.items():
        wrong = [p for p in (*parameters_of(msg["fn"]), msg["value"]) if p.device.type != "meta"]
        if wrong:
            raise ValueError(
                f"site '{name}' holds a tensor on {wrong[0].device}: build it from the data ({_new(problem)})"
            )
        if not is_deterministic(msg):
            msg["fn"].log_prob(msg["value"])
    return "everything follows the data to another device"


def dtype(problem: Problem, found: Sites) -> str:
    """Every floating-point tensor follows the dtype of x: seen in float32 and float64."""
    for kind in (torch.float32, torch.float64):
        values = {n: v.to(kind) if v.is_floating_point() else v for n, v in found.values.items()}
        for name, msg in run(problem.to(dtype=kind), values).items():
            held = [msg["value"]] if is_deterministic(msg) else [msg["value"], *parameters_of(msg["fn"])]
            wrong = [t.dtype for t in held if t.is_floating_point() and t.dtype != kind]
            if wrong:
                raise ValueError(
                    f"site '{name}' is {wrong[0]} where x is {kind}: build it from the data ({_new(problem)})"
                )
    return "float32 and float64"


def traceable(problem: Problem, found: Sites) -> str:
    """The log joint and its gradient by vmap and by make_fx equal the plain ones, at points not traced."""
    problem = problem.to(dtype=torch.float64)  # in float32 rounding alone moves a network past its kinks
    points = [_floats(sites(problem, seed=seed).values) for seed in (1, 2, 3)]

    def gradient(values: Draws) -> Any:
        return torch.func.grad_and_value(lambda v: log_joint(problem, v, sequential=found.sequential))(values)

    plain = [gradient(point) for point in points]
    try:
        batched = torch.func.vmap(gradient)(_stack(points[:2]))
        graph = make_fx(torch.func.vmap(gradient))(_stack(points[:2]))
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise ValueError(
            f"cannot be mapped over draws or traced ({_sentence(error)}): no .item(), no branch on a tensor's value, "
            "no writing in place"
        ) from None
    _equal(batched, _pair(*plain[:2]), "vmap over draws differs from one draw at a time")
    _equal(graph(_stack(points[1:])), _pair(*plain[1:]), "the traced graph has frozen a value")
    return "vmap and make_fx give the plain log joint and gradient"


def any_rows(problem: Problem, found: Sites) -> str:
    """A graph traced with a symbolic number of rows is right for another number: x.shape[0], never len(x)."""
    n = row_count(problem)
    one, two = (with_rows(problem, torch.arange(m, device=problem.tensor.device) % n, n) for m in (17, 29))
    first, second = sites(one).values, sites(two).values
    try:
        graph = graph_of_any_rows(one, first)
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"cannot be traced with an open number of rows ({_sentence(error)})") from None
    right = log_joint(two, second)
    try:
        got = graph(tensors(two), second)
    except RuntimeError as error:
        raise ValueError(
            f"the number of rows is frozen in the traced graph: write {length(problem)} instead of len() or a number "
            f"({_sentence(error)})"
        ) from None
    if not torch.allclose(got, right, rtol=1e-4):
        raise ValueError(
            f"traced with 17 rows, 29 rows give {got:.6g} where {right:.6g} is right: plate {length(problem)}"
        )
    return "a graph traced for one number of rows is right for another"


def pure(problem: Problem, found: Sites) -> str:
    """At given latents a run prints and draws nothing, leaves no file or changed input."""
    before = _world(problem)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        first, second = (log_joint(problem, found.values) for _ in range(2))
    changed = [name for name, value in _world(problem).items() if value != before[name]]
    if printed.getvalue():
        raise ValueError(f"prints {printed.getvalue().splitlines()[0][:40]!r}")
    if changed:
        raise ValueError(f"changes {', '.join(changed)}")
    if not torch.equal(first, second):
        raise ValueError("two runs at the same latents give different log joints")
    return "no print, no file, no random number, same value twice"


def parameters(problem: Problem, found: Sites) -> str:
    """All that is learned has a prior: no pyro.param, no nn.Parameter."""
    learned = points.parameters(problem)
    if learned:
        raise ValueError(f"no prior for the parameters {', '.join(learned)}: pyro.sample or PyroSample gives one")
    if points.hidden(problem):
        raise ValueError("reads nn.Parameters that no Pyro statement names, so they are held where they are")
    return "everything that is learned has a prior"


def rows(problem: Problem, found: Sites) -> str:
    """f_i and p(y_i) depend on x_i and the latents only: on permuted rows, and on one row at a time."""
    problem = problem.to(dtype=torch.float64)
    values = {n: v.double() if v.is_floating_point() else v for n, v in found.values.items()}
    n, whole = row_count(problem), run(problem, values)
    where = problem.tensor.device
    permutation = torch.arange(n, device=where).flip(0).roll(1)
    subsets = {"on permuted rows": permutation} | {f"row {i} alone": permutation[i : i + 1] for i in {0, n // 2}}
    for what, index in subsets.items():
        part = run(with_rows(problem, index, n), local_rows(problem, whole, values, index))
        for name, msg in whole.items():
            before, after = _by_row(problem, name, msg), _by_row(problem, name, part[name])
            if before is None or after is None:
                continue
            if after.shape[0] != len(index):
                raise ValueError(f"'{name}' of {len(index)} rows has {after.shape[0]} rows: plate {length(problem)}")
            if not torch.allclose(before[index], after, rtol=1e-8, atol=1e-10):
                raise ValueError(f"'{name}' {what} differs: a row depends on the other rows")
    return "permuted rows and single rows give the same f and p(y)"


def local(problem: Problem, found: Sites) -> str:
    """Latents that grow with the rows stand in the data plate, and only those; new rows get new ones."""
    n = row_count(problem)
    more = sites(with_rows(problem, torch.arange(n + 1, device=problem.tensor.device) % n, n))
    for name, site in found.latent.items():
        grows = more.latent[name].shape != site.shape
        if grows and not site.local:
            raise ValueError(f"latent '{name}' grows with the rows outside the plate '{problem.names['plate']}'")
        if site.local and not grows:
            raise ValueError(f"latent '{name}' is in the data plate but has {tuple(site.shape)} for any rows")
    inside = [name for name, site in found.latent.items() if site.local]
    return f"local to a row: {', '.join(inside)}" if inside else "no latent is local to a row"


def finite(problem: Problem, found: Sites) -> str:
    """The log joint and its gradient are finite where chains start: uniform on (-2, 2), unconstrained."""
    good, culprit = 0, ""
    for seed in range(10):
        values = sites(problem, seed=seed).values
        bad = _not_finite(problem, values)
        good, culprit = good + (not bad), culprit or bad
    if not good:
        raise ValueError(f"no finite log joint in 10 starts: {culprit}")
    return f"finite at {good} of 10 starts"


def event_dims(problem: Problem, found: Sites) -> str:
    """A latent's batch axes are plates: biases say .to_event(1), matrices (2), kernels (4)."""
    messages = run(problem, found.values)
    for name in found.latent:
        msg = messages[name]
        batch = msg["fn"].batch_shape
        plates = {frame.dim for frame in msg["cond_indep_stack"]}
        free = [i for i in range(-len(batch), 0) if i not in plates and (batch[i] > 1 or not plates)]
        if free:
            raise ValueError(f"site '{name}' has batch shape {tuple(batch)} outside plates: add .to_event({len(free)})")
    shapes = ", ".join(f"{name} {tuple(site.shape)}" for name, site in found.latent.items())
    return f"every axis of a latent is its event's or a plate's: {shapes}"


# -- tools ---------------------------------------------------------------------------------------------------


def _sentence(error: Exception) -> str:
    """The first sentence of an error of torch's, which may run over many lines."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.split(". ")[0].split(": ")[-1][:120]


def _new(problem: Problem) -> str:
    """How a tensor is made like the data: x.new_zeros, or of the first tensor in a dict."""
    return length(problem).replace("shape[0]", "new_zeros")


def _floats(values: Draws) -> Draws:
    return {name: value for name, value in values.items() if value.is_floating_point()}


def _stack(points: list[Draws]) -> Draws:
    return {name: torch.stack([point[name] for point in points]) for name in points[0]}


def _pair(one: Any, two: Any) -> Any:
    return _stack([one[0], two[0]]), torch.stack([one[1], two[1]])


def _equal(got: Any, right: Any, what: str) -> None:
    pairs = [(got[1], right[1]), *((got[0][name], right[0][name]) for name in right[0])]
    if not all(torch.allclose(a, b.to(a.dtype), rtol=1e-3, atol=1e-3) for a, b in pairs):
        raise ValueError(what)


def _world(problem: Problem) -> dict[str, Any]:
    """What a model could change, in a form that compares."""
    return {
        "its data in place": problem.hash,
        "torch's random state": torch.random.get_rng_state().tolist(),
        "numpy's random state": str(np.random.get_state(legacy=False)),
        "Python's random state": random.getstate(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "the files of the folder": sorted(os.listdir()),
    }


def _by_row(problem: Problem, name: str, msg: Any) -> Tensor | None:
    """What must go by row: f, other deterministic sites of one row a data point, and log p(y_i)."""
    if is_deterministic(msg):
        return msg["value"] if name == problem.names["f"] else None
    if msg["is_observed"] and row_axis(problem, msg, 0) is not None:
        return row_log_prob(problem, msg)
    return None


def _not_finite(problem: Problem, values: Draws) -> str:
    """The first site whose log prob, or latent whose gradient, is not finite; "" if all are."""
    messages = run(problem, values)
    for name, msg in messages.items():
        if not is_deterministic(msg) and not torch.isfinite(msg["fn"].log_prob(msg["value"])).all():
            return f"log prob of site '{name}'"
    gradient = torch.func.grad(lambda v: log_joint(problem, v))(_floats(values))
    return next((f"gradient of '{n}'" for n, g in gradient.items() if not torch.isfinite(g).all()), "")
