"""Where a lecture model's data came from: found by making them again and comparing the hash, never by belief."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoo.core.posterior import Posterior
from zoo.core.problem import Data, Problem
from zoo.data import files
from zoo.data.bundled import BUNDLED
from zoo.infer.call import lecture_model
from zoo.infer.dispatch import load

log = logging.getLogger("zoo")
TOY = re.compile(r"toy\.\w+\((.*)\)")
COIN = re.compile(r"(?P<heads>\d+) heads of (?P<n>\d+) flips")
SKLEARN = "scikit-learn "
SPLITS = 20
# Shares of rows to hold out, and seeds of the split, that are tried before unusual ones.
USUAL = (0.2, 0.1, 0.25, 0.3, 0.15, 0.4, 0.5)
SEEDS = 10
# Larger files are not read so often.
LARGE = 1_000_000


class Origin(NamedTuple):
    """What `zoo.load` is to be given.

    Args:
        source: A table, or "" for the model's own data.
        seed: Of the data, or of their split.
        options: Hyperparameters and what says how the data are made or read.
        table: Which of the options say how a table is read.
        dtype: Of the problem that is loaded.
    """

    source: str
    seed: int
    options: dict[str, Any]
    table: tuple[str, ...]
    dtype: str


def origin(fit: Posterior) -> Origin | None:
    """The call of `zoo.load` that gives the fit's problem, or None where it is not known.

    So it is where the data were given in Python, the model is your own, or the table is damaged or gone by now.
    """
    problem, name = fit.problem, lecture_model(fit.problem)
    if name is None or not isinstance(problem.data, Data) or not _plain(problem.hyper):
        return None
    try:
        return _found(fit, name, problem.data.info)
    except Exception as error:  # what is wrong with a table must not cost the page
        log.debug("%s: where its data came from is not known (%s)", name, error)
        return None


def _found(fit: Posterior, name: str, info: Mapping[str, Any]) -> Origin | None:
    problem = fit.problem
    hypers = [_usual_left_out(problem, name), dict(problem.hyper)]
    hypers = hypers if hypers[0] != hypers[1] else hypers[:1]
    for (source, seed, options), hyper in itertools.product(_candidates(fit, name, info), hypers):
        try:
            found = _quietly(name, source, seed, hyper | options)
        except Exception as error:  # a guess that does not fit is no fault of anybody's
            log.debug("%s: not %s, seed %s, %s (%s)", name, source or "its own data", seed, options, error)
            continue
        if found.hash == problem.hash and _same(found.hyper, problem.hyper):
            dtype = str(found.tensor.dtype).removeprefix("torch.")
            return Origin(source, seed, hyper | options, tuple(options) if source else (), dtype)
    return None


def _quietly(name: str, source: str, seed: int, options: Mapping[str, Any]) -> Problem:
    """`zoo.load` without its messages: a table is read to be compared, and nobody asked for it."""
    before = log.disabled
    log.disabled = True
    try:
        return load(name, source or None, seed, **options)
    finally:
        log.disabled = before


def _plain(hyper: Mapping[str, Any]) -> bool:
    try:
        json.dumps(dict(hyper))
    except (TypeError, ValueError):
        return False
    return True


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return json.dumps(dict(a), sort_keys=True) == json.dumps(dict(b), sort_keys=True)


def _usual_left_out(problem: Problem, name: str) -> dict[str, Any]:
    """Hyperparameters but those that `zoo.load` finds out by itself: the number of classes or outputs."""
    module = importlib.import_module(f"zoo.{name}")
    found = module.complete(problem.data, {}) if hasattr(module, "complete") else {}
    return {k: v for k, v in problem.hyper.items() if k not in found or found[k] != v}


def _candidates(fit: Posterior, name: str, info: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    source, seed = str(info.get("source") or "").removeprefix(SKLEARN), fit.settings.get("seed")
    seeds = dict.fromkeys([seed if isinstance(seed, int) else 0, 0])
    if "columns" not in info:
        options = _told(name, source)
        seeds = dict.fromkeys([options.pop("seed", 0), *seeds])
        yield from (("", s, options) for s in seeds)
    elif source.startswith("UCI "):
        table = f"uci/{source.removeprefix('UCI ')}"
        whole = fit.problem.data.x_test is None  # type: ignore[union-attr]
        yield from ((table, 0, {} if k == 0 else {"split": k}) for k in ([None] if whole else range(SPLITS)))
    elif source in BUNDLED or Path(source).is_file():
        small = source in BUNDLED or Path(source).stat().st_size < LARGE
        yield from _readings(fit, source, info, list(dict.fromkeys([*seeds, *range(SEEDS if small else 0)])))


def _told(name: str, source: str) -> dict[str, Any]:
    """What the model's own data function was given, as far as its result says so."""
    parameters = inspect.signature(importlib.import_module(f"zoo.{name}").data).parameters
    found: dict[str, Any] = {}
    if coin := COIN.fullmatch(source):
        found = {word: int(number) for word, number in coin.groupdict().items()}
        found |= {"heads": None} if found["heads"] == found["n"] else {}
    elif toy := TOY.fullmatch(source):
        call = ast.parse(f"f({toy[1]})", mode="eval").body
        assert isinstance(call, ast.Call)
        found = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    return {k: v for k, v in found.items() if k in parameters and (k == "seed" or parameters[k].default != v)}


def _readings(
    fit: Posterior, source: str, info: Mapping[str, Any], seeds: list[int]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """How a file or a bundled set may have been read."""
    data = fit.problem.data
    assert isinstance(data, Data)
    held = 0 if data.x_test is None else len(data.x_test)
    total = held + len(data.x)
    guesses = dict.fromkeys([*USUAL, *(round(held / total, k) for k in (2, 3, 4)), held / total])
    shares = [share for share in guesses if abs(share * total - held) <= 1]
    target = info["y_name"]
    targets = (target,) if isinstance(target, str) else tuple(target)
    own = source in BUNDLED and targets == tuple(BUNDLED[source][0])
    fixed: dict[str, Any] = {} if own else {"target": target}
    if source not in BUNDLED:
        used = {*targets, *(column["name"] for column in info["columns"])}
        ignored = [name for name in _columns(source) if name not in used]
        fixed |= {"ignore": ignored} if ignored else {}
    ways = [("refuse", ".")] if source in BUNDLED else [*itertools.product(("refuse", "drop"), (".", ","))]
    for (missing, decimal), test, seed in itertools.product(ways, shares, seeds):
        more: dict[str, Any] = {"test": test} if test != 0.2 else {}
        more |= ({"missing": missing} if missing != "refuse" else {}) | ({"decimal": decimal} if decimal != "." else {})
        yield source, seed, fixed | more


def _columns(source: str) -> list[str]:
    return list(files.read(source).names)
