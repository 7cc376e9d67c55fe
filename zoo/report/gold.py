"""`Gold`: a reference posterior with its Monte Carlo errors, read from `zoo/gold/<name>.json`."""

from __future__ import annotations

import dataclasses
import inspect
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import zoo
from zoo.core.problem import Data, Problem

from .gold_covers import check_covered
from .gold_means import mean_of_f
from .same import same

FORMAT = 1
PROBES = 20
NUMBERS = 16_000  # draws of a gold run: 16 chains of 1,000
# What a file stores beside what is compared.
ONLY_JUDGED = ("lp", "log ")


@dataclasses.dataclass(frozen=True, repr=False)
class Gold:
    """A reference posterior.

    Args:
        facts: What the file holds: name, model, hyper, data (hash, probes: rows of x_test, and x there), command,
            run (sampler, draws, seconds, divergences), versions, quantities ({name: labels and, for each, what
            `zoo.report.summaries.summary` says}), draws ({name: (1000, k)}, joint) and certificates.
            The draws are of f and of scalars.
    """

    facts: dict[str, Any]

    @property
    def name(self) -> str:
        """The file's name."""
        return str(self.facts["name"])

    @property
    def hash(self) -> str:
        """The data's hash."""
        return str(self.facts["data"]["hash"])

    @property
    def compared(self) -> list[str]:
        """The quantities that other posteriors are compared on; not lp and log scales."""
        return [name for name in self.facts["quantities"] if not name.startswith(ONLY_JUDGED)]

    def probes(self, like: Tensor) -> Tensor | None:
        """The inputs (k, d) at which f was compared; None for a model without inputs."""
        x = self.facts["data"]["x"]
        return None if x is None else torch.tensor(x, dtype=like.dtype, device=like.device)

    def numbers(self, quantity: str, what: str) -> NDArray[np.float64]:
        """A number for each coordinate of a quantity: its "mean", "mcse_mean", "sd", ..."""
        return np.asarray(self.facts["quantities"][quantity][what], dtype=np.float64)

    def draws(self, quantity: str) -> NDArray[np.float64]:
        """1,000 joint draws (1000, k) of the whole run; of class probabilities by way of f, where the file has none."""
        if quantity in self.facts["draws"]:
            return np.asarray(self.facts["draws"][quantity], dtype=np.float64)
        f = np.asarray(self.facts["draws"]["f"], dtype=np.float64)
        return mean_of_f(f, self.facts["quantities"]["f"]["labels"], len(self.facts["data"]["probes"]))

    def __str__(self) -> str:
        run, hyper = self.facts["run"], self.facts["hyper"]
        model = [self.facts["model"], *([str(hyper)] if hyper else [])]
        lines = [
            f"gold '{self.name}': {' '.join(model)}, data {self.facts['data']['hash']}",
            f"{run['method']}, {run['chains']} x {run['draws']} draws, {run['divergences']} divergences, "
            f"{run['seconds']:.0f} s; made by: {self.facts['command']}",
        ]
        for name, entry in self.facts["quantities"].items():
            worst = int(np.argmin(entry["ess_bulk"]))
            lines.append(
                f"  {name}: {len(entry['labels'])} of them, {entry['labels'][0]} = {entry['mean'][0]:.4g} +- "
                f"{entry['mcse_mean'][0]:.1g} (sd {entry['sd'][0]:.3g}); least bulk ESS {entry['ess_bulk'][worst]:.0f}"
            )
        return "\n".join([*lines, *(f"  {word}: {what}" for word, what in self.facts["certificates"].items())])

    __repr__ = __str__


def folder() -> Path:
    """Where the zoo's gold files lie."""
    return Path(str(resources.files("zoo"))) / "gold"


def open_gold(name: str | Path) -> Gold:
    """The gold of a name, or of a file.

    Raises:
        FileNotFoundError: Where there is none.
        ValueError: For a file that is not gold.
    """
    path = Path(name) if str(name).endswith(".json") else folder() / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder().glob("*.json"))) or "none"
        raise FileNotFoundError(f"there is no gold {str(name)!r}; there is: {known}. Make it: zoo gold MODEL.")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        right = facts["zoo_gold"] == FORMAT
    except (ValueError, KeyError, TypeError):
        right = False
    if not right:
        raise ValueError(f"{path} is no gold file of format {FORMAT}, or is damaged. Make it again: zoo gold MODEL.")
    return Gold(facts)


def find_gold(problem: Problem | str) -> Gold:
    """The gold of a problem: of the same model, data and hyperparameters, whatever either is called.

    Args:
        problem: A problem, or a model's name, which is loaded with its defaults.

    Raises:
        FileNotFoundError: Where there is none.
        TypeError: For what is neither.
    """
    problem = zoo.load(problem) if isinstance(problem, str) else problem
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem must be a zoo.Problem or a model's name, got {type(problem).__name__}. Make one: zoo.load(name)."
        )
    wanted = key(problem)
    for path in sorted(folder().glob("*.json")):
        found = open_gold(path)
        if (found.facts["model"], found.facts["data"]["hash"], found.facts["hyper"]) == wanted:
            return found
    try:
        check_covered(problem, NUMBERS)
    except ValueError as error:
        raise FileNotFoundError(f"there is no gold for {problem.name}: {error}") from None
    raise FileNotFoundError(
        f"there is no gold for {problem.name} on data {problem.hash} with {problem.hyper or 'its defaults'}. Run your "
        "own gold standard: zoo.compare(zoo.run(problem, 'nuts'), fit)."
    )


def model_of(problem: Problem) -> tuple[str, tuple[str, ...]]:
    """The model's name, the same for all files of one posterior, and the hyperparameters that are of its q alone."""
    file = getattr(problem.model, "__module__", "").removeprefix("zoo.")
    module = getattr(zoo, file) if file in zoo.names() else None
    return getattr(module, "SAME_MODEL_AS", file) if module else problem.name, getattr(module, "OF_Q", ())


def _as_json(value: Any) -> Any:
    """What JSON lacks; arrays by all of their numbers, which their text leaves out where they are many."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def key(problem: Problem) -> tuple[str, str, dict[str, Any]]:
    """What makes two posteriors one: the model (its file), the data's numbers, hyperparameters that are not defaults.

    A model file may say that its model is that of another, SAME_MODEL_AS = "mc_dropout", and which hyperparameters
    are of its q alone, OF_Q = ("p", "where").
    """
    name, of_q = model_of(problem)
    defaults = {n: p.default for n, p in inspect.signature(problem.model).parameters.items()}
    hyper = {n: v for n, v in problem.hyper.items() if n not in of_q and not (n in defaults and same(defaults[n], v))}
    return name, problem.hash, json.loads(json.dumps(hyper, default=_as_json))


def probe_rows(problem: Problem) -> list[int] | None:
    """20 rows of x_test (where there is none: of x), evenly spaced in their order; None without inputs."""
    data = problem.data
    if not isinstance(data, Data) or data.x.shape[1] == 0:
        return None
    count = len(data.x if data.x_test is None else data.x_test)
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(PROBES, count)).round())]


def probe_inputs(problem: Problem) -> Tensor | None:
    """x at `probe_rows`."""
    rows, data = probe_rows(problem), problem.data
    if rows is None or not isinstance(data, Data):
        return None
    return (data.x if data.x_test is None else data.x_test)[rows]
