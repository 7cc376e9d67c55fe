"""What is compiled once is not compiled again: by the next run of a process, nor by the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.checkpoint_runs import line
from zoo.infer import graph

ROOT = Path(__file__).parents[1]


def problem(data: int, rows: int = 12) -> zoo.Problem:
    """Three coordinates; x and y are noise, of the seed `data`."""
    generator = torch.Generator().manual_seed(data)
    x = torch.randn(rows, 3, generator=generator)
    return zoo.Problem("line", line, zoo.Data(x, x.sum(1) + torch.randn(rows, generator=generator)))


def with_intercept(data: int, rows: int = 12) -> zoo.Problem:
    """A line whose mean is sampled in its intercept's place, which is found by trying."""
    return zoo.load("linear_regression", problem(data, rows).data)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What inductor is given from here on; nothing is kept from before."""
    calls: list[Any] = []
    inductor = graph._inductor
    monkeypatch.setattr(graph, "_inductor", lambda *args: calls.append(args) or inductor(*args))
    monkeypatch.setattr(graph, "_calls", {})
    return calls


def run(task: zoo.Problem, method: str, seed: int = 0, engine: str = "compiled", **options: Any) -> zoo.Posterior:
    fit = zoo.run(task, method, engine=engine, seed=seed, dtype="float64", progress=False, **options)
    assert fit.settings["engine"] == engine
    return fit


def short(method: str, longer: bool = False) -> dict[str, Any]:
    if method == "svi":
        return {"draws": 17, "steps": 200} if longer else {"draws": 8, "steps": 70}
    return {"chains": 4} | ({"draws": 17, "warmup": 25} if longer else {"draws": 8, "warmup": 12})


@pytest.mark.slow
@pytest.mark.parametrize(("method", "make"), [("nuts", with_intercept), ("svi", problem)])
def test_a_process_compiles_a_methods_step_once(method: str, make: Any, made: list[Any]) -> None:
    """Another seed, other x and y of the same shape, other numbers of draws and of steps: the same code.

    What it gives of other data is the uncompiled engine's.
    """
    run(make(0), method, **short(method))
    assert len(made) == 1
    run(make(0), method, seed=1, **short(method))
    run(make(0), method, **short(method, longer=True))
    found = run(make(1), method, seed=2, **short(method))
    assert len(made) == 1
    right = run(make(1), method, seed=2, engine="eager", **short(method))
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-6, atol=1e-8)


SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("sghmc", "hmc", "nuts", "chees", "mala", "mclmc")]


@pytest.mark.parametrize("method", ["svi", *SLOW])
def test_the_next_run_asks_inductor_for_nothing(method: str, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of more methods, whose graphs run as they are; mala and mclmc have two, since chees leads them in.

    Twin: one more row asks again.
    """
    monkeypatch.setattr(graph, "_inductor", lambda traced, *rest: made.append(traced) or graph._plain(traced))
    options = {"step_size": 0.01} if method == "sghmc" else {}
    run(problem(0), method, **options, **short(method))
    graphs = 2 if method in ("mala", "mclmc") else 1
    assert len(made) == graphs
    run(problem(1), method, seed=1, **options, **short(method, longer=True))
    assert len(made) == graphs
    run(problem(0, rows=13), method, **options, **short(method))
    assert len(made) == 2 * graphs


FIT = """
from torch._dynamo.utils import counters
from tests import test_compiled_once as once

once.run(once.problem({data}), "svi", steps=64, draws=4)
found = counters["inductor"]
print(found["fxgraph_cache_hit"], found["fxgraph_cache_miss"], found["fxgraph_cache_bypass"])
"""


def fitted(cache: Path, data: int) -> tuple[str, set[Path]]:
    """A fit in a process of its own: "hits misses bypassed" of graphs in a folder, and what code then lies there."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR_")}
    command = [sys.executable, "-W", "ignore", "-c", FIT.format(data=data)]
    environment = own | {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip(), {path for path in cache.rglob("*") if path.suffix in (".cpp", ".so")}


@pytest.mark.slow
def test_the_next_process_finds_what_was_compiled(tmp_path: Path) -> None:
    """On other data of the same shape, too. The twin is the first: its folder is empty, whatever others hold."""
    first, code = fitted(tmp_path, data=0)
    assert first == "0 1 0"
    assert {path.suffix for path in code} == {".cpp", ".so"}
    assert fitted(tmp_path, data=1) == ("1 0 0", code)
