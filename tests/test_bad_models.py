"""Models that fail, change or write where they must not: one line that names the model and the place in its file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo

from .refusals import refused

X, Y = torch.linspace(-1, 1, 6)[:, None], torch.linspace(0, 1, 6)
METHODS = ("map", "svi", "nuts", "prior")
Model = Callable[..., None]


def scored(x: Tensor, y: Tensor | None, f: Tensor) -> None:
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, 1.0), obs=y)


def weight(x: Tensor, name: str = "w", shape: tuple[int, ...] = ()) -> Tensor:
    return pyro.sample(name, dist.Normal(x.new_zeros(shape), 1.0).to_event(len(shape)))


def wrong_shape(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, x @ weight(x, shape=(3,)))


def raises(x: Tensor, y: Tensor | None = None) -> None:
    weight(x)
    raise KeyError("a\nkey")


def not_a_number(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, weight(x) * x[:, 0] * float("nan"))


def on_meta(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, pyro.sample("w", dist.Normal(torch.zeros((), device="meta"), 1.0)) * x[:, 0])


def of_torch(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, pyro.sample("w", torch.distributions.Normal(x.new_zeros(()), 1.0)) * x[:, 0])


def a_number(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, pyro.sample("w", 3.0) * x[:, 0])


def numbered(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, pyro.sample(3, dist.Normal(x.new_zeros(()), 1.0)) * x[:, 0])


def empty(x: Tensor, y: Tensor | None = None) -> None:
    scored(x, y, x[:, 0] * weight(x, shape=(0,)).sum())


def in_place(x: Tensor, y: Tensor | None = None) -> None:
    w = weight(x, shape=(2,))
    w[0] = 1.0
    scored(x, y, w.sum() * x[:, 0])


def branching(x: Tensor, y: Tensor | None = None) -> None:
    w = weight(x)
    scored(x, y, (w + weight(x, "v") if w > 0 else w) * x[:, 0])


def small_plate(x: Tensor, y: Tensor | None = None) -> None:
    w = weight(x)
    with pyro.plate("data", 4):
        pyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y)


def in_turn() -> Model:
    runs = itertools.count()

    def model(x: Tensor, y: Tensor | None = None) -> None:
        scored(x, y, weight(x, "wv"[next(runs) % 2]) * x[:, 0])

    return model


def growing() -> Model:
    runs = itertools.count()

    def model(x: Tensor, y: Tensor | None = None) -> None:
        scored(x, y, weight(x, shape=(1 + next(runs) % 3,)).sum() * x[:, 0])

    return model


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "shape": (
        wrong_shape,
        (r"'shape' fails at test_bad_models.py:\d+ \(RuntimeError", r"x \(6, 1\), y \(6,\)", "check"),
    ),
    "error": (raises, (r"'error' fails at test_bad_models.py:\d+ \(KeyError", "Correct")),
    "NaN": (not_a_number, (r"fails at test_bad_models.py:\d+ \(ValueError: Expected parameter loc",)),
    "meta": (on_meta, ("meta", "fails")),
    "torch's": (of_torch, ("site 'w'", "torch.distributions.normal.Normal", "import pyro.distributions")),
    "number": (a_number, ("site 'w'", "got float", "import pyro.distributions")),
    "name": (numbered, ("name must be text, got 3",)),
    "empty": (empty, (r"'w' holds no numbers, its shape is \(0,\)", "Give the model inputs")),
    "in place": (in_place, ("writes to latent 'w' in place", r"w\.clone\(\)")),
    "branch": (branching, ("other sites in another run: 'v'", "torch.where")),
    "plate": (small_plate, ("4 vs 6", r"x\.shape\[0\]")),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BAD)
def test_models_that_fail_are_explained_in_one_line(name: str, method: str) -> None:
    model, patterns = BAD[name]
    refused(lambda: zoo.run(zoo.Problem(name, model, zoo.Data(X, Y)), method), *patterns)


@pytest.mark.parametrize("method", METHODS)
def test_models_that_change_between_runs_are_refused(method: str) -> None:
    refused(lambda: zoo.run(zoo.Problem("turn", in_turn(), zoo.Data(X, Y)), method), "other sites in another run")
    shapes = (r"'w' of model 'grow' has shape \(\d,\) in one run, \(\d,\) in another", "same shape")
    refused(lambda: zoo.run(zoo.Problem("grow", growing(), zoo.Data(X, Y)), method), *shapes)


def test_the_second_look_leaves_generators_alone_and_passes_good_models() -> None:
    def line(x: Tensor, y: Tensor | None = None) -> None:
        scored(x, y, weight(x) * x[:, 0])

    before = torch.get_rng_state()
    assert zoo.run(zoo.Problem("line", line, zoo.Data(X)), "prior", draws=5).ok
    assert zoo.run(zoo.Problem("line", line, zoo.Data(X, Y)), "map").ok
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("method", ["mh", "nuts", "map", "svi", "prior"])
def test_a_discrete_latent_is_named_by_methods_with_and_without_gradients(method: str) -> None:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        k = pyro.sample("k", dist.Bernoulli(x.new_full((), 0.3)))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(k, 1.0), obs=y)

    problem = zoo.Problem("coin and noise", model, zoo.Data(torch.empty(3, 0), torch.zeros(3)))
    text = refused(lambda: zoo.run(problem, method), "site 'k' is discrete", "only continuous latents", "Sum it out")
    assert "gradient" not in text


def test_a_table_of_no_inputs_is_refused_where_weights_need_them(tmp_path: Any) -> None:
    (tmp_path / "one.csv").write_text("y\n" + "".join(f"{i * 0.5}\n" for i in range(10)))
    problem = zoo.load("linear_regression", tmp_path / "one.csv")
    for method in ("exact", "map", "nuts"):
        refused(lambda m=method: zoo.run(problem, m), "'w' holds no numbers")


# -- options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["3", -1, float("nan"), float("inf"), [1], {"a": 1}, torch.tensor(2.0)], ids=str)
@pytest.mark.parametrize("name", ["draws", "chains", "temperature", "step_size", "progress", "centre", "seed"])
def test_options_of_another_kind_are_refused(name: str, value: Any) -> None:
    refused(lambda: zoo.run("linear_regression", "nuts", **{name: value}), f"^{name} must be", "got")


def test_numbers_beyond_all_floats_are_refused() -> None:
    refused(lambda: zoo.run("linear_regression", "nuts", step_size=10**400), "step_size must be a positive number")
    refused(lambda: zoo.run("linear_regression", "nuts", draws="20"), "Give the number itself: 20")


def test_none_is_the_default_and_numpys_numbers_are_numbers() -> None:
    plain = zoo.run("linear_regression", "exact", draws=7)
    other = zoo.run("linear_regression", "exact", draws=np.int64(7), chains=None, seed=np.int64(0))
    assert torch.equal(plain.draws["w"], other.draws["w"])
    assert other.settings["options"]["chains"] == plain.settings["options"]["chains"]
    assert zoo.load("coin_flip", seed=np.int64(3)).data.hash == zoo.load("coin_flip", seed=3).data.hash
    svi = zoo.run("linear_regression", "svi", steps=np.int32(3), lr=None, draws=None, engine="eager")
    assert svi.shape == (1, 1000)


# -- hyperparameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hyper", "patterns"),
    [
        ({"prior": [1]}, ("unknown prior", "normal")),
        ({"activation": {}}, ("unknown activation", "relu")),
        ({"prior_options": ()}, ("prior_options must be a dict",)),
        ({"prior_scale": np.array([1.0, -1.0])}, (r"prior_scale\[1\] must be a positive finite number, got -1.0",)),
        ({"noise": np.array([1.0])}, ("noise must be a positive finite number",)),
        ({"prior_scale": torch.tensor(-1.0)}, ("'bnn_regression' fails", "Expected parameter scale")),
    ],
    ids=str,
)
def test_hyperparameters_of_another_kind(hyper: dict[str, Any], patterns: tuple[str, ...]) -> None:
    refused(lambda: zoo.run(zoo.load("bnn_regression", hidden=3, **hyper), "map"), *patterns)


def test_an_array_of_scales_is_one_a_layer() -> None:
    given = zoo.load("bnn_regression", hidden=3, prior_scale=np.array([1.0, 0.5]))
    other = zoo.load("bnn_regression", hidden=3, prior_scale=(1.0, 0.5))
    one, two = (zoo.run(problem, "prior", draws=3).stats["lp"] for problem in (given, other))
    assert torch.equal(one, two)
