"""A compiled graph's loops, called again on the memory of the first call.

Of a small network's step most of the time goes to what stands round its loops: a hundred small tensors are made, looked
at and thrown away at each call. Where all of a call's inputs are the same tensors each time, so may all others be:
what the call hands to its loops is noted once, and then handed to them again.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import Tensor

from .cuda_graph import recorded

Tensors = tuple[Tensor, ...]
Launch = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
# What inductor's code may do beside launching loops, if it is to be repeated without being run: make and name memory.
MAKERS = ("empty_strided_cpu", "reinterpret_tensor")
LOOPS, LIBRARY = "cpp_fused", "extern_kernels"
_noting_now = threading.Lock()


def first_and_rest(compiled: Any, inputs: Sequence[Tensor]) -> tuple[Tensors, Callable[[], Tensors]]:
    """Calls a compiled function once; also a function of nothing that calls it again on the same tensors.

    Every call reads `inputs` as they are then, and may write its results over those of the call before.

    Args:
        compiled: `zoo.infer.graph.Compiled`.
        inputs: What it is called with.

    Returns:
        The first call's results; the next calls. On CUDA those play back a recording; elsewhere only the loops run,
        where the code does nothing beside launching loops and making memory for them, else a call like the first.
    """
    call, code = compiled.call, compiled.code
    if inputs and inputs[0].is_cuda:
        return call(*inputs), recorded(call, inputs)
    wanted = 0 if code is None else launches_of(code)
    if not wanted or not _noting_now.acquire(blocking=False):
        return call(*inputs), lambda: call(*inputs)
    try:
        with _noting(code) as notes:
            out = call(*inputs)
    finally:
        _noting_now.release()
    seen = {v.data_ptr() for _, args, more in notes for v in (*args, *more.values()) if isinstance(v, Tensor)}
    # A result that no loop was given was made by other means, and would stay as it is.
    if len(notes) != wanted or any(o.data_ptr() not in seen for o in out):
        return out, lambda: call(*inputs)

    def again() -> Tensors:
        for function, args, more in notes:
            function(*args, **more)
        return out

    return out, again


def launches_of(code: ModuleType) -> int:
    """How many loops and products inductor's code launches; 0 where it does anything that is not understood."""
    try:
        with open(str(code.__file__), encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, AttributeError):
        return 0
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(calls) != 1:
        return 0
    kinds = [_kind(statement) for statement in calls[0].body]
    return 0 if "" in kinds else kinds.count("launch")


def _kind(statement: ast.stmt) -> str:
    """What a statement is: a "launch", which is repeated; "memory", which need not be; "" anything else."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name.startswith(LOOPS):
            return "launch"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)), keywords=more)) if name == LIBRARY:
            return "launch" if "out" in [keyword.arg for keyword in more] else ""
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="args"), attr="clear"))):
            return "memory"
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))) if name in MAKERS:
            return "memory"
        case ast.Assign(value=ast.Name()) | ast.Delete() | ast.Return(value=ast.Tuple()):
            return "memory"
    return ""


@contextmanager
def _noting(code: ModuleType) -> Iterator[list[Launch]]:
    """The launches of a call that is made while this is open."""
    names = [name for name in vars(code) if name.startswith(LOOPS) or name == LIBRARY]
    before, notes = {name: getattr(code, name) for name in names}, list[Launch]()

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*args: Any, **more: Any) -> Any:
            notes.append((function, args, more))
            return function(*args, **more)

        return launch

    class Library:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            return noted(getattr(before[LIBRARY], name))

    vars(code).update({name: Library() if name == LIBRARY else noted(before[name]) for name in names})
    try:
        yield notes
    finally:
        vars(code).update(before)


def written_code(make: Callable[[], Any]) -> tuple[Any, ModuleType | None]:
    """What `make()` returns, and the one module that inductor wrote or loaded for it; None: none, or several."""
    try:
        from torch._inductor.codecache import PyCodeCache

        modules: list[Any] = PyCodeCache.modules
        before = len(modules)
    except (ImportError, AttributeError, TypeError):  # another version of torch
        return make(), None
    made = make()
    new = [module for module in modules[before:] if hasattr(module, "call")]
    return made, new[0] if len(new) == 1 else None
