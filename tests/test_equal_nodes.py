"""Equal operations of a graph are done once, and only where that changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from zoo.infer.equal_nodes import merge_equal

X = torch.linspace(-1, 1, 6)


def _names(function, *example: Tensor) -> tuple[list[str], tuple[Tensor, ...]]:
    """The operations left, and what the graph returns."""
    graph = make_fx(function)(*(e.clone() for e in example))
    merge_equal(graph.graph)
    graph.recompile()
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    return names, graph(*(e.clone() for e in example))


def test_an_exponential_that_is_written_twice_is_taken_once() -> None:
    names, (total,) = _names(lambda x: (torch.exp(-x) + 2 * torch.exp(-x),), X)
    assert [n for n in names if "exp." in n or "neg." in n] == ["aten.neg.default", "aten.exp.default"]
    torch.testing.assert_close(total, 3 * torch.exp(-X))


def test_other_arguments_are_other_operations() -> None:
    """Also 1 and 1.0, which are equal to a dictionary."""
    names, out = _names(lambda x: (x.long() + 1, x.long() + 1.0, x.sum(0), x.sum(0, keepdim=True)), X)
    assert len([n for n in names if "add." in n]) == len([n for n in names if "sum." in n]) == 2
    assert [o.dtype for o in out[:2]] == [torch.int64, torch.float32]


def test_zero_and_minus_zero_are_two_numbers() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.copysign(x, torch.full_like(x, 0.0)), torch.copysign(x, torch.full_like(x, -0.0))

    _, (up, down) = _names(function, X)
    torch.testing.assert_close(up, -down)


def test_tensors_that_are_written_into_stay_apart() -> None:
    """Merged, both zeros would be the one that was filled."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        filled, zeros = x.new_zeros(6), x.new_zeros(6)
        filled.copy_(x)
        return filled, zeros

    _, (filled, zeros) = _names(function, X)
    assert torch.equal(filled, X)
    assert torch.equal(zeros, torch.zeros(6))


def test_what_follows_a_write_into_an_argument_is_computed_anew() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        before = torch.exp(x)
        x.copy_(before)
        return before, torch.exp(x)

    _, (before, after) = _names(function, X)
    torch.testing.assert_close(before, X.exp())
    torch.testing.assert_close(after, X.exp().exp())


def test_random_numbers_are_not_each_others() -> None:
    names, (a, b) = _names(lambda x: (torch.rand_like(x), torch.rand_like(x)), X)
    assert len([n for n in names if "rand" in n]) == 2
    assert not torch.equal(a, b)
