"""`fingerprint(value)`: twelve hex digits that two processes agree on, of numbers, tensors, functions, models.

A function is its compiled code (comments and line numbers do not count), its defaults, what it closes over and the
functions and values that it names; of libraries only names count, since their versions are compared themselves.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import logging
import sys
import sysconfig
import types
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pyro.nn import PyroSample
from pyro.poutine.messenger import Messenger
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform
from torch.distributions.utils import lazy_property

from zoo.core.posterior import Posterior

PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, np.generic)
LIBRARIES = tuple(dict.fromkeys(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
CONTAINERS = (np.ndarray, Mapping, list, tuple, set, frozenset)
# What else an installed package's object may consist of: others of its attributes are caches, locks, loggers.
CODE = (
    types.FunctionType,
    types.MethodType,
    functools.partial,
    Distribution,
    Transform,
    Constraint,
    Messenger,
    nn.Module,
)
# What objects remember of having been used, and where torch and Pyro keep what a module consists of.
REMEMBERED = ("_validate_args", "_cached_x_y", "_pyro_context", "_pyro_name", "prototype_trace", "plates")
OF_MODULES = ("_parameters", "_buffers", "_modules", "_pyro_samples", "_pyro_params")
IN_CLASSES = (types.FunctionType, property, staticmethod, classmethod, PyroSample, Distribution, Tensor)


def fingerprint(value: Any, weights: bool = True) -> str:
    """A digest of a value, the same in every process of one Python version.

    Args:
        value: Anything: a model, a guide, data, an option.
        weights: Whether the tensors inside objects count. A guide's own change while it is fitted.
    """
    walk = _Walk(weights)
    walk.see(value)
    return walk.digest.hexdigest()[:12]


def _in_library(module: str | None) -> bool:
    """Whether a module's code comes with Python or from an installed package."""
    found = sys.modules.get(module or "")
    path = getattr(found, "__file__", None)
    installed = module != "__main__" and (path or "").startswith(LIBRARIES)
    return module in sys.builtin_module_names or (found is not None and installed)


def _named(code: types.CodeType) -> set[str]:
    """The global names that a function's code, or code within it, reads; attributes do not count."""
    inner = [_named(item) for item in code.co_consts if isinstance(item, types.CodeType)]
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return own.union(*inner)


def _names(code: types.CodeType) -> set[str]:
    """All names of a function's code, and of code within it: globals and attributes."""
    return set(code.co_names).union(*(_names(item) for item in code.co_consts if isinstance(item, types.CodeType)))


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds, in its `__dict__` or in slots."""
    slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
    names = [name for one in slots for name in ((one,) if isinstance(one, str) else one) if name != "__dict__"]
    return {name: getattr(value, name) for name in names if hasattr(value, name)} | getattr(value, "__dict__", {})


def _of_class(value: Any, name: str) -> Any:
    """What a class itself says of an attribute, without asking the object."""
    return inspect.getattr_static(type(value), name, None)


def _is_of_a_body(name: str, item: Any) -> bool:
    """Whether something in a class is the user's: methods, and values but for what Python puts there."""
    if name.startswith("__"):
        return isinstance(item, types.FunctionType)
    return isinstance(item, (*IN_CLASSES, *PLAIN, *CONTAINERS))


class _Walk:
    """Walks through a value once; what it has seen before counts as its number."""

    def __init__(self, weights: bool) -> None:
        self.digest, self.weights = hashlib.sha256(), weights
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # an id means nothing once its object is gone

    def put(self, *words: Any) -> None:
        """Adds words to the digest."""
        self.digest.update("\x1f".join(map(str, words)).encode() + b"\x1e")

    def see(self, value: Any) -> None:
        """Adds a value to the digest."""
        if value is None or isinstance(value, PLAIN):
            return self.put(type(value).__name__, repr(value))
        if id(value) in self.seen:
            return self.put("again", self.seen[id(value)])
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":  # text, dates, objects
            return self.items(f"array {value.dtype} {value.shape}", list(enumerate(value.reshape(-1).tolist())))
        if isinstance(value, (Tensor, np.ndarray)):
            return self.array(value)
        if isinstance(value, Mapping):
            return self.items("dict", sorted(value.items(), key=lambda item: repr(item[0])))
        if isinstance(value, (set, frozenset)):
            return self.put("set", *sorted(fingerprint(item, self.weights) for item in value))
        if isinstance(value, (list, tuple)):
            return self.items(type(value).__name__, list(enumerate(value)))
        return self.thing(value)

    def items(self, kind: str, pairs: list[tuple[Any, Any]]) -> None:
        self.put(kind, len(pairs))
        for key, item in pairs:
            self.put(key)
            self.see(item)

    def array(self, value: Any) -> None:
        array = value.detach().cpu() if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        # A single number that was expanded has stride 0 and is called contiguous all the same.
        array = array.clone(memory_format=torch.contiguous_format)
        self.put("array", array.dtype, tuple(array.shape))
        self.digest.update(array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b"")

    def thing(self, value: Any) -> None:
        if isinstance(value, functools.partial):
            return self.items("partial", [("f", value.func), ("args", value.args), ("keywords", value.keywords)])
        if isinstance(value, types.MethodType):
            return self.items("method", [("f", value.__func__), ("of", value.__self__)])
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, types.CodeType):
            return self.code(value)
        if isinstance(value, type):
            return self.kind(value)
        if isinstance(value, property):
            return self.items("property", [("get", value.fget), ("set", value.fset)])
        if isinstance(value, (staticmethod, classmethod)):
            return self.items(type(value).__name__, [("f", value.__func__)])
        return self.thing_of_a_kind(value)

    def function(self, value: types.FunctionType) -> None:
        self.put("function", value.__module__, value.__qualname__)
        if _in_library(value.__module__) and len(self.seen) > 1:
            return
        self.see(value.__code__)
        self.items("defaults", [("", value.__defaults__), ("", value.__kwdefaults__)])
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self.put(name)
            with contextlib.suppress(ValueError):  # a cell that is not filled yet
                self.see(cell.cell_contents)
        for name in sorted(_named(value.__code__) & value.__globals__.keys()):
            item = value.__globals__[name]
            self.put(name)
            if isinstance(item, types.ModuleType):
                self.module(item, _names(value.__code__))
            elif not isinstance(item, logging.Logger):
                self.see(item)

    def module(self, value: types.ModuleType, names: set[str]) -> None:
        """What a function may take from a module of the user's own."""
        if not _in_library(value.__name__):
            own = {name: vars(value)[name] for name in names & vars(value).keys()}
            self.items("module", sorted((n, v) for n, v in own.items() if not isinstance(v, types.ModuleType)))

    def code(self, value: types.CodeType) -> None:
        documented = value.co_consts[:1] if isinstance(value.co_consts[:1] and value.co_consts[0], str) else ()
        self.put("code", value.co_code.hex(), value.co_names, value.co_varnames)
        self.items("constants", list(enumerate(value.co_consts[len(documented) :])))

    def kind(self, value: type) -> None:
        self.put("class", value.__module__, value.__qualname__)
        if not _in_library(value.__module__):
            self.items("bases", [("", base) for base in value.__bases__])
            self.items("body", sorted((n, v) for n, v in vars(value).items() if _is_of_a_body(n, v)))

    def thing_of_a_kind(self, value: Any) -> None:
        """An object: its class and those of its attributes that say what it is."""
        if isinstance(value, Posterior):
            return self.items("posterior", sorted(value.draws.items()))
        self.see(type(value))
        self.put(getattr(value, "__module__", ""), getattr(value, "__qualname__", ""))
        said = {n: v for n, v in _attributes(value).items() if self.says(value, n, v)}
        if "_pyro_samples" in said:  # those that the class declares join at their first use
            own = said["_pyro_samples"].items()
            said["_pyro_samples"] = {n: v for n, v in own if not isinstance(_of_class(value, n), PyroSample)}
        if not said and not isinstance(value, CODE):
            with contextlib.suppress(Exception):  # what is no value (a lock, a file) has no copy
                self.see(value.__reduce_ex__(2)[1:3])
        return self.items("attributes", sorted(said.items()))

    def says(self, value: Any, name: str, item: Any) -> bool:
        """Whether an attribute says what an object is: nothing that it remembers of having been used."""
        if name in REMEMBERED or isinstance(item, weakref.ref) or (name == "_inv" and item is None):
            return False
        if isinstance(value, nn.Module) and name in OF_MODULES:
            return self.weights or name not in ("_parameters", "_buffers")
        if isinstance(value, Distribution):
            return not isinstance(_of_class(value, name), lazy_property)
        public = not name.startswith("_") or name == "__wrapped__"
        if isinstance(value, Messenger):
            return public
        if isinstance(item, Tensor):
            return self.weights
        if isinstance(item, PLAIN):
            return True
        if _in_library(type(value).__module__):
            # Of an installed module's containers nobody knows which are caches.
            return public and isinstance(item, CODE if isinstance(value, nn.Module) else (*CODE, *CONTAINERS))
        return public or not isinstance(item, Mapping)
