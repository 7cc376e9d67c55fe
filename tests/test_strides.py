"""Warm-up learns from a few iterations at a time: where strides end, and that what they teach is right."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zoo
from tests.checkpoint_runs import small
from zoo.infer import adapt
from zoo.infer.kernels import nuts
from zoo.infer.noise import BLOCK
from zoo.infer.warmup import Plan, next_stride


class Done:
    """What `next_stride` asks of a run and of a memory, after some iterations."""

    def __init__(self, done: int) -> None:
        self.done = self.iteration = done


@given(st.integers(1, 2500))
def test_strides_end_where_anything_else_begins(warmup: int) -> None:
    """At each window's end, at warm-up's, and at each block's; one iteration at first; never over 8."""
    plan, done, stops = Plan(warmup, 0.8, "diagonal", None, False), 0, [0]
    while done < warmup:
        at: Any = Done(done)
        count = next_stride(at, plan, at)
        assert 1 <= count <= adapt.LONGEST
        done += count
        stops.append(done)
    first, ends = adapt.windows(warmup)
    assert done == warmup
    assert {first, *ends, *range(0, warmup, BLOCK)} <= set(stops)
    for begun in (0, *(end for end in ends if end + 4 < warmup)):
        assert {begun + 1, begun + 2, begun + 3} <= set(stops) or begun + 3 > warmup


def accepted(step_size: float) -> float:
    """Mean acceptance of a leapfrog step of a Gaussian: 2 Phi(-e^3 / 8), as good as any falling curve."""
    return math.erfc(step_size**3 / 8 / math.sqrt(2))


def tuned(each: bool, seed: int) -> float:
    """The step size that dual averaging ends at in a window of 200, from a first one that is 50 times too small."""
    generator = torch.Generator().manual_seed(seed)
    state, done = adapt.restart(0.03), 0
    while done < 200:
        count, size = adapt.stride(done, done, (200,)), adapt.now(state)
        noise = 0.1 * torch.randn(count, generator=generator, dtype=torch.float64)
        values = [min(max(accepted(size) + float(e), 0.0), 1.0) for e in noise]
        for value in values if each else [sum(values) / count]:
            state = adapt.update(state, value, 0.8)
        done += count
    return adapt.average(state)


def test_a_step_size_learned_in_strides_is_accepted_as_asked() -> None:
    """Five seeds within .05 of .8; learning from each acceptance of a stride as if it had been at a step size of its
    own overshoots (the twin)."""
    assert all(abs(accepted(tuned(False, seed)) - 0.8) < 0.05 for seed in range(5))
    assert any(abs(accepted(tuned(True, seed)) - 0.8) > 0.05 for seed in range(5))


def test_chains_do_not_wait_for_the_deepest_tree_of_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of the step in warm-up are fewer than the sum over iterations of the most steps of any chain."""
    calls, step = [0], nuts.step

    def counted(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        return step(*args, **options)

    monkeypatch.setattr(nuts, "step", counted)
    found = zoo.run(
        small(), "nuts", warmup=60, draws=1, chains=8, engine="eager", mass="unit", keep_warmup=True, progress=False
    )
    assert found.warmup is not None
    steps = found.warmup["stats"]["steps"]
    waiting = int(steps.amax(0).sum())
    assert int(steps.sum(1).amax()) <= calls[0] < 0.9 * waiting
