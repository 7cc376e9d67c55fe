"""Point estimates of a site whose support depends on another one: v ~ Uniform(u, 10)."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

import guides.point
import zoo
from tests.refusals import refused

F64 = torch.float64
FIT: dict[str, Any] = {"steps": 600, "lr": 0.1, "draws": 2, "seed": 0}


def moving(near: Tensor, y: Tensor) -> None:
    """u is seen at -3 with sd .1, v at -2: at first, from u = 0, v's support is (0, 10)."""
    u = pyro.sample("u", dist.Normal(y.new_zeros(()), 1.0))
    v = pyro.sample("v", dist.Uniform(u, 10.0))
    pyro.sample("near", dist.Normal(u, 0.1), obs=near)
    pyro.sample("y", dist.Normal(v, 0.1), obs=y)


def seen_once(y: Tensor) -> None:
    u = pyro.sample("u", dist.Normal(y.new_zeros(()), 1.0))
    v = pyro.sample("v", dist.Uniform(u, 10.0))
    pyro.sample("y", dist.Normal(v, 0.1), obs=y)


def weights(near: Tensor, y: Tensor) -> None:
    """As `moving`, beside a weight matrix of which nothing is known."""
    pyro.sample("w", dist.Normal(y.new_zeros(2, 1), 1.0).to_event(2))
    moving(near, y)


DATA = {"near": torch.tensor([-3.0], dtype=F64), "y": torch.tensor([-2.0], dtype=F64)}


def of(model: Any) -> zoo.Problem:
    return zoo.Problem("moving", model, DATA)


def mode_of_u() -> float:
    """The root of -u - 100 (u + 3) + 1 / (10 - u), by Newton's step from -3."""
    u = -3.0
    for _ in range(9):
        u -= (-u - 100 * (u + 3) + 1 / (10 - u)) / (-101 + 1 / (10 - u) ** 2)
    return u


def test_a_point_follows_its_support() -> None:
    """The joint mode in the sites' own space, to a tenth of the observations' sd: u by a root, v at its observation."""
    fit = zoo.run(of(moving), "svi", guide="point", engine="eager", **FIT)
    assert float(fit.draws["v"][0, 0]) == pytest.approx(-2.0, abs=0.01)
    assert float(fit.draws["u"][0, 0]) == pytest.approx(mode_of_u(), abs=0.01)
    assert set(fit.settings["point"]) == {"u", "v"}


def test_the_loop_engine_takes_the_same_steps() -> None:
    short: dict[str, Any] = FIT | {"steps": 20}
    fits = [zoo.run(of(moving), "svi", guide="point", engine=engine, **short) for engine in ("eager", "loop")]
    for name in ("u", "v"):
        torch.testing.assert_close(fits[0].draws[name], fits[1].draws[name])


def test_twin_a_point_that_keeps_its_first_support_stays_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    at_point = guides.point.at_point
    monkeypatch.setattr(guides.point, "at_point", lambda latent, support, moves: at_point(latent, support))
    fit = zoo.run(of(moving), "svi", guide="point", engine="eager", **FIT)
    assert float(fit.draws["v"][0, 0]) > -1e-6


def test_it_reaches_an_observation_outside_its_first_support() -> None:
    """v at -2, or u, which the prior pulls back to 0, would be above it."""
    fit = zoo.run(zoo.Problem("one", seen_once, {"y": DATA["y"]}), "svi", guide="point", engine="eager", **FIT)
    assert float(fit.draws["v"][0, 0]) == pytest.approx(-2.0, abs=0.05)
    assert float(fit.draws["u"][0, 0]) < -1.9


@pytest.mark.parametrize("guide", ["normal", "full_rank"])
def test_a_point_beside_sites_with_a_spread_follows_their_draws(guide: str) -> None:
    fit = zoo.run(of(moving), "svi", guide=guide, point="v", engine="eager", **FIT | {"draws": 500})
    u, v = fit.draws["u"][0], fit.draws["v"][0]
    assert (v > u).all()
    assert float(v.mean()) == pytest.approx(-2.0, abs=0.05)


def test_points_of_dropouts_guides_follow_too() -> None:
    fit = zoo.run(of(weights), "svi", guide="bernoulli_dropout", engine="eager", **FIT)
    assert float(fit.draws["v"][0, 0]) == pytest.approx(-2.0, abs=0.01)


def test_an_autoguides_points_refuse_a_support_that_moves() -> None:
    """Twin: the other site, whose support is fixed, may be a point."""
    short: dict[str, Any] = {"steps": 3, "draws": 2, "engine": "eager"}
    refused(
        lambda: zoo.run(of(moving), "svi", guide=AutoNormal, point="v", **short),
        "point", "'v'", "guide='normal'", "'map'",
    )  # fmt: skip
    assert zoo.run(of(moving), "svi", guide=AutoNormal, point="u", **short).settings["point"] == ["u"]
