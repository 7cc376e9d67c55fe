"""Every method leaves random numbers, switches and parameters as it found them, usual ones and unusual ones."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from torch.distributions import Distribution, constraints

import zoo
from tests.checkpoint_runs import small
from tests.many_fits import switches
from tests.test_checkpoint import KERNELS
from zoo.infer.dispatch import methods

TINY: dict[str, Any] = {"warmup": 4, "draws": 4, "engine": "eager"}
OPTIONS: dict[str, dict[str, Any]] = {
    "exact": {"draws": 4},
    "prior": {"draws": 4},
    "map": {"restarts": 2},
    "laplace": {"draws": 4},
    "svi": {"steps": 5, "draws": 4, "engine": "eager"},
} | {name: TINY | own for name, (own, _) in KERNELS.items()}


@contextlib.contextmanager
def usual() -> Iterator[None]:
    """The switches as they are, put back at the end whatever happens."""
    dtype, threads, gradients = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    try:
        with pyro.validation_enabled(pyro.infer.util.is_validation_enabled()):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)


@contextlib.contextmanager
def unusual() -> Iterator[None]:
    """Each switch the other way round, so that one that is set to its usual position is seen."""
    with usual():
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
        torch.set_grad_enabled(False)
        pyro.enable_validation(not pyro.infer.util.is_validation_enabled())
        yield


@pytest.fixture
def mine() -> Iterator[None]:
    """A user's own parameter."""
    pyro.param("mine", torch.tensor([0.5, 2.0]), constraint=constraints.positive)
    yield
    pyro.clear_param_store()


def changed(by: Callable[[], Any]) -> list[str]:
    """Names of what a call leaves otherwise than it found it."""
    before = switches()
    by()
    after = switches()
    return [name for name in before if before[name] != after[name]]


def run(method: str) -> zoo.Posterior:
    problem = zoo.load("linear_regression", n=8) if method == "exact" else small()
    return zoo.run(problem, method, seed=1, progress=False, **OPTIONS[method])


def test_every_method_is_in_the_table() -> None:
    assert set(OPTIONS) == set(methods())


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("surroundings", [usual, unusual])
@pytest.mark.parametrize("method", OPTIONS)
def test_a_run_leaves_all_as_it_found_it(method: str, surroundings: Callable[[], Any]) -> None:
    with surroundings():
        assert changed(lambda: run(method)) == []


SPOILERS: dict[str, Callable[[], Any]] = {
    "torch's generator": lambda: torch.rand(()),
    "numpy's generator": lambda: np.random.rand(),
    "Python's generator": random.random,
    "dtype": lambda: torch.set_default_dtype(torch.float16),
    "threads": lambda: torch.set_num_threads(5),
    "gradients": lambda: torch.set_grad_enabled(False),
    "validation": lambda: Distribution.set_default_validate_args(False),
    "param store": lambda: pyro.get_param_store().__setitem__("mine", torch.tensor([0.5, 2.5])),
}


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("what", SPOILERS)
def test_a_twin_that_leaves_one_thing_changed_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run with one word more: a random number drawn, a switch set, a parameter overwritten."""
    real = zoo.run

    def spoilt(*args: Any, **options: Any) -> zoo.Posterior:
        posterior = real(*args, **options)
        SPOILERS[what]()
        return posterior

    monkeypatch.setattr(zoo, "run", spoilt)
    with usual():
        assert changed(lambda: run("prior")) == [what]
