"""The compiled gradient of one piece of rows, called on one piece after another from within a step's graph.

A step's graph holds one operator, `zoo::pieces`, in place of all pieces: its code is that of any number of them. What
the operator runs is not part of the graph but whatever piece is `at_hand` when it is called.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .in_pieces import InPieces, Pair, cut_up
from .in_place import compile_in_place
from .threads import running_on

_here = threading.local()


class PieceGraph:
    """The gradient of `InPieces.term`, compiled, on memory of its own.

    Attributes:
        engine: "compiled", or "eager" where compiling failed.
        seconds: Spent compiling.
    """

    def __init__(self, density: InPieces, position: Tensor) -> None:
        """`position`: (chain, dim) of the shape to serve."""
        (x, y), kwargs = density.problem.arguments()
        self.size = density.size
        self.value = position.new_zeros(len(position), dtype=torch.float64)
        # In float64, as there are many: float32 would lose a digit of the sum.
        self.grad = torch.zeros_like(position, dtype=torch.float64)
        leaves, spec = pytree.tree_flatten(kwargs)

        def function(value: Tensor, grad: Tensor, u: Tensor, x: Tensor, y: Tensor, *tensors: Tensor) -> Any:
            rest = iter(tensors)
            filled = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            more, slope = density.term(u, x, y, pytree.tree_unflatten(filled, spec))
            value.copy_(value + more)
            grad.copy_(grad + slope)
            return (value.new_zeros(()),)

        given = [position, x[: self.size], y[: self.size], *tensors_in(kwargs)]
        with torch.no_grad():
            self._add, made = compile_in_place(function, [self.value, self.grad], given)
        self.engine, self.seconds, self.threads = made.engine, made.seconds, made.threads

    def total(self, u: Tensor, x: Tensor, y: Tensor, others: list[Tensor]) -> Pair:
        """sum_k L_k (chain,) and its gradient (chain, dim) of all rows x and y; `others`: the kwargs' tensors."""
        self.value.zero_()
        self.grad.zero_()
        u = u.detach()  # another object each time: what is given twice is taken to be unchanged
        with running_on(self.threads):
            for some_x, some_y in cut_up(x, y, self.size):
                self._add((u, some_x, some_y, *others))
        return self.value.clone(), self.grad.to(u, copy=True)


@contextlib.contextmanager
def at_hand(piece: PieceGraph | None) -> Iterator[None]:
    """Lets this thread's graphs run this piece."""
    before = getattr(_here, "piece", None)
    _here.piece = piece
    try:
        yield
    finally:
        _here.piece = before


@torch.library.custom_op("zoo::pieces", mutates_args=())
def pieces(u: Tensor, x: Tensor, y: Tensor, others: list[Tensor]) -> tuple[Tensor, Tensor]:
    """`PieceGraph.total` of the piece at hand."""
    piece: PieceGraph = _here.piece
    return piece.total(u, x, y, others)


@pieces.register_fake
def _(u: Tensor, x: Tensor, y: Tensor, others: list[Tensor]) -> Pair:
    return u.new_empty(len(u), dtype=torch.float64), u.new_empty(u.shape)


def compiled_terms(u: Tensor, x: Tensor, y: Tensor, kwargs: dict[str, Any]) -> Pair:
    """As `InPieces.terms`, by the piece at hand."""
    value, grad = pieces(u, x, y, tensors_in(kwargs))
    return value, grad


def tensors_in(kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among a model's keyword arguments."""
    return [leaf for leaf in pytree.tree_leaves(kwargs) if isinstance(leaf, Tensor)]
