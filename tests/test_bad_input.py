"""Bad input: a one-line error that says what was got, what is right and what to do; nothing half-written."""

from __future__ import annotations

import re

import pyro
import pyro.distributions as dist
import pytest
import torch

import zoo
from tests.refusals import refused
from zoo.__main__ import main

METHODS = ("map", "laplace", "svi", "nuts", "hmc")


X = torch.linspace(-1, 1, 6)[:, None]
Y = torch.linspace(0, 1, 6)


def _with(tensor: torch.Tensor, value: float) -> torch.Tensor:
    out = tensor.clone()
    out.view(-1)[2] = value
    return out


# -- data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", ["x", "y", "x_test", "y_test"])
def test_nan_and_infinity(place, value) -> None:
    given = {"x": X, "y": Y, "x_test": X, "y_test": Y}
    given[place] = _with(given[place], value)
    refused(lambda: zoo.Data(**given), rf"^{place} ", "1 NaN or infinite", "Drop|fill")


@pytest.mark.parametrize(
    ("data", "patterns"),
    [
        (lambda: zoo.Data(X[:, 0], Y), (r"^x must be \(n, d\)", r"\(6,\)", r"x\[:, None\]")),
        (lambda: zoo.Data(torch.tensor(1.0), Y), (r"^x must be \(n, d\)", r"\(\)")),
        (lambda: zoo.Data(X, Y[:4]), ("^y must have", "6 rows", r"\(4,\)")),
        (lambda: zoo.Data(X, Y[:, None]), (r"^y must be \(n,\)", r"\(6, 1\)", r"y\[:, 0\]")),
        (lambda: zoo.Data(X, torch.tensor(1.0)), ("^y must have", r"\(\)")),
        (lambda: zoo.Data(X[:0], Y[:0]), ("^x must have at least one row", r"\(0, 1\)", "prior")),
        (lambda: zoo.Data(X, Y, X[:, [0, 0]], Y), ("^x_test must have", r"\(2,\)")),
        (lambda: zoo.Data(X, Y, y_test=Y), ("x_test",)),
        (lambda: zoo.Data(X, Y, X[:0], Y[:0]), ("^x_test must have at least one row",)),
        (lambda: zoo.Data([["a"], ["b"]], [1.0, 2.0]), ("^x must be",)),
        (lambda: zoo.Data([[1.0], [2.0, 3.0]], [1.0, 2.0]), ("^x must be",)),
    ],
    ids=[
        *("1-D x", "0-D x", "short y", "column y", "0-D y", "no rows", "x_test", "y_test"),
        *("no test rows", "text", "ragged"),
    ],
)
def test_shapes(data, patterns) -> None:
    refused(data, *patterns)


def test_shapes_of_new_inputs() -> None:
    fit = zoo.run("linear_regression", "exact", draws=3)
    refused(lambda: fit.predict(torch.zeros(3)), r"\(3,\)", "x")
    refused(lambda: fit.predict(torch.zeros(3, 5)), "5", "1")
    refused(lambda: fit.predict(torch.full((3, 1), float("nan"))), "NaN")
    refused(lambda: fit.predict(draws=0), "draws", "0")


def test_integer_inputs_and_lists_are_fine() -> None:
    data = zoo.Data([[0], [1], [2]], [0.0, 1.0, 2.0])
    assert data.x.is_floating_point()
    assert data.x.shape == (3, 1)


# -- labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[0.0, 0.5, 1.0], [0.0, 1.0, 2.0], [1.0, 2.0, 1.0], [3.0, 3.0, 7.0]], ids=str)
@pytest.mark.parametrize("model", ["logistic_regression", "coin_flip"])
def test_labels_of_another_coding(model, labels) -> None:
    x = torch.zeros(3, 0 if model == "coin_flip" else 2)
    shown = re.escape(f"{max(labels):g}")
    refused(lambda: zoo.load(model, data=zoo.Data(x, torch.tensor(labels))), "0/1", shown)


def _classes(x, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[-1], 3), 1.0).to_event(2))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("label", dist.Categorical(logits=x @ w), obs=y)


@pytest.mark.parametrize("labels", [[0.0, 1.5, 2.0], [0.0, 1.0, 3.0], [0.0, -1.0, 2.0]], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_labels_that_a_users_model_can_not_have(method, labels) -> None:
    data = zoo.Data(X[:3], torch.tensor(labels))
    problem = zoo.Problem("classes", _classes, data, names={"y": "label"})
    refused(lambda: zoo.run(problem, method), "'label'")


# -- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wrong", "suggested"),
    [
        (lambda: zoo.load("bnn_regresion"), "bnn_regresion", "bnn_regression"),
        (lambda: zoo.load("coin_flip", head=1), "head", "heads"),
        (lambda: zoo.load("bnn_regression", hiden=3), "hiden", "hidden"),
        (lambda: zoo.load("linear_regression", data="diabets"), "diabets", "diabetes"),
        (lambda: zoo.run("coin_flip", "nutz"), "nutz", "nuts"),
        (lambda: zoo.run("coin_flip", "exact", draw=3), "draw", "draws"),
        (lambda: zoo.run("coin_flip", "nuts", chain=3), "chain", "chains"),
        (lambda: zoo.run("coin_flip", "svi", step=3), "step", "steps"),
        (lambda: zoo.run("coin_flip", "svi", guide="norml"), "norml", "normal"),
        (lambda: zoo.run("coin_flip", "nuts", engine="eagre"), "eagre", "eager"),
        (lambda: zoo.run("coin_flip", "map", dtype="float46"), "float46", "float64"),
    ],
)
def test_unknown_names_come_with_the_nearest_right_one(call, wrong, suggested) -> None:
    refused(call, re.escape(wrong), rf"\b{suggested}\b")


def test_unknown_attribute_of_the_front_door() -> None:
    with pytest.raises(AttributeError, match=r"'lode'.*'load'"):
        zoo.lode  # noqa: B018


def test_things_of_another_type() -> None:
    refused(lambda: zoo.run(zoo.load("coin_flip").data, "exact"), "Data", "Problem", error=TypeError)
    refused(lambda: zoo.Problem("x", _classes, [1, 2]), "list", "zoo.Data", error=TypeError)
    refused(lambda: zoo.Problem("x", "model", zoo.Data(X, Y)), "str", error=TypeError)


# -- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "prior", "laplace", "svi", "nuts", "hmc"])
@pytest.mark.parametrize("draws", [0, -3, 2.5, True])
def test_draws(method, draws) -> None:
    refused(lambda: zoo.run("coin_flip", method, draws=draws), "draws", "at least 1", re.escape(repr(draws)))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("nuts", {"chains": 0}),
        ("nuts", {"warmup": -1}),
        ("nuts", {"thin": 0}),
        ("nuts", {"target_accept": 1.5}),
        ("nuts", {"step_size": -0.1}),
        ("nuts", {"max_depth": 0}),
        ("svi", {"steps": 0}),
        ("svi", {"lr": -1.0}),
        ("svi", {"particles": 0}),
        ("svi", {"batch_size": 0}),
        ("map", {"restarts": 0}),
    ],
    ids=str,
)
def test_numbers_out_of_range(method, options) -> None:
    name, value = next(iter(options.items()))
    refused(lambda: zoo.run("linear_regression", method, **options), name, re.escape(str(value)))


# -- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("a,b,y\n1,5,2\n2,5,3\n3,5,4\n4,5,1\n5,5,2\n", ("b", "constant")),
        ("a,y\n1,2\n2,2\n3,2\n4,2\n5,2\n", ("y", "constant")),
        ("a,y\n1,2\n", ("2 rows", "1")),
        ("a,y\n", ("row",)),
        ("", ("empty|header|row|column",)),
        ("a,y\n1,2\n,3\n3,4\n4,5\n5,1\n", ("a", "missing|empty|line|row")),
        ("a,y\n1,2\n2,inf\n3,4\n4,5\n5,1\n", ("y", "infinit|finite")),
        ("a,y\n1,2\nred,3\n3,4\n4,5\n5,1\n", ("a", "red|text")),
        ("a,y\n1,2\n2,3,9\n3,4\n4,5\n5,1\n", ("3|line|row",)),
    ],
    ids=["constant x", "constant y", "one row", "no rows", "empty", "missing", "infinite", "text", "ragged"],
)
def test_tables(tmp_path, text, patterns) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    refused(lambda: zoo.load("linear_regression", data=str(path)), *patterns)


def test_a_missing_file_and_an_unknown_column(tmp_path) -> None:
    refused(lambda: zoo.load("linear_regression", data=str(tmp_path / "no.csv")), "no.csv")
    path = tmp_path / "table.csv"
    path.write_text("age,income\n1,2\n2,3\n3,5\n4,4\n5,6\n")
    code = main(["run", "linear_regression", "-m", "exact", "--data", str(path), "--target", "incme"])
    assert code == 2


def test_one_row_of_data_is_no_error() -> None:
    fit = zoo.run(zoo.load("linear_regression", data=zoo.Data(X[:1], Y[:1])), "exact", draws=5)
    assert fit.predict()["y"].shape == (1, 5, 1)


# -- models -------------------------------------------------------------------------------------------------


def _nothing_observed(x, y=None):
    pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))


def _nothing_latent(x, y=None):
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x[:, 0], 1.0), obs=y)


def _discrete(x, y=None):
    k = pyro.sample("side", dist.Bernoulli(x.new_tensor(0.5)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(k * x[:, 0], 1.0), obs=y)


def _sphere(x, y=None):
    way = pyro.sample("way", dist.ProjectedNormal(x.new_ones(3)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(way[0] * x[:, 0], 1.0), obs=y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("model", "patterns"),
    [
        (_nothing_observed, ("observed", "obs=")),
        (_nothing_latent, ("latent", "pyro.sample")),
        (_discrete, ("'side'", "discrete")),
        (_sphere, ("'way'", "sphere|Sphere")),
    ],
    ids=["nothing observed", "nothing latent", "discrete", "sphere"],
)
def test_models_that_can_not_be_served(method, model, patterns) -> None:
    refused(lambda: zoo.run(zoo.Problem("mine", model, zoo.Data(X, Y)), method), *patterns)


@pytest.mark.parametrize("method", METHODS)
def test_no_targets(method) -> None:
    refused(lambda: zoo.run(zoo.load("linear_regression", data=zoo.Data(X)), method), "no y", "prior")


def test_a_model_without_a_closed_form() -> None:
    refused(lambda: zoo.run("logistic_regression", "exact"), "logistic_regression", "exact", "nuts|laplace")


def test_fits_of_different_data_are_not_compared() -> None:
    a = zoo.run(zoo.load("coin_flip", n=4, heads=1), "exact", draws=50)
    b = zoo.run(zoo.load("coin_flip", n=4, heads=2), "exact", draws=50)
    refused(lambda: zoo.compare(a, b), "data")
