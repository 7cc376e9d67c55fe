"""`read_only(problem)`: a model that writes to its data, or to a latent's value, is stopped before it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .problem import Data, Problem


def named_tensors(problem: Problem) -> Iterator[tuple[str, Tensor]]:
    """The tensors that the model is called with."""
    if isinstance(problem.data, Data):
        items: Any = {"x": problem.data.x, "y": problem.data.y, **problem.hyper}
    else:
        items = {**problem.data, **problem.hyper}
    yield from ((name, value) for name, value in items.items() if isinstance(value, Tensor))


class read_only(TorchDispatchMode):
    """While it is active, an operation in place on a tensor of the data, or on a view of one, is refused by name."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        self.names = {value.untyped_storage()._cdata: name for name, value in named_tensors(problem)}
        self.latents: dict[int, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Looks at what the operation says it writes to."""
        if func._schema.is_mutable:
            given = {**dict(zip((a.name for a in func._schema.arguments), args, strict=False)), **(kwargs or {})}
            for argument in func._schema.arguments:
                written = given.get(argument.name) if argument.alias_info and argument.alias_info.is_write else None
                if isinstance(written, Tensor):
                    self._refuse(written.untyped_storage()._cdata, func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    def watch(self, latent: str, value: Tensor) -> None:
        """From now on the latent's value is read-only too: what is written to it would be taken for its draw."""
        self.latents[value.untyped_storage()._cdata] = latent

    def _refuse(self, storage: int, operation: str) -> None:
        who = f"model '{self.problem.name}' writes to"
        if storage in self.names:
            raise ValueError(
                f"{who} its data in place: '{self.names[storage]}' by {operation}. Every run would see other numbers. "
                "Work on a copy: x = x.clone()."
            )
        if storage in self.latents:
            raise ValueError(
                f"{who} latent '{self.latents[storage]}' in place, by {operation}, which changes the draw itself. "
                f"Work on a copy: {self.latents[storage]}.clone()."
            )
