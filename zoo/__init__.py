"""The Bayesian deep learning zoo: lecture models in Pyro, every inference beside its gold standard.

problem = zoo.load("bnn_regression", hidden=50)
gold = zoo.run(problem, "nuts")
fast = zoo.run(problem, "svi", guide="normal")
print(zoo.compare(gold, fast))
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The front door is lazy: `import zoo` loads neither torch nor Pyro.
_DOORS = {
    "Data": "zoo.core.problem",
    "Problem": "zoo.core.problem",
    "Exact": "zoo.core.problem",
    "Posterior": "zoo.core.posterior",
    "NoResult": "zoo.core.no_result",
    "check": "zoo.core.contract",
    "load": "zoo.infer.dispatch",
    "run": "zoo.infer.dispatch",
    "compare": "zoo.report.distance",
    "find_gold": "zoo.report.gold",
    "loo": "zoo.report.loo",
    "bound": "zoo.report.bound",
    "log_marginal": "zoo.report.importance",
    "sbc": "zoo.report.sbc",
    "scores": "zoo.report.scored",
    "check_predictive": "zoo.report.predictive_checks",
    "uncertainty": "zoo.report.uncertainty",
    "weight_decay": "zoo.core.decay",
    "open": "zoo.report.files",
    "plot": "zoo.report.pictures",
    "animate": "zoo.report.animate.write",
    "write_report": "zoo.report.page.write",
}

if TYPE_CHECKING:
    from zoo.core.contract import check as check
    from zoo.core.decay import weight_decay as weight_decay
    from zoo.core.no_result import NoResult as NoResult
    from zoo.core.posterior import Posterior as Posterior
    from zoo.core.problem import Data as Data
    from zoo.core.problem import Exact as Exact
    from zoo.core.problem import Problem as Problem
    from zoo.infer.dispatch import load as load
    from zoo.infer.dispatch import run as run
    from zoo.report.animate.write import animate as animate
    from zoo.report.bound import bound as bound
    from zoo.report.distance import compare as compare
    from zoo.report.files import open as open
    from zoo.report.gold import find_gold as find_gold
    from zoo.report.importance import log_marginal as log_marginal
    from zoo.report.loo import loo as loo
    from zoo.report.page.write import write_report as write_report
    from zoo.report.pictures import plot as plot
    from zoo.report.predictive_checks import check_predictive as check_predictive
    from zoo.report.sbc import sbc as sbc
    from zoo.report.scored import scores as scores
    from zoo.report.uncertainty import uncertainty as uncertainty


def names() -> list[str]:
    """The lecture models, in alphabetical order: every plain file of this folder is one."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg and not m.name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        value = getattr(importlib.import_module(_DOORS[name]), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and name in names():
        return importlib.import_module(f"zoo.{name}")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}; it has {sorted([*_DOORS, 'names'])} and the models")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOORS, *names()])
