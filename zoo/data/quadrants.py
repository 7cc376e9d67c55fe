"""Images of which one quadrant is known and three are to be predicted: structured output.

    x_i = the pixels of one quadrant,    y_i = those of the other three

Source: Sohn, Lee & Yan 2015, section 5.1.
"""

from __future__ import annotations

import dataclasses

import torch

from zoo.core.problem import Data
from zoo.core.words import nearest

QUADRANTS = ("upper left", "upper right", "lower left", "lower right")


def quadrant(data: Data, known: str = "lower left") -> Data:
    """The same images, the known quadrant's pixels as x and the others as y.

    info["pixels_of"] = {"shape": [h, w], "x": [places of x's columns in the flat image], "y": [...]} puts them
    together again, see `zoo.report.images.pictures`.

    Args:
        data: Images as targets, y (n, h w), with info["image_shape"] = [h, w].
        known: "upper left", "upper right", "lower left" or "lower right".

    Raises:
        ValueError: For another quadrant, and data without images or with images one pixel wide.
        TypeError: For what is no `Data`.
    """
    if not isinstance(data, Data):
        raise TypeError(f"quadrant takes zoo.Data, got {type(data).__name__}. Load some: zoo.data.images.unlabelled().")
    if known not in QUADRANTS:
        raise ValueError(nearest(str(known), QUADRANTS, "quadrant"))
    shape = data.info.get("image_shape")
    if shape is not None and min(shape[-2:]) < 2:
        raise ValueError(
            f"an image of {shape[-2]} x {shape[-1]} pixels has no quadrants. Both sides must be 2 or more."
        )
    if data.y is None or shape is None or data.y.shape[1:] != (shape[-2] * shape[-1],):
        got = "none" if data.y is None else tuple(data.y.shape)
        raise ValueError(
            f"quadrants need images y (n, h w) and info['image_shape'] = [h, w], got y {got} and {shape}. "
            "Load some: zoo.data.images.unlabelled()."
        )
    height, width = shape[-2:]
    down, across = known.split()
    rows = torch.arange(height) < height // 2 if down == "upper" else torch.arange(height) >= height // 2
    columns = torch.arange(width) < width // 2 if across == "left" else torch.arange(width) >= width // 2
    inside = (rows[:, None] & columns).flatten()
    parts = {"x": inside.nonzero()[:, 0].tolist(), "y": (~inside).nonzero()[:, 0].tolist()}
    info = {name: value for name, value in data.info.items() if name != "image_shape"}
    info |= {"pixels_of": {"shape": [height, width], **parts}, "known": known}
    test = (None, None) if data.y_test is None else (data.y_test[:, parts["x"]], data.y_test[:, parts["y"]])
    return dataclasses.replace(
        data, x=data.y[:, parts["x"]], y=data.y[:, parts["y"]], x_test=test[0], y_test=test[1], info=info
    )


def unknown_only(data: Data) -> Data:
    """What `quadrant` made, without the known quadrant: x (n, 0), for a model that is given nothing."""
    x_test = None if data.x_test is None else data.x_test[:, :0]
    return dataclasses.replace(data, x=data.x[:, :0], x_test=x_test)
