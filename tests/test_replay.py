"""Repeated calls run a graph's loops only, on the memory of the first: the same numbers, or plain calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.test_sbc import correlated
from tests.test_sbc_many import EAGER, data_sets
from zoo.infer import in_place, many
from zoo.infer.each import fits
from zoo.infer.graph import Compiled, compile_graph
from zoo.infer.replay import first_and_rest, launches_of

KNOWN = """
class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
        cpp_fused_add_0(arg0_1, buf0)
        buf1 = reinterpret_tensor(buf0, (2, 2), (2, 1), 0)
        extern_kernels.mm(buf1, arg1_1, out=buf1)
        buf2 = buf1; del buf1  # reuse
        cpp_fused_exp_1(buf2)
        return (buf2, )
"""
UNKNOWN = {
    "an operator of the library's own": "buf3 = torch.ops.aten.cholesky.default(buf2)",
    "a product that makes its result": "buf3 = extern_kernels.mm(arg0_1, arg1_1)",
    "a product without a place": "extern_kernels.mm(arg0_1, arg1_1)",
    "a branch": "if buf2 is None: cpp_fused_exp_2(buf2)",
    "a device": "with torch.cuda.device(0): cpp_fused_exp_2(buf2)",
}


def _module(folder: Path, text: str) -> ModuleType:
    path = folder / "code.py"
    path.write_text(text)
    module = ModuleType("code")
    module.__file__ = str(path)
    return module


def test_loops_and_products_are_counted(tmp_path: Path) -> None:
    assert launches_of(_module(tmp_path, KNOWN)) == 3


@pytest.mark.parametrize("what", UNKNOWN)
def test_code_that_does_more_is_not_repeated(what: str, tmp_path: Path) -> None:
    text = KNOWN.replace("        return", f"        {UNKNOWN[what]}\n        return")
    assert launches_of(_module(tmp_path, text)) == 0


def test_code_that_cannot_be_read_is_not_repeated(tmp_path: Path) -> None:
    module = _module(tmp_path, KNOWN)
    Path(str(module.__file__)).unlink()
    assert launches_of(module) == 0
    assert launches_of(_module(tmp_path, KNOWN + KNOWN)) == 0
    assert launches_of(ModuleType("without a file")) == 0


def test_without_code_every_call_is_a_call() -> None:
    calls = []

    def call(x: Tensor) -> tuple[Tensor]:
        calls.append(1)
        return (x + 1,)

    x = torch.zeros(2)
    (first,), again = first_and_rest(Compiled(call, "eager", 0.0, 1), (x,))
    x += 1
    assert first.tolist() == [1, 1]
    assert again()[0].tolist() == [2, 2]
    assert len(calls) == 2


def _step(state: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """Writes a new state over the old, as the samplers' graphs do."""
    new = torch.tanh(state @ w) + state.sum(0)
    state.copy_(new)
    return (new.sum(),)


@pytest.mark.slow
def test_repeated_loops_are_calls() -> None:
    """Five steps, the weights changed in their place between them; a copy of the weights is not what is read."""
    w = torch.randn(20, 20, generator=torch.Generator().manual_seed(0)) / 5
    start = torch.ones(7, 20)
    compiled = compile_graph(_step, [start, w])
    assert launches_of(compiled.code) > 1
    ends = []
    for repeat in (True, False):
        state, mine = start.clone(), w.clone()
        (total,), again = first_and_rest(compiled, (state, mine))
        totals = [float(total)]
        for _ in range(4):
            mine *= 0.9
            totals.append(float(again()[0] if repeat else compiled.call(state, mine)[0]))
        ends.append((totals, state))
    assert ends[0][0] == ends[1][0]
    assert torch.equal(ends[0][1], ends[1][1])
    # The twin: new tensors are not seen by what was noted.
    state, other = start.clone(), w.clone()
    _, again = first_and_rest(compiled, (state, other))
    other = other * 0.9
    assert float(again()[0]) != ends[0][0][1]


@pytest.mark.slow
def test_operators_of_the_library_are_called_each_time() -> None:
    a = torch.eye(3) * 4
    compiled = compile_graph(lambda a: (torch.linalg.cholesky(a) + 1,), [a])
    (first,), again = first_and_rest(compiled, (a,))
    assert float(first[0, 0]) == 3
    a *= 4
    assert float(again()[0][0, 0]) == 5


def _plainly(compiled: Compiled, inputs: Sequence[Tensor]) -> tuple[Any, Callable[[], Any]]:
    return compiled.call(*inputs), lambda: compiled.call(*inputs)


RUNS: dict[str, dict[str, Any]] = {
    "nuts": {"warmup": 150, "draws": 100, "chains": 4},
    "chees": {"warmup": 150, "draws": 100, "chains": 4},
    "svi": {"steps": 150, "restarts": 2, "draws": 100},
    "svi on batches": {"steps": 150, "restarts": 2, "draws": 100, "batch_size": 10},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_same_bits_either_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through warm-up, where the mass, the step size and the noise change under way; with new rows at every step."""
    problem, method = zoo.load("logistic_regression", n=40), name.split()[0]
    options: dict[str, Any] = {"engine": "compiled", "seed": 3, "progress": False, **RUNS[name]}
    repeated = zoo.run(problem, method, **options)
    monkeypatch.setattr(in_place, "first_and_rest", _plainly)
    plain = zoo.run(problem, method, **options)
    assert all(torch.equal(value, plain.draws[name]) for name, value in repeated.draws.items())
    assert all(torch.equal(value, plain.history[name]) for name, value in repeated.history.items())
    other = zoo.run(problem, method, **options | {"seed": 4})
    assert not torch.equal(other.draws["w"], plain.draws["w"])


@pytest.mark.slow
def test_many_runs_have_the_same_bits_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four data sets on two places: the later ones find the first ones' state, data and noise there."""
    options = EAGER | {"engine": "compiled", "chains": 2, "warmup": 60, "draws": 40}
    monkeypatch.setattr(many, "_places", lambda *args: 2)
    repeated = dict(fits(data_sets(correlated(), 4), "nuts", options, range(4), lambda: ""))
    monkeypatch.setattr(in_place, "first_and_rest", _plainly)
    plain = dict(fits(data_sets(correlated(), 4), "nuts", options, range(4), lambda: ""))
    for k in range(4):
        assert torch.equal(repeated[k].draws["w"], plain[k].draws["w"])
    assert not torch.equal(plain[0].draws["w"], plain[2].draws["w"])


def test_what_is_given_is_read_and_what_is_own_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompiled: the places are copies, written when another tensor comes; the state is the caller's."""
    monkeypatch.setattr(in_place, "compile_graph", lambda function, example, fixed: Compiled(function, "eager", 0.0, 1))

    def function(state: Tensor, add: Tensor) -> tuple[Tensor]:
        state.copy_(state + add)
        return (state * 10,)

    state, one = torch.zeros(2), torch.ones(2)
    call, made = in_place.compile_in_place(function, [state], (one,))
    assert made.engine == "eager"
    assert call((one,))[0].tolist() == [10, 10]
    assert call((one + 1,))[0].tolist() == [30, 30]
    state.zero_()
    assert call((one,))[0].tolist() == [10, 10]
    assert one.tolist() == [1, 1]
    with pytest.raises(ValueError, match="zip"):
        call(())
