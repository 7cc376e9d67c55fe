"""What depends on the data alone leaves a step's graph, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zoo.infer import graph, once
from zoo.infer.in_place import compile_in_place

aten = torch.ops.aten
STATE, X = torch.linspace(0.1, 1, 4), torch.linspace(1, 2, 12).view(3, 4)


def _split(function: Callable[..., Tensor], fixed: tuple[int, ...] = (1,)) -> tuple[set[object], Tensor, int]:
    """The operations left, what the graph gives of what was computed once, and how many values that were."""
    found = graph.trace(lambda *given: (function(*given),), (STATE, X), fixed)
    first = once.computed_once(found, fixed)
    more = () if first is None else first(STATE.clone(), X.clone())
    left = {node.target for node in found.graph.nodes if node.op == "call_function"}
    return left, found(STATE.clone(), X.clone(), *more)[0], len(more)


def test_what_is_computed_of_fixed_inputs_is_computed_once() -> None:
    """Broken twin: an input that is not fixed; log(x) then stays."""

    def function(state: Tensor, x: Tensor) -> Tensor:
        return (state * torch.log(x).sum(0) + torch.linalg.cholesky(x[:, :3].t() @ x[:, :3] + torch.eye(3)).sum()).sum()

    left, value, count = _split(function)
    assert not left & {aten.log.default, aten.mm.default, aten.linalg_cholesky_ex.default}
    assert count == 2
    torch.testing.assert_close(value, function(STATE, X))
    left, value, count = _split(function, ())
    assert aten.log.default in left
    torch.testing.assert_close(value, function(STATE, X))


def test_constants_of_a_graph_are_fixed() -> None:
    left, value, count = _split(lambda state, x: (state * torch.exp(X)).sum(), ())
    assert (aten.exp.default in left, count) == (False, 1)
    torch.testing.assert_close(value, (STATE * torch.exp(X)).sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda state, x: (state * x.t().unsqueeze(0).expand(2, 4, 3).sum((0, 2))).sum() * 0 + (state * x).sum(),
        lambda state, x: state.sum() + x.new_zeros(3).sum(),
    ],
)
def test_the_value_is_the_same(function: Callable[..., Tensor]) -> None:
    _, value, _ = _split(function)
    torch.testing.assert_close(value, function(STATE, X))


def test_views_and_what_is_made_of_nothing_stay() -> None:
    _, value, count = _split(lambda state, x: (state[:, None] * x.t() + torch.full((4, 3), 2.0)).sum())
    assert count == 0
    torch.testing.assert_close(value, (STATE[:, None] * X.t() + 2.0).sum())


def test_what_is_drawn_stays() -> None:
    left, _, count = _split(lambda state, x: (state * torch.bernoulli(x / 2)).sum())
    assert aten.bernoulli.default in left or aten.bernoulli.p in left
    assert count <= 1  # x / 2


@pytest.mark.parametrize("of", [lambda x: x, lambda x: x[0], lambda x: x.t()[1:], lambda x: x.split(1)[2]])
def test_what_is_written_to_is_not_fixed(of: Callable[[Tensor], Tensor]) -> None:
    """Whoever calls it fixed, and written to in part: its next call would read numbers of the first."""

    def function(state: Tensor, x: Tensor) -> Tensor:
        value = (state * torch.log(x)).sum()
        of(x).copy_(of(x) + 1)
        return value

    left, _, count = _split(function)
    assert aten.log.default in left
    assert count == 0


def test_large_values_of_small_data_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """144 numbers of 12 would have to be read at every call."""
    monkeypatch.setattr(once, "MOST", 100)

    def function(state: Tensor, x: Tensor) -> Tensor:
        return ((x.reshape(-1)[:, None] - x.reshape(-1)) ** 2 * state[0]).sum()

    left, value, _ = _split(function)
    assert aten.pow.Tensor_Scalar in left
    torch.testing.assert_close(value, function(STATE, X))


@pytest.mark.parametrize("fixed", [(1,), ()])
def test_rows_that_never_change_are_copied_for_the_library(fixed: tuple[int, ...]) -> None:
    """w x^T of chains' w (2, 4): once, of an x that is fixed."""
    w = torch.stack([STATE, STATE + 1])
    found = graph.trace(lambda w, x: (w @ x.t(),), (w, X), fixed)
    assert any(node.target is aten.clone.default for node in found.graph.nodes) == bool(fixed)
    torch.testing.assert_close(found(w, X)[0], w @ X.t())


@pytest.mark.slow
def test_a_kept_graph_computes_it_anew_for_other_data() -> None:
    """Compiled once for both: each call's value is that of its own data."""
    values = []
    for x in (X, X + 3):
        state = STATE.clone()
        call, made = compile_in_place(lambda state, x, more: ((state * torch.log(x)).sum() + more,), [state],
                                      [torch.zeros(())], [x])  # fmt: skip
        assert made.engine == "compiled"
        values += [call((torch.tensor(1.0),))[0].clone(), call((torch.tensor(2.0),))[0].clone()]
    right = [(STATE * torch.log(x)).sum() + more for x in (X, X + 3) for more in (1.0, 2.0)]
    torch.testing.assert_close(torch.stack(values), torch.stack(right))
