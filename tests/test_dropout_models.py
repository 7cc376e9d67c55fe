"""mc_dropout and gaussian_dropout: the BNN's density, the p of q, and what they learn."""

from __future__ import annotations

import inspect

import pytest
import torch

import zoo
from tests.refusals import refused
from tests.test_guides import variational
from zoo.core.sites import sites
from zoo.core.trial import log_joint
from zoo.infer.methods.svi import set_up

F64 = torch.float64
MODELS = ["mc_dropout", "gaussian_dropout"]


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_the_bnn(name) -> None:
    """The same log joint at the same weights, regression and classes; only q is another. Twin: another l."""
    for kind, twin, options in (
        ("sin_x_plus_x", "bnn_regression", {"noise": 0.1}),
        ("moons", "bnn_classification", {}),
    ):
        ours = zoo.load(name, kind=kind, hidden=(5, 3), length_scale=0.5).to(dtype=F64)
        bnn = zoo.load(
            twin, ours.data, hidden=(5, 3), scaling="none", prior_scale=2.0, activation="relu", **options
        )  # fmt: skip
        values = sites(ours).values
        assert float(log_joint(ours, values)) == pytest.approx(float(log_joint(bnn, values)), rel=1e-12)
        other = zoo.load(name, ours.data, hidden=(5, 3), length_scale=2.0)
        assert abs(float(log_joint(other, values) - log_joint(ours, values))) > 1


def fit_of(problem: zoo.Problem, **options):
    return set_up(problem, problem.guide, options, (), 1, 0)


@pytest.mark.parametrize("name", MODELS)
def test_p_left_out_is_the_models_default(name) -> None:
    """The same q as with every default written out."""
    default = {n: o.default for n, o in inspect.signature(getattr(zoo, name).model).parameters.items()}
    plain = fit_of(zoo.load(name))
    written = fit_of(zoo.load(name, **{n: default[n] for n in ("p", "where", "hidden")}))
    noise = plain.noise(0, 0, 0, (50,))
    ours, right = (q.draw(plain.start[0], noise)[0] for q in (plain, written))
    assert all(torch.equal(ours[site], right[site]) for site in ours)


def test_the_problems_p_is_that_of_q() -> None:
    """Noise for every input with p > 0: before every weight layer, or the inner ones; each layer with its own."""
    everywhere = fit_of(zoo.load("mc_dropout", hidden=(5, 3)))
    assert everywhere.noise_size == 1 + 5 + 3
    assert everywhere.by_row
    assert everywhere.no_density
    assert fit_of(zoo.load("mc_dropout", hidden=(5, 3), where="inner")).noise_size == 5 + 3
    assert fit_of(zoo.load("mc_dropout", hidden=(5, 3), p=0.0)).noise_size == 0
    assert fit_of(zoo.load("mc_dropout", hidden=(5, 3), p=(0.0, 0.0, 0.5))).noise_size == 3
    q = fit_of(zoo.load("mc_dropout", hidden=4, p=(0.0, 0.25)))
    w2 = q.draw(q.start[0], q.noise(0, 0, 0, (4000,)))[0]["w2"]
    assert float((w2 == 0).double().mean()) == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 16_000) ** 0.5)
    weights = fit_of(zoo.load("gaussian_dropout", hidden=4), noise="weight", bias="normal")
    assert weights.no_density == ""
    assert weights.points == ()
    assert fit_of(zoo.load("gaussian_dropout", hidden=4)).no_density


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_sin_x_plus_x(name, tmp_path) -> None:
    """RMSE below half of y's sd on the test points inside the data; saved and opened it predicts the same."""
    problem = zoo.load(name, p=0.05, where="inner", noise=0.3, hidden=20)
    fitted = zoo.run(problem, "svi", steps=800, lr=0.03, draws=200, engine="eager")
    assert not fitted.settings["elbo_is_bound"]
    inside = problem.data.x_test[:, 0].abs() < 3.5
    x, y = problem.data.x_test[inside], problem.data.y_test[inside]
    f = fitted.predict(x)["f"].mean((0, 1))
    assert float((f - y).square().mean().sqrt()) < 0.35 * float(y.std())
    again = zoo.open(fitted.save(tmp_path / "fit.nc"))
    torch.testing.assert_close(again.predict(x)["f"], fitted.predict(x)["f"])
    assert again.settings["no_density"] == fitted.settings["no_density"]


def test_it_learns_the_moons() -> None:
    """Right on 85 % of new points at least, and less sure far from them than a point estimate is."""
    accuracy, sure = [], []
    far = torch.tensor([[4.0, -4.0], [-4.0, 4.0], [0.0, 5.0], [0.5, -5.0]])
    for p in (0.2, 0.0):
        problem = zoo.load("mc_dropout", kind="moons", p=p, hidden=20)
        fitted = zoo.run(problem, "svi", steps=400, lr=0.03, draws=500, engine="eager")
        mean = fitted.predict(problem.data.x_test)["mean"].mean((0, 1))
        accuracy.append(float(((mean > 0.5) == problem.data.y_test).double().mean()))
        sure.append(zoo.uncertainty(fitted, far))
    assert accuracy[0] > 0.85
    assert sure[0].mutual_information.mean() > 0.01
    assert sure[1].mutual_information.max() < 1e-6


def test_classes_follow_the_data() -> None:
    assert zoo.load("mc_dropout", kind="moons").hyper["classes"] == 2
    assert "classes" not in zoo.load("mc_dropout").hyper
    wheel = zoo.softmax_regression.data()
    assert zoo.load("gaussian_dropout", wheel).hyper["classes"] == 3


def test_bad_words_are_refused() -> None:
    refused(lambda: zoo.load("mc_dropout", kind="moon"), "kind", "moons")
    refused(lambda: zoo.run(zoo.load("mc_dropout", p=1.0), "svi", steps=1), "0 <= p < 1")
    refused(lambda: zoo.run(zoo.load("mc_dropout", p=(0.1, 0.1, 0.1)), "map", restarts=1), "one number or 2", "got 3")
    refused(lambda: zoo.run(zoo.load("mc_dropout", where="input"), "svi", steps=1), "'all' or 'inner'")
    refused(lambda: zoo.run(zoo.load("mc_dropout", where="conv"), "svi", steps=1), "needs kernels", "w1, w2")
    refused(lambda: zoo.run(zoo.load("mc_dropout", hidden=(), where="inner"), "svi", steps=1), "a hidden layer", "w1")
    refused(lambda: zoo.load("mc_dropout", kind="moons", classes=0), "classes=0 is a regression")
    refused(lambda: zoo.run(zoo.load("mc_dropout", classes=1), "svi", steps=1), "classes must be 0", "at least 2")
    refused(lambda: zoo.run(zoo.load("mc_dropout", noise=0.0), "svi", steps=1), "noise must be a positive")
    refused(lambda: variational(zoo.load("mc_dropout", p="x"), "normal"), "0 <= p < 1")
