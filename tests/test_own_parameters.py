"""What a stranger's model learns without a prior, pyro.param and the parameters of modules: points, or a refusal."""

from __future__ import annotations

import logging

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.distributions import constraints
from pyro.nn import PyroModule, PyroParam, PyroSample
from torch import Tensor, nn

import zoo
from tests import own_models as own
from tests.refusals import refused
from zoo.core import points
from zoo.infer import engine


def level(y: Tensor) -> None:
    """theta_i ~ N(m, 1), y_i ~ N(theta_i, s): marginally y ~ N(m, 1 + s^2), m and s without a prior."""
    m = pyro.param("m", y.new_zeros(()))
    with pyro.plate("data", y.shape[0]):
        theta = pyro.sample("theta", dist.Normal(m, 1.0))
        pyro.sample("y", dist.Normal(theta, 0.5), obs=y)


def only_parameters(y: Tensor) -> None:
    m = pyro.param("m", y.new_zeros(()))
    s = pyro.param("s", y.new_ones(()), constraint=constraints.positive)
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(m, s), obs=y)


class Line(PyroModule):
    """A latent slope, an nn.Parameter and a PyroParam, in float32 as nn.Linear makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = PyroModule[nn.Linear](1, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 1]).to_event(2))
        self.noise = PyroParam(torch.tensor(1.0), constraint=constraints.positive)

    def forward(self, x: Tensor, y: Tensor | None = None) -> None:
        f = self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(f, self.noise), obs=y)


def test_maximum_likelihood_by_map() -> None:
    fit = zoo.run(zoo.Problem("ml", only_parameters, {"y": own.Y}), "map")
    assert float(fit.draws["m"][0, 0]) == pytest.approx(float(own.Y.mean()), rel=1e-6)
    assert float(fit.draws["s"][0, 0]) == pytest.approx(float(own.Y.std(correction=0)), rel=1e-6)
    assert len(pyro.get_param_store()) == 0


def test_empirical_bayes_by_svi(tmp_path) -> None:
    """ELBO(q, m) has its maximum where m maximises the evidence: the mean of y."""
    problem = zoo.Problem("level", level, {"y": own.Y})
    fit = zoo.run(problem, "svi", steps=1500, lr=0.05, particles=4, seed=0, draws=500, engine="eager")
    assert fit.settings["point"] == ["m"]
    assert float(fit.draws["m"].min()) == float(fit.draws["m"].max())
    assert float(fit.draws["m"].mean()) == pytest.approx(float(own.Y.mean()), abs=0.02)
    right = own.Y.mean() + 0.8 * (own.Y - own.Y.mean())
    torch.testing.assert_close(fit.draws["theta"].mean((0, 1)), right, atol=0.1, rtol=0)
    assert len(pyro.get_param_store()) == 0
    back = zoo.open(fit.save(tmp_path / "fit.nc"), model=level)
    assert torch.equal(back.draws["m"], fit.draws["m"])
    assert torch.equal(back.predict(seed=1)["y"], fit.predict(seed=1)["y"])


def test_the_parameters_of_a_module_are_points_and_the_module_stays_as_it_is() -> None:
    x = torch.linspace(-1, 1, 20)[:, None]
    model = Line()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    problem = zoo.Problem("line", model, zoo.Data(x, 2 * x[:, 0] + 1 + 0.3 * torch.cos(9 * x[:, 0])))
    for method, options in (("map", {}), ("svi", {"steps": 800, "lr": 0.03, "engine": "eager"})):
        fit = zoo.run(problem, method, **options)
        assert set(fit.draws) == {"linear.weight", "linear.bias", "noise"}
        assert float(fit.draws["linear.bias"].mean()) == pytest.approx(float(problem.data.y.mean()), abs=0.02)
        assert fit.predict(x[:3])["y"].shape[2:] == (3,)
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert len(pyro.get_param_store()) == 0


def test_methods_that_give_distributions_name_the_parameters() -> None:
    problem = zoo.Problem("level", level, {"y": own.Y})
    for method in ("nuts", "hmc", "laplace"):
        refused(lambda m=method: zoo.run(problem, m), method, "parameters m of", "map or svi")
    assert "theta" in zoo.run(problem, "prior", draws=2).draws
    held = zoo.Problem("held", poutine.substitute(level, {"m": own.Y.mean()}), {"y": own.Y})
    assert set(zoo.run(held, "laplace", draws=2).draws) == {"theta"}


def test_parameters_that_pyro_module_names_are_points_too() -> None:
    """f = a + b net(x), one linear layer: the maximum likelihood is least squares, and the net stays as it is."""
    net = nn.Linear(1, 1).double()
    before = net.weight.detach().clone()

    def registered(x: Tensor, y: Tensor | None = None) -> None:
        pyro.module("net", net)
        noise = pyro.sample("noise", dist.HalfNormal(x.new_full((), 10.0)))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(net(x).squeeze(-1), noise), obs=y)

    x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    problem = zoo.Problem("net", registered, zoo.Data(x, 2 * x[:, 0] + 1 + 0.3 * torch.cos(9 * x[:, 0])))
    right = torch.linalg.lstsq(torch.cat([x, torch.ones_like(x)], 1), problem.data.y[:, None]).solution[:, 0]
    best = zoo.run(problem, "map")
    assert [float(best.draws[n].mean()) for n in ("net.weight", "net.bias")] == pytest.approx(right.tolist(), rel=1e-5)
    fit = zoo.run(problem, "svi", steps=800, lr=0.03, engine="eager")
    assert [float(fit.draws[n].mean()) for n in ("net.weight", "net.bias")] == pytest.approx(right.tolist(), abs=0.03)
    assert fit.predict(x[:3])["y"].shape[2:] == (3,)
    assert isinstance(net.weight, nn.Parameter)
    assert torch.equal(net.weight, before)
    assert len(pyro.get_param_store()) == 0
    refused(lambda: zoo.run(problem, "nuts"), r"net\.weight, net\.bias", "points with map or svi")


def test_parameters_that_nothing_can_reach(caplog) -> None:
    net = nn.Linear(1, 1).double()

    def closed_over(y: Tensor) -> None:
        mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(net(mu[None]), 1.0).expand(y.shape), obs=y)

    assert points.hidden(zoo.Problem("net", closed_over, {"y": own.Y}))
    with caplog.at_level(logging.WARNING, "zoo"):
        assert zoo.run(zoo.Problem("net", closed_over, {"y": own.Y}), "map").ok
    assert "held where they are" in caplog.text
    assert not points.hidden(zoo.Problem("level", level, {"y": own.Y}))
    fit = zoo.run(zoo.Problem("net", closed_over, {"y": own.Y}), "nuts", warmup=20, draws=8, engine="eager")
    assert not fit.draws["mu"].requires_grad
    net.float()
    refused(lambda: zoo.run(zoo.Problem("net", closed_over, {"y": own.Y.float()}), "map"), "float64", r"\.double\(\)")


def test_a_compiled_step_holds_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as its graph: none of what a run keeps has a history of gradients."""
    net = nn.Linear(1, 1).double()

    def closed_over(y: Tensor) -> None:
        mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(net(mu[None]), 1.0).expand(y.shape), obs=y)

    made = list[Tensor]()

    def noted(function: object, own: list[Tensor], given: object, fixed: list[Tensor]) -> None:
        made.extend((*own, *fixed))
        raise ZeroDivisionError

    monkeypatch.setattr(engine, "compile_in_place", noted)
    with pytest.raises(ZeroDivisionError):
        zoo.run(zoo.Problem("net", closed_over, {"y": own.Y}), "nuts", warmup=20, draws=8, engine="compiled")
    assert made
    assert not any(tensor.requires_grad for tensor in made)
    assert net.weight.requires_grad


def test_check_names_parameters() -> None:
    report = zoo.check(zoo.Problem("level", level, {"y": own.Y}))
    assert "parameters" in report.failed
    assert "map and svi" in str(report)
