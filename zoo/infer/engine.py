"""Which engine drives a kernel's step: uncompiled, or fused with the model's density into one graph."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from zoo.core.handlers import pyro_state

from .density import Density
from .graph import Compiled, compile_graph
from .kernel import Draw
from .mass import Mass
from .replay import first_and_rest
from .threads import running_on, threads_for_size

log = logging.getLogger("zoo")
ENGINES = ("auto", "compiled", "eager", "loop", "pyro")
# Compiling costs 5-30 s; below these sizes the eager engine has finished before.
LEAST_ITERATIONS = 400
MOST_COORDINATES = 50_000
Stop = Callable[[], str]
# drive(state, noise, tuned, mass, stop count, keep, halt) -> state: steps until every chain has done its iterations,
# or `halt` says why not; completed draws go to `keep`.
Tensors = dict[str, Tensor]
Drive = Callable[[Any, Tensors, Tensors, Mass, int, Callable[[Draw], None], Stop], Any]


def choose_engine(engine: str, density: Density, iterations: int) -> str:
    """The engine to use.

    The rule of "auto" never depends on a timing: "loop" where vmap refuses the model; else "compiled" for runs of
    at least 400 iterations of at most 50,000 coordinates, on a machine with a C++ compiler (or on CUDA); else
    "eager".

    Raises:
        ValueError: For an unknown engine, and for "compiled" where vmap refuses the model.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}.")
    if density.engine == "loop":
        if engine in ("compiled", "eager"):
            raise ValueError(
                f"engine {engine!r} needs a model that vectorises over chains; '{density.problem.name}' does not. "
                "Use engine='loop', or 'auto'."
            )
        return "loop"
    if engine != "auto":
        return engine
    large = iterations >= LEAST_ITERATIONS and density.dim <= MOST_COORDINATES
    return "compiled" if large and has_compiler(density.device) else "eager"


def has_compiler(device: torch.device) -> bool:
    """Whether graphs for this device can be compiled here."""
    return device.type == "cuda" or any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def eager_drive(kernel: Any, density: Density, constants: dict[str, Tensor]) -> Drive:
    """The kernel's step as plain tensor operations."""
    rows = max(site.shape[0] if site.shape else 1 for site in density.sites.observed.values())

    def drive(state: Any, noise: Tensors, tuned: Tensors, mass: Mass, stop: int, keep: Any, halt: Stop) -> Any:
        limit = torch.tensor(stop, device=mass.scale.device)
        with torch.no_grad(), running_on(threads_for_size(rows, density.dim)):
            while int(state.completed.min()) < stop and not halt():
                state, draw = kernel.step(
                    state, density.value_and_grad, noise, mass=mass, stop=limit, **tuned, **constants
                )
                keep(draw)
        return state

    return drive


def compiled_drive(
    kernel: Any, density: Density, constants: dict[str, Tensor], example: tuple[Any, ...]
) -> tuple[Drive, str, float]:
    """The kernel's step and the density's gradient in one graph; also the engine and the seconds to compile.

    The graph writes the new state and draw over the old ones: allocating thirty small tensors at every step would
    cost as much as the gradient.

    Args:
        kernel, density, constants: As for `eager_drive`.
        example: (state, noise, tuned, mass, stop) of the shapes to serve.
    """
    arguments = density.problem.arguments()
    state, noise, tuned, mass, stop = example
    _, draw = step_on(kernel, density, arguments, state, noise, tuned, mass, stop, constants)
    static = tuple(value.clone() for value in (*state, *draw))
    leaves, spec = pytree.tree_flatten((static, noise, tuned, mass, stop, constants, arguments))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        old, noise, tuned, mass, stop, fixed, arguments = pytree.tree_unflatten(filled, spec)
        before = type(state)(*old[: len(state)])
        after, draw = step_on(kernel, density, arguments, before, noise, tuned, mass, stop, fixed)
        for target, value in zip(old, (*after, *draw), strict=True):
            # A value that is another old tensor would be read after that one was written over.
            assert value is target or all(value is not other for other in old)
            target.copy_(value)
        return (after.completed.min(),)

    compiled = compile_graph(function, [leaves[i] for i in places])
    data = [leaf for leaf in pytree.tree_leaves((constants, arguments)) if isinstance(leaf, Tensor)]
    return _static_drive(compiled, type(state), static, data), compiled.engine, compiled.seconds


def step_on(
    kernel: Any, density: Density, arguments: Any, state: Any, noise: Any, tuned: Any, mass: Any, stop: Any, fixed: Any
) -> tuple[Any, Draw]:
    """A step of the kernel on the density of the model with these arguments (the data among them)."""
    gradient = torch.func.grad_and_value(lambda u, rows: density.log_density(u, True, arguments, rows))

    def value_and_grad(position: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        grad, value = torch.func.vmap(gradient, (0, None if rows is None else 0))(position, rows)
        return value, grad

    with pyro_state(validate=False):
        return kernel.step(state, value_and_grad, noise, mass=mass, stop=stop, **tuned, **fixed)


def _static_drive(compiled: Compiled, kind: Any, static: tuple[Tensor, ...], data: list[Tensor]) -> Drive:
    """Calls the graph on its own memory: the chains' state and last draws stay in `static`.

    Noise, tuned numbers and mass have places of their own too, so that every call has the same tensors, and from the
    second on only its loops are run (`zoo.infer.replay`).
    """
    width = len(kind._fields)
    draw = Draw(*static[width:])
    places: list[Tensor] = []
    last: list[Tensor] = []
    step: Any = None
    least = torch.tensor(0)

    def put(given: Sequence[Tensor]) -> None:
        """Writes what differs from the call before to its place."""
        if not places:
            places.extend(value.clone() for value in given)
        else:
            for place, value, before in zip(places, given, last, strict=True):
                if value is not before:
                    place.copy_(value)
        last[:] = given

    def drive(state: Any, noise: Tensors, tuned: Tensors, mass: Mass, stop: int, keep: Any, halt: Stop) -> Any:
        nonlocal step, least
        for mine, given in zip(static, state, strict=False):
            if mine is not given:
                mine.copy_(given)
        put((*noise.values(), *tuned.values(), *mass, torch.tensor(stop, device=mass.scale.device)))
        with running_on(compiled.threads):
            while not halt():
                if step is None:
                    (least,), step = first_and_rest(compiled, (*static, *places, *data))
                else:
                    (least,) = step()
                keep(draw)
                if int(least) >= stop:
                    break
        return kind(*static[:width])

    return drive
