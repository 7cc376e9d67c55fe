"""A folded graph: the same values to the bit, fewer operations, nothing that is written to taken for a constant."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from zoo.infer.fold import fold
from zoo.infer.graph import trace


def prior(x):
    """What a Pyro Normal(0, scale) asks for: log scale, scale^2, x - 0, each as large as x."""
    loc, scale = x.new_zeros(x.shape), torch.tensor(2.0).expand(x.shape)
    return (-((x - loc) ** 2) / (2 * scale**2) - scale.log() - 0.5).sum()


def gradient(x):
    return torch.func.grad_and_value(prior)(x)


def count(graph):
    return sum(node.op == "call_function" for node in graph.graph.nodes)


def test_the_same_to_the_bit_and_shorter():
    x = torch.randn(5, 7)
    plain, folded = make_fx(gradient)(x), fold(make_fx(gradient)(x))
    for other in (x, torch.randn(5, 7), torch.full((5, 7), float("nan")), torch.full((5, 7), float("inf"))):
        for one, two in zip(plain(other), folded(other), strict=True):
            assert torch.equal(one.nan_to_num(7), two.nan_to_num(7))
    assert count(folded) <= 0.6 * count(plain)
    assert not any(node.target is torch.ops.aten.log.default for node in folded.graph.nodes)


def test_equal_numbers_are_kept_as_one():
    graph = fold(make_fx(lambda x: (x / torch.full((500, 500), 3.0),))(torch.ones(500, 500)))
    kept = list(graph.buffers())
    assert [value.shape for value in kept] == [(500, 500)]
    assert not any(kept[0].stride())


def writes_through_a_view(x):
    total = torch.zeros(4)
    total[1:].add_(x)
    total.mul_(2)
    return (total * 1 + torch.arange(4),)


def test_what_is_written_to_is_no_constant():
    graph = fold(make_fx(writes_through_a_view)(torch.ones(3)))
    for _ in range(2):  # a constant that is written to would grow from call to call
        assert graph(torch.tensor([1.0, 2.0, 3.0]))[0].tolist() == [0, 3, 6, 9]


def test_a_copy_of_an_argument_that_is_overwritten_stays_a_copy():
    def step(x):
        old = x * 1
        x.copy_(x + 1)
        return (old + x,)

    graph = fold(make_fx(step)(torch.zeros(2)))
    assert graph(torch.tensor([1.0, 5.0]))[0].tolist() == [3, 11]


@pytest.mark.parametrize("change", [lambda x: x * 2, lambda x: x + 1, lambda x: x**2, lambda x: x / 3])
def test_what_changes_its_argument_stays(change):
    graph = fold(make_fx(lambda x: (change(x).sin(),))(torch.ones(3)))
    x = torch.randn(3)
    assert torch.equal(graph(x)[0], change(x).sin())


def test_a_wider_result_is_not_left_out():
    """x + 0 with a 0 of another shape, or dtype, is no x."""
    graph = fold(
        make_fx(lambda x: ((x + torch.zeros(2, 3)).sum(0), x * torch.ones((), dtype=torch.float64)))(torch.ones(3))
    )
    wide, _ = graph(torch.tensor([1.0, 2.0, 3.0]))
    assert wide.tolist() == [2, 4, 6]


def test_noise_is_no_constant():
    graph = fold(make_fx(lambda x: (x + torch.rand(3),))(torch.zeros(3)))
    assert not torch.equal(graph(torch.zeros(3))[0], graph(torch.zeros(3))[0])


def test_a_captured_tensor_is_read_as_it_is():
    """Data of a problem on a dict: not copied where it is used as it is, folded where only constants meet."""
    data = torch.randn(6)
    graph = fold(trace(lambda x: ((x - data) * (data * 2).exp(),), (torch.zeros(6),)))
    x = torch.randn(6)
    assert torch.equal(graph(x)[0], (x - data) * (data * 2).exp())
    assert count(graph) == 2


def transposed_after_a_constant(x):
    """The sum lies in memory as zeros do, in order; with the zeros kept as one number it would lie as x.T does."""
    return ((torch.zeros(3, 2) + x.T).view(6) * 2,)


def test_a_result_that_comes_to_lie_in_another_order_can_still_be_viewed():
    x = torch.arange(6.0).reshape(2, 3)
    graph = fold(make_fx(transposed_after_a_constant)(x))
    assert torch.equal(graph(x)[0], transposed_after_a_constant(x)[0])


def test_a_graph_that_names_places_in_memory_is_left_alone():
    def function(x):
        return ((torch.zeros(3, 2) + x.T).as_strided((6,), (1,)) * 1,)

    x = torch.arange(6.0).reshape(2, 3)
    graph = make_fx(function)(x)
    before = count(graph)
    assert count(fold(graph)) == before
    assert torch.equal(graph(x)[0], function(x)[0])
