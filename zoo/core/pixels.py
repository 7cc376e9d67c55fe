"""Images as targets: the decoder's distribution of a pixel, and images in the form that models expect.

    bernoulli:  log p(y | f) = y log sigmoid(f) + (1 - y) log(1 - sigmoid(f)),    f the logit
    normal:     y ~ N(f, noise^2),                                                f the mean

Shades of grey between 0 and 1 are scored by the first formula as they are, which is what most VAEs do: then it is the
cross entropy, no density of y. binarise=True makes it one.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from .checks import positive, whole
from .problem import Data
from .shades import divisor, extremes
from .words import nearest

log = logging.getLogger("zoo")
LIKELIHOODS = ("bernoulli", "normal")


class Pixels(dist.Bernoulli):
    """A Bernoulli whose formula also takes shades of grey; what it draws is black or white."""

    support = constraints.unit_interval

    def log_prob(self, value: Tensor) -> Tensor:
        """log sigmoid(f) - (1 - y) f: two passes over the pixels, and no exponential twice."""
        f, value = torch.broadcast_tensors(self.logits, value)
        return logsigmoid(f) - (1 - value) * f


def image(f: Tensor, noise: Any, likelihood: str) -> Any:
    """The distribution of images (n, pixels) given a decoder's output, a row one event.

    Args:
        f: (n, pixels): logits, or means.
        noise: sd of a pixel given its mean.
        likelihood: "bernoulli" or "normal".
    """
    return (Pixels(logits=f) if likelihood == "bernoulli" else dist.Normal(f, noise)).to_event(1)


def check_likelihood(likelihood: str) -> str:
    """The likelihood; ValueError for an unknown one."""
    if likelihood not in LIKELIHOODS:
        raise ValueError(nearest(str(likelihood), LIKELIHOODS, "likelihood"))
    return likelihood


def noise_site(x: Tensor, noise: float | None, likelihood: str) -> Any:
    """sd of a Gaussian decoder's pixel: `noise`, or where it is None ~ HalfNormal(1); None for the Bernoulli.

    Raises:
        ValueError: For an unknown likelihood, a noise that is no sd, and any given to a Bernoulli decoder.
    """
    if check_likelihood(likelihood) == "bernoulli":
        if noise is not None:
            raise ValueError(f"a Bernoulli decoder has no noise, got noise={noise!r}. Use likelihood='normal' with it.")
        return None
    noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(()))) if noise is None else noise  # ()
    positive("noise", noise)
    return noise


def black_or_white(y: Tensor | None, binarise: bool) -> Tensor | None:
    """y >= 1/2 as 0 and 1, where asked for."""
    return y if y is None or not binarise else (y >= 0.5).to(y.dtype)


def pixel_count(y: Tensor | None, pixels: int | None) -> int:
    """How many pixels an image has: those of y, or as many as `zoo.load` has seen.

    Raises:
        ValueError: Where neither says so, and where they differ.
    """
    if y is None and pixels is None:
        raise ValueError("pixels is needed where there are no images. Give pixels=784, say, or use zoo.load.")
    if pixels is not None and y is not None and y.shape[-1] != whole("pixels", pixels):
        raise ValueError(f"images must have {pixels} pixels, got {y.shape[-1]}. Bring them to the size of the fit's.")
    return y.shape[-1] if y is not None else whole("pixels", pixels)


# -- data ----------------------------------------------------------------------------------------------------


def prepare(data: Data) -> Data:
    """The same data with images (n, pixels) in the dtype of x; bytes are divided by 255, which is said.

    info gets image_shape where y has one, and y_range where all pixels lie in [0, 1].

    Args:
        data: y (n, pixels), (n, height, width) or (n, channels, height, width).

    Raises:
        ValueError: For targets that are no images, and test images of another size.
    """
    if data.y is None:
        return data
    if data.y.dim() < 2 or not data.y.shape[1:].numel():
        raise ValueError(f"images must be (n, pixels) or (n, height, width), got {tuple(data.y.shape)}.")
    info, shape = dict(data.info), list(data.y.shape[1:])
    if len(shape) > 1:
        info.setdefault("image_shape", shape[1:] if len(shape) == 3 and shape[0] == 1 else shape)
    _check_shape(info.get("image_shape"), math.prod(shape))
    if data.y_test is not None and list(data.y_test.shape[1:]) != shape:
        raise ValueError(
            f"test images must have the size of the training images {shape}, got {list(data.y_test.shape[1:])}. "
            "Prepare both in the same way."
        )
    by = divisor("y", data.y, data.y_test)
    y, y_test = (None if v is None else v.flatten(1).to(data.x) / by for v in (data.y, data.y_test))
    ends = extremes(y)
    if ends is not None and ends[0] >= 0 and ends[1] <= 1:
        info.setdefault("y_range", [0.0, 1.0])
    return dataclasses.replace(data, y=y, y_test=y_test, info=info)


def _check_shape(shape: Any, pixels: int) -> None:
    if shape is not None and math.prod(shape) != pixels:
        raise ValueError(
            f"info['image_shape'] is {list(shape)}, {math.prod(shape)} pixels, but images have {pixels}. "
            "Leave it out, or give height and width."
        )


def complete(data: Data, hyper: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters with `pixels` in them; what a Bernoulli decoder cannot score is refused.

    Raises:
        ValueError: For pixels outside [0, 1] given to a Bernoulli decoder, and another number of pixels.
    """
    if data.y is None:
        return hyper
    if check_likelihood(hyper.get("likelihood", "bernoulli")) == "bernoulli":
        _check_bernoulli(data.y, bool(hyper.get("binarise", False)))
    return hyper | {"pixels": pixel_count(data.y, hyper.get("pixels"))}


def _check_bernoulli(y: Tensor, binarise: bool) -> None:
    low, high = extremes(y) or (0.0, 1.0)
    if low < 0 or high > 1:
        raise ValueError(
            f"pixels of a Bernoulli decoder lie in [0, 1], got values from {low:.6g} to {high:.6g}. "
            f"Divide them (y / {max(high, -low):.6g}), or use likelihood='normal'."
        )
    if not binarise and bool(((y > 0) & (y < 1)).any()):
        log.info(
            "the images have shades of grey: a Bernoulli decoder scores them by cross entropy, which is no density. "
            "binarise=True makes them black or white, likelihood='normal' takes grey as it is"
        )
