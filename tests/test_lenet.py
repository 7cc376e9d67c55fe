"""LeNet: the network against torch's own layers, masks of rows and channels, averaging, large fits, bad images."""

from __future__ import annotations

import dataclasses
import logging
import math

import pytest
import torch
from torch import nn

import zoo
from tests.refusals import refused
from zoo import lenet
from zoo.core.passes import class_scores_by_passes
from zoo.core.sites import sites
from zoo.data import images
from zoo.infer import large
from zoo.infer.methods.svi import set_up
from zoo.infer.prepared import Batch, quiet
from zoo.infer.steps import make_step
from zoo.infer.track import columns_of, first_state

SMALL = {"channels": (3, 4), "kernel": (3, 2), "hidden": 6}


def digits(n: int = 60, m: int = 20, classes: int = 10) -> zoo.Data:
    data = images.mnist(source="digits", n=n, m=m)
    return dataclasses.replace(data, y=data.y % classes, y_test=data.y_test % classes, info={})


def small(n: int = 60, **hyper) -> zoo.Problem:
    return zoo.load("lenet", digits(n), **{**SMALL, "classes": 10, **hyper})


def fit_of(problem: zoo.Problem, **options):
    return set_up(problem, problem.guide, options, (), 1, 0)


# -- the network ------------------------------------------------------------------------------------------


def test_it_is_the_network_of_the_lecture() -> None:
    """431,080 parameters, and f of torch's own layers with the same numbers."""
    problem = zoo.load("lenet", zoo.Data(torch.rand(3, 28, 28), [0, 1, 9]), classes=10).to(dtype=torch.float64)
    found = sites(problem).latent
    assert {name: tuple(site.shape) for name, site in found.items()} == {
        "w1": (20, 1, 5, 5), "b1": (20,), "w2": (50, 20, 5, 5), "b2": (50,),
        "w3": (800, 500), "b3": (500,), "w4": (500, 10), "b4": (10,),
    }  # fmt: skip
    assert sum(site.shape.numel() for site in found.values()) == 431_080
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    ).double()  # fmt: skip
    parts = [layer for layer in net if hasattr(layer, "weight")]
    draws = {f"b{i}": layer.bias.detach() for i, layer in enumerate(parts, 1)}
    draws |= {f"w{i}": (w if (w := layer.weight.detach()).dim() == 4 else w.T) for i, layer in enumerate(parts, 1)}
    fit = zoo.core.posterior.Posterior(problem, "mine", "members", {n: v[None, None] for n, v in draws.items()})
    f = fit.predict(problem.data.x)["f"][0, 0]
    torch.testing.assert_close(f, net(problem.data.x).detach())
    h = lenet.features(fit)
    torch.testing.assert_close(h, net[:-1](problem.data.x).detach())
    torch.testing.assert_close(h @ draws["w4"] + draws["b4"], f)


def test_where_says_which_layers_are_dropped() -> None:
    assert lenet.rates_of() == [0.0, 0.5, 0.5, 0.5]
    assert lenet.rates_of(p=0.2, where="all") == [0.2] * 4
    assert lenet.rates_of(p=0.2, where="conv") == [0.2, 0.2, 0.0, 0.0]
    assert lenet.rates_of(p=(0, 0, 0.5, 0.5), where="all") == [0, 0, 0.5, 0.5]
    assert lenet.rates_of(p=0.2, where="all", channels=7, hidden=()) == [0.2, 0.2]
    refused(lambda: lenet.rates_of(where="dense"), "where must be 'all', 'inner' or 'conv', got 'dense'")
    refused(lambda: lenet.rates_of(p=(0.5, 0.5)), "one number or 4, one a weight layer, got 2")


def test_a_mask_drops_a_channel_of_a_kernel_and_an_input_of_a_matrix() -> None:
    """Twin: the slide's M diag(z) drops output channels, axis 0."""
    q = fit_of(small(8))
    assert q.noise_size == 3 + 4 + 6
    values, _, _ = q.draw(q.start[0], q.noise(0, 0, 0, (400,)))
    w1, w2, w3 = (values[name] for name in ("w1", "w2", "w3"))
    assert (w1[0] == w1).all()
    gone = (w2 == 0).all((1, 3, 4))  # (draw, input channel)
    assert ((w2 == 0).any((1, 3, 4)) == gone).all()
    assert float(gone.double().mean()) == pytest.approx(0.5, abs=4 * (0.25 / 1200) ** 0.5)
    assert not (w2 == 0).all((2, 3, 4))[~gone.all(1)].any()
    assert ((w3 == 0).all(2) == (w3 == 0).any(2)).all()


@pytest.mark.parametrize("where", ["all", "inner", "conv"])
def test_masks_of_rows_meet_the_inputs_of_convolutions(where) -> None:
    """f of each row by its own masks, inputs masked, is f with that row's weights multiplied out.

    Twin: everybody with the first row's masks.
    """
    problem = small(8, where=where).to(dtype=torch.float64)
    q = fit_of(problem)
    assert q.by_row
    assert q.unmultiplied
    x, y, noise = problem.data.x, problem.data.y, q.noise(0, 0, 0, (1, 8))

    def likelihood(e: torch.Tensor) -> float:
        return float(q.terms(q.start[0], e, x, y, 1.0).expected_log_likelihood)

    right = 0.0
    with quiet():
        fast = likelihood(noise)
        for i in range(8):
            row = {n: v[0] for n, v in q.draw(q.start[0], noise[0, i : i + 1])[0].items()}
            fit = zoo.core.posterior.Posterior(problem, "mine", "members", {n: v[None, None] for n, v in row.items()})
            f = fit.predict(x[i : i + 1])["f"][0, 0]
            right += float(f.log_softmax(-1)[0, y[i]])
        assert fast == pytest.approx(right, rel=1e-10)
        assert abs(likelihood(noise[:, :1].expand(1, 8, -1)) - right) > 1e-3


# -- averages ---------------------------------------------------------------------------------------------


def test_averaged_weights_are_what_training_learned_times_the_share_kept(monkeypatch) -> None:
    problem = small(16)
    monkeypatch.setattr("zoo.infer.estimate.PARTICLES", 200)
    fit = zoo.run(problem, "svi", steps=20, draws=40, seed=0, engine="eager")
    line, bare = lenet.averaged(fit), lenet.averaged(fit, dropped=False)
    assert line.shape == (1, 1)
    for name, p in zip(("w1", "w2", "w3", "w4"), lenet.rates_of(hidden=6), strict=True):
        m, draws = bare.draws[name][0, 0], fit.draws[name][0]
        assert ((draws == 0) | (draws == m)).all() or p == 0
        torch.testing.assert_close(line.draws[name][0, 0], (1 - p) * m)
    torch.testing.assert_close(line.draws["b3"][0, 0], fit.draws["b3"][0, 0])
    assert line.predict(problem.data.x_test)["mean"].shape == (1, 1, 20, 10)
    normal = zoo.run(problem, "svi", guide="normal", steps=5, draws=40, engine="eager")
    torch.testing.assert_close(lenet.averaged(normal).draws["w3"][:, 0], normal.draws["w3"].mean(1))


def test_errors_and_likelihoods_of_averaged_passes() -> None:
    """Two passes that say (.9, .1) and (.3, .7) of a row of class 1: (.6, .4) together. Twin: the mean of logs."""
    probs, y = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]), torch.tensor([1])
    found = class_scores_by_passes(probs, y, [1, 2])
    torch.testing.assert_close(found[:, 0], torch.tensor([0.5, 1.0]))
    one, two = (math.log(0.1) + math.log(0.7)) / 2, math.log(0.4)
    torch.testing.assert_close(found[:, 1], torch.tensor([one, two]))
    assert two - one > 0.1
    refused(lambda: class_scores_by_passes(probs, y, [3]), "between 1 and the 2 passes, got .3.")
    refused(lambda: class_scores_by_passes(probs[0], y, [1]), r"probabilities \(T, m, k\)")


@pytest.mark.slow
def test_nuts_on_the_last_layer() -> None:
    """softmax_regression on the features of a trained network, a dozen weights instead of hundreds."""
    problem = zoo.load("lenet", digits(60, 20, 3), **{**SMALL, "hidden": 3})
    point = zoo.run(problem, "map", restarts=1, seed=0)
    h, h_test = lenet.features(point), lenet.features(point, problem.data.x_test)
    assert h.shape == (60, 3)
    last = zoo.load("softmax_regression", zoo.Data(h, problem.data.y), classes=3)
    fit = zoo.run(last, "nuts", chains=4, warmup=60, draws=30, max_depth=5, seed=0, engine="eager")
    mean = fit.predict(h_test)["mean"]
    assert mean.shape == (4, 30, 20, 3)
    assert float((fit.predict()["mean"].mean((0, 1)).argmax(-1) == problem.data.y).float().mean()) > 0.6


# -- large fits -------------------------------------------------------------------------------------------


def steps_of(problem: zoo.Problem, restarts: int = 1):
    """The step of small fits, and that of large ones, on the same arguments."""
    q = set_up(problem, problem.guide, {}, (), restarts, 0)
    rows = torch.arange(16).expand(restarts, 16)
    noise, pace = q.noise(0, 0, 0, (restarts, 1, 16)), torch.tensor([0.01, 0.1, 0.001])
    params, m, v, good = first_state(q.start)
    example = (params, m + 0.1, v + 0.2, good, noise, pace, problem.data.x[rows], problem.data.y[rows])
    with quiet(), torch.no_grad():
        return make_step(q, 16, 4.0), large.large_step(q, 16, 4.0, example), example


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_large_step_is_the_small_step(restarts) -> None:
    """Twin: Adam downhill."""
    plain, fast, example = steps_of(small(64), restarts)
    with quiet(), torch.no_grad():
        right, got = plain(*example), fast(*example)
    assert len(right) == len(got) == 5
    for a, b in zip(right, got, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)
    down = 2 * example[0] - got[0]
    assert (down - right[0]).abs().max() > 1e-3


def test_a_large_step_keeps_a_restart_that_is_not_finite() -> None:
    _, fast, example = steps_of(small(64), 2)
    broken = example[0].clone()
    broken[1, 3] = torch.nan
    with quiet(), torch.no_grad():
        params, m, v, good, row = fast(broken, *example[1:])
    assert columns_of(row[None])["finite"].tolist() == [[True], [False]]
    assert torch.equal(params[1].nan_to_num(), broken[1].nan_to_num())
    assert torch.equal(v[1], example[2][1])
    assert (m[1].isnan().all(), m[0].isnan().any()) == (True, False)
    *_, row = fast(params.nan_to_num(), m, v, good, *example[4:])  # finite again, but it has ended
    assert columns_of(row[None])["finite"].tolist() == [[True], [False]]
    assert torch.equal(good[1], example[3][1])
    assert not torch.equal(params[0], broken[0])


def test_a_large_fit_is_a_fit(monkeypatch, caplog) -> None:
    """With the limits low, a small network goes the way of large ones and ends near where the small one does."""
    problem = small(64)
    options = {"steps": 30, "batch_size": 16, "lr": 0.01, "draws": 20, "seed": 0, "engine": "eager"}
    monkeypatch.setattr("zoo.infer.estimate.PARTICLES", 200)
    right = zoo.run(problem, "svi", **options)
    monkeypatch.setattr(large, "MOST_COORDINATES", 50)
    monkeypatch.setattr(large, "LP_WORK", 10)
    monkeypatch.setattr(large, "LP_ROWS", 32)
    with caplog.at_level(logging.INFO, "zoo"):
        fit = zoo.run(problem, "svi", **options)
    assert "svi: lp of the draws is estimated by 32 of the 64 rows" in caplog.text
    for name, value in right.draws.items():
        torch.testing.assert_close(fit.draws[name], value, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(fit.history["elbo"], right.history["elbo"], rtol=1e-4, atol=1e-3)
    assert set(fit.stats) == {"lp"}
    assert float((fit.stats["lp"] / right.stats["lp"] - 1).abs().max()) < 0.3
    assert not torch.equal(fit.stats["lp"], right.stats["lp"])


def test_draws_hold_no_more_values_than_fit(monkeypatch, caplog) -> None:
    q = fit_of(small(8, p=0.0, channels=2, kernel=3))
    size = sum(site.shape.numel() for site in sites(q.problem).latent.values())
    monkeypatch.setattr(large, "CAP", 10 * size)
    assert large.draws_that_fit(q, 10) == 10
    assert not caplog.text
    assert large.draws_that_fit(q, 11) == 10
    assert f"svi: 11 draws of {size} numbers are more than {10 * size:g} values: 10 are taken" in caplog.text


def test_trying_out_a_large_fit_takes_few_rows() -> None:
    problem = zoo.load("lenet", zoo.Data(torch.rand(30, 28, 28), torch.arange(30) % 10))
    batch, scale, rows = large.few_rows(problem, 431_080)
    assert (len(batch.x), scale, rows) == (4, 7.5, 4)
    assert large.few_rows(problem, 400)[0] == Batch()
    shared = zoo.Problem("none", zoo.lenet.model, {"x": problem.data.x, "y": problem.data.y})
    assert not large.is_large(shared, 431_080)


# -- what it refuses --------------------------------------------------------------------------------------


def test_images_that_are_too_small_name_the_smallest() -> None:
    def load(side: int, **hyper):
        problem = zoo.load("lenet", zoo.Data(torch.rand(4, side, side), [0, 1, 2, 3]), **hyper)
        return zoo.run(problem, "prior", draws=1)

    refused(lambda: load(8), "images must be at least 16 x 16 for kernels of 5, 5, got 8 x 8. Use smaller kernels")
    refused(lambda: load(15), "at least 16 x 16")
    assert load(16).draws["w3"].shape[2:] == (50, 500)
    refused(lambda: load(9, kernel=3, channels=(2, 2)), "at least 10 x 10 for kernels of 3, 3, got 9 x 9")
    assert load(10, kernel=3, channels=(2, 2)).draws["w3"].shape[2:] == (2, 500)
    refused(lambda: load(28, kernel=(5, 5, 3)), "kernel must be one number or 2, one a convolution")
    refused(lambda: load(28, kernel=0), "kernel must be a positive whole number")
    refused(lambda: zoo.load("lenet", zoo.Data(torch.rand(4, 784), [0, 1, 2, 3])), r"reshape\(-1, 28, 28\)")


def test_labels_and_new_images_that_do_not_fit() -> None:
    x = torch.rand(4, 8, 8)
    refused(lambda: zoo.load("lenet", zoo.Data(x, [0, 1, 2, 3]), classes=3), "classes must be at least the 4", "got 3")
    refused(lambda: zoo.load("lenet", zoo.Data(x, [0.5, 1, 2, 3])), "labels must be whole numbers")
    refused(lambda: zoo.load("lenet", zoo.Data(x * 9, [0, 1, 2, 3])), r"numbers in \[0, 1\]")
    fit = zoo.run(zoo.load("lenet", zoo.Data(x, [0, 1, 2, 3]), **SMALL), "prior", draws=2)
    refused(lambda: fit.predict(torch.rand(5, 9, 9)), r"x must be \(m, 1, 8, 8\) as in training")
    refused(lambda: fit.predict(255 * torch.rand(5, 1, 8, 8)), r"x must lie in \[0, 1\] as in training, got")


# -- what it learns ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_small_lenet_reads_digits() -> None:
    """Scikit-learn's 8 x 8 digits: 360 held out. Passes averaged are better than one, and than the image unseen."""
    data = images.mnist(source="digits")
    problem = zoo.load("lenet", data, channels=(16, 32), kernel=(3, 2), hidden=64, p=0.25)
    fit = zoo.run(problem, "svi", steps=600, batch_size=100, lr=3e-3, draws=50, seed=0, engine="eager")
    passes = class_scores_by_passes(fit.predict(data.x_test)["mean"][0], data.y_test, [1, 10, 50])
    line = class_scores_by_passes(lenet.averaged(fit).predict(data.x_test)["mean"][0], data.y_test, [1])[0]
    assert 1 - passes[-1, 0] > 0.95
    assert passes[0, 1] < passes[1, 1] < passes[2, 1]
    assert passes[0, 0] - passes[2, 0] > 0.02
    assert abs(passes[2, 0] - line[0]) < 0.02  # both are right equally often; their probabilities differ
