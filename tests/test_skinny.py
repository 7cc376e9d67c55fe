"""Products of matrices that stay sums a compiler can fuse, that are turned round, and what is added to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zoo.infer import graph

aten = torch.ops.aten
X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
G = torch.randn(6, 9, generator=torch.Generator().manual_seed(1))


def _traced(function: Callable[..., Tensor], *example: Tensor) -> tuple[Tensor, list[torch.fx.Node]]:
    found = graph.trace(lambda *given: (function(*given),), example)
    return found(*example)[0], list(found.graph.nodes)


def _of(nodes: list[torch.fx.Node], operation: object) -> list[torch.fx.Node]:
    return [node for node in nodes if node.target is operation]


@pytest.mark.parametrize(("inputs", "wide"), [(1, False), (3, True)])
def test_slopes_of_one_input_stay_apart_by_chain(inputs: int, wide: bool) -> None:
    """x^T G_c of shared rows x (9, inputs). Broken twin: chains and units of one input as one long sum."""
    x = X[:, :inputs].t().expand(5, inputs, 9)
    slopes = torch.randn(5, 9, 4, generator=torch.Generator().manual_seed(2))
    found, nodes = _traced(lambda g: torch.bmm(x, g), slopes)
    torch.testing.assert_close(found, x @ slopes)
    assert bool(_of(nodes, aten.mm.default)) == wide
    assert bool(_of(nodes, aten.bmm.default)) != wide


@pytest.mark.parametrize(
    ("a", "b", "turned"),
    [(X.t(), G.t(), True), (X.t(), G.t().contiguous(), False), (X.t().contiguous(), G.t(), False)],
)
def test_two_transposed_factors_are_turned(a: Tensor, b: Tensor, turned: bool) -> None:
    """(4, 9) x (9, 6): the library reads G and X, each as it lies in memory."""
    found, nodes = _traced(lambda a, b: torch.mm(a, b), a, b)
    torch.testing.assert_close(found, a @ b)
    (product,) = _of(nodes, aten.mm.default)
    assert (product.meta["tensor_meta"].shape == (6, 4)) == turned


SUMS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], bool]] = {
    "a bias": (lambda a, b, c: a @ b + c, True),
    "a bias first": (lambda a, b, c: c + a @ b, True),
    "of chains": (lambda a, b, c: torch.func.vmap(lambda w: a @ w + c.mean())(b.t()), True),
    "scaled": (lambda a, b, c: torch.add(a @ b, c, alpha=2), False),
    "a mask": (lambda a, b, c: a @ b + (c > 0), False),
    "a number": (lambda a, b, c: a @ b + 3, False),
    "no product": (lambda a, b, c: a.sum() + c, False),
}


@pytest.mark.parametrize("kind", SUMS)
def test_what_is_added_stays_outside_of_the_product(kind: str) -> None:
    """Equal to the bit; only numbers with a minus of their own are turned to be taken away."""
    function, outside = SUMS[kind]
    a, b, c = G, X, X[0]
    found, nodes = _traced(function, a, b, c)
    assert torch.equal(found, function(a, b, c)) or kind == "of chains"
    torch.testing.assert_close(found, function(a, b, c))
    assert bool(_of(nodes, aten.sub.Tensor)) == outside
