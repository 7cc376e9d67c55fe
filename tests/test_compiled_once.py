"""What is compiled once is not compiled again: by the next run of a process, nor by the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

import zoo
from tests.checkpoint_runs import after_calls, line, same, stops
from zoo.infer import beside_rows, graph, steps

ROOT = Path(__file__).parents[1]


def problem(data: int, rows: int = 12) -> zoo.Problem:
    """Three coordinates; x and y are noise, of the seed `data`."""
    generator = torch.Generator().manual_seed(data)
    x = torch.randn(rows, 3, generator=generator)
    return zoo.Problem("line", line, zoo.Data(x, x.sum(1) + torch.randn(rows, generator=generator)))


def with_intercept(data: int, rows: int = 12) -> zoo.Problem:
    """A line whose mean is sampled in its intercept's place, which is found by trying."""
    return zoo.load("linear_regression", problem(data, rows).data)


def levels(
    x: torch.Tensor, group: torch.Tensor, y: torch.Tensor | None = None, *, width: torch.Tensor | float = 1.0
) -> None:
    """w ~ N(0, 1), a ~ N(0, width), y_i ~ N(x_i w + a_(group i), .5)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
    a = pyro.sample("a", dist.Normal(x.new_zeros(2), width).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w + a[group], 0.5), obs=y)


def on_a_dict(data: int, rows: int = 12) -> zoo.Problem:
    """Groups are other ones for other data, too."""
    one, generator = problem(data, rows).data, torch.Generator().manual_seed(data)
    group = torch.randint(0, 2, (rows,), generator=generator)
    return zoo.Problem("levels", levels, {"x": one.x, "group": group, "y": one.y})


def wide(x: torch.Tensor, y: torch.Tensor | None = None, *, width: torch.Tensor) -> None:
    """w ~ N(0, width), y ~ N(x w, .5): width (3,)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), width).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)


def of_a_tensor(data: int, rows: int = 12) -> zoo.Problem:
    """A hyperparameter that is a tensor, another one for other data."""
    width = 1.0 + torch.arange(3.0) + data
    return zoo.Problem("wide", wide, problem(data, rows).data, hyper={"width": width})


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


@pytest.fixture
def uncompiled(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What inductor would be given: graphs run as they are, which takes no seconds."""
    monkeypatch.setattr(graph, "_inductor", lambda traced, *rest: made.append(traced) or graph._plain(traced))
    return made


ALL_OF_IT = {
    "dict": (on_a_dict, {"restarts": 2}),
    "hyperparameter": (of_a_tensor, {}),
    "batches": (of_a_tensor, {"batch_size": 5}),
    "score": (on_a_dict, {"gradient": "score", "particles": 3}),
    "full rank": (on_a_dict, {"guide": "full_rank", "particles": 2}),
}
CASES = [pytest.param(c, marks=[] if c in ("dict", "hyperparameter") else pytest.mark.slow) for c in ALL_OF_IT]


@pytest.mark.parametrize("case", CASES)
def test_a_dict_and_hyperparameters_are_given_to_the_step(
    case: str, uncompiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers are not in the graph; what it gives of others is right. Twin: a step that holds them."""
    make, options = ALL_OF_IT[case]
    options = options | short("svi")
    run(make(0), "svi", **options)
    found = run(make(1), "svi", seed=2, **options)
    assert len(uncompiled) == 1
    right = run(make(1), "svi", seed=2, engine="eager", **options)
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(found.history, right.history, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(steps, "beside_rows", lambda problem: ())
    for data in (0, 1):
        run(make(data), "svi", **options)
    assert len(uncompiled) == 3


def test_a_step_that_forgets_what_it_is_given_is_seen(uncompiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of its results: one whose graph reads the first data's numbers, whatever it is given."""
    old = on_a_dict(0).to(dtype=torch.float64)
    monkeypatch.setattr(steps, "beside_rows", lambda problem: beside_rows.beside_rows(old))
    found = run(on_a_dict(1), "svi", **short("svi"))
    right = run(on_a_dict(1), "svi", engine="eager", **short("svi"))
    assert (found.draws["w"] - right.draws["w"]).abs().max() > 1e-3


def seen_only(x: torch.Tensor, seen: torch.Tensor, y: torch.Tensor) -> None:
    """w ~ N(0, 1), y ~ N(x w, .5) where it was seen: how many rows that are only the mask's numbers say."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
    pyro.sample("y", dist.Normal(x[seen] @ w, 0.5).to_event(1), obs=y[seen])


def test_what_shapes_depend_on_stays_in_the_graph(uncompiled: list[Any]) -> None:
    """Six rows seen, then eight, of the same twelve. The twin, a mask that only multiplies, makes one graph."""
    for count in (6, 8):
        one = problem(0).data
        task = zoo.Problem("seen", seen_only, {"x": one.x, "seen": torch.arange(12) < count, "y": one.y})
        found, right = (run(task, "svi", engine=engine, **short("svi")) for engine in ("compiled", "eager"))
        torch.testing.assert_close(found.draws, right.draws, rtol=1e-9, atol=1e-11)
    assert len(uncompiled) == 2
    masked = zoo.Problem("seen", levels, {"x": one.x, "group": (torch.arange(12) < 6).long(), "y": one.y})
    run(masked, "svi", **short("svi"))
    masked.data["group"] = (torch.arange(12) < 8).long()
    run(masked, "svi", **short("svi"))
    assert len(uncompiled) == 3


@pytest.mark.slow
def test_a_dicts_step_is_compiled_once(made: list[Any]) -> None:
    """By inductor itself: other data of the same shapes, and what the uncompiled engine gives of them."""
    run(on_a_dict(0), "svi", **short("svi"))
    found = run(on_a_dict(1), "svi", seed=2, **short("svi"))
    assert len(made) == 1
    right = run(on_a_dict(1), "svi", seed=2, engine="eager", **short("svi"))
    torch.testing.assert_close(found.draws, right.draws, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("moved", [False, True])
def test_a_dicts_fit_goes_on_bit_for_bit(
    moved: bool, uncompiled: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after 90 of 200 steps. Twin: a second part that is given other numbers than the first."""
    task, options = on_a_dict(0), {"checkpoint": tmp_path / "run", "restarts": 2, **short("svi", longer=True)}
    whole = run(task, "svi", **{**options, "checkpoint": None})
    with monkeypatch.context() as patch:
        stops(patch, "methods.svi", after_calls(90))
        run(task, "svi", **options)
    if moved:
        given = beside_rows.beside_rows(on_a_dict(1).to(dtype=torch.float64))
        monkeypatch.setattr(steps, "beside_rows", lambda problem: given)
    assert same(whole, run(task, "svi", **options)) is not moved


SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("sghmc", "hmc", "nuts", "chees", "mala", "mclmc")]


@pytest.mark.parametrize("method", ["svi", *SLOW])
def test_the_next_run_asks_inductor_for_nothing(method: str, uncompiled: list[Any]) -> None:
    """The same of more methods, whose graphs run as they are; mala and mclmc have two, since chees leads them in.

    Twin: one more row asks again.
    """
    options = {"step_size": 0.01} if method == "sghmc" else {}
    run(problem(0), method, **options, **short(method))
    graphs = 2 if method in ("mala", "mclmc") else 1
    assert len(uncompiled) == graphs
    run(problem(1), method, seed=1, **options, **short(method, longer=True))
    assert len(uncompiled) == graphs
    run(problem(0, rows=13), method, **options, **short(method))
    assert len(uncompiled) == 2 * graphs


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
