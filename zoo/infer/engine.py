"""Which engine drives a kernel's step: uncompiled, or fused with the model's density into one graph."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from zoo.core.handlers import pyro_state
from zoo.core.tensors import plain

from .density import Density
from .in_pieces import InPieces
from .in_place import compile_in_place
from .kernel import Draw
from .known import asks_for_numbers
from .mass import Mass
from .piece_graph import PieceGraph, at_hand, compiled_terms
from .threads import running_on, threads_for_size

log = logging.getLogger("zoo")
ENGINES = ("auto", "compiled", "eager", "loop", "pyro")
# Compiling costs 5-30 s; below these sizes the eager engine has finished before. With the number of coordinates
# trajectories get longer: a few hundred weights take up to 1,023 gradients an iteration.
LEAST_ITERATIONS, LEAST_WORK = 400, 20_000
MOST_COORDINATES = 50_000
Stop = Callable[[], str]
# drive(state, noise, tuned, mass, stop count, keep, halt) -> state: steps until every chain has done its iterations,
# or `halt` says why not; the fields of each `Draw` go to `keep`, as numpy's on the CPU.
Tensors = dict[str, Tensor]
Drive = Callable[[Any, Tensors, Tensors, Mass, int, Callable[[dict[str, Any]], None], Stop], Any]


def choose_engine(engine: str, density: Density, iterations: int) -> str:
    """The engine to use.

    The rule of "auto" never depends on a timing: "loop" where vmap refuses the model; else "compiled" for runs of
    at least 400 iterations, or of 20,000 iterations x coordinates, of at most 50,000 coordinates, on a machine with a
    C++ compiler (or on CUDA); else "eager".

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
    large = iterations >= LEAST_ITERATIONS or iterations * density.dim >= LEAST_WORK
    return "compiled" if large and density.dim <= MOST_COORDINATES and has_compiler(density.device) else "eager"


def has_compiler(device: torch.device) -> bool:
    """Whether graphs for this device can be compiled here."""
    return device.type == "cuda" or any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def eager_drive(kernel: Any, density: Density, constants: dict[str, Tensor]) -> Drive:
    """The kernel's step as plain tensor operations."""
    rows = density.sites.rows

    def drive(state: Any, noise: Tensors, tuned: Tensors, mass: Mass, stop: int, keep: Any, halt: Stop) -> Any:
        limit = torch.tensor(stop, device=mass.scale.device)
        with torch.no_grad(), running_on(threads_for_size(rows, density.dim)):
            while int(state.completed.min()) < stop and not halt():
                state, draw = kernel.step(
                    state, density.value_and_grad, noise, mass=mass, stop=limit, **tuned, **constants
                )
                keep(plain(draw._asdict()))
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
    piece = PieceGraph(density, kernel.position_of(state)) if isinstance(density, InPieces) else None
    if piece is not None and piece.engine != "compiled":
        return eager_drive(kernel, density, constants), piece.engine, piece.seconds
    with at_hand(piece):
        (_, draw), asks = asks_for_numbers(
            lambda: step_on(kernel, density, arguments, state, noise, tuned, mass, stop, constants)
        )
    static = tuple(value.clone() for value in (*state, *draw))
    # Data that the model asks for numbers are held by the graph; all others are given, so that it serves those, too.
    held, given_too = (arguments, ()) if asks else (None, arguments)
    fixed_leaves, fixed_spec = pytree.tree_flatten((constants, given_too))
    given, spec = pytree.tree_flatten((noise, tuned, mass, stop))
    fixed = [leaf for leaf in fixed_leaves if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        old, rest = tensors[: len(static)], iter(tensors[len(static) :])
        filled = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in fixed_leaves]
        constants, arguments = pytree.tree_unflatten(filled, fixed_spec)
        arguments = held if asks else arguments
        before = type(state)(*old[: len(state)])
        noise, tuned, mass, stop = pytree.tree_unflatten(list(rest), spec)
        after, draw = step_on(kernel, density, arguments, before, noise, tuned, mass, stop, constants)
        for target, value in zip(old, (*after, *draw), strict=True):
            # A value that is another old tensor would be read after that one was written over.
            assert value is target or all(value is not other for other in old)
            target.copy_(value)
        return (after.completed.min(),)

    with at_hand(piece):
        call, compiled = compile_in_place(function, static, given, fixed)
    seconds = compiled.seconds + (piece.seconds if piece else 0.0)
    return _static_drive(call, type(state), static, compiled.threads, piece), compiled.engine, seconds


def step_on(
    kernel: Any, density: Density, arguments: Any, state: Any, noise: Any, tuned: Any, mass: Any, stop: Any, fixed: Any
) -> tuple[Any, Draw]:
    """A step of the kernel on the density of the model with these arguments (the data among them)."""
    gradient = gradient_on(density, arguments)
    with pyro_state(validate=False), torch.no_grad():  # of what a model holds, too
        return kernel.step(state, gradient, noise, mass=mass, stop=stop, **tuned, **fixed)


def gradient_on(density: Density, arguments: Any) -> Callable[..., tuple[Tensor, Tensor]]:
    """The density's `value_and_grad` with these arguments of the model, to be traced as the caller's `step_on` is.

    Of a density in pieces it is computed by the piece at hand, see `zoo.infer.piece_graph`.
    """
    if isinstance(density, InPieces):
        return lambda position, rows=None: density.gradient(position, arguments, compiled_terms)
    gradient = torch.func.grad_and_value(lambda u, rows: density.log_density(u, True, arguments, rows))

    def value_and_grad(position: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        grad, value = torch.func.vmap(gradient, (0, None if rows is None else 0))(position, rows)
        return value, grad

    return value_and_grad


def _static_drive(
    call: Callable[..., Any], kind: Any, static: tuple[Tensor, ...], threads: int, piece: PieceGraph | None
) -> Drive:
    """Calls the graph, which keeps the chains' state and last draws in `static`, and calls `piece` if it has one."""
    width = len(kind._fields)
    draw = plain(Draw(*static[width:])._asdict())

    def drive(state: Any, noise: Tensors, tuned: Tensors, mass: Mass, stop: int, keep: Any, halt: Stop) -> Any:
        for mine, given in zip(static, state, strict=False):
            if mine is not given:
                mine.copy_(given)
        given = (*noise.values(), *tuned.values(), *mass, torch.tensor(stop, device=mass.scale.device))
        with running_on(threads), at_hand(piece):
            while not halt():
                (least,) = call(given)
                keep(draw)
                if int(least) >= stop:
                    break
        return kind(*static[:width])

    return drive
