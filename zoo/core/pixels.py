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

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor

from .checks import whole
from .problem import Data
from .words import nearest

log = logging.getLogger("zoo")
LIKELIHOODS = ("bernoulli", "normal")


class Pixels(dist.Bernoulli):
    """A Bernoulli whose formula also takes shades of grey; what it draws is black or white."""

    support = constraints.unit_interval


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
    """The same data with images (n, pixels) in the dtype of x; whole numbers up to 255 are divided by 255, and said.

    Args:
        data: y (n, pixels) or (n, height, width).

    Raises:
        ValueError: For targets that are no images, and test images of another size.
    """
    if data.y is None:
        return data
    if data.y.dim() < 2:
        raise ValueError(f"images must be (n, pixels) or (n, height, width), got {tuple(data.y.shape)}.")
    info = dict(data.info)
    shape = list(data.y.shape[1:])
    if len(shape) == 2:
        info.setdefault("image_shape", shape)
    _check_shape(info.get("image_shape"), math.prod(shape))
    if data.y_test is not None and list(data.y_test.shape[1:]) != shape:
        raise ValueError(
            f"test images must have the size of the training images {shape}, got {list(data.y_test.shape[1:])}. "
            "Prepare both in the same way."
        )
    if not data.y.is_floating_point() and data.y.dtype != torch.bool and int(data.y.max()) > 1:
        log.info("images of whole numbers are divided by 255: pixels lie in [0, 1]")
    y, y_test = (None if v is None else unit(v, data.x) for v in (data.y, data.y_test))
    return dataclasses.replace(data, y=y, y_test=y_test, info=info)


def unit(y: Tensor, like: Tensor) -> Tensor:
    """Images (n, pixels) in the dtype of `like`; uint8 is divided by 255, other whole numbers too if above 1."""
    scale = 1.0 if y.is_floating_point() or y.dtype == torch.bool or int(y.max()) <= 1 else 255.0
    return y.flatten(1).to(like) / scale


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
    if y.device.type == "meta":
        return
    low, high = float(y.min()), float(y.max())
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
