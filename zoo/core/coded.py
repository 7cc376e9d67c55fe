"""Images from a code: the model that `vae` is without a condition and `cvae` is given one.

w_l, b_l ~ N(0, prior_scale^2),    z_i ~ N(0, I),    h_0 = (z, x),    f = decoder(h_0),    y_i ~ image(f_i)
"""

from __future__ import annotations

from collections.abc import Sequence

import pyro
import pyro.distributions as dist
from torch import Tensor

from . import pixels as images
from .checks import switch, whole
from .decoder import beside, layer_sites, through


def coded_images(
    x: Tensor,
    y: Tensor | None,
    *,
    latent: int,
    hidden: int | Sequence[int],
    likelihood: str,
    noise: float | None,
    prior_scale: float,
    activation: str,
    pixels: int | None,
    binarise: bool,
) -> Tensor:
    """Samples the decoder's weights, the codes and y, and returns f.

    Args:
        x: Conditions (n, c); c may be 0.
        y: Images (n, pixels), or None to sample them.
        latent: Coordinates of z.
        hidden: Units of each hidden layer of the decoder; () is a linear one.
        likelihood: "bernoulli" or "normal".
        noise: sd of a Gaussian decoder; None: ~ HalfNormal(1). A Bernoulli one has none.
        prior_scale: sd of every weight.
        activation: A name in `zoo.core.activations`.
        pixels: Of an image, where there is no y.
        binarise: Whether y is rounded to black and white.
    """
    switch("binarise", binarise)
    count, width = images.pixel_count(y, pixels), whole("latent", latent) + x.shape[-1]
    layers = layer_sites(x, width, count, hidden=hidden, prior_scale=prior_scale)
    noise = images.noise_site(x, noise, likelihood)
    rows = pyro.plate("data", x.shape[0])
    with rows:
        z = pyro.sample("z", dist.Normal(x.new_zeros(x.shape[0], latent), 1.0).to_event(1))  # (n, latent)
    f = pyro.deterministic("f", through(beside(z, x), layers, activation))  # (n, pixels)
    with rows:
        pyro.sample("y", images.image(f, noise, likelihood), obs=images.black_or_white(y, binarise))  # (n, pixels)
    return f
