"""Runs that are stopped at chosen places and gone on with, and what makes two posteriors the same bits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo

Stop = Callable[[], str]


def line(x: Tensor, y: Tensor | None = None) -> None:
    """w ~ N(0, 1), y ~ N(x w, .5): what an uncompiled step of it costs is mostly Pyro's handlers, so few sites."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)


def small() -> zoo.Problem:
    """Three coordinates on twelve rows."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 3, generator=generator)
    return zoo.Problem("line", line, zoo.Data(x, x.sum(1) + 0.5 * torch.randn(12, generator=generator)))


def same(a: zoo.Posterior, b: zoo.Posterior) -> bool:
    """Whether two posteriors agree bit for bit in all that is drawn or computed from draws."""

    def equal(one: Any, other: Any) -> bool:
        if isinstance(one, torch.Tensor):
            return (
                one.dtype == other.dtype
                and one.shape == other.shape
                and torch.equal(one.nan_to_num(), other.nan_to_num())
            )
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
        return bool(one == other) or one != one

    parts = ("draws", "stats", "weights", "history", "warmup", "outcome", "kind", "settings")
    return all(equal(getattr(a, part), getattr(b, part)) for part in parts)


def stops(monkeypatch: pytest.MonkeyPatch, where: str, after: Callable[[], Stop]) -> None:
    """Every run of a module (chains, or methods.svi) is stopped by a fresh after() instead of a signal."""

    @contextlib.contextmanager
    def stoppable(max_seconds: float | None = None) -> Iterator[Stop]:
        yield after()

    monkeypatch.setattr(f"zoo.infer.{where}.stoppable", stoppable)


def after_calls(count: int) -> Callable[[], Stop]:
    """A stop that says so from its count-th call on: between any two steps of the chains."""

    def fresh() -> Stop:
        calls = [0]

        def stop() -> str:
            calls[0] += 1
            return "stopped" if calls[0] > count else ""

        return stop

    return fresh


def to_the_end(run: Callable[[], zoo.Posterior], most: int = 400) -> tuple[zoo.Posterior, int]:
    """Makes the same call until it is not stopped; also how often it was made."""
    for sessions in range(1, most):
        with contextlib.suppress(Unstarted):
            posterior = _or_unstarted(run)
            if not posterior.outcome.startswith("stopped"):
                return posterior, sessions
    raise AssertionError(f"not finished after {most} sessions")


class Unstarted(Exception):
    """A run that was stopped in warm-up, and said how to go on."""


def _or_unstarted(run: Callable[[], zoo.Posterior]) -> zoo.Posterior:
    try:
        return run()
    except RuntimeError as error:
        if "ended before its first draw (stopped; to go on, make the same call" in str(error):
            raise Unstarted from None
        raise


def kept(directory: Path, method: str, problem: zoo.Problem | None = None, **options: Any) -> zoo.Posterior:
    """`zoo.run` in a checkpoint that is saved at every block."""
    problem = problem or small()
    return zoo.run(problem, method, checkpoint=directory, checkpoint_seconds=0, progress=False, **options)
