"""Numbers that a model asks its data for while it is traced: int(group.max()) + 1, x[mask], `if y.sum() > 0`.

A tracer follows every tensor from the first operation on, and refuses to say what is in one. But what is computed of
constants alone is known: it is left to be a constant, and may be asked. What is computed of a graph's inputs is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary


class Untraceable(RuntimeError):
    """A function that no graph can stand for: its course depends on numbers that a graph has only when it runs."""


ASKS = torch.ops.aten._local_scalar_dense.default


def with_known(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of tensors, to be traced: what it computes of other tensors than its own is not followed.

    What it makes of nothing, torch.zeros(3), is followed, since it may be written to.
    """

    def followed(*tensors: Tensor) -> Any:
        with _Followed(tensors):
            return function(*tensors)

    return followed


class _Followed(TorchDispatchMode):
    """Passes on to the tracer what depends on some tensors, and computes all else at once."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        self.followed: Any = WeakIdKeyDictionary()
        self._follow(tensors)

    def _follow(self, values: Any) -> None:
        for value in pytree.tree_leaves(values):
            if isinstance(value, Tensor):
                self.followed[value] = True

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        followed = [tensor in self.followed for tensor in tensors]
        if tensors and not any(followed):
            with _disable_current_modes():
                return operation(*args, **kwargs)
        if not all(followed) and self._writes(operation, args, kwargs):
            raise Untraceable(f"{operation} writes what is not known to a tensor that was. Write to a new one.")
        out = operation(*args, **kwargs)
        self._follow(out)
        return out

    def _writes(self, operation: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether an operation would write to a tensor that is not followed."""
        given = dict(zip((place.name for place in operation._schema.arguments), args, strict=False)) | kwargs
        writes = (place for place in operation._schema.arguments if place.alias_info and place.alias_info.is_write)
        written = (given.get(place.name) for place in writes)
        return any(isinstance(value, Tensor) and value not in self.followed for value in written)


def asks_for_numbers(function: Callable[[], Any]) -> tuple[Any, bool]:
    """What a plain call gives, and whether it asked for a number, or made a shape that depends on one, as x[mask]."""
    with _Asked() as asked:
        found = function()
    return found, asked.numbers


class _Asked(TorchDispatchMode):
    """Looks at every operation, inside of vmap and of gradients, too."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = False

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch.equal says whether, and .item() how much.
        self.numbers = self.numbers or operation is ASKS or torch.Tag.data_dependent_output in operation.tags
        if torch.Tag.dynamic_output_shape in operation.tags:
            masks = operation is not torch.ops.aten.index.Tensor or any(
                place is not None and place.dtype in (torch.bool, torch.uint8) for place in args[1]
            )
            self.numbers = self.numbers or masks
        return operation(*args, **(kwargs or {}))
