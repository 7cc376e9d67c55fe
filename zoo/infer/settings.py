"""What a posterior's `settings` say of every method: options, seed, dtype, device, threads, versions, data."""

from __future__ import annotations

import platform
from typing import Any

import pyro
import torch

import zoo
from zoo.core.problem import Problem

PLAIN = (int, float, str, bool, list, tuple, dict, type(None))


def settings_of(problem: Problem, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run, JSON-able.

    Args:
        problem: As it was run.
        method: The method's name.
        options: All of its options, defaults included; what is no number, string, list or dict counts by its name.
    """
    like = problem.tensor
    return {
        "method": method,
        "options": {k: v if isinstance(v, PLAIN) else _name(v) for k, v in options.items()},
        "seed": options.get("seed", 0),
        "dtype": str(like.dtype).removeprefix("torch."),
        "device": str(like.device),
        "threads": torch.get_num_threads(),
        "versions": {
            "zoo": zoo.__version__,
            "torch": torch.__version__,
            "pyro": pyro.__version__,
            "python": platform.python_version(),
        },
        "data": problem.hash,
    }


def _name(value: Any) -> str:
    return getattr(value, "__name__", None) or type(value).__name__
