"""How to make a fit again: the Python call and the shell command, and what neither can say."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.core.posterior import Posterior
from zoo.infer.call import lecture_model
from zoo.infer.families import families

from ..inputs import is_stored
from .asked import changed
from .origin import Origin, origin

# What a fit was told by an object of the user's own, its settings know by name only.
OBJECTS = ("guide", "init")


class Again(NamedTuple):
    """Two ways to make a fit again.

    Args:
        python: Lines of Python; `fit` is the fit.
        shell: A command, or "" where there is none.
        notes: What to know, such as why there is no command.
    """

    python: str
    shell: str
    notes: tuple[str, ...]


def outputs(fits: Sequence[Posterior], files: Sequence[str]) -> list[str]:
    """The file that each fit's command writes: called as it is, or by its method, and never twice the same."""
    out: list[str] = []
    for fit, file in zip(fits, files, strict=True):
        path = Path(Path(file).name or f"{fit.method}.nc")
        names = [path.name, *(f"{path.stem}-{i}{path.suffix}" for i in range(2, len(out) + 3))]
        out.append(next(name for name in names if name not in out))
    return out


def again(fit: Posterior, file: str = "", output: str = "") -> Again:
    """The calls; of data that the zoo makes or reads it is checked that they are the same data.

    Args:
        fit: Any method's result.
        file: Where it was saved, or "".
        output: The file that the command writes; "": METHOD.nc.
    """
    options, lost = _options(fit)
    notes = [f"{name} was an object of your own, here known as {value!r}: give it again." for name, value in lost]
    given = options | dict(lost)
    name = lecture_model(fit.problem)
    found = origin(fit) if name else None
    if found is not None and found.dtype != fit.settings.get("dtype", found.dtype):
        given["dtype"] = fit.settings["dtype"]
    lines = [
        "import zoo",
        "",
        f"problem = {_problem(fit, file, name, found)}",
        f"fit = {_call(fit.method, given, lost)}",
    ]
    if found is None:
        notes.append(_no_command(fit, name, file))
    if fit.settings.get("options", {}).get("max_seconds") is not None:
        notes.append("The run had a limit of time: another machine may end it elsewhere.")
    shell = ""
    if name and found is not None and not lost and None not in found.options.values():
        shell = _command(fit, name, found, given, output or f"{fit.method}.nc")
    return Again("\n".join(lines), shell, tuple(notes))


def _options(fit: Posterior) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Options as they can be written down, and those that were objects."""
    every = dict(changed(fit))
    lost = [(name, every[name]) for name in OBJECTS if name in every and _is_lost(name, every[name])]
    return {name: value for name, value in every.items() if name not in dict(lost)}, lost


def _is_lost(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    known = [*families()] if name == "guide" else ["uniform", "prior", "map"]
    return value not in known and not (name == "guide" and value.startswith("Auto"))


def _problem(fit: Posterior, file: str, name: str | None, found: Origin | None) -> str:
    if found is not None:
        words = [repr(name), *([repr(found.source)] if found.source else [])]
        words += [f"seed={found.seed}"] if found.seed else []
        return f"zoo.load({', '.join([*words, *(f'{k}={v!r}' for k, v in found.options.items())])})"
    own = "" if name else ", model=your_model"
    if file:
        return f"zoo.open({file!r}{own}).problem"
    if name:
        hyper = "".join(f", {k}={v!r}" for k, v in fit.problem.hyper.items())
        return f"zoo.load({name!r}, your_data{hyper})"
    return f"zoo.Problem({fit.problem.name!r}, your_model, your_data, hyper={dict(fit.problem.hyper)!r})"


def _call(method: str, options: dict[str, Any], lost: list[tuple[str, Any]]) -> str:
    words = [f"{k}={f'your_{k}' if k in dict(lost) else repr(v)}" for k, v in options.items()]
    return f"zoo.run({', '.join(['problem', repr(method), *words])})"


def _no_command(fit: Posterior, name: str | None, file: str) -> str:
    if not name:
        lacks = " The file was opened without it." if is_stored(fit) else ""
        return f"No shell command: the model is your own, and only Python has it.{lacks}"
    where = "the file holds them" if file else "keep them in a file: fit.save('fit.nc')"
    return f"No shell command: the data (hash {fit.problem.hash}) were given in Python; {where}."


def _command(fit: Posterior, name: str, found: Origin, options: dict[str, Any], output: str) -> str:
    words = ["zoo", "run", name, "-m", fit.method]
    words += ["--data", found.source] if found.source else []
    rest = dict(options)
    seed = rest.pop("seed", found.seed) if rest.get("seed", found.seed) == found.seed else found.seed
    words += ["--seed", str(seed)]
    for key, value in found.options.items():
        words += _flag(key, value) if found.source and key in found.table else ["--set", f"{key}={_value(value)}"]
    words += [word for key, value in rest.items() for word in ("--opt", f"{key}={_value(value)}")]
    return shlex.join([*words, "-o", output])


def _flag(key: str, value: Any) -> list[str]:
    return [f"--{key}", *(map(str, value) if isinstance(value, (list, tuple)) else [str(value)])]


def _value(value: Any) -> str:
    """As `--set` and `--opt` read it: a literal, or a word that is none."""
    if not isinstance(value, str):
        return repr(value)
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return repr(value)
