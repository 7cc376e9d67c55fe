"""Stochastic activations: what each objective makes of the activations' sd.

Right answers: a ~ N(mu, s^2), y ~ N(a, .25), y with variance 1: by the marginal likelihood s^2 = .75 is best, by the
slide's E_a log p(y | a) s^2 = 0. Quadrature for what is no Gaussian. Twin: the printed formula.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import Tensor

import zoo
from tests.right_answers import ACTIVATION_VARIANCE
from zoo.core.noisy_units import gaussian_output, mixture
from zoo.infer.prepared import prepare
from zoo.infer.variational import Variational

F64 = torch.float64
ONE = {"hidden": (), "units": 1, "noise": 0.5, "prior_scale": 100.0}


def targets(n: int = 200) -> Tensor:
    """y with mean 0 and variance 1, exactly."""
    y = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=F64)
    return (y - y.mean()) / y.std(unbiased=False)


def engine(objective: str, **more: Any) -> Variational:
    y = targets()
    problem = zoo.load("stochastic_activation", zoo.Data(y.new_zeros(len(y), 1), y), objective=objective, **ONE | more)
    assert problem.guide is not None
    return Variational(problem, [prepare(problem.guide(problem.model), problem, 0)])


def likelihood_at(fit: Variational, variance: float, draws: int = 1) -> float:
    """The objective a row, prior terms apart, at mu = 0, w_out = 1, s^2 = variance."""
    values = {name: torch.zeros(shape, dtype=F64) for name, shape in fit.layout.shapes.items()}
    values["b_s.point"] += 0.5 * math.log(variance)
    values["w_out.point"] += 1
    flat = torch.cat([values[name].reshape(-1) for name in fit.layout.shapes])
    noise = torch.randn(draws, fit.noise_size, generator=torch.Generator().manual_seed(1), dtype=F64)
    return float(fit.estimate(flat, noise).expected_log_likelihood.mean()) / 200


def expected(variance: float) -> float:
    """E_a log N(y; a, .25), mean over y of variance 1."""
    return -0.5 * math.log(2 * math.pi * 0.25) - (1 + variance) / (2 * 0.25)


def marginal(variance: float) -> float:
    """log N(y; 0, .25 + s^2), mean over y of variance 1."""
    return -0.5 * math.log(2 * math.pi * (0.25 + variance)) - 1 / (2 * (0.25 + variance))


def test_each_objective_is_its_formula_and_has_its_optimum() -> None:
    """The marginal's best s^2 is .75, the slide's is the smallest there is. Each is the other's twin."""
    closed, slide = engine("marginal"), engine("expected")
    for variance in (0.01, 0.3, ACTIVATION_VARIANCE, 2.0):
        assert likelihood_at(closed, variance) == pytest.approx(marginal(variance), abs=1e-10)
        found = likelihood_at(slide, variance, draws=2000)
        assert found == pytest.approx(expected(variance), abs=4 * 4 * math.sqrt((variance + variance**2) / 400_000))
        assert abs(found - marginal(variance)) > 0.02 or variance < 0.1
    best = optimize.minimize_scalar(lambda v: -likelihood_at(closed, v), bounds=(0.01, 3), method="bounded")
    assert float(best.x) == pytest.approx(ACTIVATION_VARIANCE, abs=1e-4)
    values = [expected(v) for v in np.linspace(0.001, 2, 20)]
    assert values == sorted(values, reverse=True)


def test_copies_lead_from_one_objective_to_the_other() -> None:
    """E log (1/K) sum p(y | a_k): K = 1 is the slide's, and it climbs to the marginal's."""
    found = {k: likelihood_at(engine("marginal", link="relu", copies=k), 0.5, draws=200) for k in (1, 5, 50)}
    relu = engine("expected", link="relu")
    assert found[1] == pytest.approx(likelihood_at(relu, 0.5, draws=200), abs=1e-9)
    assert found[1] < found[5] < found[50]
    # relu(a): by quadrature over a ~ N(0, .5)
    points, weights = np.polynomial.hermite_e.hermegauss(200)
    f = np.maximum(math.sqrt(0.5) * points, 0)
    y = targets().numpy()[:, None]
    each = np.exp(-0.5 * (y - f) ** 2 / 0.25) / math.sqrt(2 * math.pi * 0.25)
    right = float(np.log(each @ (weights / weights.sum())).mean())
    assert right - 0.05 < found[50] < right + 0.01


@pytest.mark.parametrize(("objective", "low", "high"), [("marginal", 0.72, 0.78), ("expected", 0.0, 0.02)])
def test_svi_ends_at_the_objectives_optimum(objective: str, low: float, high: float) -> None:
    y = targets().float()
    problem = zoo.load("stochastic_activation", zoo.Data(y.new_zeros(len(y), 1), y), objective=objective, **ONE)
    fit = zoo.run(problem, "svi", steps=600, lr=0.03, draws=2, engine="eager")
    w, s = fit.draws["w_out"][0, 0], fit.draws["b_s"][0, 0].exp()
    assert low < float((w.squeeze() * s.squeeze()) ** 2) < high
    kl = fit.history["kl"][0] if objective == "expected" else None
    assert kl is None or float(kl[-1]) == pytest.approx(float(zoo.bound(fit, draws=2)["weights"]), abs=0.1)


def test_the_slides_q_has_no_kl() -> None:
    fit = zoo.run(zoo.load("stochastic_activation", n=30), "svi", steps=5, draws=2, engine="eager")
    terms = zoo.bound(fit, draws=3)
    assert torch.equal(terms["kl"], torch.zeros_like(terms["kl"]))


def test_an_encoder_closes_the_gap() -> None:
    """q(a | x, y) of its own: the bound is above the slide's, and s stays."""
    y = targets().float()
    problem = zoo.load("stochastic_activation", zoo.Data(y.new_zeros(len(y), 1), y), **ONE)
    fit = zoo.run(problem, "svi", steps=600, lr=0.03, draws=2, engine="eager", guide_options={"q": "encoder"})
    terms = zoo.bound(fit, draws=200)
    found = float((terms["reconstruction"] - terms["kl"]).mean())
    assert marginal(ACTIVATION_VARIANCE) - 0.05 < found < marginal(ACTIVATION_VARIANCE) + 0.01
    assert found > expected(0.0) + 0.5
    assert float(zoo.log_marginal(fit, draws=200).mean()) == pytest.approx(marginal(ACTIVATION_VARIANCE), abs=0.02)


def test_mixtures_average_probabilities() -> None:
    """(1/K) sum_k p(y | f_k) for two classes, three, and measured y; Gaussian outputs by their moments."""
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(5, 7, generator=generator, dtype=F64)
    logit, fn = mixture(f, None, 2)
    torch.testing.assert_close(fn.probs, f.sigmoid().mean(1))
    torch.testing.assert_close(logit.sigmoid(), f.sigmoid().mean(1))
    scores = torch.randn(5, 7, 3, generator=generator, dtype=F64)
    torch.testing.assert_close(mixture(scores, None, 3)[1].probs, scores.softmax(-1).mean(1))
    y = torch.randn(5, generator=generator, dtype=F64)
    right = torch.distributions.Normal(f, 0.5).log_prob(y[:, None]).exp().mean(1).log()
    torch.testing.assert_close(mixture(f, 0.5, 0)[1].log_prob(y), right)
    mu, s = torch.randn(4, 2, generator=generator, dtype=F64), torch.rand(4, 2, generator=generator, dtype=F64)
    w, b = torch.tensor([[1.0], [-2.0]], dtype=F64), torch.tensor([0.5], dtype=F64)
    mean, variance = gaussian_output(mu, s, w, b)
    torch.testing.assert_close(mean, mu[:, 0] - 2 * mu[:, 1] + 0.5)
    torch.testing.assert_close(variance, s[:, 0] ** 2 + 4 * s[:, 1] ** 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "marginl"}, "marginal"),
        ({"units": 0}, "units"),
        ({"copies": 0, "objective": "marginal", "link": "relu"}, "copies"),
        ({"link": "rellu"}, "relu"),
        ({"noise": 0.0, "objective": "marginal"}, "noise"),
    ],
)
def test_bad_hyperparameters_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        zoo.run(zoo.load("stochastic_activation", n=10, **options), "svi", steps=1)
