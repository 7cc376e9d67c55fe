"""`sites(problem)`: what a model samples, observes and computes, by one careful trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyro.distributions as dist
import torch
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from guides.supports import unconstrain

from .explained import explained
from .handlers import (
    Record,
    Unconstrained,
    in_plate,
    is_computed,
    is_data,
    is_deterministic,
    is_latent,
    pyro_state,
    scaled_log_prob,
)
from .problem import Data, Problem
from .randomness import untouched
from .readonly import read_only


class Site(NamedTuple):
    """A sample statement: its name, value shape, event_dim, distribution and plates (name, size)."""

    name: str
    shape: torch.Size
    event_dim: int
    fn: Any
    plates: tuple[tuple[str, int], ...]
    local: bool

    @property
    def unconstrained_shape(self) -> torch.Size:
        """The shape of the site's unconstrained coordinates (a simplex of k has k - 1)."""
        return torch.Size(unconstrain(self.fn.support, self.name).inverse_shape(self.shape))


class Sites(NamedTuple):
    """Latent, observed and deterministic sites by name, one point with finite values, and what is called y.

    `target` is the site called y, observed or not, else the only observed one; None where there is neither.
    `sequential` are the plates that the model goes through one by one (`for i in pyro.plate(...)`).
    """

    latent: dict[str, Site]
    observed: dict[str, Site]
    deterministic: tuple[str, ...]
    values: dict[str, Tensor]
    target: Site | None = None
    sequential: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """Rows of the largest observed site; 1 where each is a single number, or there is none."""
        return max((site.shape[0] if site.shape else 1 for site in self.observed.values()), default=1)


class _Start(Unconstrained):
    """Answers every latent site with t(u), u uniform on (-2, 2) from its own generator."""

    def __init__(self, seed: int, free: str | None, like: Tensor, guard: read_only) -> None:
        super().__init__({})
        self.free, self.like, self.guard = free, like, guard
        self.generator = torch.Generator().manual_seed(seed)

    def _pyro_sample(self, msg: Any) -> None:
        _well_formed(msg)
        if is_latent(msg) and msg["name"] != self.free:
            name, fn = msg["name"], msg["fn"]
            shape = unconstrain(fn.support, name).inverse_shape(fn.shape())
            u = torch.rand(shape, generator=self.generator, dtype=torch.float64) * 4 - 2
            self.coordinates = {name: u.to(self.like)}
            super()._pyro_sample(msg)
            self.guard.watch(name, self.values[name])


def _well_formed(msg: Any) -> None:
    """Refuses sample statements that no method could serve, before anything is asked of them."""
    name, fn = msg["name"], msg["fn"]
    if not isinstance(name, str):
        raise ValueError(f"a site's name must be text, got {name!r}. Write pyro.sample('{name}', ...).")
    if site_is_subsample(msg):
        return
    if not isinstance(fn, dist.Distribution):
        kind = f"{type(fn).__module__}.{type(fn).__name__}".removeprefix("builtins.")
        raise ValueError(
            f"site '{name}': pyro.sample needs a distribution of pyro.distributions, got {kind}. "
            "Import it from there: import pyro.distributions as dist."
        )
    if is_latent(msg) and fn.shape().numel() == 0:
        raise ValueError(
            f"latent site '{name}' holds no numbers, its shape is {tuple(fn.shape())}: the data have no columns, "
            "perhaps. Give the model inputs, or leave the site out where there are none."
        )


def _site(msg: Any, plate: str) -> Site:
    value, fn = msg["value"], msg["fn"]
    plates = tuple((frame.name, frame.size) for frame in msg["cond_indep_stack"])
    return Site(msg["name"], value.shape, fn.event_dim, fn, plates, in_plate(msg, plate))


def sites(problem: Problem, seed: int = 0) -> Sites:
    """Traces the model once with Pyro's validation on.

    Args:
        problem: The problem; its data are not changed.
        seed: Which point the latents are traced at (uniform on (-2, 2) in unconstrained coordinates).

    Raises:
        ValueError: For discrete latents and unsupported supports, naming the site; for invalid data; and for
            whatever the model's own code raises, in one line (`ModelFails`).
    """
    args, kwargs = problem.arguments()
    # Without targets the model samples y itself: that is not a latent.
    free = problem.names["y"] if isinstance(problem.data, Data) and problem.data.y is None else None
    with pyro_state(validate=True), untouched(problem.tensor.device), torch.no_grad(), Record() as record:
        with explained(problem), read_only(problem) as guard, _Start(seed, free, problem.tensor, guard) as start:
            with _plates_explained():
                problem.model(*args, **kwargs)
        _validate(record)
    if taken := sorted({"chain", "draw"} & set(record.sites)):
        raise ValueError(f"site '{taken[0]}' has the name of an axis that all draws have. Rename it.")
    plate = problem.names["plate"]
    kept = {n: m for n, m in record.sites.items() if not is_computed(m)}
    latent = {n: _site(m, plate) for n, m in kept.items() if n in start.values}
    observed = {n: _site(m, plate) for n, m in kept.items() if m["is_observed"]}
    fixed = tuple(n for n, m in record.sites.items() if is_computed(m))
    seen = [n for n in observed if is_data(kept[n])]
    y = problem.names["y"] if problem.names["y"] in kept else seen[0] if len(seen) == 1 else ""
    target = _site(kept[y], plate) if y in kept else None
    return Sites(latent, observed, fixed, {n: start.values[n] for n in latent}, target, _sequential(record))


@contextlib.contextmanager
def _plates_explained() -> Iterator[None]:
    """Adds to Pyro's word on a row of several numbers in a plate of rows what to do about it."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Shape mismatch inside plate"):
            raise
        raise ValueError(
            f"{error}. A row of several numbers is one event: add .to_event(1); the plate of the rows holds x.shape[0]."
        ) from None


def _sequential(record: Record) -> frozenset[str]:
    frames = [frame for msg in record.sites.values() for frame in msg["cond_indep_stack"]]
    return frozenset(frame.name for frame in frames if frame.dim is None)


def _validate(record: Record) -> None:
    """Lets each distribution judge its own value; validation off would let Categorical accept 1.5."""
    for name, msg in record.sites.items():
        if is_deterministic(msg):
            continue
        if msg["is_observed"]:
            _fits(msg)
            _possible(msg)
        try:
            scaled_log_prob(msg)
        except ValueError as error:
            what = "observed" if msg["is_observed"] else "latent"
            raise ValueError(f"{what} site '{name}': {' '.join(str(error).split())}") from None


HINTS = {
    "Bernoulli": "Make them 0 or 1 (y > 0.5), or take ContinuousBernoulli for shades of grey",
    "Pixels": "Divide pixels by the largest they can be (y / 255), or take likelihood='normal'",
    "Categorical": "Labels are whole numbers from 0: recode them, or give the model more classes",
}


def _possible(msg: Any) -> None:
    """Refuses targets that the distribution can never give: a gamma's -1, a Bernoulli's grey pixels."""
    fn, value = msg["fn"], msg["value"]
    try:
        good = fn.support.check(value)
    except NotImplementedError:
        return
    if bool(good.all()) or value.numel() == 0:
        return
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    family = type(fn).__name__
    raise ValueError(
        f"observed site '{msg['name']}': {int((~good).sum())} of {good.numel()} values can't come from {family} (they "
        f"go from {float(value.min()):.6g} to {float(value.max()):.6g}, its support is {fn.support}). "
        f"{HINTS.get(family, 'Transform them, or choose another distribution')}."
    )


def is_improper(fn: Any) -> bool:
    """Whether a site's distribution is, below its wrappers, an ImproperUniform, of which nothing can be drawn."""
    while not isinstance(fn, dist.ImproperUniform) and hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return isinstance(fn, dist.ImproperUniform)


def _fits(msg: Any) -> None:
    """Refuses targets that would broadcast against the distribution: 20 rows must not become 400 terms.

    Inside a plate both shapes are the plate's; outside one a scalar distribution may score a vector.
    """
    fn, seen = tuple(msg["fn"].shape()), tuple(msg["value"].shape)
    if msg["cond_indep_stack"]:
        right = fn == seen
    else:
        try:
            right = tuple(torch.broadcast_shapes(fn, seen)) == seen
        except RuntimeError:
            right = False
    if not right:
        raise ValueError(
            f"observed site '{msg['name']}': the model gives shape {fn}, the data have {seen}. "
            "Make them equal: f.squeeze(-1) for one output, outputs=k for k target columns."
        )
