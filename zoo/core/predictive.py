"""Predictions and log likelihoods of a posterior's draws, vectorised over draws.

Nothing random happens inside vmap (torch's rsample writes in place there): vmap returns f, the deterministic
sites and the *parameters* of y's distribution, and y is drawn outside from the distribution rebuilt from them.
A model that vmap refuses, or with local latents, is evaluated draw by draw.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from . import units
from .checks import check_seed
from .handlers import LOCK, Record, Values, in_plate, is_computed, is_data, is_factor, is_latent, pyro_state
from .over_draws import over_draws
from .posterior import Posterior
from .problem import Data, Problem
from .sites import sites

# Families whose constructor takes exactly these parameters and broadcasts them: a batch of draws is one more
# leading axis of each.
PARAMETERS: dict[type, tuple[str, ...]] = {
    dist.Normal: ("loc", "scale"),
    dist.Laplace: ("loc", "scale"),
    dist.StudentT: ("df", "loc", "scale"),
    dist.Cauchy: ("loc", "scale"),
    dist.LogNormal: ("loc", "scale"),
    dist.Bernoulli: ("logits",),
    dist.Categorical: ("logits",),
    dist.Poisson: ("rate",),
    dist.Exponential: ("rate",),
    dist.Gamma: ("concentration", "rate"),
    dist.Beta: ("concentration1", "concentration0"),
    dist.NegativeBinomial: ("total_count", "logits"),
    dist.Binomial: ("total_count", "logits"),
}
Recipe = tuple[type, tuple[str, ...], int]


def take_apart(fn: Any) -> tuple[Recipe, dict[str, Tensor]] | None:
    """A distribution as (family, parameter names, event dims) and its parameters, or None if not in the table."""
    event = 0
    while type(fn).__name__ == "Independent" and hasattr(fn, "base_dist"):
        event, fn = event + fn.reinterpreted_batch_ndims, fn.base_dist
    names = PARAMETERS.get(type(fn))
    if names is None:
        return None
    tail = 1 if isinstance(fn, dist.Categorical) else 0
    wanted = fn.batch_shape
    params = {}
    for name in names:
        value = torch.as_tensor(getattr(fn, name))
        params[name] = value.expand(*wanted, *value.shape[value.dim() - tail :]) if tail else value.expand(wanted)
    return (type(fn), names, event), params


def put_together(recipe: Recipe, params: dict[str, Tensor]) -> Any:
    """The distribution whose parameters carry extra leading axes."""
    family, names, event = recipe
    fn = family(**{name: params[name] for name in names}, validate_args=False)
    return fn.to_event(event) if event else fn


def moments(fn: Any) -> tuple[Tensor, Tensor]:
    """Mean and variance; for a class label the probabilities (..., k) and p (1 - p)."""
    if isinstance(fn, dist.Categorical):
        return fn.probs, fn.probs * (1 - fn.probs)
    return fn.mean, fn.variance


def flat_draws(posterior: Posterior, draws: int | None) -> tuple[dict[str, Tensor], tuple[int, int]]:
    """{site: (S, *shape)} and the (chain, draw) they came from, thinned evenly to about `draws` in all."""
    chains, total = posterior.shape
    if draws is not None:
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise ValueError(f"draws must be a whole number, at least 1, got {draws!r}.")
        per_chain = max(1, min(total, -(-draws // chains)))
        keep = torch.linspace(0, total - 1, per_chain).round().long()
    else:
        keep = torch.arange(total)
    kept = {n: v[:, keep.to(v.device)] for n, v in posterior.draws.items()}
    return {n: v.reshape(-1, *v.shape[2:]) for n, v in kept.items()}, (chains, len(keep))


class _Shared(Values):
    """Answers the global latents; a latent inside the data plate belongs to its row and is drawn anew."""

    def __init__(self, values: dict[str, Tensor], plate: str) -> None:
        super().__init__(values)
        self.plate = plate

    def _pyro_sample(self, msg: Any) -> None:
        if not in_plate(msg, self.plate):
            super()._pyro_sample(msg)


class _Nothing(Messenger):
    """Gives unanswered sites NaN, so that nothing random happens and any use of their value shows up."""

    def _pyro_sample(self, msg: Any) -> None:
        if is_latent(msg):
            like = next((v for v in vars(msg["fn"]).values() if isinstance(v, Tensor)), torch.empty(0))
            msg["value"] = torch.full(msg["fn"].shape(), torch.nan, device=like.device)
            msg["done"] = True


class _Unobserved(Messenger):
    """Makes observed sites ordinary ones.

    Unlike `poutine.uncondition` it leaves deterministic sites alone: those would be drawn anew from a Delta
    that a plate has expanded, and come out as (8, 8) for (8,).
    """

    def _pyro_sample(self, msg: Any) -> None:
        if is_data(msg):
            msg["is_observed"], msg["value"] = False, None


def _conditioned(problem: Problem) -> Callable[..., Any]:
    """The model with every observed site made an ordinary one; with `Data` leaving y out does that."""
    return problem.model if isinstance(problem.data, Data) else _Unobserved()(problem.model)


def _parts(record: Record, values: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a run computed: distributions of the sites it predicts, and its deterministic sites."""
    fixed = {n: m["value"] for n, m in record.sites.items() if is_computed(m)}
    random = {n: m["fn"] for n, m in record.sites.items() if n not in (*fixed, *values) and not is_factor(m)}
    return random, fixed


def _vectorised(problem: Problem, values: dict[str, Tensor], arguments: Any) -> dict[str, Tensor] | None:
    """All draws at once, or None where that is not possible (`_looped` then does it)."""
    model, recipes = _conditioned(problem), {}

    def one(value: dict[str, Tensor], given: Any) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
        args, kwargs = given
        with Record() as record, _Nothing(), _Shared(value, problem.names["plate"]):
            model(*args, **kwargs)
        random, fixed = _parts(record, value)
        taken = {n: take_apart(fn) for n, fn in random.items()}
        if any(piece is None for piece in taken.values()):
            raise NotImplementedError("a distribution outside the table")
        if any(in_plate(m, problem.names["plate"]) for n, m in record.sites.items() if n in value):
            raise NotImplementedError("local latents are drawn anew")
        recipes.update({n: piece[0] for n, piece in taken.items() if piece})
        return {n: piece[1] for n, piece in taken.items() if piece}, fixed

    try:
        params, fixed = over_draws(one, values, arguments)
    except (RuntimeError, NotImplementedError):
        return None
    if any(torch.isnan(v).any() for v in _leaves(params, fixed)):
        return None
    out = dict(fixed)
    for name, recipe in recipes.items():
        out |= _describe(put_together(recipe, params[name]), name, problem, len(recipes))
    return out


def _leaves(params: dict[str, dict[str, Tensor]], fixed: dict[str, Tensor]) -> Iterator[Tensor]:
    yield from (v for group in params.values() for v in group.values())
    yield from fixed.values()


def _describe(fn: Any, name: str, problem: Problem, sites: int) -> dict[str, Tensor]:
    """A draw of the site, and mean and variance where it is the one that is called y."""
    out = {name: fn.sample()}
    if name == problem.names["y"] or sites == 1:
        with contextlib.suppress(NotImplementedError):  # no moments in closed form: the draws remain
            out["mean"], out["var"] = moments(fn)
    return out


def _looped(problem: Problem, values: dict[str, Tensor], arguments: Any) -> dict[str, Tensor]:
    """Draw after draw, everything not answered sampled by the model itself: slower, always right."""
    args, kwargs = arguments
    model, rows = _conditioned(problem), []
    for i in range(next(iter(values.values())).shape[0]):
        value = {n: v[i] for n, v in values.items()}
        with Record() as record, _Shared(value, problem.names["plate"]):
            model(*args, **kwargs)
        random, fixed = _parts(record, value)
        out = dict(fixed)
        for name, fn in random.items():
            out |= _describe(fn, name, problem, len(random)) | {name: record.sites[name]["value"]}
        rows.append(out)
    return {n: torch.stack([row[n] for row in rows]) for n in rows[0]}


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Everything random inside comes from `seed`; the global generators are put back as found."""
    with LOCK, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def predict(posterior: Posterior, x: Any, *, given: Tensor | None, seed: int, draws: int | None) -> dict[str, Tensor]:
    """See `Posterior.predict`."""
    problem, seed = posterior.problem, check_seed(seed)
    if given is not None and problem.guide is None:
        raise ValueError("given= needs a model with local latents and a guide that infers them (a VAE's encoder).")
    values, (chains, kept) = flat_draws(posterior, draws)
    arguments = problem.inputs(x)
    with pyro_state(validate=False), torch.no_grad(), seeded(seed, problem.tensor.device):
        out = _vectorised(problem, values, arguments)
        if out is None:
            out = _looped(problem, values, arguments)
    scale, y = _target(problem)
    out = units.predictions(scale, out, y, problem.names["f"])
    return {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}


def _target(problem: Problem) -> tuple[units.Units | None, str]:
    """The units of y, and the name of its site."""
    info = problem.data.info if isinstance(problem.data, Data) else {}
    if not {"y_loc", "y_scale"} & set(info):
        return None, ""
    site = sites(problem).target
    if site is None:
        return None, ""
    return units.of(problem.data, type(units.base(site.fn)).__name__), site.name


def log_likelihoods(posterior: Posterior, x: Any = None, y: Tensor | None = None) -> dict[str, Tensor]:
    """{observed site: log p of each of its rows, (chain, draw, ...)} at (x, y) or at the training data."""
    problem = posterior.problem
    arguments = _scored(problem, x, y)
    values, (chains, kept) = flat_draws(posterior, None)
    shapes: dict[str, torch.Size] = {}

    def one(value: dict[str, Tensor], given: Any) -> dict[str, Tensor]:
        with Record() as record, Values(value):
            problem.model(*given[0], **given[1])
        seen = {n: m for n, m in record.sites.items() if is_data(m)}
        shapes.update({n: m["value"].shape for n, m in seen.items()})
        return {n: _row_terms(m) for n, m in seen.items()}

    with pyro_state(validate=False), torch.no_grad(), seeded(0, problem.tensor.device):
        try:
            out = over_draws(one, values, arguments)
        except (RuntimeError, NotImplementedError):
            count = chains * kept
            rows = [one({n: v[i] for n, v in values.items()}, arguments) for i in range(count)]
            out = {n: torch.stack([row[n] for row in rows]) for n in rows[0]}
    terms = {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}
    scale, target = _target(problem)
    return {n: units.log_densities(scale, v, shapes[n]) if n == target else v for n, v in terms.items()}


def _row_terms(msg: Any) -> Tensor:
    """log p of each row; 0 for rows that the model masks. A scale is no part of it: it weighs rows in the fit."""
    terms = msg["fn"].log_prob(msg["value"])
    return terms if not isinstance(msg["mask"], Tensor) else torch.where(msg["mask"], terms, 0.0)


def _scored(problem: Problem, x: Any, y: Tensor | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The model's arguments with targets in place, checked against the inputs."""
    if (x is None) != (y is None) and isinstance(problem.data, Data):
        raise ValueError("log_likelihood needs both x and y, or neither for the training data.")
    if x is None:
        return problem.arguments()
    if isinstance(problem.data, Data):
        like = problem.tensor
        new: Any = Data(problem.inputs(x)[0][0], y).to(device=like.device, dtype=like.dtype)
    else:
        new = {**problem.data, **x}
    scored = dataclasses.replace(problem, data=new)
    sites(scored)  # with validation on: refuses labels outside the support and targets of another shape
    return scored.arguments()


def log_likelihood(posterior: Posterior, x: Any = None, y: Tensor | None = None) -> Tensor:
    """See `Posterior.log_likelihood`."""
    out = log_likelihoods(posterior, x, y)
    name = posterior.problem.names["y"]
    if name in out:
        return out[name]
    if len(out) == 1:
        return next(iter(out.values()))
    raise ValueError(f"the model observes {sorted(out)}; name the one to score: names={{'y': ...}}.")
