"""A compiled function on memory that stays: it writes over its own state, and after its first call only loops run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .graph import Compiled, compile_graph
from .replay import first_and_rest

Tensors = tuple[Tensor, ...]


def compile_in_place(
    function: Callable[..., Tensors],
    own: Sequence[Tensor],
    given: Sequence[Tensor],
    fixed: Sequence[Tensor] = (),
    **settings: Any,
) -> tuple[Callable[[Tensors], Tensors], Compiled]:
    """Compiles function(*own, *fixed, *given), to be called with what is given alone.

    Args:
        function: As for `compile_graph`; may write over `own`.
        own: What it is called with each time, as it is: its state.
        fixed: What never changes: what is computed of it alone is computed once.
        given: Examples of what a call gives. Its numbers are copied to places of their own, except where a call gives
            the very tensors of the call before: those are taken to be unchanged.
        settings: As for `compile_graph`.

    Returns:
        call(given) -> results, which the next call may write over; and how the function was made.
    """
    places = [value.clone() for value in given]
    own, unchanging = [*own, *fixed], range(len(own), len(own) + len(fixed))
    compiled = compile_graph(function, [*own, *places], unchanging, **settings)
    last: Sequence[Tensor | None] = [None] * len(places)
    again: Callable[[], Tensors] | None = None

    def call(given: Tensors) -> Tensors:
        nonlocal last, again
        if given is not last:
            for place, value, before in zip(places, given, last, strict=True):
                if value is not before:
                    place.copy_(value)
            last = given
        if again is not None:
            return again()
        out, again = first_and_rest(compiled, (*own, *places))
        return out

    return call, compiled
