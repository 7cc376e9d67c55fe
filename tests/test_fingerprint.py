"""`fingerprint`: equal for what gives the same draws, in every process; another one for whatever gives others."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from pyro.infer.reparam import LocScaleReparam
from pyro.nn import PyroModule, PyroSample
from torch import Tensor

import zoo
from tests.checkpoint_runs import kept, line, same, small
from tests.refusals import refused
from zoo.infer.call import _said
from zoo.infer.fingerprint import fingerprint

SCALE = 2.0
NUMBERS = torch.ones(3)


def scaled(x: float) -> float:
    return SCALE * x


def summed(x: Tensor) -> Tensor:
    """A docstring."""
    return (x * NUMBERS).sum()


def closing(over: Any) -> Callable[..., Any]:
    return lambda x: (x, over)


class Net(PyroModule):
    """A network with priors, one of them declared in the class."""

    def __init__(self, scale: float, hyper: int = 1) -> None:
        super().__init__()
        self.layer = PyroModule[torch.nn.Linear](2, 1)
        self.layer.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))
        self.layer.bias = PyroSample(dist.Normal(0.0, scale).expand([1]).to_event(1))
        self.hyper = {"hidden": hyper}

    @PyroSample
    def noise(self) -> Any:
        return dist.HalfNormal(1.0)

    def forward(self, x: Tensor, y: Tensor | None = None) -> None:
        f, noise = self.layer(x)[:, 0], self.noise
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(f, noise), obs=y)


class Callable_:
    """A model that is an object."""

    def __init__(self, noise: float) -> None:
        self.hyper = {"noise": noise}
        self._cache: dict[str, float] = {}

    def __call__(self, x: Tensor, y: Tensor | None = None) -> None:
        line(x, y)


def used(net: Net) -> Net:
    net(torch.ones(3, 2))
    return net


def asked(fn: Any) -> Any:
    assert fn.logits is not None
    return fn


def chain(function: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Identity(), function)


def mixed(scale: float) -> Any:
    return dist.MixtureSameFamily(dist.Categorical(torch.ones(2)), dist.Normal(torch.zeros(2), scale * torch.ones(2)))


def moved(scale: float) -> Any:
    return dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.AffineTransform(0.0, scale))


def kind(depth: int, base: type = object) -> type:
    return type("Kind", (base,), {"SIZES": (depth, 2), "__module__": __name__})


@dataclasses.dataclass(slots=True)
class Slots:
    """An object without a `__dict__`."""

    depth: int


PAIRS: dict[str, tuple[Any, Any, bool]] = {
    "int and float": (1, 1.0, False),
    "order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    "dtype": (torch.ones(3), torch.ones(3, dtype=torch.float64), False),
    "shape": (torch.ones(3), torch.ones(3, 1), False),
    "the last bit": (torch.tensor(1.0), torch.tensor(math.nextafter(1.0, 2), dtype=torch.float32), True),
    "a tensor's last bit": (torch.tensor(1.0), torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)), False),
    "what is closed over": (closing(1), closing(2), False),
    "the same closed over": (closing([1, torch.ones(2)]), closing([1, torch.ones(2)]), True),
    "a bound argument": (functools.partial(scaled, x=1), functools.partial(scaled, x=2), False),
    "a handler": (pyro.poutine.scale(line, 0.5), pyro.poutine.scale(line, 0.25), False),
    "the same handler": (pyro.poutine.scale(line, 0.5), pyro.poutine.scale(line, 0.5), True),
    "a distribution": (dist.Normal(0.0, 1.0), dist.Normal(0.0, 2.0), False),
    "a distribution of events": (
        dist.Normal(0.0, 1.0).expand([3]).to_event(1),
        dist.Normal(0.0, 5.0).expand([3]).to_event(1),
        False,
    ),
    "the number of event dimensions": (
        dist.Normal(0.0, 1.0).expand([3]),
        dist.Normal(0.0, 1.0).expand([3]).to_event(1),
        False,
    ),
    "what is masked": (dist.Normal(0.0, 1.0).mask(True), dist.Normal(0.0, 2.0).mask(True), False),
    "a mixture": (mixed(1.0), mixed(2.0), False),
    "the same mixture": (mixed(1.0), mixed(1.0), True),
    "a transform": (moved(1.0), moved(2.0), False),
    "a distribution that was asked for its logits": (
        dist.Categorical(torch.ones(2)),
        asked(dist.Categorical(torch.ones(2))),
        True,
    ),
    "a prior closed over": (closing(dist.HalfNormal(1.0)), closing(dist.HalfNormal(5.0)), False),
    "what is put in": (
        pyro.poutine.substitute(line, {"w": torch.ones(3)}),
        pyro.poutine.substitute(line, {"w": torch.zeros(3)}),
        False,
    ),
    "a condition": (pyro.condition(line, {"w": torch.ones(3)}), pyro.condition(line, {"w": torch.zeros(3)}), False),
    "the same intervention": (
        pyro.poutine.do(line, {"w": torch.ones(3)}),
        pyro.poutine.do(line, {"w": torch.ones(3)}),
        True,
    ),
    "other coordinates": (
        pyro.poutine.reparam(line, {"w": LocScaleReparam(0.0)}),
        pyro.poutine.reparam(line, {"w": LocScaleReparam(1.0)}),
        False,
    ),
    "a module's priors": (Net(1.0), Net(10.0), False),
    "a module's options": (Net(1.0), Net(1.0, hyper=2), False),
    "a module that was used": (Net(1.0), used(Net(1.0)), True),
    "a module's activation": (chain(torch.nn.Tanh()), chain(torch.nn.ReLU()), False),
    "an object's options": (Callable_(1.0), Callable_(2.0), False),
    "a class's values": (kind(1), kind(2), False),
    "what a class derives from": (kind(1, Net), kind(1, Callable_), False),
    "a number that was expanded": (torch.ones(1).expand(1, 1), torch.ones(1, 1), True),
    "a module's weights": (torch.nn.Linear(2, 1), torch.nn.Linear(2, 1), False),
    "library functions": (torch.tanh, torch.sigmoid, False),
    "slots": (closing(Slots(1)), closing(Slots(2)), False),
    "the same slots": (closing(Slots(1)), closing(Slots(1)), True),
    "fractions": (Fraction(1, 2), Fraction(1, 4), False),
    "decimals": (Decimal("0.1"), Decimal("0.2"), False),
    "ranges": (range(3), range(4), False),
    "tables": (pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [1.0, 3.0]}), False),
    "the same table": (pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [1.0, 2.0]}), True),
    "texts": (np.array(["a", "b"]), np.array(["a", "c"]), False),
    "locks, which have no value": (closing(threading.Lock()), closing(threading.Lock()), True),
    "sets": ({1, 2, 3}, {3, 2, 1}, True),
    "empty": (torch.empty(0), torch.empty(0), True),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_fingerprints(pair: str) -> None:
    one, other, equal = PAIRS[pair]
    assert (fingerprint(one) == fingerprint(other)) == equal
    assert fingerprint(one) == fingerprint(one)


def test_a_fingerprint_sees_the_values_that_a_function_names(monkeypatch: pytest.MonkeyPatch) -> None:
    number, tensor = fingerprint(scaled), fingerprint(summed)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    monkeypatch.setitem(globals(), "NUMBERS", torch.zeros(3))
    assert fingerprint(scaled) != number
    assert fingerprint(summed) != tensor


def nested(x: Tensor) -> Tensor:
    return [value * SCALE for value in (lambda: x.SUMMED)()]


def test_a_fingerprint_sees_what_inner_functions_name_and_no_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(nested)
    monkeypatch.setitem(globals(), "SUMMED", 1.0)
    assert fingerprint(nested) == before
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(nested) != before


helpers = types.ModuleType("helpers")


def by_a_module(x: float) -> Any:
    return helpers.scaled(x) + math.sqrt(x)  # type: ignore[attr-defined]


def test_a_fingerprint_sees_what_a_function_takes_from_a_module_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "scaled", scaled, raising=False)
    monkeypatch.setattr(helpers, "unnamed", scaled, raising=False)
    before = fingerprint(by_a_module)
    monkeypatch.setattr(helpers, "unnamed", summed)
    assert fingerprint(by_a_module) == before
    monkeypatch.setattr(helpers, "scaled", lambda x: 2 * x)
    assert fingerprint(by_a_module) != before


def test_numbers_and_arrays_of_numpy_are_the_same_call_once_they_were_in_a_file() -> None:
    """`zoo resume` reads them back as Python's numbers and as tensors."""
    assert _said(np.int64(5)) == _said(5)
    assert _said([np.float64(0.5)]) == _said((0.5,))
    assert _said(np.ones(3)) == _said(torch.ones(3, dtype=torch.float64)) != _said(np.zeros(3))


def test_a_function_that_calls_itself_has_a_fingerprint() -> None:
    def down(n: int) -> int:
        return 0 if n == 0 else down(n - 1)

    assert fingerprint(down) == fingerprint(down)


def test_a_fingerprint_does_not_see_comments() -> None:
    def made(text: str) -> Any:
        space: dict[str, Any] = {"__name__": "made"}
        exec(text, space)
        return space["f"]

    assert fingerprint(made("def f(x):\n    return x + 1")) == fingerprint(
        made("\n# why\ndef f(x):\n  # how\n  return x + 1")
    )
    assert fingerprint(made("def f(x):\n    return x + 1")) != fingerprint(made("def f(x):\n    return x + 2"))


def test_another_process_finds_the_same_fingerprints() -> None:
    code = "import zoo, importlib\nfrom zoo.infer.fingerprint import fingerprint\n"
    code += "print(*(fingerprint(importlib.import_module(f'zoo.{n}').model) for n in zoo.names()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    models = [importlib.import_module(f"zoo.{name}").model for name in zoo.names()]
    assert done.stdout.split() == [fingerprint(model) for model in models]
    assert len({fingerprint(model) for model in models}) == len(models)


def on(net: Net) -> zoo.Problem:
    data = small().data
    assert isinstance(data, zoo.Data)
    return zoo.Problem("net", net, zoo.Data(data.x[:, :2], data.y))


def test_a_module_goes_on_in_the_process_that_began_it(tmp_path: Path) -> None:
    """Pyro notes in a module that it was used. Another prior is another call."""
    short: dict[str, Any] = {"warmup": 5, "draws": 8, "engine": "eager"}
    net = Net(1.0)
    first = kept(tmp_path / "run", "mh", on(net), **short)
    assert same(first, kept(tmp_path / "run", "mh", on(net), **short))
    assert kept(tmp_path / "run", "mh", on(net), **(short | {"draws": 12})).shape == (4, 12)
    refused(lambda: kept(tmp_path / "run", "mh", on(Net(10.0)), **(short | {"draws": 12})), "the model's code")


def test_a_guide_that_was_fitted_is_the_same_guide(tmp_path: Path) -> None:
    guide = AutoNormal(line)
    options: dict[str, Any] = {"steps": 5, "draws": 4, "engine": "loop", "guide": guide}
    first = kept(tmp_path / "run", "svi", small(), **options)
    assert same(first, kept(tmp_path / "run", "svi", small(), **options))
