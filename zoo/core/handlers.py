"""The few effect handlers between a Pyro model and a function of its latent values."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyro
import torch
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Distribution

from guides.supports import unconstrain

# Pyro's handler stack is one global list: two threads tracing at once corrupt it.
LOCK = threading.RLock()


@contextlib.contextmanager
def pyro_state(validate: bool) -> Iterator[None]:
    """Holds the process-wide lock and sets Pyro's and torch's validation; puts everything back as found.

    Parameters that a model leaves in the param store are taken out again.
    """
    with LOCK, store_as_found():
        before = Distribution._validate_args
        # Pyro's own switch is read through its settings; torch keeps a class attribute of its own.
        with pyro.validation_enabled(validate):
            torch.distributions.Distribution.set_default_validate_args(validate)
            try:
                yield
            finally:
                torch.distributions.Distribution.set_default_validate_args(before)


@contextlib.contextmanager
def store_as_found() -> Iterator[None]:
    """A model with a pyro.param finds what its user set, and leaves nothing behind."""
    store = pyro.get_param_store()
    found = set(store.keys())
    try:
        yield
    finally:
        for name in set(store.keys()) - found:
            del store[name]


def unchecked(fn: Any) -> Any:
    """The distribution without checks of its own where those are off for all.

    One that was made before (a PyroSample's prior, a module's constant) keeps the switch of that day once it is
    expanded, and its check of values can be neither mapped nor traced.
    """
    if Distribution._validate_args or not getattr(fn, "_validate_args", False):
        return fn
    copied = copy.copy(fn)
    copied._validate_args = False
    if hasattr(fn, "base_dist"):
        copied.base_dist = unchecked(fn.base_dist)
    return copied


def is_latent(msg: Any) -> bool:
    """Whether a message is a sample statement that inference must fill in."""
    return msg["type"] == "sample" and not msg["is_observed"] and not msg["done"] and not site_is_subsample(msg)


def is_factor(msg: Any) -> bool:
    """Whether a message is a `pyro.factor` statement: a term of the log density, no data."""
    return isinstance(_base(msg["fn"]), pyro.distributions.Unit)


def is_computed(msg: Any) -> bool:
    """Whether a site's value follows from others: `pyro.deterministic`, and what `pyro.infer.reparam` leaves.

    A reparameterised site poses as an observed Delta at the value that was computed for it.
    """
    return is_deterministic(msg) or (msg["is_observed"] and isinstance(_base(msg["fn"]), pyro.distributions.Delta))


def is_data(msg: Any) -> bool:
    """Whether a message scores data: an observed site, neither computed nor a `pyro.factor`."""
    return msg["is_observed"] and not is_computed(msg) and not is_factor(msg)


def _base(fn: Any) -> Any:
    while hasattr(fn, "base_dist") and not isinstance(fn, pyro.distributions.TransformedDistribution):
        fn = fn.base_dist
    return fn


def is_replica(msg: Any) -> bool:
    """Whether a message is the latent twin that `obs_mask=` makes of an observed site.

    Pyro masks its entries where the data are seen, which leaves them without any density: a sampler would walk
    there for ever. They are used nowhere, so that giving them their prior changes no other site's posterior:
    they become replicates of what was seen.
    """
    return not msg["is_observed"] and isinstance(msg["mask"], Tensor) and msg["name"].endswith("_unobserved")


def in_plate(msg: Any, plate: str) -> bool:
    """Whether a message stands inside the plate of that name."""
    return any(frame.name == plate for frame in msg["cond_indep_stack"])


def scaled_log_prob(msg: Any, value: Any = None, replicas: bool = True) -> Tensor:
    """The site's log probability summed in float64, with the model's own scales and masks.

    float32 sums lose the energy differences that a Metropolis step lives on: at 10^5 rows their error is 2-3
    nats; summed in float64 it is 10^-3 at the same cost.
    """
    log_prob = msg["fn"].log_prob(msg["value"] if value is None else value, *msg["args"], **msg["kwargs"])
    mask = None if replicas and is_replica(msg) else msg["mask"]
    if mask is False:
        return log_prob.new_zeros((), dtype=torch.float64)
    if isinstance(mask, Tensor):
        log_prob = torch.where(mask, log_prob, log_prob.new_zeros(()))
    scale = msg["scale"]
    if isinstance(scale, Tensor) or scale != 1.0:
        log_prob = log_prob * scale
    return log_prob.sum(dtype=torch.float64)


def number_plates(msg: Any, sequential: Iterable[str]) -> None:
    """Gives `for i in pyro.plate(...)` its indices as numbers: tensors cannot be read while a graph is traced."""
    if msg["name"] in sequential and site_is_subsample(msg) and msg["value"] is None:
        msg["value"] = range(msg["fn"].size)


class Values(Messenger):
    """Answers latent sites with given values in the sites' own (constrained) spaces."""

    def __init__(self, values: Mapping[str, Tensor], sequential: Iterable[str] = ()) -> None:
        super().__init__()
        self.values, self.sequential = values, sequential

    def _pyro_sample(self, msg: Any) -> None:
        number_plates(msg, self.sequential)
        if is_latent(msg) and msg["name"] in self.values:
            msg["value"], msg["done"], msg["fn"] = self.values[msg["name"]], True, unchecked(msg["fn"])


class Unconstrained(Messenger):
    """Answers latent sites with t(u), t the bijection to the support the site has *in this trace*.

    So a support that depends on another latent is right at every point, where a transform frozen at the first
    trace is not. Adds up log |dt/du| in `log_jacobian` and keeps the constrained values in `values`.
    """

    def __init__(self, coordinates: Mapping[str, Tensor], sequential: Iterable[str] = ()) -> None:
        super().__init__()
        self.coordinates, self.sequential = coordinates, sequential
        self.values: dict[str, Tensor] = {}
        self.log_jacobian: Tensor | float = 0.0

    def _pyro_sample(self, msg: Any) -> None:
        number_plates(msg, self.sequential)
        if not (is_latent(msg) and msg["name"] in self.coordinates):
            return
        u = self.coordinates[msg["name"]]
        transform = unconstrain(msg["fn"].support, msg["name"])
        value = transform(u)
        jacobian = transform.log_abs_det_jacobian(u, value)
        self.log_jacobian = self.log_jacobian + jacobian.sum(dtype=torch.float64)
        self.values[msg["name"]] = value
        msg["value"], msg["done"], msg["fn"] = value, True, unchecked(msg["fn"])


class LogProb(Messenger):
    """Adds up log probabilities: `sites` {name: summed float64}, `total` their sum.

    Args:
        plate: Name of the data plate.
        scale: Factor n / len(batch) for every site inside that plate; 1 for all rows.
        replicas: Whether replicates of what was seen (see `is_replica`) count; no for log p(y, theta) itself.
        later: A site that is left out, as its value is not known yet.
    """

    def __init__(
        self, plate: str = "data", scale: float | Tensor = 1.0, replicas: bool = True, later: str = ""
    ) -> None:
        super().__init__()
        self.plate, self.scale, self.replicas, self.later = plate, scale, replicas, later
        self.sites: dict[str, Tensor] = {}

    def _pyro_post_sample(self, msg: Any) -> None:
        if site_is_subsample(msg) or msg["infer"].get("_deterministic", False) or msg["name"] == self.later:
            return
        log_prob = scaled_log_prob(msg, replicas=self.replicas)
        if in_plate(msg, self.plate) and not (isinstance(self.scale, float) and self.scale == 1.0):
            log_prob = log_prob * self.scale
        self.sites[msg["name"]] = log_prob

    @property
    def total(self) -> Tensor:
        return torch.stack(list(self.sites.values())).sum()


class Record(Messenger):
    """Keeps the messages of sample sites (deterministic ones too) by name, as a light trace."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[str, Any] = {}

    def _pyro_post_sample(self, msg: Any) -> None:
        if site_is_subsample(msg):
            return
        if msg["name"] in self.sites:
            raise ValueError(f"site '{msg['name']}' is sampled twice. Give each sample statement a name of its own.")
        self.sites[msg["name"]] = msg


def is_deterministic(msg: Any) -> bool:
    """Whether a message is a `pyro.deterministic` statement."""
    return bool(msg["infer"].get("_deterministic", False))
