"""What was asked: the model with its formula, the data, and what each method was told."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from zoo.core.layout import layout
from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.infer.call import lecture_model
from zoo.infer.defaults import defaults_of

from ..inputs import is_stored
from .subject import Subject
from .tags import Html, code, facts, joined, paragraph, section, table

# Longer lists and values are cut.
LISTED, LONGEST = 8, 160
LEFT_OUT = ("progress", "max_seconds", "checkpoint")


def asked(about: Subject) -> Html:
    """The section."""
    fit = about.fits[0]
    rows = [[name, *_row(one, file)] for name, one, file in zip(about.names, about.fits, about.files, strict=True)]
    head = ["fit", "model", "options that are no defaults", "chains x draws", "seconds", "file"]
    called = [
        f"{name} is called {drawn} in the pictures." for name, drawn in zip(about.names, about.drawn, strict=True)
        if name != drawn
    ]  # fmt: skip
    return section(
        "Asked: model, data, methods",
        *_model(fit),
        facts(_data(fit.problem)),
        table(head, rows, "The fits, in the order given"),
        *map(paragraph, called),
        *([paragraph(_reference(about))] if _reference(about) else []),
    )


def _reference(about: Subject) -> str:
    if about.gold is not None:
        run = about.gold.facts["run"]
        return (
            f"The reference is the gold file '{about.gold.name}': {run['method']}, {run['chains']} x {run['draws']} "
            f"draws, made by: {about.gold.facts['command']}"
        )
    return f"The reference is the first fit, {about.names[0]}." if len(about.fits) > 1 else ""


def _model(fit: Posterior) -> list[Html]:
    text = documentation(fit)
    title = paragraph("Model ", Html(f"<strong>{joined(fit.problem.name)}</strong>"))
    if not text:
        why = "the file was opened without it" if is_stored(fit) else "its function has no docstring"
        return [title, paragraph(f"A model of your own; {why}, so that no formula can be shown.", class_="lack")]
    first, _, rest = text.partition("\n")
    shown = formula(rest)
    return [title, paragraph(first), *([code(shown, "the model's formula")] if shown else [])]


def documentation(fit: Posterior) -> str:
    """The docstring of a lecture model's file, or of a user's function; "" where there is none."""
    name = lecture_model(fit.problem)
    if name is not None:
        return inspect.cleandoc(importlib.import_module(f"zoo.{name}").__doc__ or "")
    return "" if is_stored(fit) else inspect.getdoc(fit.problem.model) or ""


def formula(text: str) -> str:
    """The first indented block of a docstring; without one, what there is before the first section."""
    lines = text.strip("\n").split("\n")
    begin = next((i for i, line in enumerate(lines) if line.startswith("    ")), None)
    if begin is None:
        return text.partition("\nSource:")[0].strip()
    end = next((i for i in range(begin, len(lines)) if lines[i] and not lines[i].startswith(" ")), len(lines))
    return inspect.cleandoc("\n".join(["", *lines[begin:end]]))


def _data(problem: Problem) -> list[tuple[str, Any]]:
    data, hyper = problem.data, ", ".join(f"{k} = {cut(v)}" for k, v in problem.hyper.items())
    pairs: list[tuple[str, Any]] = [("hyperparameters", hyper or "the model's defaults")]
    if not isinstance(data, Data):
        names = ", ".join(f"{name} {_shape(value)}" for name, value in data.items())
        return [*pairs, ("data", f"a dict: {cut(names, 400)}"), ("hash of the data", problem.hash)]
    held = "none" if data.x_test is None else f"{len(data.x_test)}{'' if data.y_test is not None else ', without y'}"
    width = data.x[0].numel()
    return [
        *pairs,
        ("data", data.info.get("source") or "given in Python"),
        ("rows n", f"{len(data.x)}; held out: {held}"),
        ("inputs d", f"{width}{_named(data.info.get('x_names'))}" if width else "0: the model has no inputs"),
        ("target", _target(data)),
        ("hash of the data", problem.hash),
    ]


def _target(data: Data) -> str:
    name = data.info.get("y_name")
    text = ", ".join(map(str, name)) if isinstance(name, (list, tuple)) else str(name or "y")
    return cut(text + (_named(data.info["classes"], "classes") if data.info.get("classes") else ""), 300)


def _named(names: Any, word: str = "") -> str:
    if not names:
        return ""
    shown = ", ".join(map(str, names[:LISTED])) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
    return f" ({len(names)} {word}: {shown})" if word else f" ({shown})"


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if hasattr(value, "shape") else repr(value)


def _row(fit: Posterior, file: str) -> list[str]:
    words = ", ".join(f"{name} = {cut(value)}" for name, value in changed(fit).items())
    model = fit.problem.name + (f" ({layout(fit).family})" if layout(fit).family else "")
    seconds = f"{sum(fit.seconds.values()):.2f}"
    return [model, words or "none", f"{fit.shape[0]} x {fit.shape[1]}", seconds, file or "in memory"]


def changed(fit: Posterior) -> Mapping[str, Any]:
    """The options that differ from the method's defaults; the seed is always one of them."""
    options = fit.settings.get("options", {})
    try:
        usual = defaults_of(fit.method)
    except ValueError:  # a result made by hand
        usual = {}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in usual.items()}
    seed = {"seed": fit.settings["seed"]} if "seed" in fit.settings and "seed" in usual else {}
    return {
        name: _plain(value) for name, value in (options | seed).items()
        if name == "seed" or (name not in LEFT_OUT and (name not in plain or plain[name] != _plain(value)))
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def cut(value: Any, most: int = LONGEST) -> str:
    """A value as text, no longer than the page bears."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[:most]} ..."
