"""Where nn.Parameters live: `pyro.module(name, net)` names a net's parameters, not the net that reads them.

A function that calls the net reads them from the net's modules, whatever `pyro.param` answers. So other values must
lie in those modules while the function runs; which modules they are is asked of the garbage collector.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

Slot = tuple[dict[str, Any], str]


def slots(parameter: nn.Parameter) -> list[Slot]:
    """The modules' own dictionaries that hold this parameter, and its names there; shared weights have several."""
    found = []
    for holder in gc.get_referrers(parameter):
        if isinstance(holder, dict) and _of_module(holder):
            found += [(holder, name) for name, value in holder.items() if value is parameter]
    return found


def _of_module(holder: dict[str, Any]) -> bool:
    """Whether a dictionary is some module's `_parameters`."""
    for owner in gc.get_referrers(holder):
        attributes = owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
        if isinstance(attributes, dict) and attributes.get("_parameters") is holder:
            return True
    return False


@contextlib.contextmanager
def holding(values: Mapping[str, Tensor], places: Mapping[str, list[Slot]]) -> Iterator[None]:
    """Puts values into the slots of the same names, and what was there back at the end.

    The caller holds the process-wide lock: a module is seen by all threads.
    """
    before = [(holder, name, holder[name]) for each in places.values() for holder, name in each]
    with warnings.catch_warnings():
        # pyro.module says of a value without a gradient that it is not registered: that is what is wanted here.
        warnings.filterwarnings("ignore", message=".* was not registered in the param store")
        try:
            for key, each in places.items():
                for holder, name in each:
                    holder[name] = values[key]
            yield
        finally:
            for holder, name, value in before:
                holder[name] = value
