"""Models that ask their data for a number, int(group.max()) + 1, a branch, x[mask]: every method runs them, rightly."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

import zoo
from tests.test_compiled_once import made, uncompiled
from zoo.infer import engine, graph
from zoo.infer.each import fits
from zoo.infer.graph import trace
from zoo.infer.known import Untraceable, asks_for_numbers

__all__ = ["made", "uncompiled"]
Table = dict[str, torch.Tensor]


def table(shift: float = 0.0) -> Table:
    """Twelve rows of three groups; with a shift the branch of `levels` is the other one."""
    x = torch.linspace(-1, 1, 12)
    return {"x": x + shift, "group": torch.arange(12) % 3, "y": torch.sin(3 * x)}


def levels(x: torch.Tensor, group: torch.Tensor, y: torch.Tensor | None = None) -> None:
    """a_g ~ N(0, 1), y_i ~ N(a_(group i) x_i, .5), or .1 where x is large, for as many groups as the data name."""
    a = pyro.sample("a", dist.Normal(x.new_zeros(int(group.max()) + 1), 1.0).to_event(1))
    noise = 0.1 if x.max() > 2 else 0.5
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(a[group] * x, noise), obs=y)


def of_rows(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    """The same on `zoo.Data`, whose first column says the group."""
    levels(x[:, 1], x[:, 0].long(), y)


def on_a_dict(shift: float = 0.0) -> zoo.Problem:
    return zoo.Problem("levels", levels, dict(table(shift)))


def on_data(shift: float = 0.0) -> zoo.Problem:
    one = table(shift)
    return zoo.Problem("of_rows", of_rows, zoo.Data(torch.stack([one["group"].float(), one["x"]], 1), one["y"]))


def exactly(shift: float) -> torch.Tensor:
    """The mean of a: of each group sum x y / noise^2 / (1 + sum x^2 / noise^2)."""
    one, noise = table(shift), 0.1 if shift else 0.5
    rows = [one["group"] == g for g in range(3)]
    sums = [((one["x"][r] * one["y"][r]).sum(), (one["x"][r] ** 2).sum()) for r in rows]
    return torch.stack([xy / noise**2 / (1 + xx / noise**2) for xy, xx in sums])


OPTIONS: dict[str, dict[str, Any]] = {
    "nuts": {"warmup": 60, "draws": 150},
    "svi": {"steps": 400, "restarts": 2},
    "map": {},
    "laplace": {},
}


@pytest.mark.parametrize("make", [on_a_dict, on_data])
@pytest.mark.parametrize("method", OPTIONS)
def test_every_method_runs_it(method: str, make: Any, uncompiled: list[Any]) -> None:
    """With the graphs of the compiled engine; for other data of the shapes, whose branch is the other, too."""
    for shift in (0.0, 3.0):
        asked = {} if method in ("map", "laplace") else {"engine": "compiled"}
        found = zoo.run(make(shift), method, seed=1, progress=False, **asked, **OPTIONS[method])
        mean = found.draws["a"].reshape(-1, 3).mean(0)
        # Five standard errors of 600 draws of sd under .5, half of them effective; svi ends as near to the mode.
        assert (mean - exactly(shift)).abs().max() < 0.15
        if method in ("nuts", "svi"):
            held = "eager" if (method, make) == ("svi", on_data) else "compiled"
            assert found.settings["engine"] == held


@pytest.mark.parametrize("make", [on_a_dict, on_data])
@pytest.mark.parametrize("method", ["nuts", "svi", "laplace"])
def test_many_data_sets_take_their_turns(method: str, make: Any) -> None:
    """Each by a graph of its own, since no batch can ask each for its number: fits as the method alone makes them."""
    options = {"progress": False} | {"nuts": {"warmup": 12, "draws": 8}, "svi": {"steps": 20}, "laplace": {}}[method]
    tasks = [make(0.0), make(3.0)]
    found = dict(fits(tasks, method, options, [5, 6], lambda: ""))
    for i, task in enumerate(tasks):
        alone = zoo.run(task, method, seed=5 + i, **options)
        torch.testing.assert_close(found[i].draws, alone.draws)


def test_a_graph_that_is_given_what_was_asked_for_is_refused(
    uncompiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: data as inputs of a graph whose model asks for their numbers; the run goes on uncompiled."""
    monkeypatch.setattr(engine, "asks_for_numbers", lambda function: (function(), False))
    found = zoo.run(on_a_dict(), "nuts", warmup=10, draws=5, engine="compiled", progress=False)
    assert found.settings["engine"] == "eager"
    assert not uncompiled


def test_what_is_computed_of_constants_is_known() -> None:
    """A tracer by itself follows it (the twin), and a graph's own input stays unknown."""
    group = torch.tensor([0, 2, 1])

    def of_a_constant(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = torch.zeros(int(group.max()) + 1).index_add(0, group, x)
        return (total * (2 if (group + 1).sum() > 5 else 3),)

    found = trace(of_a_constant, [torch.ones(3)])
    assert torch.equal(found(torch.tensor([1.0, 2.0, 3.0]))[0], 2 * torch.tensor([1.0, 3.0, 2.0]))
    with pytest.raises(RuntimeError, match="tracing tensor"):
        graph.make_fx(of_a_constant)(torch.ones(3))
    with pytest.raises(Untraceable, match="tracing tensor"):
        trace(lambda x: (x * int(x.max()),), [torch.ones(3)])


@pytest.mark.parametrize("copied", [False, True])
def test_a_constant_that_is_written_over_is_no_longer_known(copied: bool) -> None:
    """Filled with what depends on an input, a tensor made of nothing depends on it; a known one's copy is refused."""
    known = torch.tensor([2.0, 3.0, 0.0])

    def filled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        room = known.clone() if copied else torch.zeros(int(known.max()))
        room[: int(known[0])] = x
        return (room * 2,)

    if copied:
        with pytest.raises(Untraceable, match="writes what is not known"):
            trace(filled, [torch.ones(2)])
        return
    found = trace(filled, [torch.ones(2)])
    assert torch.equal(found(torch.tensor([4.0, 5.0]))[0], torch.tensor([8.0, 10.0, 0.0]))


@pytest.mark.parametrize(
    ("function", "asks"),
    [
        (lambda x: x[x > 0], True),
        (lambda x: int(x.max()), True),
        (lambda x: torch.nonzero(x), True),
        (lambda x: x * torch.equal(x, x), True),
        (lambda x: x[torch.tensor([1, 0])], False),
        (lambda x: torch.where(x > 0, x, 0.0).exp().sum(), False),
    ],
)
def test_what_asks_for_numbers(function: Any, asks: bool) -> None:
    found, seen = asks_for_numbers(lambda: torch.func.vmap(lambda y: function(torch.ones(2)) * y)(torch.ones(3)))
    assert seen is asks
    assert len(found) == 3
