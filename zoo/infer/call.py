"""Which call a checkpoint belongs to: what of it decides the draws, and what another call has different."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyro
import torch
from torch import Tensor

import zoo
from zoo.core.problem import Data, Problem

from .fingerprint import PLAIN, fingerprint
from .freeze import freeze

# Options that leave the draws as they are; more draws are more of the same.
FREE = ("progress", "max_seconds", "checkpoint", "draws")
Facts = dict[str, Any]


class Call(NamedTuple):
    """A call of `zoo.run`.

    Attributes:
        facts: {what: value} of all that decides the draws; JSON-able.
        draws: Draws asked for; None where the method has no such option.
        again: What `zoo resume` needs to make the call again; its "model" is None for a model of the user's own.
    """

    facts: Facts
    draws: int | None
    again: dict[str, Any]


def call_of(problem: Problem, method: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Call:
    """The call of a method on a problem.

    Args:
        problem: On the device and in the dtype of the run.
        method: Its name.
        options: As given, checked.
        defaults: {option: default} of the method.
    """
    asked = dict(defaults) | dict(options)
    facts: Facts = {"method": method, "model": problem.name, "the model's code": fingerprint(problem.model)}
    facts |= {"data": _data(problem), "dtype": str(problem.tensor.dtype), "device": str(problem.tensor.device)}
    facts |= {f"hyperparameter {name}": _said(value) for name, value in problem.hyper.items()}
    facts |= {f"name of {role}": name for role, name in problem.names.items()}
    facts |= {name: _said(value) for name, value in asked.items() if name not in FREE}
    if method == "svi" and asked.get("guide") is None:
        facts["guide"] = _said(problem.guide)
    facts |= {"torch": str(torch.__version__), "pyro": pyro.__version__, "zoo": zoo.__version__}
    facts["python"] = ".".join(platform.python_version_tuple()[:2])
    return Call(facts, asked.get("draws"), _again(problem, method, options))


def _said(value: Any) -> Any:
    """A value as it stands in messages and files, or its kind and fingerprint."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, PLAIN) for item in value):
        return repr([_said(item) for item in value])
    if isinstance(value, dict) and all(isinstance(item, PLAIN) for item in value.values()):
        return repr({name: _said(item) for name, item in sorted(value.items())})
    if isinstance(value, (Tensor, np.ndarray)):
        return f"array {fingerprint(value)}"
    name = getattr(value, "__name__", None) or type(value).__name__
    return f"{name} {fingerprint(value, weights=not isinstance(value, torch.nn.Module))}"


def _data(problem: Problem) -> str:
    data = problem.data
    names = ("x", "y", "x_test", "y_test")
    return fingerprint({name: getattr(data, name) for name in names} if isinstance(data, Data) else data)


def lecture_model(problem: Problem) -> str | None:
    """The name of the zoo's own model that a problem runs, or None for a user's."""
    package, _, name = getattr(problem.model, "__module__", "").rpartition(".")
    if package != "zoo" or name not in zoo.names():
        return None
    return name if getattr(importlib.import_module(f"zoo.{name}"), "model", None) is problem.model else None


def _again(problem: Problem, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the call again; without the model where it, or an option, is nothing that a file can hold."""
    data = problem.data
    fields = ("x", "y", "x_test", "y_test", "info")
    again = {
        "name": problem.name,
        "model": lecture_model(problem),
        "method": method,
        "options": {name: value for name, value in options.items() if name not in ("progress", "max_seconds")},
        "hyper": problem.hyper,
        "data": {name: getattr(data, name) for name in fields} if isinstance(data, Data) else data,
        "device": str(problem.tensor.device),
    }
    try:
        freeze(again)
    except TypeError:
        return {"name": problem.name, "model": None, "method": method}
    return again if again["model"] else {key: again[key] for key in ("name", "model", "method")}


def made_again(again: Mapping[str, Any]) -> Problem:
    """The problem of a stored call on a model of the zoo.

    Raises:
        ValueError: For a model that is not one of the zoo's: importing it by a name in a file would run code.
    """
    name = again["model"]
    if name not in zoo.names():
        raise ValueError(f"the model must be one of the zoo's, got {name!r}.")
    module = importlib.import_module(f"zoo.{name}")
    parts: dict[str, Any] = {part: getattr(module, attribute, None) for part, attribute in _PARTS.items()}
    problem = Problem(again["name"], module.model, Data(**again["data"]), hyper=again["hyper"], **parts)
    return problem.to(device=again["device"])


_PARTS = {"compare": "COMPARE", "guide": "guide", "exact": "exact"}


def differences(got: Facts, stored: Facts) -> list[str]:
    """One phrase for each fact that differs."""
    names = [*stored, *(name for name in got if name not in stored)]
    pairs: list[tuple[str, Any, Any]] = [(n, got.get(n, "nothing"), stored.get(n, "nothing")) for n in names]
    return [f"{n}: got {a!r}, stored {b!r}" for n, a, b in pairs if a != b]
