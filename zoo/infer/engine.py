"""Which engine drives a kernel's step: uncompiled, or fused with the model's density into one graph."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .density import Density
from .graph import compile_graph
from .kernel import Draw

log = logging.getLogger("zoo")
ENGINES = ("auto", "compiled", "eager", "loop", "pyro")
# Compiling costs 5-30 s; below these sizes the eager engine has finished before.
LEAST_ITERATIONS = 400
MOST_COORDINATES = 50_000
Stop = Callable[[], str]
# drive(state, noise, step size, inverse mass, stop count, keep, halt) -> state: steps until every chain has done
# its iterations, or `halt` says why not; completed draws go to `keep`.
Drive = Callable[[Any, dict[str, Tensor], Tensor, Tensor, int, Callable[[Draw], None], Stop], Any]


def choose_engine(engine: str, density: Density, iterations: int) -> str:
    """The engine to use. The rule of "auto", which never depends on a timing:

    "loop" where vmap refuses the model; else "compiled" for runs of at least 400 iterations of at most 50,000
    coordinates, on a machine with a C++ compiler (or on CUDA); else "eager".

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
    return "compiled" if large and _has_compiler(density.device) else "eager"


def _has_compiler(device: torch.device) -> bool:
    return device.type == "cuda" or any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def eager_drive(kernel: Any, density: Density, constants: dict[str, Tensor]) -> Drive:
    """The kernel's step as plain tensor operations."""

    def drive(
        state: Any, noise: dict[str, Tensor], size: Tensor, mass: Tensor, stop: int, keep: Any, halt: Stop
    ) -> Any:
        limit = torch.tensor(stop, device=mass.device)
        with torch.no_grad():
            while int(state.count.min()) < stop and not halt():
                state, draw = kernel.step(
                    state, density.value_and_grad, noise, step_size=size, inverse_mass=mass, stop=limit, **constants
                )
                keep(draw)
        return state

    return drive


def compiled_drive(
    kernel: Any, density: Density, constants: dict[str, Tensor], example: tuple[Any, ...]
) -> tuple[Drive, str, float]:
    """The kernel's step and the density's gradient in one graph; also the engine and the seconds to compile.

    Args:
        kernel, density, constants: As for `eager_drive`.
        example: (state, noise, step size, inverse mass, stop) of the shapes to serve.
    """
    args, kwargs = density.problem.arguments()
    leaves, spec = pytree.tree_flatten((example, constants, args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        (state, noise, size, mass, stop), fixed, *arguments = pytree.tree_unflatten(filled, spec)
        gradient = torch.func.vmap(torch.func.grad_and_value(lambda u: density.log_density(u, True, arguments)))

        def value_and_grad(position: Tensor) -> tuple[Tensor, Tensor]:
            grad, value = gradient(position)
            return value, grad

        state, draw = kernel.step(
            state, value_and_grad, noise, step_size=size, inverse_mass=mass, stop=stop, **fixed
        )
        return (*state, *draw, state.count.min())

    compiled = compile_graph(function, [leaves[i] for i in places])
    data = [leaf for leaf in pytree.tree_leaves((constants, args, kwargs)) if isinstance(leaf, Tensor)]
    return _flat_drive(compiled.call, type(example[0]), data), compiled.engine, compiled.seconds


def _flat_drive(call: Callable[..., Any], kind: Any, data: list[Tensor]) -> Drive:
    """Loops over flat tensors: taking nested tuples apart at every step would cost as much as the step."""
    width = len(kind._fields)

    def drive(
        state: Any, noise: dict[str, Tensor], size: Tensor, mass: Tensor, stop: int, keep: Any, halt: Stop
    ) -> Any:
        flat, rest = tuple(state), (*noise.values(), size, mass, torch.tensor(stop, device=mass.device), *data)
        while not halt():
            out = call(*flat, *rest)
            flat = out[:width]
            keep(Draw(*out[width:-1]))
            if int(out[-1]) >= stop:
                break
        return kind(*flat)

    return drive
