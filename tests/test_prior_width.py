"""mass="prior": the scales of the prior, never learned, and the posterior that any other mass gives."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import stats
from torch import Tensor

import zoo
from tests.refusals import refused
from zoo.infer.density import density
from zoo.infer.prior_width import prior_width
from zoo.infer.starts import starts

WIDE = 600


def several(x: Tensor, y: Tensor | None = None) -> None:
    """Many of each kind, so that the mean over coordinates has an error of 1 %."""
    pyro.sample("normal", dist.Normal(5.0, 3.0).expand([WIDE]).to_event(1))
    pyro.sample("cauchy", dist.Cauchy(0.0, 1.0).expand([WIDE]).to_event(1))
    s = pyro.sample("half", dist.HalfNormal(torch.ones(WIDE)).to_event(1))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal(x[:, 0] * s[0], 1.0), obs=y)


def problem(model: Any = several) -> zoo.Problem:
    return zoo.Problem("own", model, zoo.Data(torch.ones(3, 1), torch.zeros(3)))


def test_it_is_the_distance_of_the_quartiles() -> None:
    """Known: sd 3; a Cauchy's quartiles are -1 and 1; of a HalfNormal the log is what moves. Five standard errors."""
    target = density(problem(), "eager")
    width = prior_width(target, 0)
    found = dict(zip(("normal", "cauchy", "half"), width.scale.split(WIDE), strict=True))
    middle = dict(zip(("normal", "cauchy", "half"), width.centre.split(WIDE), strict=True))
    assert float(middle["normal"].mean()) == pytest.approx(5.0, abs=5 * 3 * 1.26 / math.sqrt(400 * WIDE))
    assert float(middle["half"].mean()) == pytest.approx(math.log(stats.halfnorm.ppf(0.5)), abs=0.02)
    half = float(torch.tensor(stats.halfnorm.ppf([0.25, 0.75])).log().diff()) / 1.34898
    for name, right in {"normal": 3.0, "cauchy": 2 / 1.34898, "half": half}.items():
        assert float(found[name].mean()) == pytest.approx(right, rel=5 * 1.57 / math.sqrt(400 * WIDE) * 1.3), name
        assert float(found[name].std()) > 0, name
    assert torch.equal(width.scale, prior_width(target, 0).scale)
    assert not torch.equal(width.scale, prior_width(target, 1).scale)


def test_uniform_starts_are_in_its_units() -> None:
    """U(-2, 2) of the prior's sds about its median: of N(5, 9) those are -1 to 11. The twin: without, -2 to 2."""
    target = density(problem(), "eager")
    width = prior_width(target, 0)
    at, plain = starts(target, 4, 0, "uniform", width), starts(target, 4, 0)
    assert torch.allclose(at, width.centre + width.scale * plain)
    normal = at[:, :WIDE]
    assert float(normal.mean()) == pytest.approx(5.0, abs=0.3)
    assert float(normal.std()) == pytest.approx(3 * 4 / math.sqrt(12), rel=0.08)
    assert float(plain[:, :WIDE].mean()) != pytest.approx(5.0, abs=0.3)


def test_twin_of_sds_fails() -> None:
    """A Cauchy has no sd: of 400 draws it is tens or hundreds."""
    drawn = zoo.run(problem(), "prior", draws=400, progress=False).draws["cauchy"][0]
    assert float(drawn.std(0).mean()) > 5


def test_a_prior_without_width_counts_as_1() -> None:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        pyro.sample("point", dist.Normal(1e8, 1e-6))
        w = pyro.sample("w", dist.Normal(0.0, 2.0))
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(w, 1.0), obs=y)

    found = prior_width(density(problem(model), "eager"), 0).scale
    assert bool((torch.isfinite(found) & (found > 0)).all())
    assert float(found[-1]) == pytest.approx(2.0, rel=0.3)


def test_an_improper_prior_is_refused_by_name() -> None:
    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), ()))
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(w, 1.0), obs=y)

    refused(
        lambda: zoo.run(problem(model), "nuts", mass="prior", warmup=5, draws=5, progress=False),
        "mass='prior' needs draws of the prior", "'w'",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", ["chees", "nuts"])
def test_the_posterior_is_the_exact_one(method: str) -> None:
    """Means and sds within five standard errors of those of the conjugate posterior; the mass is the prior's."""
    line = zoo.load("linear_regression", n=8, noise=2.0, prior_scale=1.0)
    options: dict[str, Any] = {"engine": "eager", "dtype": "float64", "warmup": 100, "draws": 400, "progress": False}
    fit, exact = zoo.run(line, method, mass="prior", seed=2, **options), zoo.run(line, "exact", draws=20_000)
    for name, right in exact.draws.items():
        mine, other = fit.draws[name].double().flatten(0, 1), right.double().flatten(0, 1)
        error = 5 * other.std(0) / math.sqrt(400)
        assert bool(((mine.mean(0) - other.mean(0)).abs() < error).all())
        assert bool(((mine.std(0) / other.std(0) - 1).abs() < 0.18).all())
    assert fit.settings["mass"] == "prior"
