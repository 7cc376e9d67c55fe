"""`defaults_of`: what a method does where it is told nothing."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from zoo.core.words import nearest

from . import chains
from .dispatch import methods

NOT_OPTIONS = ("problem", "kernel", "dim", "checkpoint")


def defaults_of(method: str) -> dict[str, Any]:
    """{option: default} of a method; of a kernel those of the loop that runs it, and of its `setup`.

    Raises:
        ValueError: For an unknown method, with the nearest right one.
    """
    known = methods()
    if method not in known:
        raise ValueError(nearest(method, known, "method"))
    module = importlib.import_module(known[method])
    functions: list[Callable[..., Any]] = [module.fit] if hasattr(module, "fit") else [chains.fit, module.setup]
    parameters = [p for function in functions for p in inspect.signature(function).parameters.values()]
    return {p.name: p.default for p in parameters if p.name not in NOT_OPTIONS and p.default is not p.empty}
