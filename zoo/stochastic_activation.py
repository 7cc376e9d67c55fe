"""A network with one layer of noisy activations: their distribution depends on the input.

    w_l, b_l ~ N(0, prior_scale^2)                      (in, out), (out,)    hidden layers l = 1 ...
    w_mu, b_mu, w_s, b_s, w_out, b_out                  the same prior
    h_i   = act(... act(x_i w_1 + b_1) ...)             (n, in)              hidden=() is x itself
    a_i   ~ N(mu_i, diag s_i^2)                         (n, units)           mu = h w_mu + b_mu, log s = h w_s + b_s
    f_i   = link(a_i) w_out + b_out                     (n,) or (n, classes)
    y_i   ~ N(f_i, noise^2); Bernoulli(sigmoid(f_i)), Categorical(softmax(f_i)) for classes

a_i is a latent of row i, and `svi` may be asked for two different things:

    objective="expected"    E_a log p(y | a) with q(a) = p(a | x): a bound whose KL is 0. It drives s to 0.
    objective="marginal"    log E_a p(y | a): in closed form where link is None and y is measured; else by the bound
                            E log (1 / copies) sum_k p(y | a_k). It leaves s what the data ask for.

guide_options={"q": "encoder"} gives the first a q(a | x, y) of its own, and a bound that is tight again;
guide="normal" one for each row, not amortised. weights="normal" gives the weights a distribution. All of it is one
model: samplers see the same posterior of the weights under both objectives.

Compare: f. Under "marginal" f is that of the mean activation, or the mean (probability) over copies.

Slide prints log P(y | x) = E_a dense2(a) (Yandex); this computes log E_a p(y | dense2(a)), or its bound
E_a log p(y | dense2(a)). In N(mu, sigma) sigma is the sd.

Source: Yandex, "Stochastic activations"; Kingma & Welling 2014; Burda, Grosse & Salakhutdinov 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from pyro import poutine
from torch import Tensor

from guides.matrices import glorot
from guides.normal import normal
from guides.places import check_points
from guides.point import point as points
from zoo.core.activations import activation_function
from zoo.core.amortised import defaults
from zoo.core.checks import positive, whole, widths
from zoo.core.decoder import Layers, dense_site, encode, through
from zoo.core.noisy_units import gaussian_output, mixture
from zoo.core.outcome import outcome, outputs_of
from zoo.core.problem import Data
from zoo.core.words import nearest
from zoo.data import either

prepare = either.prepare
complete = either.complete
OBJECTIVES = ("expected", "marginal")


def data(seed: int = 0, n: int = 100, kind: str = "sin_x_plus_x") -> Data:
    """y = sin(x) + x + N(0, .1), or two half moons."""
    return either.generated(kind, seed, n)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    objective: str = "expected",
    copies: int = 10,
    hidden: int | Sequence[int] = 20,
    units: int = 10,
    activation: str = "tanh",
    link: str | None = None,
    prior_scale: float = 1.0,
    noise: float | None = 0.1,
    classes: int = 0,
) -> Tensor:
    layers = [dense_site(x, str(i), a, b, prior_scale) for i, a, b in _sizes(x.shape[-1], hidden)]
    width = _sizes(x.shape[-1], hidden)[-1][2] if layers else x.shape[-1]
    heads = [dense_site(x, f"_{name}", width, whole("units", units), prior_scale) for name in ("mu", "s")]
    w, b = dense_site(x, "_out", units, outputs_of(classes), prior_scale)
    if noise is None and not classes:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    mu, s = _activations(x, layers, heads, activation)  # (n, units)
    rows = pyro.plate("data", x.shape[0])
    if _closed(objective, link, classes):
        positive("noise", noise)
        f, variance = gaussian_output(mu, s, w, b)
        fn: Any = dist.Normal(f, (variance + noise**2).sqrt())  # type: ignore[operator]
    else:
        with rows:
            a = pyro.sample("a", _prior(mu, s, objective, whole("copies", copies)))  # (n, units) or (n, copies, units)
        out = (activation_function(link)(a) if link else a) @ w + b
        f = out if classes > 2 else out.squeeze(-1)
        f, fn = mixture(f, noise, classes) if objective == "marginal" else (f, outcome(f, noise, classes))
    f = pyro.deterministic("f", f)  # (n,) or (n, classes)
    with rows:
        pyro.sample("y", fn, obs=y if classes > 2 or y is None else y.to(f.dtype))  # (n,)
    return f


def _sizes(width: int, hidden: int | Sequence[int]) -> list[tuple[int, int, int]]:
    """(number, in, out) of each hidden layer."""
    sizes = (width, *widths("hidden", hidden))
    return [(i + 1, sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1)]


def _closed(objective: str, link: str | None, classes: int) -> bool:
    """Whether a is integrated out in closed form."""
    if objective not in OBJECTIVES:
        raise ValueError(nearest(str(objective), OBJECTIVES, "objective"))
    return objective == "marginal" and link is None and not classes


def _activations(x: Tensor, layers: Layers, heads: Layers, activation: str) -> tuple[Tensor, Tensor]:
    """mu and s, (n, units) each."""
    h = activation_function(activation)(through(x, layers, activation)) if layers else x
    (w_mu, b_mu), (w_s, b_s) = heads
    return h @ w_mu + b_mu, (h @ w_s + b_s).exp()


def _prior(mu: Tensor, s: Tensor, objective: str, copies: int) -> Any:
    """p(a | x): one draw a row, or `copies` of them."""
    if objective == "expected":
        return dist.Normal(mu, s).to_event(1)
    shape = (mu.shape[0], copies, mu.shape[1])
    return dist.Normal(mu.unsqueeze(1).expand(shape), s.unsqueeze(1).expand(shape)).to_event(2)


DEFAULTS = defaults(model)


def guide(
    model: Callable[..., Any], *, q: str = "prior", weights: str = "point", point: Sequence[str] = ()
) -> Callable[..., dict[str, Any]]:
    """q(a) = p(a | x), or an encoder's N(mu(x, y), sd(x, y)^2); points or Normals for the weights.

    Args:
        model: The model.
        q: "prior" or "encoder", the latter for objective="expected".
        weights: "point" or "normal".
        point: Sites that are points where the weights are Normals.
    """
    if q not in ("prior", "encoder") or weights not in ("point", "normal"):
        raise ValueError(f"q must be 'prior' or 'encoder', weights 'point' or 'normal', got {q!r} and {weights!r}.")
    others = poutine.block(model, hide=["a"])
    family = points(others, init=glorot) if weights == "point" else normal(others, init=glorot, point=point)

    def approximate(x: Tensor, y: Tensor | None = None, **hyper: Any) -> dict[str, Any]:
        values, asked = family(x, y, **hyper), DEFAULTS | hyper
        check_points(point, values)
        if _closed(asked["objective"], asked["link"], asked["classes"]):
            return values
        fn = _encoded(x, y, asked) if q == "encoder" else _of_weights(x, values, asked)
        with pyro.plate("data", x.shape[0]):
            return values | {"a": pyro.sample("a", fn)}

    approximate.mean_field = True  # type: ignore[attr-defined]
    return approximate


def _of_weights(x: Tensor, values: Mapping[str, Tensor], asked: Mapping[str, Any]) -> Any:
    layers = [(values[f"w{i}"], values[f"b{i}"]) for i, _, _ in _sizes(x.shape[-1], asked["hidden"])]
    heads = [(values[f"w_{name}"], values[f"b_{name}"]) for name in ("mu", "s")]
    return _prior(*_activations(x, layers, heads, asked["activation"]), asked["objective"], asked["copies"])


def _encoded(x: Tensor, y: Tensor | None, asked: Mapping[str, Any]) -> Any:
    if asked["objective"] != "expected" or y is None:
        raise ValueError("q='encoder' is for objective='expected' and needs y. Leave q out.")
    seen = y.to(x.dtype).unsqueeze(-1)
    loc, sd = encode(seen, x, asked["units"], hidden=asked["hidden"], activation=asked["activation"])
    return dist.Normal(loc, sd).to_event(1)
