"""svi's step: its parts as tensor operations, and that compiled it is the eager one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.test_svi import line
from zoo.infer import adam, graph, skinny
from zoo.infer.methods import svi
from zoo.infer.prepared import quiet
from zoo.infer.step_source import Source
from zoo.infer.steps import ready
from zoo.infer.track import Tensors, first_state

F64 = torch.float64
SHAPES = {
    "outer": (5, 1, 7),
    "column": (5, 7, 1),
    "row": (1, 5, 7),
    "dot": (1, 5, 1),
    "plain": (3, 4, 5),
    "large": (300, 300, 1),
}


def traced(shape: tuple[int, int, int]) -> tuple[tuple[Tensor, ...], list[Tensor], set[str]]:
    """Results of A B and C + A B by a traced graph, the factors, and the operations it has."""
    m, k, n = shape
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(s, generator=generator, dtype=F64) for s in ((m, k), (k, n), (n,)))
    found = graph.trace(lambda a, b, c: (a @ b, torch.addmm(c, a, b)), [a, b, c])
    return found(a, b, c), [a, b, c], {str(node.target) for node in found.graph.nodes}


@pytest.mark.parametrize("kind", SHAPES)
def test_products_with_a_single_row_or_column_leave_the_library(kind: str) -> None:
    results, (a, b, c), operations = traced(SHAPES[kind])
    torch.testing.assert_close(results[0], a @ b, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(results[1], a @ b + c, rtol=1e-12, atol=1e-12)
    assert ("aten.mm.default" in operations) == (kind in ("plain", "large"))


@pytest.mark.parametrize(("chains", "turned"), [(4, True), (70, False)])
def test_fewer_chains_than_rows_lie_chain_by_chain(chains: int, turned: bool) -> None:
    """x W^T of rows x (50, 6) and weights W: (chain, row) in memory where there are fewer chains than rows."""
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(50, 6, generator=generator), torch.randn(chains, 6, generator=generator)
    found = graph.trace(lambda x, w: (torch.func.vmap(lambda v: x @ v)(w),), [x, w])
    torch.testing.assert_close(found(x, w)[0], w @ x.t(), rtol=1e-5, atol=1e-6)
    product = next(node for node in found.graph.nodes if node.target is torch.ops.aten.mm.default)
    assert (product.args[0].target is torch.ops.aten.t.default) == turned


@pytest.mark.parametrize("shared", [True, False])
def test_rows_that_all_chains_share_take_one_product(shared: bool) -> None:
    """x W_c of 7 chains' W_c (5, 4). Twin: chains with rows of their own are left to the library."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(7, 5, 4, generator=generator, dtype=F64)
    x = torch.randn(9, 5, generator=generator, dtype=F64).expand(7, 9, 5)
    x = x if shared else x.clone()
    found = graph.trace(lambda w: (x @ w,), [w])
    torch.testing.assert_close(found(w)[0], x @ w, rtol=1e-12, atol=1e-12)
    assert any(node.target is torch.ops.aten.bmm.default for node in found.graph.nodes) != shared


def test_scaled_sums_and_whole_numbers_are_left_to_the_library() -> None:
    a, b, c = torch.ones(3, 1), torch.ones(1, 4), torch.ones(4)
    assert skinny.addmm(c, a, b, beta=2) is NotImplemented
    assert skinny.mm(a.long(), b.long()) is NotImplemented


KINDS: dict[str, dict[str, Any]] = {
    "restarts": {"restarts": 3, "particles": 2, "batch_size": 5},
    "rows": {"noise_per": "row", "batch_size": 6},
    "score": {"gradient": "score", "particles": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_is_eager(kind: str) -> None:
    """Over 100 steps in float64, to 1e-9: parameters by their draws, and all of the history."""
    options = {"steps": 100, "draws": 5, "seed": 2} | KINDS[kind]
    compiled, eager = (svi.fit(line(), engine=engine, **options) for engine in ("compiled", "eager"))
    assert compiled.settings["engine"] == "compiled"
    torch.testing.assert_close(compiled.draws["w"], eager.draws["w"], rtol=1e-9, atol=1e-9)
    for name, values in eager.history.items():
        torch.testing.assert_close(compiled.history[name], values, rtol=1e-9, atol=1e-9)


def pieces(engine: str, batch_size: int | None) -> tuple[Tensors, Tensor]:
    """Steps 5 to 19 of a block, where `look` says that it is enough, then 20 to 29: the state, and what was said."""
    fit = svi.set_up(line(), "normal", {}, (), 3, 0)
    source, state = Source(fit, 2, batch_size, [(0, r) for r in range(3)]), first_state(fit.start)
    paces = torch.stack(adam.schedule(source.length, 0.01, fit.start), 1)
    with quiet(), torch.no_grad():
        advance, made, _ = ready(fit, source, engine, state, paces)
        given = (source.noise(0), paces, source.rows(0))
        state, first = advance(state, *given, range(5, 40), lambda i, state: i == 19)
        state, second = advance(state, *given, range(20, 30), lambda i, state: False)
    assert made == engine
    assert (len(first), len(second)) == (15, 10)
    return tuple(value.clone() for value in state), torch.cat([first, second])


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 5])
def test_pieces_of_a_block_are_those_of_single_steps(batch_size: int | None) -> None:
    """Compiled and one by one, to 1e-9. Twin: the same steps from the block's beginning."""
    state, said = pieces("compiled", batch_size)
    plain, told = pieces("eager", batch_size)
    torch.testing.assert_close(said, told, rtol=1e-9, atol=1e-9)
    for one, other in zip(state, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert (said[5:] - told[:-5]).abs().max() > 1e-3


def test_other_data_and_seeds_of_one_shape_compile_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph that is handed to the compiler is the same, operation for operation: data and noise are its inputs.

    The twin: other rows make another graph.
    """
    texts = []
    traced = graph.trace

    def kept(function: Any, example: Any) -> Any:
        found = traced(function, example)
        texts.append((str(found.graph), [tuple(e.shape) for e in example]))
        return found

    monkeypatch.setattr("zoo.infer.steps.trace", kept)
    problem = line()
    other = zoo.Problem("line", problem.model, zoo.Data(problem.data.x + 1, problem.data.y * 2), hyper=problem.hyper)
    for task, seed in ((problem, 0), (other, 0), (problem, 7), (line(rows=13), 0)):
        svi.fit(task, steps=2, draws=2, seed=seed, engine="eager")
    assert texts[0] == texts[1] == texts[2]
    assert texts[0] != texts[3]
