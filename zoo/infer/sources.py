"""From what a user calls data to `Data`: the model's own, yours, a table's or images from files."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from zoo.core.problem import Data
from zoo.data.files import is_images, is_table


def source_options(module: Any, data: Any) -> set[str]:
    """What may be said about the data: of images, of a table, or of the model's own."""
    if is_images(data):
        return {"test", "size"}
    if not is_table(data):
        return set(inspect.signature(module.data).parameters) - {"seed"}
    from zoo.data import tables

    settled = {"source", "seed", "classify"} if hasattr(module, "CLASSIFY") else {"source", "seed"}
    return set(inspect.signature(tables.load).parameters) - settled


def is_class(module: Any, asked: Mapping[str, Any]) -> Any:
    """Whether a table's target is a class: by the model, or for one that serves both by `classify` or `classes`."""
    if hasattr(module, "CLASSIFY"):
        return module.CLASSIFY
    classes = asked.get("classes", 0)
    several = isinstance(classes, int) and not isinstance(classes, bool) and classes > 1
    return asked.get("classify", several)


def find_data(module: Any, data: Any, seed: int, source: dict[str, Any], asked: Mapping[str, Any]) -> Data:
    """The data as the model takes them; TypeError for what holds none.

    Args:
        module: The model's file.
        data: What `zoo.load` was given.
        seed: Of the model's own data, or a table's split.
        source: How to read or make them.
        asked: All options of `zoo.load`.
    """
    if data is None:
        data = module.data(seed=seed, **source)
    elif is_images(data):
        from zoo.data import own_images

        data = own_images.load(data, seed=seed, **source)
        data = data if _of_images(module) else _columns(data)
    elif not isinstance(data, Data):
        if not is_table(data) or isinstance(data, dict):
            raise TypeError(
                f"data must be zoo.Data, a table's path, a DataFrame or a set's name, got {type(data).__name__}. "
                "Wrap tensors or arrays: zoo.Data(x, y), zoo.Data(images)."
            )
        from zoo.data import tables

        data = tables.load(data, seed=seed, **{**source, "classify": is_class(module, asked)})
    if data.x.dim() > 2 and not _of_images(module):
        raise ValueError(
            f"x must be (n, d) for this model, got {tuple(data.x.shape)}. Make columns of the pixels, x.flatten(1), or "
            "take a model of images: lenet, vae."
        )
    return module.prepare(data) if hasattr(module, "prepare") else data


def _of_images(module: Any) -> bool:
    """Whether the model takes images: then it has their pixels or channels among its hyperparameters."""
    return bool({"pixels", "channels"} & set(inspect.signature(module.model).parameters))


def _columns(data: Data) -> Data:
    """Images as rows of numbers, a column a pixel."""
    x_test = None if data.x_test is None else data.x_test.flatten(1)
    return dataclasses.replace(data, x=data.x.flatten(1), x_test=x_test)
