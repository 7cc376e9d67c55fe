"""Stock Pyro's NUTS and HMC as the reference: shapes, seeds, supports that move, and the right numbers."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.mcmc.util import initialize_model
from torch import Tensor

import zoo
from tests import right_answers as right
from tests.small_models import location, no_inputs
from tests.statistics import assert_close_mcmc
from zoo.core.handlers import pyro_state
from zoo.core.randomness import seeded
from zoo.infer.density import density
from zoo.infer.stock import fit_stock
from zoo.infer.threads import running_on

F64 = torch.float64
SHORT = {"chains": 2, "warmup": 20, "draws": 15}


def moving(x: Tensor, y: Tensor | None = None) -> None:
    u = pyro.sample("u", dist.LogNormal(x.new_zeros(()), 1.0))
    v = pyro.sample("v", dist.Uniform(x.new_zeros(()), u))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(v, 1.0), obs=y)


def own(model) -> zoo.Problem:
    return zoo.Problem(model.__name__, model, no_inputs([0.3, 0.8, 1.1]))


def test_a_small_model_gets_one_thread_and_the_setting_is_put_back() -> None:
    """With more, six rows of binary cross entropy take 9 ms where other processes want the cores, not a hundredth."""
    seen: list[int] = []

    def model(x: Tensor, y: Tensor | None = None) -> None:
        theta = pyro.sample("theta", dist.Normal(x.new_zeros(()), 1.0))
        seen.append(torch.get_num_threads())
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(theta, 1.0), obs=y)

    with running_on(2):
        fit_stock(own(model), **SHORT)
        assert torch.get_num_threads() == 2
    assert seen.count(1) > 2 * (20 + 15)  # a gradient and more an iteration of each chain


@pytest.mark.parametrize("kernel", ["nuts", "hmc"])
def test_shapes_and_seeds(kernel) -> None:
    problem = zoo.load("linear_regression", n=8)
    fit = fit_stock(problem, kernel, seed=3, **SHORT)
    assert fit.kind == "markov"
    assert fit.settings["engine"] == "pyro"
    assert fit.draws["w"].shape == (2, 15, 1)
    assert fit.stats["diverging"].shape == (2, 15)
    target = density(problem)
    position = target.unconstrain({n: v.flatten(0, 1) for n, v in fit.draws.items()})
    torch.testing.assert_close(fit.stats["lp"].flatten(), target.log_prob(position), rtol=1e-5, atol=1e-4)
    before = torch.get_rng_state()
    alone = fit_stock(problem, kernel, seed=3, **{**SHORT, "chains": 1})
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(alone.draws["w"][0], fit.draws["w"][0])  # chain c depends on (seed, c) only
    assert not torch.equal(fit.draws["w"][0], fit.draws["w"][1])


def test_stock_initialisation_freezes_a_support_that_moves() -> None:
    """The twin, and why the kernels run on our density: three seeds, three different stock densities."""
    problem = own(moving)
    args, kwargs = problem.arguments()
    u = {"u": torch.tensor(0.4, dtype=F64), "v": torch.tensor(-0.2, dtype=F64)}
    stock = set()
    for seed in range(3):
        with seeded(seed), pyro_state(validate=False):
            _, potential, _, _ = initialize_model(problem.model, args, kwargs)
            stock.add(round(-float(potential(u)), 6))
    assert len(stock) == 3
    top = math.exp(0.4)
    v = top / (1 + math.exp(0.2))
    by_hand = float(dist.LogNormal(0.0, 1.0).log_prob(torch.tensor(top, dtype=F64))) - math.log(top) + 0.4
    by_hand += math.log(top) + math.log(v / top) + math.log(1 - v / top)
    by_hand += sum(float(dist.Normal(v, 1.0).log_prob(t)) for t in problem.data.y)
    ours = float(density(problem).log_prob(torch.tensor([[0.4, -0.2]], dtype=F64)))
    assert ours == pytest.approx(by_hand, abs=1e-6)


def test_a_support_that_moves_is_sampled_inside_itself() -> None:
    fit = fit_stock(own(moving), seed=1, **SHORT)
    assert (fit.draws["v"] < fit.draws["u"]).all()


def test_a_stopped_run_keeps_whole_chains_or_says_that_there_is_nothing() -> None:
    fit = fit_stock(location([0.5], "normal", 1.0), chains=500, warmup=5, draws=10, max_seconds=1.0)
    assert 1 <= fit.shape[0] < 500
    assert fit.shape[1] == 10
    assert fit.outcome.startswith("max_seconds=1 reached after ")
    with pytest.raises(RuntimeError, match="ended before its first draw"):
        fit_stock(location([0.5], "normal", 1.0), warmup=10**6, max_seconds=0.5)


def test_thinning_keeps_every_other_draw() -> None:
    """On the same stream: 2 x 10 iterations give the draws 2, 4, ... of 20."""
    problem = location([0.5], "normal", 1.0)
    every = fit_stock(problem, chains=1, warmup=10, draws=20)
    other = fit_stock(problem, chains=1, warmup=10, draws=10, thin=2)
    assert torch.equal(other.draws["theta"][0], every.draws["theta"][0, 1::2])


def test_a_fixed_step_size_stays() -> None:
    fit = fit_stock(location([0.5], "normal", 1.0), step_size=0.25, **SHORT)
    assert fit.settings["step_size"] == [0.25, 0.25]


def test_divergences_are_counted_and_said() -> None:
    """A funnel's neck with a large fixed step."""

    def funnel(x: Tensor, y: Tensor | None = None) -> None:
        v = pyro.sample("v", dist.Normal(x.new_zeros(()), 3.0))
        pyro.sample("z", dist.Normal(x.new_zeros(4), (v / 2).exp()).to_event(1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(v, 10.0), obs=y)

    problem = zoo.Problem("funnel", funnel, no_inputs([-20.0, -20.0]))
    fit = fit_stock(problem, chains=1, warmup=0, draws=40, step_size=2.0)
    assert int(fit.stats["diverging"].sum()) > 0
    assert "diverged, limit 0" in fit.outcome


def test_other_engines_and_kernels_are_refused() -> None:
    problem = zoo.load("coin_flip")
    with pytest.raises(ValueError, match="engine='pyro' takes no jitter for hmc, only length"):
        zoo.run(problem, "hmc", engine="pyro", jitter=0.5)
    with pytest.raises(ValueError, match="target_accept must lie between 0 and 1"):
        zoo.run(problem, "hmc", target_accept=1.0)
    with pytest.raises(ValueError, match="kernel must be one of nuts, hmc"):
        fit_stock(problem, "gibbs")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["nuts", "hmc"])
def test_the_coin(kernel) -> None:
    """Means and sds of Beta(9, 5) at alpha 1e-4; the twin without a Jacobian is Beta(8, 4)."""
    problem = zoo.load("coin_flip", n=10, heads=7, a=2.0, b=2.0).to(dtype=F64)
    # pi / 2: on a near-Gaussian target whole periods would bring HMC back to where it began.
    fit = fit_stock(problem, kernel, chains=4, warmup=300, draws=1500, length=1.5 if kernel == "hmc" else None)
    assert_close_mcmc(fit.draws["theta"], right.COIN["mean"], right.COIN["sd"])
    with pytest.raises(AssertionError):
        assert_close_mcmc(fit.draws["theta"], 8 / 12, (8 * 4 / (12**2 * 13)) ** 0.5)
