"""Guides where rows have latents of their own, and stock Pyro's losses on guides of all sites at once."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor

import zoo
from guides.full_rank import full_rank
from guides.low_rank import low_rank
from zoo.infer import elbo

from .refusals import refused

Y = torch.tensor([0.4, -1.3, 2.2, 0.9, -0.2, 1.7], dtype=torch.float64)
SEEN = torch.tensor([True, True, False, True, True, False])


def gaps(y: Tensor, seen: Tensor) -> None:
    """Known mean, unknown noise: replicates that count pull the noise to 0."""
    noise = pyro.sample("noise", dist.LogNormal(y.new_zeros(()), 1.0))
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(0.0, noise), obs=y, obs_mask=seen)


def fitted(engine: str) -> float:
    problem = zoo.Problem("gaps", gaps, {"y": Y, "seen": SEEN})
    fit = zoo.run(problem, "svi", guide="point", steps=1200, lr=0.05, draws=1, engine=engine)
    return float(fit.draws["noise"][0, 0])


@pytest.mark.slow
def test_points_do_not_count_replicates_of_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The point guide and map climb the same log p(y, theta); a twin that counts replicates ends far below."""
    mode = zoo.run(zoo.Problem("gaps", gaps, {"y": Y, "seen": SEEN}), "map", restarts=1)
    right = float(mode.draws["noise"][0, 0])
    assert fitted("eager") == pytest.approx(right, rel=1e-3)
    monkeypatch.setattr(elbo, "is_replica", lambda msg: False)
    assert fitted("eager") < 0.8 * right


def test_points_do_not_count_replicates_on_the_loop_engine_either() -> None:
    problem, mode = zoo.Problem("gaps", gaps, {"y": Y, "seen": SEEN}), {}
    for engine in ("eager", "loop"):
        fit = zoo.run(problem, "svi", guide="point", steps=20, draws=1, engine=engine)
        mode[engine] = fit.settings["elbo"]
    assert mode["loop"] == pytest.approx(mode["eager"], rel=1e-5)


# -- batches -------------------------------------------------------------------------------------------------


def local(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("data", x.shape[0]):
        z = pyro.sample("z", dist.Normal(x.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(w * x[:, 0] + z, 1.0), obs=y)


@pytest.mark.parametrize("guide", ["normal", "full_rank", "point", "AutoNormal"])
def test_a_batch_of_a_model_with_row_latents_names_them(guide: str) -> None:
    problem = zoo.Problem("local", local, zoo.Data(Y.float()[:, None], Y.float()))
    refused(
        lambda: zoo.run(problem, "svi", guide=guide, batch_size=2, steps=5),
        "batch of 2 of 6 rows", r"q of z, which has a value for every row,", "batch_size=None",
    )  # fmt: skip


# -- stock losses --------------------------------------------------------------------------------------------


def positive(y: Tensor) -> None:
    noise = pyro.sample("noise", dist.LogNormal(y.new_zeros(()), 1.0))
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(0.0, noise), obs=y)


@pytest.mark.parametrize("family", [full_rank, low_rank])
def test_stock_mean_field_elbo_loses_the_jacobian_of_joint_guides(family) -> None:
    """At the same draw the two losses differ by log |du / dtheta| = -log noise: what the docstrings warn of."""
    pyro.clear_param_store()
    guide = family(positive)
    guide(Y)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        noise = pyro.poutine.trace(guide).get_trace(Y).nodes["noise"]["value"]
        torch.manual_seed(0)
        whole = Trace_ELBO().loss(positive, guide, Y)
        torch.manual_seed(0)
        field = TraceMeanField_ELBO().loss(positive, guide, Y)
    assert field - whole == pytest.approx(float(noise.detach().log()), abs=1e-5)
    assert "TraceMeanField_ELBO" in (family.__doc__ or "")
    pyro.clear_param_store()
