"""`--set key=value` and `--opt key=value`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


def parse(text: str) -> tuple[str, Any]:
    """("hidden", 100) from "hidden=100": the value is a Python literal where it reads as one, else a string.

    Raises:
        ValueError: If there is no name before an equals sign.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ValueError(f"expected name=value, got {text!r}. For example hidden=100.")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def hyperparameters(texts: Iterable[str]) -> dict[str, Any]:
    """The model's options; ValueError for what is given otherwise."""
    found = options(texts, "--set")
    if other := next((name for name in ("seed", "data", "name") if name in found), None):
        by = "the command's first word" if other == "name" else f"--{other}"
        raise ValueError(f"--set gives the model's own options, and {other} is none: it is {by}.")
    return found


def options(texts: Iterable[str], flag: str) -> dict[str, Any]:
    """A dict from several of them.

    Raises:
        ValueError: If a name is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, value = parse(text)
        if key in found:
            raise ValueError(f"{flag} {key} was given twice: {found[key]!r} and {value!r}. Give it once.")
        found[key] = value
    return found
