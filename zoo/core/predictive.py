"""Predictions of a posterior's draws, vectorised over draws.

Nothing random happens inside vmap (torch's rsample writes in place there): vmap returns f, the deterministic
sites and the *parameters* of y's distribution, and y is drawn outside from the distribution rebuilt from them.
A model that vmap refuses is evaluated draw by draw. Latents of single rows: see `zoo.core.row_predictive`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from . import randomness, units
from .base_noise import Unanswerable
from .checks import check_seed
from .handlers import LOCK, Record, Values, in_plate, is_computed, is_data, is_factor, is_latent, pyro_state
from .local import local_sites
from .over_draws import over_draws
from .pixels import Pixels
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
    Pixels: ("logits",),
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
    """Mean and variance; for a class label, or one a pixel, the probabilities (..., k) and p (1 - p)."""
    base = units.base(fn)
    if isinstance(base, dist.Categorical):
        return base.probs, base.probs * (1 - base.probs)
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


def conditioned(problem: Problem) -> Callable[..., Any]:
    """The model with every observed site made an ordinary one; with `Data` leaving y out does that."""
    return problem.model if isinstance(problem.data, Data) else _Unobserved()(problem.model)


def _parts(record: Record, values: Collection[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a run computed: distributions of the sites it predicts, and its deterministic sites."""
    fixed = {n: m["value"] for n, m in record.sites.items() if is_computed(m)}
    random = {n: m["fn"] for n, m in record.sites.items() if n not in (*fixed, *values) and not is_factor(m)}
    return random, fixed


Answer = Callable[[dict[str, Tensor]], Any]


def _unanswered(value: dict[str, Tensor]) -> Any:
    """No handler: the model draws what is left."""
    return contextlib.nullcontext()


def vectorised(
    problem: Problem,
    values: dict[str, Tensor],
    arguments: Any,
    local: Collection[str] = (),
    answer: Answer = _unanswered,
) -> dict[str, Tensor] | None:
    """All draws at once, or None where that is not possible (`looped` then does it).

    Args:
        problem: The problem.
        values: {site: (draw, *shape)}.
        arguments: The model's (args, kwargs).
        local: Latents of single rows, which are not predicted.
        answer: A draw's values -> a handler that answers those.
    """
    model = conditioned(problem)

    def one(value: dict[str, Tensor], given: Any) -> tuple[Any, dict[str, Recipe]]:
        args, kwargs = given
        rows = answer(value)  # outside: it may run the guide
        with Record() as record, _Nothing(), _Shared(value, problem.names["plate"]), rows:
            model(*args, **kwargs)
        random, fixed = _parts(record, (*value, *local))
        taken = {n: take_apart(fn) for n, fn in random.items()}
        if any(piece is None for piece in taken.values()):
            raise NotImplementedError("a distribution outside the table")
        params = {n: piece[1] for n, piece in taken.items() if piece}
        return (params, fixed), {n: piece[0] for n, piece in taken.items() if piece}

    try:
        known = None if local else known_as(problem, "predict")  # the rows' noise is no argument that could be cut
        found = over_draws(one, values, arguments, compiled=not local, known_as=known)
        (params, fixed), recipes = found
    except (RuntimeError, NotImplementedError, Unanswerable):
        return None
    if any(torch.isnan(v).any() for v in _leaves(params, fixed)):
        return None
    out = dict(fixed)
    for name, recipe in recipes.items():
        out |= _describe(put_together(recipe, params[name]), name, problem, len(recipes))
    return out


def known_as(problem: Problem, what: str) -> Any:
    """Names what a model of the zoo computes of a draw: pure by test, so it may be kept. None for users' models."""
    module = str(getattr(problem.model, "__module__", ""))
    return (what, problem.model, tuple(problem.names.items())) if module.partition(".")[0] == "zoo" else None


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


def looped(
    problem: Problem,
    values: dict[str, Tensor],
    arguments: Any,
    local: Collection[str] = (),
    answer: Answer = _unanswered,
) -> dict[str, Tensor]:
    """As `vectorised`, draw after draw, everything not answered sampled by the model itself: slower, always right."""
    args, kwargs = arguments
    model, found = conditioned(problem), []
    for i in range(next(iter(values.values())).shape[0]):
        value = {n: v[i] for n, v in values.items()}
        rows = answer(value)
        with Record() as record, _Shared(value, problem.names["plate"]), rows:
            model(*args, **kwargs)
        random, fixed = _parts(record, (*value, *local))
        out = dict(fixed)
        for name, fn in random.items():
            out |= _describe(fn, name, problem, len(random)) | {name: record.sites[name]["value"]}
        found.append(out)
    return {n: torch.stack([each[n] for each in found]) for n in found[0]}


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Everything random inside comes from `seed`; the global generators are put back as found."""
    with LOCK, randomness.seeded(seed, device):
        yield


def of_draws(problem: Problem, values: dict[str, Tensor], arguments: Any, seed: int) -> dict[str, Tensor]:
    """Predictions {name: (draw, m, ...)} at these arguments, y in the model's units."""
    with pyro_state(validate=False), torch.no_grad(), seeded(seed, problem.tensor.device):
        out = vectorised(problem, values, arguments)
        return looped(problem, values, arguments) if out is None else out


def predict(posterior: Posterior, x: Any, *, given: Tensor | None, seed: int, draws: int | None) -> dict[str, Tensor]:
    """See `Posterior.predict`."""
    problem, seed = posterior.problem, check_seed(seed)
    local = local_sites(problem)
    if local or given is not None:
        from .row_predictive import predict_rows

        out, (chains, kept) = predict_rows(posterior, x, local, given=given, seed=seed, draws=draws)
    else:
        values, (chains, kept) = flat_draws(posterior, draws)
        out = of_draws(problem, values, problem.inputs(x), seed)
    scale, y = target_of(problem)
    out = units.predictions(scale, out, y, problem.names["f"])
    return {n: v.reshape(chains, kept, *v.shape[1:]) for n, v in out.items()}


def target_of(problem: Problem) -> tuple[units.Units | None, str]:
    """The units of y, and the name of its site."""
    info = problem.data.info if isinstance(problem.data, Data) else {}
    if not {"y_loc", "y_scale"} & set(info):
        return None, ""
    site = sites(problem).target
    if site is None:
        return None, ""
    return units.of(problem.data, units.family_of(site.fn)), site.name
