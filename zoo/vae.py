"""A variational autoencoder: images from a code of a few numbers, and a network that finds the code.

    w_l, b_l ~ N(0, prior_scale^2)      (in, out), (out,)   l = 1 ... L, the decoder's weights
    noise    ~ HalfNormal(1)            ()                  only where the decoder is Gaussian and noise=None
    z_i      ~ N(0, I)                  (n, latent)         a code for each image
    h_0 = (z, x),  h_l = act(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L      (n, pixels)
    y_i      ~ Bernoulli(sigmoid(f_i))  (n, pixels)         likelihood="normal": N(f_i, noise^2)

    q:  z_i ~ N(mu(y_i, x_i), diag sd(y_i, x_i)^2), mu and sd one network; the decoder's weights are points,
        or Normals with guide_options={"weights": "normal"}

x is (n, 0), y the images in [0, 1]. hidden=() makes decoder and encoder linear: probabilistic PCA. `predict(x)` draws
new images, `reconstruct(y)` those of the codes of given ones, `encode(y)` gives the codes; `zoo.bound` has the three
terms of the bound, `zoo.log_marginal` log p(y). x with columns is a condition: see `cvae`.

Compare: f, whose code is drawn from its prior. The code itself is known up to a rotation only.

Slide prints the loss as the lower bound, maximised; this maximises the bound: the loss is minus it, with factor 1.

Source: Leal-Taixe, "Variational autoencoder"; Kingma & Welling 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from guides.matrices import glorot
from guides.normal import normal
from guides.point import point as points
from zoo.core import pixels as images
from zoo.core.checks import positive, switch, whole
from zoo.core.decoder import beside, encode, layer_sites, through
from zoo.core.problem import Data
from zoo.data.bundled import scikit_learn

prepare = images.prepare
complete = images.complete
HIDDEN, LATENT, ACTIVATION = 50, 2, "relu"
DEFAULTS = {"latent": LATENT, "hidden": HIDDEN, "activation": ACTIVATION, "binarise": False}


def data(seed: int = 0, n: int = 500) -> Data:
    """Scikit-learn's digits, 8 x 8 pixels divided by 16: n of the 1,797, the next as many for testing."""
    y = torch.as_tensor(scikit_learn("the digits").load_digits().data / 16).float()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    y, y_test = y[order[:n]], y[order[n : 2 * n]]
    info = {"y_name": "image", "image_shape": [8, 8], "source": f"scikit-learn digits / 16, seed {seed}"}
    tests = (y_test.new_empty(len(y_test), 0), y_test) if len(y_test) else (None, None)
    return Data(y.new_empty(len(y), 0), y, *tests, info=info)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    latent: int = LATENT,
    hidden: int | Sequence[int] = HIDDEN,
    likelihood: str = "bernoulli",
    noise: float | None = None,
    prior_scale: float = 1.0,
    activation: str = ACTIVATION,
    pixels: int | None = None,
    binarise: bool = False,
) -> Tensor:
    switch("binarise", binarise)
    count, width = images.pixel_count(y, pixels), whole("latent", latent) + x.shape[-1]
    layers = layer_sites(x, width, count, hidden=hidden, prior_scale=prior_scale)
    if images.check_likelihood(likelihood) == "normal":
        noise = _noise(x, noise)
    rows = pyro.plate("data", x.shape[0])
    with rows:
        z = pyro.sample("z", dist.Normal(x.new_zeros(x.shape[0], latent), 1.0).to_event(1))  # (n, latent)
    f = pyro.deterministic("f", through(beside(z, x), layers, activation))  # (n, pixels)
    with rows:
        y = images.black_or_white(y, binarise)
        pyro.sample("y", images.image(f, noise, likelihood), obs=y)  # (n, pixels)
    return f


def _noise(x: Tensor, noise: Any) -> Any:
    """The sd of a pixel: given, or a latent site."""
    if noise is None:
        return pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    positive("noise", noise)
    return noise


def guide(
    model: Callable[..., Any], *, weights: str = "point", init_scale: float = 0.05, point: Sequence[str] = ()
) -> Callable[..., dict[str, Any]]:
    """q: an encoder for z, points or Normals for the decoder's weights.

    Args:
        model: The model.
        weights: "point" or "normal".
        init_scale: First sd of the Normals.
        point: Sites that are points where the weights are Normals.
    """
    if weights not in ("point", "normal"):
        raise ValueError(f"weights must be 'point' or 'normal', got {weights!r}. Leave it out for points.")
    others = poutine.block(model, hide=["z"])
    if weights == "point":
        family = points(others, init=glorot)
    else:
        family = normal(others, init=glorot, init_scale=init_scale, point=point)

    def q(x: Tensor, y: Tensor | None = None, **hyper: Any) -> dict[str, Any]:
        if y is None:
            raise ValueError("the encoder needs images y. Give zoo.Data(x, y), or encode(y).")
        asked: dict[str, Any] = DEFAULTS | hyper
        values = family(x, y, **hyper)
        seen: Any = images.black_or_white(y, asked["binarise"])
        loc, sd = encode(seen, x, asked["latent"], hidden=asked["hidden"], activation=asked["activation"])
        with pyro.plate("data", x.shape[0]):
            return values | {"z": pyro.sample("z", dist.Normal(loc, sd).to_event(1))}

    q.mean_field = True  # type: ignore[attr-defined]
    return q
