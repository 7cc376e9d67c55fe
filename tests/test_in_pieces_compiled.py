"""Samplers whose steps compute the gradient in pieces of rows: the draws of all rows at once, and compiled once.

Most run inductor's graphs as they are: what is tested is what they hold. Pieces are made small enough for 300 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.checkpoint_runs import after_calls, kept, same, stops, to_the_end
from tests.test_in_pieces import small
from zoo.core.handlers import pyro_state
from zoo.infer import graph, in_pieces, piece_graph, piece_size
from zoo.infer.centred import centred
from zoo.infer.density import Density, density
from zoo.infer.engine import gradient_on
from zoo.infer.in_pieces import InPieces
from zoo.infer.piece_graph import PieceGraph, at_hand

OPTIONS: dict[str, Any] = {"chains": 4, "warmup": 24, "draws": 6, "seed": 3, "progress": False, "dtype": "float64"}
KERNELS: dict[str, dict[str, Any]] = {
    "nuts": {"max_depth": 3, "mass": "low_rank", "temperature": 0.8},
    "hmc": {"max_steps": 4},
    "mclmc": {"max_steps": 4},
    "mala": {},
    "mh": {},
    "sghmc": {"step_size": 1e-3},
}


def problem(data: int = 0, rows: int = 301) -> zoo.Problem:
    """A line of three inputs, whose mean of f is sampled in the intercept's place."""
    generator = torch.Generator().manual_seed(data)
    x = torch.randn(rows, 3, generator=generator)
    return zoo.load("linear_regression", zoo.Data(x, x.sum(1) + torch.randn(rows, generator=generator)))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that inductor is asked for, which run as they are; pieces are small, and nothing is kept from before.

    Four chains of a row of three inputs: 4 numbers, so that 64 are 16 rows.
    """
    calls: list[Any] = []
    small(monkeypatch, 64)
    monkeypatch.setattr(graph, "_inductor", lambda traced, *rest: calls.append(traced) or graph._plain(traced))
    monkeypatch.setattr(graph, "_calls", {})
    return calls


def run(method: str, seed: int = 3, data: int = 0, **options: Any) -> zoo.Posterior:
    return zoo.run(problem(data), method, **OPTIONS | {"engine": "compiled", "seed": seed} | options)


def pieces_called(graphs: list[Any]) -> list[int]:
    """How many calls of the operator each graph has."""
    return [sum("zoo.pieces" in str(node.target) for node in one.graph.nodes) for one in graphs]


@pytest.mark.parametrize("method", KERNELS)
def test_a_run_in_pieces_is_the_uncompiled_one(method: str, made: list[Any]) -> None:
    """The same draws as of all rows together, to rounding. Twin: another seed."""
    found = run(method, **KERNELS[method])
    assert sorted(set(pieces_called(made))) == [0, 1]
    right = run(method, engine="eager", **KERNELS[method])
    assert found.settings["centred"] == right.settings["centred"]
    for name, value in right.draws.items():
        torch.testing.assert_close(found.draws[name], value, rtol=1e-5, atol=1e-7)
        assert not torch.allclose(run(method, 4, engine="eager", **KERNELS[method]).draws[name], value, rtol=1e-5)


def test_a_step_and_a_piece_are_compiled_once(made: list[Any]) -> None:
    """Another seed, other data of the same shape: nothing more, and draws of that data. Twin: more rows."""
    run("hmc", **KERNELS["hmc"])
    assert pieces_called(made) == [0, 1]
    found = run("hmc", 5, data=1, **KERNELS["hmc"])
    assert len(made) == 2
    right = run("hmc", 5, data=1, engine="eager", **KERNELS["hmc"])
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-5, atol=1e-7)
    zoo.run(problem(rows=302), "hmc", engine="compiled", **OPTIONS | KERNELS["hmc"])
    assert pieces_called(made) == [0, 1, 1]  # the piece is the same, what is left over is not


def test_minibatches_and_small_data_are_not_cut(made: list[Any]) -> None:
    zoo.run(problem(), "sghmc", engine="compiled", batch_size=20, step_size=1e-3, **OPTIONS)
    zoo.run(problem(rows=100), "hmc", engine="compiled", **OPTIONS)
    assert pieces_called(made) == [0, 0]


def test_stopped_between_any_two_steps(made: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone on with it is bit for bit the run that never stopped."""
    options = OPTIONS | KERNELS["nuts"] | {"engine": "compiled"}
    uninterrupted = zoo.run(problem(), "nuts", **options)
    assert pieces_called(made) == [0, 1]
    stops(monkeypatch, "chains", after_calls(41))
    del options["progress"]
    parts, sessions = to_the_end(lambda: kept(tmp_path / "run", "nuts", problem(), **options))
    assert sessions > 2
    assert same(uninterrupted, parts)


@pytest.mark.parametrize("which", [1, 2], ids=["piece", "step"])
def test_what_does_not_compile_runs_uncompiled_on_all_rows(
    which: int, made: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The piece, or the step that calls it."""
    calls: list[int] = []

    def fails(traced: Any, *rest: Any) -> Callable[..., Any]:
        calls.append(1)
        if len(calls) == which:
            raise RuntimeError("no C++ compiler here")
        return graph._plain(traced)

    monkeypatch.setattr(graph, "_inductor", fails)
    found = run("hmc", **KERNELS["hmc"])
    assert found.settings["engine"] == "eager"
    assert "no C++ compiler here" in caplog.text
    monkeypatch.setattr(InPieces, "gradient", lambda *_: pytest.fail("in pieces"))
    right = run("hmc", engine="eager", **KERNELS["hmc"])
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-5, atol=1e-7)


def test_nothing_of_a_piece_stays_when_the_run_is_over(made: list[Any]) -> None:
    run("hmc", **KERNELS["hmc"])
    assert piece_graph._here.piece is None


def _gradient(target: Density) -> Callable[..., tuple[Tensor, ...]]:
    """value_and_grad of x, y and a position."""
    _, more = target.problem.arguments()
    return lambda x, y, u: gradient_on(target, ((x, y), more))(u)


def traced(rows: int) -> tuple[int, int]:
    """The numbers of the largest tensor that a gradient in pieces makes, and how many operations it has."""
    target = piece_size.in_pieces(centred(density(problem(rows=rows))), 4)
    assert isinstance(target, InPieces)
    at = torch.zeros(4, target.dim)
    with pyro_state(validate=False), torch.no_grad(), at_hand(PieceGraph(target, at)):
        found = graph.trace(_gradient(target), [*target.problem.arguments()[0], at])
    nodes = [node for node in found.graph.nodes if node.op == "call_function"]
    shapes = [meta.shape.numel() for node in nodes if hasattr(meta := node.meta.get("tensor_meta"), "shape")]
    return max(shapes), len(nodes)


def test_memory_does_not_grow_with_the_rows(made: list[Any]) -> None:
    """A step of 3,001 rows and one of 30,009 make tensors of the same size. Twin: of all rows at once they grow."""
    few, many = traced(3001), traced(30_009)
    assert many[1] == few[1]
    assert many[0] <= 1.3 * few[0] < 3001


@pytest.mark.slow
def test_inductors_pieces_are_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a network and of integer labels, in float64 to 1e-9; a second time, at other positions, too.

    Twin: a piece whose sums go on from the call before.
    """
    for name, options in (("bnn_regression", {"hidden": 8}), ("softmax_regression", {})):
        whole = centred(density(zoo.load(name, **options).to(dtype=torch.float64)))
        target = InPieces(whole, 32)
        at = torch.randn(3, whole.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        x, y = whole.problem.data.x, whole.problem.data.y
        with pyro_state(validate=False), torch.no_grad():
            piece = PieceGraph(target, at)
            assert piece.engine == "compiled"
            with at_hand(piece):
                made = graph.compile_graph(_gradient(target), [x, y, at])
                assert made.engine == "compiled"
                for position in (at, at + 1, at):
                    _is(made.call(x, y, position), whole.value_and_grad(position))
                monkeypatch.setattr(piece.value, "zero_", lambda: None, raising=False)
                with pytest.raises(AssertionError):
                    _is(made.call(x, y, at), whole.value_and_grad(at))


def _is(found: Any, right: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(tuple(found), right, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_a_compiled_run_in_pieces_is_the_uncompiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 64)
    seen: list[Any] = []
    real = in_pieces.InPieces.gradient
    monkeypatch.setattr(in_pieces.InPieces, "gradient", lambda *args: seen.append(args) or real(*args))
    found = run("nuts", **KERNELS["nuts"])
    assert found.settings["engine"] == "compiled"
    assert seen
    right = run("nuts", engine="eager", **KERNELS["nuts"])
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-5, atol=1e-7)
