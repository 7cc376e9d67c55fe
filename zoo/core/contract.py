"""`check`: does a model keep its promises? One line each: what was seen, or what failed and still works.

What a model's file may hold:

    model(x, y=None, *, ...)       the Pyro model; keywords are hyperparameters
    data(seed=0, ...) -> Data      its own data; float32, on the CPU, a function of its arguments only
    prepare(data) -> Data          optional: given data in the form the model expects (labels 0/1), or a ValueError
    complete(data, hyper) -> hyper optional: hyperparameters that follow from the prepared data where the user left them
                                   out (the number of classes), or a ValueError where they contradict it; called by
                                   `zoo.load` and here after `prepare`; what it returns is what files and tables show
    exact(data, ...) -> Exact      optional: what is known in closed form
    guide(model) -> guide          optional: the guide that `svi` takes first
    COMPARE, CLASSIFY              optional: sites to compare; whether a table's target is a class
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pyro
import torch

from . import promises
from .handlers import pyro_state
from .problem import Data, Problem
from .sites import Sites, sites
from .trial import NoRows
from .words import nearest

MOST_ROWS = 20  # of its own data that a module is checked on

# promise: (how it is checked, what still works where it is broken)
PROMISES: dict[str, tuple[Callable[[Problem, Sites], str], str]] = {
    "names": (
        promises.names,
        "every method; compare goes by latent sites, axes of ArviZ's groups keep their own names",
    ),
    "device": (promises.device, "everything on the CPU"),
    "dtype": (promises.dtype, "nuts, hmc, svi and prior in the data's own dtype"),
    "traceable": (promises.traceable, "engine='loop' and engine='pyro', one chain at a time"),
    "any rows": (promises.any_rows, "full batches; minibatches of another size are wrong once compiled"),
    "pure": (promises.pure, "nothing can be relied on: two runs may differ"),
    "parameters": (promises.parameters, "map and svi take parameters as points, prior holds them; others refuse"),
    "rows": (promises.rows, "full-batch methods, predict on the training rows; no minibatches"),
    "local latents": (
        promises.local,
        "every method on the training rows; predict on new ones only if no latent is a row's",
    ),
    "finite start": (promises.finite, "prior; and samplers from init= a Posterior"),
    "event dims": (promises.event_dims, "map, laplace, hmc and nuts; guides that go by a site's axes do not"),
}


class Promise(NamedTuple):
    """One line of a report; not `checked` where the model lacks what the check needs."""

    name: str
    ok: bool
    text: str
    checked: bool = True


@dataclasses.dataclass(frozen=True)
class Report:
    """What `check` found; prints as a table.

    Args:
        subject: The model's name.
        rows: One `Promise` each.
    """

    subject: str
    rows: tuple[Promise, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise is kept."""
        return all(row.ok for row in self.rows)

    @property
    def failed(self) -> list[str]:
        """The names of the promises that are broken or could not be checked."""
        return [row.name for row in self.rows if not row.ok]

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        words = ["ok" if row.ok else "FAILED" if row.checked else "?" for row in self.rows]
        lines = [f"  {row.name:<{width}}  {word:<6}  {row.text}" for row, word in zip(self.rows, words, strict=True)]
        unknown = f", {words.count('?')} could not be checked" if "?" in words else ""
        verdict = f"breaks {words.count('FAILED')} of {len(words)} promises{unknown}"
        verdict = "keeps its promises" if self.ok else verdict
        return "\n".join([f"{self.subject} {verdict}", *lines])


def check(model: Any, **hyper: Any) -> Report:
    """Checks a model against the contract.

    Args:
        model: The name of a lecture model; a module with `model` and `data`, yours or the zoo's; or a
            `Problem`, whose model needs no file of its own.
        **hyper: Hyperparameters to check a named model or a module with.

    Returns:
        `Report`: print it, ask `.ok`, or go through `.rows`.

    Raises:
        ValueError: For an unknown name.
        TypeError: For anything else than a name, a module or a Problem.
    """
    if isinstance(model, Problem):
        problem, first = dataclasses.replace(model, hyper={**model.hyper, **hyper}), []
    else:
        module = _module(model)
        made = _attempt("file", lambda: _file(module), "zoo.Problem(name, model, data) takes the model alone")
        if not made.ok:
            return Report(module.__name__, (made,))
        problem, first = _problem(module, hyper), [made]
    hush = io.StringIO()
    with pyro_state(validate=False), contextlib.redirect_stdout(hush), contextlib.redirect_stderr(hush):
        found: list[Sites] = []
        first.append(_attempt("sites", lambda: _sites(problem, found), "prior, if all sites can be sampled"))
        kept = PROMISES if found else {}
        rows = [_attempt(n, functools.partial(p, problem, found[0]), still) for n, (p, still) in kept.items()]
    return Report(problem.name, (*first, *rows))


def _attempt(name: str, promise: Callable[[], str], still: str) -> Promise:
    """One promise tried; any error of the model is its failure, told in one line."""
    store = pyro.get_param_store()
    kept = set(store.keys())
    try:
        return Promise(name, True, promise())
    except NoRows as error:
        short = str(error) if name == "names" else "not checked without a plate of rows (see names)"
        return Promise(name, False, f"{short}. Still works: {still}.", checked=name == "names")
    except Exception as error:
        words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        words = words if isinstance(error, ValueError) else f"{type(error).__name__}: {words}"
        short = words if len(words) <= 300 else words[:297] + "..."
        return Promise(name, False, f"{short}. Still works: {still}.")
    finally:
        # What a model leaves there would hide from the next check that it does so.
        for added in set(store.keys()) - kept:
            del store[added]


def _sites(problem: Problem, found: list[Sites]) -> str:
    """The model can be traced; gives it targets of its own where it has none."""
    seen = sites(problem)
    if not seen.latent:
        raise ValueError("no latent site: add a pyro.sample without obs")
    found.append(seen)
    return f"latent {', '.join(seen.latent)}; observed {', '.join(seen.observed) or 'none'}"


def _module(model: Any) -> types.ModuleType:
    if isinstance(model, types.ModuleType):
        return model
    if not isinstance(model, str):
        raise TypeError(f"check takes a model's name, a module or a Problem, got {type(model).__name__}.")
    import zoo

    if model not in zoo.names():
        raise ValueError(nearest(model, zoo.names(), "model"))
    return importlib.import_module(f"zoo.{model}")


def _file(module: types.ModuleType) -> str:
    """A docstring, `model`, and `data` that depends on its seed only and lies on the CPU in float32."""
    lacking = [name for name in ("model", "data") if not callable(getattr(module, name, None))]
    if lacking or not module.__doc__:
        raise ValueError(f"the file lacks {' and '.join(lacking) or 'a docstring'}")
    state = torch.random.get_rng_state()
    data, again = module.data(seed=0), module.data(seed=0)
    moved = not torch.equal(state, torch.random.get_rng_state())
    torch.random.set_rng_state(state)
    if not isinstance(data, Data) or data.x.dtype != torch.float32 or data.x.device.type != "cpu":
        raise ValueError("data(seed=0) must return zoo.Data in float32 on the CPU")
    if data.hash != again.hash or moved:
        raise ValueError("data(seed=0) must depend on its seed only: use torch.Generator().manual_seed(seed)")
    return "docstring, model, data deterministic in its seed"


def _problem(module: types.ModuleType, hyper: dict[str, Any]) -> Problem:
    data = module.data(seed=0)
    data = module.prepare(data) if hasattr(module, "prepare") else data
    if len(data.x) > MOST_ROWS:  # what is promised of code, more rows would not test better
        data = dataclasses.replace(data, x=data.x[:MOST_ROWS], y=None if data.y is None else data.y[:MOST_ROWS])
    return Problem(
        module.__name__.rpartition(".")[2],
        module.model,
        data,
        hyper=module.complete(data, hyper) if hasattr(module, "complete") else hyper,
        compare=getattr(module, "COMPARE", None),
    )
