"""What guides of weight matrices have in common: a matrix of parameters M, and noise that multiplies it.

    W = diag(z) M for a matrix (in, out),    W[:, i] = z_i M[:, i] for kernels (out, in, height, width)

Every matrix gets its own family; all other latent sites are points, or Normals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from pyro.infer.autoguide.initialization import init_to_median, init_to_uniform
from torch import Tensor

from guides.normal import at_normal
from guides.options import names, positive
from guides.options import start as started
from guides.places import check_points, place
from guides.point import at_point
from guides.prototype import Latent, bounds, latents
from guides.rates import KERNEL, MATRIX, check_where, choose_sites, matrix_sites, per_layer, rates_where
from guides.supports import is_real

MASKS = ("draw", "row")


class Layer(NamedTuple):
    """A matrix site, its rate (see `over_matrices`), and whether its prior is the same whatever the other latents."""

    latent: Latent
    rate: Any
    constant: bool

    @property
    def inputs(self) -> torch.Size:
        """One entry for each of the layer's inputs, the plates of its site in front."""
        shape, event = self.latent.value.shape, self.latent.value_dim
        return shape[:-event] + shape[-2:-1] if event == MATRIX else shape[:-event] + shape[-3:-2]


def by_input(layer: Layer, z: Tensor) -> Tensor:
    """Factors of inputs (..., in) in the shape that multiplies the site's value."""
    return z.unsqueeze(-1) if layer.latent.value_dim == MATRIX else z[..., None, :, None, None]


def weight(layer: Layer) -> Tensor:
    """The parameter M of a layer, "<site>.weight"."""
    latent = layer.latent
    return pyro.param(f"{latent.name}.weight", latent.value.clone, event_dim=latent.value_dim)


def noise(layer: Layer, shape: Sequence[int], fn: Any = None, name: str = "noise") -> Tensor:
    """Noise of the given event shape in front of which the site's plates stand, no part of the density of q.

    Its law has no parameters to learn, which `infer={"given": True}` says: gradients need none along it.

    Args:
        layer: Whose noise it is.
        shape: Of one draw, without plates.
        fn: Its distribution, a scalar one; None: standard normals, which every engine can supply.
        name: The site is called "_<site>.<name>".
    """
    value = layer.latent.value
    base = dist.Normal(value.new_zeros(()), 1.0) if fn is None else fn
    spread = base.expand(value.shape[: -layer.latent.value_dim] + torch.Size(shape)).to_event(len(shape))
    return pyro.sample(f"_{layer.latent.name}.{name}", spread.mask(False), infer={"is_auxiliary": True, "given": True})


# -- the objective -----------------------------------------------------------------------------------------


def normal_prior(latent: Latent) -> dist.Normal | None:
    """The prior of a site as a Normal over its entries, or None for another one."""
    prior = latent.prior
    while type(prior).__name__ == "Independent":
        prior = prior.base_dist
    return prior if isinstance(prior, dist.Normal) else None


def atoms(
    layer: Layer, m: Tensor, z: Tensor, mean: float | Tensor, square: float | Tensor, extra: Tensor | None = None
) -> dist.Delta:
    """Delta(z m) whose log density leaves of the KL what depends on m: an objective, for q without a density.

        log density = log p(z m) + E_z[-log p(z m)] - C,    so that log p - log q = C - E_z[-log p(z m)]
        N(a, s^2) prior:    E_z[-log p(z m)] - C = sum (E z^2 m^2 - 2 E z m a + a^2) / (2 s^2)
        another prior:      E_z[-log p(z m)] by this draw alone, C = 0

    C, the prior's log normaliser sum log(s sqrt(2 pi)), is kept where s depends on other latents.

    Args:
        layer: The site.
        m: Its parameter.
        z: Factors, in the shape that multiplies m.
        mean: E z.
        square: E z^2.
        extra: A term of the KL besides, with the plates' shape.
    """
    value, event = z * m, layer.latent.value_dim
    prior = normal_prior(layer.latent)
    if prior is None:
        none = value.new_zeros(value.shape[:-event])
        return dist.Delta(value, none if extra is None else none + extra, event_dim=event)
    a, s = prior.loc, prior.scale
    terms = (square * m * m - 2 * mean * m * a + a * a) / (2 * s * s)
    if not layer.constant:
        terms = terms + log_normaliser(prior)
    penalty = _summed(terms, event) if extra is None else _summed(terms, event) + extra
    fn = dist.Delta(value, layer.latent.prior.log_prob(value) + penalty, event_dim=event)
    # For engines that can: the KL in closed form, and the value as a product that need not be multiplied out.
    fn.kl, fn.factors = penalty, (z, m)
    return fn


def log_normaliser(prior: dist.Normal) -> Tensor:
    """log(s sqrt(2 pi)) of each entry."""
    return prior.scale.log() + math.log(2 * math.pi) / 2


def _summed(terms: Tensor, event: int) -> Tensor:
    return terms.sum(tuple(range(-event, 0))) if event else terms


def _at_point(latent: Latent, support: Any, constant: bool) -> dist.Delta:
    """A point; of a fixed Normal prior the KL is (m - a)^2 / (2 s^2), without the log normaliser, as in `atoms`."""
    fn, prior = at_point(latent, support, not (constant or is_real(support))), normal_prior(latent)
    if prior is None or not constant:
        return fn
    normaliser = _summed(log_normaliser(prior), latent.value_dim)
    fn = dist.Delta(fn.v, -normaliser.expand(fn.batch_shape), event_dim=latent.value_dim)
    fn.kl = _summed((fn.v - prior.loc).square() / (2 * prior.scale**2), latent.value_dim)
    return fn


# -- the guide ---------------------------------------------------------------------------------------------


def glorot(site: Any) -> Tensor:
    """First values: matrices Glorot-uniform, other real sites 0, constrained ones the prior's median.

    U(-a, a), a = sqrt(6 / (fan_in + fan_out))

    Source: Glorot & Bengio 2010.
    """
    fn = site["fn"]
    if not is_real(fn.support):
        return init_to_median(site)
    zeros = _like(fn).new_zeros(fn.shape())
    if fn.event_dim not in (MATRIX, KERNEL):
        return zeros
    shape = fn.shape()
    fans = sum(shape[-2:]) if fn.event_dim == MATRIX else sum(shape[-4:-2]) * math.prod(shape[-2:])
    return zeros + ((6 / fans) ** 0.5 * (2 * torch.rand(shape) - 1)).to(zeros)


def _like(fn: Any) -> Tensor:
    """A number of the site's dtype and device; a draw would move random states for nothing."""
    while type(fn).__name__ == "Independent":
        fn = fn.base_dist
    return next((v for v in vars(fn).values() if isinstance(v, Tensor) and v.is_floating_point()), torch.empty(()))


def over_matrices(
    model: Callable[..., Any],
    family: Callable[[Layer], Any],
    *,
    rate: Any = None,
    sites: Sequence[str] | None = None,
    bias: str = "point",
    point: Sequence[str] = (),
    init: Callable[..., Any] | None = None,
    init_scale: float = 0.1,
    mask: str = "draw",
    where: str = "all",
    no_density: str = "",
    what: str = "this guide",
) -> Callable[..., dict[str, Tensor]]:
    """The guide that gives every matrix site its family and every other latent site a point or a Normal.

    Args:
        model: A Pyro model.
        family: A layer -> the distribution of its site.
        rate: A number for all layers or one a layer, or a function of the model's keyword arguments that gives those.
            Layers are all matrix sites of the model, points too, or as many as there are to mask.
        sites: The matrix sites; None: all real ones of event_dim 2 and 4.
        bias: "point" or "normal", for the sites that are left.
        point: Sites that are points whatever `bias` says.
        init: Where sites start; None: `glorot`.
        init_scale: First sd of the Normals.
        mask: "row": while zoo trains, each row of the data has noise of its own; "draw": one for all.
        where: Which of the model's matrix sites keep their rate, see `rates_where`.
        no_density: Why q has no density, or "".
        what: The guide's name, for errors.
    """
    check_where(where)
    if mask not in MASKS:
        raise ValueError(f"mask must be 'draw' or 'row', got {mask!r}. Leave it out for the usual one.")
    if bias not in ("point", "normal"):
        raise ValueError(f"bias must be 'point' or 'normal', got {bias!r}. Leave it out for points.")
    positive("init_scale", init_scale, "Try 0.1.")
    wanted, point = sites if sites is None else names("sites", sites), names("point", point)
    start, found, layers = started(init, glorot), dict[str, Latent](), dict[str, Layer]()
    loose: list[str] = []
    random: set[str] = set()

    def set_up(args: Any, kwargs: Any) -> None:
        found.update(latents(model, start, args, kwargs))
        check_points(point, found)
        every, chosen = matrix_sites(found), choose_sites(found, wanted, point, what)
        rates = per_layer(rate(**kwargs) if callable(rate) else rate, list(every), chosen)
        rates = rates_where(where, every, rates)
        loose.extend(_loose(found, latents(model, init_to_uniform, args, kwargs)))
        layers.update({n: Layer(found[n], r, n not in loose) for n, r in rates.items()})
        random.update(name for name, layer in layers.items() if layer.rate != 0)

    def guide(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        if not found:
            set_up(args, kwargs)

        def q(latent: Latent, support: Any) -> Any:
            if latent.name in layers:
                return family(layers[latent.name]._replace(latent=latent))
            if bias == "normal" and latent.name not in point:
                return at_normal(latent, init_scale, support)
            return _at_point(latent, support, latent.name not in loose)

        return place(model, found, q, args, kwargs, follow=bool(loose))

    guide.mean_field = True  # type: ignore[attr-defined]
    # Two masks may be the same, so draws do not tell which sites have a spread.
    guide.random_sites = random  # type: ignore[attr-defined]
    guide.by_row, guide.no_density = mask == "row", no_density  # type: ignore[attr-defined]
    return guide


def _loose(found: dict[str, Latent], other: dict[str, Latent]) -> list[str]:
    """Sites whose support or Normal prior is another one when the latents have other values."""
    moved = []
    for name, latent in found.items():
        pair = [(_numbers(a), _numbers(b)) for a, b in ((latent, other[name]),)]
        if any(len(a) != len(b) or not all(map(torch.equal, a, b)) for a, b in pair):
            moved.append(name)
    return moved


def _numbers(latent: Latent) -> list[Tensor]:
    prior = normal_prior(latent)
    return [*bounds(latent.support), *((prior.loc, prior.scale) if prior is not None else ())]
