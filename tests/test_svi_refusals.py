"""What svi must refuse: minibatches of data that no plate holds; and rates of layers that are points."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

import zoo
from guides.full_rank import full_rank
from guides.normal import normal
from guides.point import with_points
from guides.rates import per_layer, rates_where
from tests.refusals import refused
from tests.test_dropout_models import fit_of
from zoo.infer.each import fits
from zoo.infer.methods import svi

F64 = torch.float64
X = torch.linspace(-1, 1, 20, dtype=F64)[:, None]
SHORT: dict[str, Any] = {"steps": 3, "draws": 2, "engine": "eager"}


def in_plate(x: Tensor, y: Tensor | None = None, *, plate: str | None = "data") -> None:
    """w ~ N(0, 1), y_i ~ N(w, 1), in a plate of this name or as one event without a plate."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    if plate is None:
        pyro.sample("y", dist.Normal(w.expand(len(x)), 1.0).to_event(1), obs=y)
        return
    with pyro.plate(plate, len(x)):
        pyro.sample("y", dist.Normal(w, 1.0), obs=y)


def problem(plate: str | None, **more: Any) -> zoo.Problem:
    return zoo.Problem("rows", in_plate, zoo.Data(X, X[:, 0] + 2), hyper={"plate": plate}, **more)


# -- minibatches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plate", "named"), [(None, "data"), ("rows", "data")])
def test_batches_of_rows_outside_the_plate_are_refused(plate: str | None, named: str) -> None:
    for method, more in (("svi", {}), ("sgld", {"warmup": 1, "chains": 1, "step_size": 0.01})):
        own = SHORT if method == "svi" else {"draws": 2}
        refused(
            lambda method=method, own=own | more: zoo.run(problem(plate), method, batch_size=5, **own),
            "batch_size=5", "'y' lies outside plate 'data'", "leave batch_size out",
        )  # fmt: skip
    one = problem(plate)
    refused(lambda: dict(fits([one, one], "svi", SHORT | {"batch_size": 5}, [0, 1], lambda: "")), "outside plate")


def test_all_rows_a_plate_of_another_name_and_the_usual_one_are_allowed() -> None:
    zoo.run(problem(None), "svi", batch_size=20, **SHORT)
    zoo.run(problem("data"), "svi", batch_size=5, **SHORT)
    zoo.run(problem("rows", names={"plate": "rows"}), "svi", batch_size=5, **SHORT)


def test_rows_that_are_weighted_have_the_exact_posterior() -> None:
    """sd 1 / sqrt(1 + n). Twin: rows that count once, M of n of them, have 1 / sqrt(1 + M)."""
    fit = zoo.run(
        problem("data"), "svi", batch_size=5, steps=800, lr=0.03, draws=4000, engine="eager", seed=0
    )  # fmt: skip
    sd = float(fit.draws["w"].std())
    assert sd == pytest.approx(21**-0.5, rel=0.1)
    assert sd != pytest.approx(6**-0.5, rel=0.1)


# -- what a guide says of itself ---------------------------------------------------------------------------


def test_with_points_says_what_the_guide_says() -> None:
    """The very object of random_sites, which a family fills later. Twin: a guide that says nothing."""
    model = problem("data").model
    masked = normal(model)
    masked.no_density, masked.by_row, masked.random_sites = "atoms", True, {"w"}
    guide = with_points(lambda model: masked, model, ["w"])
    assert (guide.mean_field, guide.no_density, guide.by_row) == (True, "atoms", True)
    assert guide.random_sites is masked.random_sites
    assert with_points(full_rank, model, ["w"]).along_draws
    silent = with_points(AutoNormal, model, ["w"])
    assert not silent.mean_field
    assert not any(hasattr(silent, said) for said in ("along_draws", "no_density", "by_row", "random_sites"))


def atoms(model: Any) -> Any:
    """A user's factory without `point`, whose q has no density."""
    guide = normal(model)
    guide.no_density = "made of atoms"
    return guide


def test_no_bound_is_claimed_for_a_wrapped_guide_without_density() -> None:
    fit = zoo.run(zoo.load("linear_regression", n=6), "svi", guide=atoms, point="b", **SHORT)
    assert fit.settings["no_density"] == "made of atoms"
    assert not fit.settings["elbo_is_bound"]
    assert "logq" not in fit.stats


# -- dropout with points among the layers ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mc_dropout", "gaussian_dropout"])
def test_a_layer_that_is_a_point_keeps_its_place_among_the_rates(name: str) -> None:
    """p = (.5, 0): with w1 a point no mask is left, with w2 one a hidden-layer input is; and the other way round."""
    small = {"hidden": 4, "n": 8}
    assert "w1" in zoo.run(zoo.load(name, **small), "svi", point="w1", **SHORT).settings["point"]
    own = zoo.load(name, p=(0.5, 0.0), **small)
    for point, noise in (("w1", 0), ("w2", 1)):
        fit = svi.set_up(own, own.guide, {}, (point,), 1, 0)
        assert fit.noise_size == noise
    assert fit_of(own).noise_size == 1


def test_inner_means_all_but_the_models_first_layer() -> None:
    """w1 a point, w2 inner: its 4 inputs are masked. Twin: w2 a point, which leaves no inner layer."""
    own, options = zoo.load("bnn_regression", hidden=4, n=8), {"where": "inner"}
    fit = svi.set_up(own, "bernoulli_dropout", options, ("w1",), 1, 0)
    assert fit.noise_size == 4
    assert "w2" not in fit.points
    refused(
        lambda: svi.set_up(own, "bernoulli_dropout", options, ("w2",), 1, 0), "'inner' needs a second", "sites are w1"
    )


def test_rates_are_one_a_layer_of_the_model_or_of_those_to_mask() -> None:
    every = {"w1": 2, "w2": 2, "w3": 2}
    names = list(every)
    assert per_layer((0.1, 0.2, 0.3), names, ("w2", "w3")) == {"w2": 0.2, "w3": 0.3}
    assert per_layer((0.2, 0.3), names, ("w2", "w3")) == {"w2": 0.2, "w3": 0.3}
    assert per_layer(0.5, names, ("w1",)) == {"w1": 0.5}
    refused(lambda: per_layer((0.1,), names, ("w2", "w3")), "one number or 3, one a weight layer, got 1")
    assert rates_where("inner", every, {"w2": 0.2, "w3": 0.3}) == {"w2": 0.2, "w3": 0.3}
    assert rates_where("inner", every, {"w1": 0.2, "w3": 0.3}) == {"w1": 0.0, "w3": 0.3}


# -- many data sets ----------------------------------------------------------------------------------------


def centred(x: Tensor, y: Tensor | None = None, *, own: bool = True) -> None:
    """A weight whose prior sits at y's mean, or at 0."""
    at = y.mean() if own and y is not None else x.new_zeros(())
    w = pyro.sample("w", dist.Normal(at.expand(1, 1), 1.0).to_event(2))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal((x @ w)[:, 0], 1.0), obs=y)


@pytest.mark.parametrize("own", [True, False])
def test_dropout_of_many_data_sets_takes_the_prior_of_each(own: bool) -> None:
    sets = [zoo.Problem("c", centred, zoo.Data(X, X[:, 0] + shift), hyper={"own": own}) for shift in (0.0, 9.0)]
    options = SHORT | {"steps": 30, "lr": 0.1, "guide": "bernoulli_dropout", "guide_options": {"rate": 0.2}}
    together = dict(fits(sets, "svi", options, [3, 4], lambda: ""))
    for k, one in enumerate(sets):
        alone = zoo.run(one, "svi", seed=3 + k, **options)
        torch.testing.assert_close(together[k].draws["w"], alone.draws["w"], rtol=1e-6, atol=1e-6)
