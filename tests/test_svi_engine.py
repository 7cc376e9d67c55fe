"""svi's engine="auto": compiled where masks of rows make a step large enough that the steps asked for repay it."""

from __future__ import annotations

import pytest
import torch

import zoo
from zoo.core.randomness import seeded
from zoo.infer import ascent
from zoo.infer.ascent import REPAYS, choose_engine, climb, masked_numbers
from zoo.infer.methods.svi import set_up

ROWS, FEATURES = 128, 8
SIZE = FEATURES * 300 + 300 + 300 * 300 + 300 + 300 + 1  # of 8-300-300-1


def network(hidden, guide=None, restarts: int = 1, rows: int = ROWS):
    with seeded(0):
        data = zoo.Data(torch.randn(rows, FEATURES), torch.randn(rows))
    problem = zoo.load("mc_dropout", data, hidden=hidden, p=0.05)
    return set_up(problem, guide or problem.guide, {}, (), restarts, 0)


def picked(monkeypatch, fit, steps: int, **options) -> str:
    """The engine that an ascent of so many steps would run on; none is run."""

    class Chosen(Exception):
        pass

    def stop(fit, at, source, engine, show):
        raise Chosen(engine)

    monkeypatch.setattr(ascent, "has_compiler", lambda device: True)
    monkeypatch.setattr(ascent, "_begin", stop)
    with pytest.raises(Chosen) as found:
        climb(
            fit,
            **{"steps": steps, "lr": 0.01, "particles": 1, "batch_size": None, "seed": 0, "engine": "auto"} | options,
        )
    return str(found.value)


def test_numbers_are_those_of_parameters_and_masks() -> None:
    fit = network((300, 300))
    assert fit.layout.size == SIZE
    assert masked_numbers(fit, (1, ROWS), None) == SIZE + ROWS * (FEATURES + 300 + 300)
    assert masked_numbers(fit, (2, 32), 32) == SIZE + 2 * 32 * 608
    assert masked_numbers(network(5, restarts=3), (1, ROWS), None) == 3 * (51 + ROWS * 13)
    assert masked_numbers(network((300, 300), "normal"), (1,), None) == 0  # one draw for all rows


def test_a_wide_net_with_masks_of_rows_is_compiled(monkeypatch) -> None:
    """The default 5,000 steps of 8-300-300-1, of 93,301 parameters; twins: few steps, and a q without masks."""
    fit = network((300, 300))
    assert picked(monkeypatch, fit, 5000) == "compiled"
    assert picked(monkeypatch, fit, 1000) == "eager"
    assert picked(monkeypatch, fit, 5000, batch_size=16) == "eager"
    assert picked(monkeypatch, fit, 1000, particles=20) == "compiled"
    assert picked(monkeypatch, network((300, 300), "normal"), 5000) == "eager"
    assert choose_engine("eager", fit, 5000, REPAYS) == "eager"
    monkeypatch.setattr(ascent, "has_compiler", lambda device: False)
    assert choose_engine("auto", fit, 5000, REPAYS) == "eager"


def test_a_small_net_is_compiled_as_before(monkeypatch) -> None:
    fit = network(50)
    assert picked(monkeypatch, fit, 3999) == "eager"
    assert picked(monkeypatch, fit, 4000) == "compiled"


def test_convolutions_stay_uncompiled(monkeypatch) -> None:
    with seeded(0):
        data = zoo.Data(torch.rand(40, 1, 28, 28), torch.randint(0, 10, (40,)), info={"classes": list("0123456789")})
    problem = zoo.load("lenet", data)
    fit = set_up(problem, problem.guide, {}, (), 1, 0)
    assert fit.by_row
    assert masked_numbers(fit, (1, 40), None) == 0
    assert picked(monkeypatch, fit, 10**6) == "eager"


@pytest.mark.slow
def test_a_large_net_ends_where_it_does_uncompiled() -> None:
    """Ten steps of 8-300-300-1 by both engines: the same ELBOs and parameters but for rounding."""
    options = {"steps": 10, "lr": 1e-3, "particles": 1, "batch_size": None, "seed": 0}
    slow, fast = (climb(network((300, 300)), engine=engine, **options) for engine in ("eager", "compiled"))
    assert (slow.engine, fast.engine) == ("eager", "compiled")
    torch.testing.assert_close(fast.history["elbo"], slow.history["elbo"], rtol=1e-4, atol=0)
    torch.testing.assert_close(fast.params, slow.params, rtol=0, atol=2e-4)
    assert float((slow.params - network((300, 300)).start).abs().max()) > 5e-3
