"""Images as a classifier has them, x the image and y what it shows, for models that explain images: y is the image.

vae, autoencoder    x -> (n, 0),                y -> the image
cvae                x -> the class, one-hot,    y -> the image
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zoo.core.problem import Data

from .labels import whole_numbers
from .pixels import scaled


def explained(data: Data, *, condition: bool = False) -> Data:
    """The same data with the images as targets; data whose targets are images already come back as they are.

    Args:
        data: x images (n, h, w), (n, 1, h, w) or flat (n, pixels), y what they show (n,), or None.
        condition: Put the class into x, one-hot; without it x is (n, 0). info["labels"] keeps the classes of both.

    Raises:
        ValueError: For a table's columns, colours, and no or other labels where they are the condition.
    """
    if (data.y is not None and data.y.dim() > 1) or not data.x.shape[1:].numel():
        return data
    if "columns" in data.info:
        raise ValueError(
            f"a table's columns are no images (data: {data.info.get('source')}). Give pictures in a folder, or "
            "zoo.Data(images); or take the model's own: source='digits' (on the shell --set source=digits)."
        )
    if data.x.shape[1:].numel() == 1:
        raise ValueError(f"images must be (n, h, w) or (n, pixels) of more than one pixel, got {tuple(data.x.shape)}.")
    if data.x.dim() > 2:
        data = scaled(data)
        if data.x.shape[1] != 1:
            raise ValueError(f"images must be grey, got {data.x.shape[1]} channels. Average them: x.mean(1).")
    y, y_test = data.x.flatten(1), None if data.x_test is None else data.x_test.flatten(1)
    info: dict[str, Any] = {name: value for name, value in data.info.items() if name != "x_range"} | {
        "y_name": "pixels"
    }
    if data.x.dim() > 2:
        info["y_range"] = [0.0, 1.0]
    if condition:
        return _given_class(whole_numbers(data), y, y_test, info)
    kept = {"labels": data.y, "labels_test": data.y_test}
    info |= {name: v.tolist() for name, v in kept.items() if v is not None and bool((v == v.round()).all())}
    return Data(y[:, :0], y, None if y_test is None else y_test[:, :0], y_test, info=info)


def _given_class(data: Data, y: Tensor, y_test: Tensor | None, info: dict[str, Any]) -> Data:
    """The images given their classes."""
    if data.y is None or (y_test is not None and data.y_test is None):
        raise ValueError("cvae needs what is known of each image, got images alone. Give zoo.Data(images, labels).")
    labels = [data.y] if data.y_test is None else [data.y, data.y_test]
    known = info.get("classes") or [str(i) for i in range(1 + max(int(v.max()) for v in labels))]
    hot = [torch.nn.functional.one_hot(v, len(known)).to(y) for v in labels]
    info |= {"classes": known, "x_names": [f"class={name}" for name in known]}
    info |= {name: v.tolist() for name, v in zip(("labels", "labels_test"), labels, strict=False)}
    return Data(hot[0], y, hot[1] if y_test is not None else None, y_test, info=info)
