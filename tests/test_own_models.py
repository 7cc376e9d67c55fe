"""A stranger's Pyro model, as it is: every habit in tests/own_models.py, in every method, with the right answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.contrib.autoname import scope
from pyro.infer.reparam import LocScaleReparam
from torch import Tensor

import zoo
from tests import own_models as own
from tests.refusals import refused
from tests.statistics import assert_close_iid
from zoo.core.sites import sites
from zoo.infer.density import density

F64 = torch.float64
EVERY_MODEL = pytest.mark.parametrize("name", list(own.OWN))


def _traced(problem: zoo.Problem, values: dict[str, Tensor]) -> float:
    """Pyro's own log p(y, theta) at given latents."""
    args, kwargs = problem.arguments()
    model = poutine.condition(problem.model, values)
    return float(poutine.trace(model).get_trace(*args, **kwargs).log_prob_sum())


@EVERY_MODEL
def test_the_density_is_pyros(name: str) -> None:
    problem = own.own(name)
    target = density(problem)
    assert target.engine == "eager"
    at = torch.linspace(-0.9, 1.1, target.dim, dtype=F64)[None]
    values = {n: v[0] for n, v in target.constrain(at).items()}
    right = _traced(problem, values)
    assert float(target.log_prob(at, jacobian=False)) == pytest.approx(right, rel=1e-9)
    assert float(target.log_prob(at + 1e-3, jacobian=False)) != pytest.approx(right, rel=1e-9)  # the twin


@EVERY_MODEL
def test_prior_laplace_and_predictions(name: str) -> None:
    problem = own.own(name)
    if name == "constrained":
        refused(lambda: zoo.run(problem, "prior"), "'cuts'", "improper")
    else:
        assert zoo.run(problem, "prior", draws=3).shape == (1, 3)
    fit = zoo.run(problem, "laplace", draws=4)
    found = sites(problem)
    assert set(found.latent) <= set(fit.draws) <= {*found.latent, *found.deterministic}
    seen = fit.predict()
    targets = [n for n, s in found.observed.items() if not isinstance(s.fn, dist.Unit)]
    assert {n: tuple(seen[n].shape[2:]) for n in targets} == {n: tuple(found.observed[n].shape) for n in targets}
    assert set(found.deterministic) <= set(seen)
    assert not {"soft", "cuts_prior"} & set(seen)


@pytest.mark.parametrize("name", ["two observed", "nested plates", "LocScaleReparam", "factor", "sequential plates"])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("map", {"restarts": 2}),
        ("svi", {"steps": 30, "draws": 3, "engine": "eager"}),
        ("nuts", {"chains": 2, "draws": 3, "warmup": 10, "engine": "eager"}),
    ],
)
def test_the_other_methods(name: str, method: str, options: dict[str, Any]) -> None:
    fit = zoo.run(own.own(name), method, **options)
    assert all(torch.isfinite(value).all() for value in fit.draws.values())
    assert torch.isfinite(fit.stats["lp"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sequential plates", "missing"])
def test_compiled_chains(name: str) -> None:
    fit = zoo.run(own.own(name), "nuts", chains=2, draws=50, warmup=50, engine="compiled", seed=0)
    again = zoo.run(own.own(name), "nuts", chains=2, draws=50, warmup=50, engine="eager", seed=0)
    assert fit.settings["engine"] == "compiled"
    for site, value in fit.draws.items():
        torch.testing.assert_close(value[:, 0], again.draws[site][:, 0], rtol=1e-5, atol=1e-5)


# -- reparameterised sites -----------------------------------------------------------------------------------


@pytest.mark.parametrize("centred", [0.0, 0.5])
def test_a_reparameterised_site_is_among_the_draws(centred: float, tmp_path) -> None:
    """theta ~ N(0, tau^2) through eta ~ N(0, tau^2c): theta = eta tau^(1 - c)."""
    model = poutine.reparam(own.funnel, {"theta": LocScaleReparam(centred)})
    fit = zoo.run(zoo.Problem("half", model, {"y": own.Y}), "laplace", draws=5)
    assert set(fit.draws) == {"tau", "theta_decentered", "theta"}
    by_hand = fit.draws["theta_decentered"] * fit.draws["tau"][..., None] ** (1 - centred)
    torch.testing.assert_close(fit.draws["theta"], by_hand)
    assert tuple(fit.log_likelihood().shape) == (1, 5, 6)
    assert torch.equal(zoo.open(fit.save(tmp_path / "fit.nc"), model=model).draws["theta"], fit.draws["theta"])
    chains = zoo.run(fit.problem, "nuts", init=fit, chains=2, draws=2, warmup=2, engine="eager")
    assert chains.draws["theta"].shape == (2, 2, 6)


# -- missing targets -----------------------------------------------------------------------------------------

SEEN = own.Y > 0
# Conjugate: mu ~ N(0, 1), y ~ N(mu, 1), the k seen ones: N(sum y / (k + 1), 1 / (k + 1)).
MISSING_MEAN = float(own.Y[SEEN].sum() / (SEEN.sum() + 1))
MISSING_SD = float((SEEN.sum() + 1) ** -0.5)


def test_targets_behind_obs_mask() -> None:
    """Linear and Gaussian, so Laplace is exact; masked entries of the latent twin have a proper density."""
    fit = zoo.run(own.own("missing"), "laplace", draws=20_000, seed=0)
    assert fit.ok
    assert_close_iid(fit.draws["mu"], MISSING_MEAN, MISSING_SD)
    spread = np.full(6, (1 + MISSING_SD**2) ** 0.5)
    assert_close_iid(fit.draws["y_unobserved"], np.full(6, MISSING_MEAN), spread)
    everything = zoo.Problem("all", own.missing, {"y": own.Y, "seen": torch.ones(6, dtype=torch.bool)})
    twin = zoo.run(everything, "laplace", draws=20_000, seed=0)  # all rows taken as seen
    with pytest.raises(AssertionError, match="errors apart"):
        assert_close_iid(twin.draws["mu"], MISSING_MEAN, MISSING_SD)


def test_masked_rows_have_no_log_likelihood_and_their_twins_no_say_in_the_mode() -> None:
    problem = own.own("missing")
    assert (zoo.run(problem, "laplace", draws=3).log_likelihood()[..., ~SEEN] == 0).all()
    mode = zoo.run(problem, "map")
    assert float(mode.draws["mu"][0, 0]) == pytest.approx(MISSING_MEAN, rel=1e-6)
    lp = max(mode.settings["log_joint"])
    unseen = {"mu": torch.tensor(MISSING_MEAN, dtype=F64), "y_unobserved": torch.full((6,), MISSING_MEAN, dtype=F64)}
    assert lp == pytest.approx(_traced(problem, unseen), rel=1e-6)


def test_a_factor_alone_is_a_likelihood() -> None:
    def model(y: Tensor) -> None:
        mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
        pyro.factor("fit", -0.5 * ((y - mu) ** 2).sum())

    mode = zoo.run(zoo.Problem("factor", model, {"y": own.Y}), "map")
    assert float(mode.draws["mu"][0, 0]) == pytest.approx(float(own.Y.sum()) / 7, rel=1e-6)


# -- what can't be served, by name ---------------------------------------------------------------------------


def _discrete(y: Tensor) -> None:
    k = pyro.sample("k", dist.Categorical(y.new_ones(2)), infer={"enumerate": "parallel"})
    pyro.sample("y", dist.Normal(k.to(y.dtype), 1.0).expand(y.shape).to_event(1), obs=y)


def _nan_gradient(y: Tensor) -> None:
    w = pyro.sample("w", dist.Normal(y.new_zeros(()), 1.0))
    pyro.sample("y", dist.Normal(w + (0 * w).sqrt(), 1.0).expand(y.shape).to_event(1), obs=y)


def _nothing_observed(y: Tensor) -> None:
    pyro.sample("w", dist.Normal(y.new_zeros(()), 1.0))


def _in_place(y: Tensor) -> None:
    y[0] += 1.0
    w = pyro.sample("w", dist.Normal(y.new_zeros(()), 1.0))
    pyro.sample("y", dist.Normal(w, 1.0).expand(y.shape).to_event(1), obs=y)


def _by_numpy(y: Tensor) -> None:
    w = pyro.sample("w", dist.Normal(y.new_zeros(()), 1.0))
    pyro.sample("y", dist.Normal(w + np.random.standard_normal(), 1.0).expand(y.shape).to_event(1), obs=y)


REFUSED = {
    "discrete latent": (_discrete, ("'k'", "discrete")),
    "NaN gradient": (_nan_gradient, ("finite",)),
    "nothing observed": (_nothing_observed, ("no observed site",)),
    "data written in place": (_in_place, ("'y'", "in place", "clone")),
    "numpy's generator": (_by_numpy, ("another log density",)),
}


@pytest.mark.parametrize("what", list(REFUSED))
@pytest.mark.parametrize("method", ["nuts", "map"])
def test_what_no_method_can_serve(what: str, method: str) -> None:
    model, patterns = REFUSED[what]
    y = own.Y.clone()
    refused(lambda: zoo.run(zoo.Problem("mine", model, {"y": y}), method), *patterns)
    assert torch.equal(y, own.Y)


def test_a_default_device_without_numbers() -> None:
    problem = own.own("two observed")
    with torch.device("meta"):
        refused(lambda: zoo.run(problem, "map"), "'meta'")


# -- check ---------------------------------------------------------------------------------------------------


@EVERY_MODEL
def test_check_says_in_one_line_each_what_is_missing(name: str) -> None:
    report = zoo.check(own.own(name))
    assert set(report.failed) <= {"names", "any rows", "rows", "local latents", "device", "dtype"}, str(report)
    for row in report.rows:
        assert "\n" not in row.text
        assert row.ok or "Still works: " in row.text
    text = str(report)
    assert text.count("no observed site stands in") <= 1
    assert "x.shape" not in text or "x" in own.OWN[name][1]


def test_check_on_shapes_and_writing() -> None:
    def flat(x: Tensor, y: Tensor) -> None:
        w = pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))
        pyro.sample("y", dist.Normal(x @ w, 1.0).to_event(1), obs=y)

    text = str(zoo.check(zoo.Problem("flat", flat, {"x": own.X, "y": own.Y})))
    assert "it was given x (6,), y (6,)" in text
    y = own.Y.clone()
    assert "in place" in str(zoo.check(zoo.Problem("writes", _in_place, {"y": y})))
    assert torch.equal(y, own.Y)
    assert zoo.check(zoo.Problem("numpy", _by_numpy, {"y": own.Y})).failed.count("pure") == 1


# -- names ---------------------------------------------------------------------------------------------------


def test_names_of_a_scope_come_back_from_a_file(tmp_path) -> None:
    """`pyro.contrib.autoname.scope` calls a site line/w, which a file would take for a path."""

    def model(y: Tensor) -> None:
        with scope(prefix="line"):
            w = pyro.sample("w", dist.Normal(y.new_zeros(2), 1.0).to_event(1))
            f = pyro.deterministic("f", w.sum() + 0 * y)
            with pyro.plate("rows", y.shape[0]):
                pyro.sample("y", dist.Normal(f, 1.0), obs=y)

    fit = zoo.run(zoo.Problem("scoped", model, {"y": own.Y}), "laplace", draws=8)
    path = fit.save(tmp_path / "fit.nc")
    assert torch.equal(zoo.open(path, model=model).draws["line/w"], fit.draws["line/w"])
    assert set(zoo.open(path).predict()) == {"line/f", "line/y", "mean", "var"}
    assert fit.to_arviz()["posterior"]["line\u2215w"].shape[-1] == 2


def test_names_of_axes_are_refused_before_the_run() -> None:
    def model(y: Tensor) -> None:
        chain = pyro.sample("chain", dist.Normal(y.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(chain, 1.0).expand(y.shape).to_event(1), obs=y)

    refused(lambda: zoo.run(zoo.Problem("chain", model, {"y": own.Y}), "nuts"), "'chain'", "Rename")
