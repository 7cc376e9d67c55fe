"""map, laplace, svi and nuts against closed forms and quadrature, on models with one or two latents."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import zoo
from tests import right_answers as right
from tests.small_models import location, steep_line, two_weights
from tests.statistics import assert_close_iid, assert_close_mcmc

F64 = torch.float64
SVI = {"steps": 2000, "lr": 0.02, "particles": 4, "draws": 20_000}


def coin(n: int, heads: int, a: float = 1.0, b: float = 1.0) -> zoo.Problem:
    return zoo.load("coin_flip", n=n, heads=heads, a=a, b=b).to(dtype=F64)


def nuts(problem: zoo.Problem, chains: int = 16, draws: int = 500, **options):
    return zoo.run(problem, "nuts", chains=chains, draws=draws, warmup=300, engine="eager", **options)


def only(posterior, site: str) -> torch.Tensor:
    """Draws of a site, float64."""
    return posterior.draws[site].double()


def elbo(posterior) -> tuple[float, float]:
    """E_q[log p(y, theta) - log q] over the draws, and its standard error."""
    terms = (posterior.stats["lp"] - posterior.stats["logq"]).double()
    return float(terms.mean()), float(terms.std()) / terms.numel() ** 0.5


def assert_elbo(posterior, optimum: float, log_evidence: float) -> None:
    """Within .02 + 4 standard errors of the family's optimum, and not above the evidence by more than 4."""
    value, error = elbo(posterior)
    assert posterior.stats["lp"].numel() >= 20_000
    assert abs(value - optimum) <= 0.02 + 4 * error, f"ELBO {value:.5f} +- {error:.5f}, optimum {optimum:.5f}"
    assert value <= log_evidence + 4 * error + 1e-9


def assert_close_svi(draws: torch.Tensor, mean, sd) -> None:
    """Means within a tenth of a sd, sds within 5 %."""
    flat = draws.reshape(draws.shape[0] * draws.shape[1], -1)
    mean, sd = torch.as_tensor(mean, dtype=F64).reshape(-1), torch.as_tensor(sd, dtype=F64).reshape(-1)
    assert ((flat.mean(0) - mean).abs() <= 0.1 * sd).all(), (flat.mean(0), mean, sd)
    assert ((flat.std(0) / sd - 1).abs() <= 0.05).all(), (flat.std(0), sd)


# -- map ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "site", "answer", "tolerance"),
    [
        (lambda: coin(10, 7, 2.0, 2.0), "theta", right.COIN["map"], 1e-6),
        (lambda: coin(2, 2, 2.0, 2.0), "theta", right.TWO_HEADS_BETA22["map"], 1e-6),
        (lambda: location(right.LOCATION_Y, "normal", 1.0), "theta", right.LOCATION_NORMAL["mean"], 1e-6),
        (lambda: location(right.LOCATION_Y, "laplace", 0.5), "theta", right.LOCATION_LAPLACE["map"], 1e-6),
        (lambda: location(right.KINK_Y, "laplace", 0.25), "theta", right.KINK["map"], 1e-3),
    ],
    ids=["7 of 10", "two heads", "normal", "laplace", "at the kink"],
)
def test_map(problem, site, answer, tolerance) -> None:
    posterior = zoo.run(problem(), "map", seed=1)
    assert posterior.kind == "members"
    assert posterior.ok, posterior.outcome
    for restart in only(posterior, site).reshape(-1):
        assert float(restart) == pytest.approx(answer, abs=tolerance)
    assert "no Jacobian" in posterior.settings["space"]


def test_map_is_not_the_mode_of_the_logit() -> None:
    """Twin: with the Jacobian the coin's mode is sigmoid(.5878) = .6429, not 2/3."""
    with_jacobian = 1 / (1 + math.exp(-right.COIN["laplace_mode"]))
    assert abs(with_jacobian - right.COIN["map"]) > 0.02


@pytest.mark.parametrize(("n", "heads", "edge"), [(5, 0, 0.0), (2, 2, 1.0)])
def test_map_at_the_boundary_says_so(n, heads, edge) -> None:
    posterior = zoo.run(coin(n, heads), "map", seed=1)
    assert float(only(posterior, "theta").reshape(-1)[0]) == pytest.approx(edge, abs=1e-2)
    assert not posterior.ok
    assert "\n" not in posterior.outcome


def test_map_of_the_two_weight_network() -> None:
    posterior = zoo.run(two_weights(), "map", seed=1, restarts=8)
    w1, w2 = only(posterior, "w1").reshape(-1), only(posterior, "w2").reshape(-1)
    best = torch.as_tensor(posterior.settings["log_joint"]).argmax()
    assert float(max(posterior.settings["log_joint"])) == pytest.approx(right.TWO_WEIGHTS["map_log_joint"], rel=1e-6)
    sign = torch.sign(w1[best])
    assert float(sign * w1[best]) == pytest.approx(right.TWO_WEIGHTS["map"][0], rel=1e-5)
    assert float(sign * w2[best]) == pytest.approx(right.TWO_WEIGHTS["map"][1], rel=1e-5)


# -- laplace ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "log_evidence", "mean", "sd", "move"),
    [
        (
            lambda: coin(10, 7, 2.0, 2.0),
            right.COIN["laplace_log_evidence"],
            right.COIN["laplace_mode"],
            right.COIN["laplace_sd"],
            torch.logit,
        ),
        (
            lambda: location(right.LOCATION_Y, "normal", 1.0),
            right.LOCATION_NORMAL["log_evidence"],
            right.LOCATION_NORMAL["mean"],
            right.LOCATION_NORMAL["sd"],
            lambda u: u,
        ),
        # One observation at distance 10 with noise .5, closed form: the evidence is N(10; 0, 1.25).
        (
            lambda: location([10.0], "normal", 1.0, noise=0.5),
            -0.5 * math.log(2 * math.pi * 1.25) - 40.0,
            right.ONE_OBSERVATION["mean"],
            right.ONE_OBSERVATION["sd"],
            lambda u: u,
        ),
    ],
    ids=["coin, logit space", "location", "one observation"],
)
def test_laplace(problem, log_evidence, mean, sd, move) -> None:
    posterior = zoo.run(problem(), "laplace", draws=20_000, seed=2)
    assert posterior.ok, posterior.outcome
    assert posterior.settings["log_evidence"] == pytest.approx(log_evidence, rel=1e-6)
    assert_close_iid(move(only(posterior, "theta")), mean, sd)
    assert "acobian" in posterior.settings["space"]


def test_laplace_without_an_interior_mode_of_theta() -> None:
    """Beta(1, 1), no head in five: theta has no mode, logit(theta) has."""
    posterior = zoo.run(coin(5, 0), "laplace", draws=20_000, seed=2)
    u = only(posterior, "theta").logit()
    sd = (7 * 1 / 7 * 6 / 7) ** -0.5  # theta (1 - theta)^6 in the logit curves by 7 s (1 - s), s = 1/7
    assert_close_iid(u, right.COIN_NO_HEADS["laplace_mode"], sd)


def test_laplace_of_the_two_weight_network_is_one_mode() -> None:
    posterior = zoo.run(two_weights(), "laplace", draws=2000, seed=2)
    evidence = posterior.settings["log_evidence"]
    assert evidence == pytest.approx(right.TWO_WEIGHTS["laplace_one_mode"], rel=1e-6)
    assert evidence + math.log(2) == pytest.approx(right.TWO_WEIGHTS["laplace_two_modes"], rel=1e-6)


# -- svi ----------------------------------------------------------------------------------------------------


def test_svi_of_the_coin() -> None:
    """The mean .6667, sd .1307 of Beta(8, 4); a lost Jacobian gives .700, .137 (the twin)."""
    posterior = zoo.run(coin(10, 7), "svi", seed=3, **SVI)
    assert_close_svi(only(posterior, "theta"), right.COIN_UNIFORM["mean"], right.COIN_UNIFORM["sd"])
    with pytest.raises(AssertionError):
        assert_close_svi(only(posterior, "theta"), 0.700, 0.137)
    value, error = elbo(posterior)
    evidence = zoo.run(coin(10, 7), "exact", draws=1).exact.log_evidence
    assert evidence - 0.05 < value <= evidence + 4 * error


def test_svi_of_a_location_reaches_the_evidence() -> None:
    answer = right.LOCATION_NORMAL
    posterior = zoo.run(location(right.LOCATION_Y, "normal", 1.0), "svi", seed=3, **SVI)
    assert posterior.ok, posterior.outcome
    assert_close_svi(only(posterior, "theta"), answer["mean"], answer["sd"])
    assert_elbo(posterior, answer["log_evidence"], answer["log_evidence"])
    assert {"elbo", "expected_log_likelihood", "kl"} <= set(posterior.history)


def test_svi_of_the_line_is_the_mean_field_optimum() -> None:
    x = torch.linspace(0, 2, 25, dtype=F64)[:, None]
    data = zoo.Data(x, torch.tensor(right.LINE_Y, dtype=F64))
    problem = zoo.load("linear_regression", data=data, prior_scale=0.5**0.5, noise=0.2)
    posterior = zoo.run(problem, "svi", seed=3, **SVI)
    both = torch.cat([only(posterior, "b")[..., None], only(posterior, "w")], -1)
    assert_close_svi(both, right.LINE["mean"], right.LINE["mean_field_sd"])
    assert_elbo(posterior, right.LINE["mean_field_elbo"], right.LINE["log_evidence"])
    with pytest.raises(AssertionError):  # the exact sds are twice as large
        assert_close_svi(both, right.LINE["mean"], right.LINE["sd"])


@pytest.mark.slow
def test_svi_of_the_two_weight_network_is_over_confident() -> None:
    answer = right.TWO_WEIGHTS
    posterior = zoo.run(two_weights(), "svi", seed=3, restarts=2, **{**SVI, "draws": 20_000})
    best = int((posterior.stats["lp"] - posterior.stats["logq"]).mean(1).argmax())
    sign = torch.sign(only(posterior, "w1")[best].mean())
    both = sign * torch.stack([only(posterior, "w1"), only(posterior, "w2")], -1)[best : best + 1]
    assert_close_svi(both, answer["mean_field_mean"], answer["mean_field_sd"])
    terms = (posterior.stats["lp"] - posterior.stats["logq"])[best].double()
    error = float(terms.std()) / len(terms) ** 0.5
    assert float(terms.mean()) == pytest.approx(answer["mean_field_elbo"], abs=0.02 + 4 * error)
    f3 = posterior.predict(torch.tensor([[3.0]], dtype=F64))["f"][best].double()
    assert float(f3.std()) == pytest.approx(answer["mean_field_f3_sd"], rel=0.05)
    assert float(f3.std()) < 0.6 * answer["f_sd"][2]


def test_svi_point_sites_are_constant_and_left_out_of_diagnostics() -> None:
    """Thome: a point estimate for the biases, the chosen family for the rest."""
    posterior = zoo.run(
        zoo.load("bnn_regression", hidden=4, noise=0.3),
        "svi",
        seed=3,
        steps=300,
        draws=50,
        point=("b1", "b2"),
    )
    for name in ("b1", "b2"):
        draws = posterior.draws[name][0]
        assert torch.equal(draws, draws[:1].expand_as(draws))
    assert float(posterior.draws["w1"].std(1).min()) > 0
    table = str(zoo.compare(posterior, posterior))
    assert "nan" not in table.lower()
    assert torch.isfinite(posterior.stats["lp"]).all()


# -- nuts, eager and short ----------------------------------------------------------------------------------


def test_nuts_of_the_coin() -> None:
    posterior = nuts(coin(10, 7, 2.0, 2.0), draws=250, seed=4)
    assert posterior.kind == "markov"
    assert_close_mcmc(posterior.draws["theta"], right.COIN["mean"], right.COIN["sd"])
    with pytest.raises(AssertionError):  # twin: no Jacobian, Beta(8, 4) in place of Beta(9, 5)
        assert_close_mcmc(posterior.draws["theta"], 8 / 12, (8 * 4 / (12**2 * 13)) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "answer"),
    [
        (lambda: location(right.LOCATION_Y, "normal", 1.0), right.LOCATION_NORMAL),
        (lambda: location(right.LOCATION_Y, "laplace", 0.5), right.LOCATION_LAPLACE),
        (lambda: location(right.KINK_Y, "laplace", 0.25), right.KINK),
        (lambda: location([10.0], "normal", 1.0, noise=0.5), right.ONE_OBSERVATION),
    ],
    ids=["normal", "laplace", "kink", "one observation"],
)
def test_nuts_of_a_location(problem, answer) -> None:
    assert_close_mcmc(nuts(problem(), seed=4, draws=800).draws["theta"], answer["mean"], answer["sd"])


@pytest.mark.slow
def test_nuts_of_the_steep_line_with_two_chains() -> None:
    posterior = zoo.run(steep_line(), "nuts", chains=2, draws=4000, warmup=500, seed=5)
    w = posterior.draws["w"]
    assert_close_mcmc(w, right.STEEP_LINE["mean"], right.STEEP_LINE["sd"], se=6e-6)
    correlation = np.corrcoef(w.reshape(-1, 2).T.numpy())[0, 1]
    assert correlation == pytest.approx(right.STEEP_LINE["correlation"], abs=0.02)


@pytest.mark.slow
def test_nuts_of_the_two_weight_network() -> None:
    """Chains keep their sign, so what does not depend on it is judged."""
    answer = right.TWO_WEIGHTS
    # The ridge w1 w2 = const is thin where w2 is large: a small step reaches it.
    posterior = zoo.run(two_weights(), "nuts", chains=16, draws=3000, warmup=500, target_accept=0.99, seed=6)
    w = torch.stack([posterior.draws["w1"], posterior.draws["w2"]], -1)
    assert_close_mcmc(w.abs(), answer["abs_mean"], answer["abs_sd"])
    assert_close_mcmc(w.prod(-1), answer["product_mean"])
    at = torch.tensor([*answer["f_at"], 0.0], dtype=F64)[:, None]
    f = posterior.predict(at)["f"]
    assert_close_mcmc(f[..., :3], answer["f_mean"], answer["f_sd"])
    assert torch.equal(f[..., 3], torch.zeros_like(f[..., 3]))
    with pytest.raises(AssertionError):  # twin: the mean-field answer
        assert_close_mcmc(f[..., 2:3], answer["f_mean"][2:], [answer["mean_field_f3_sd"]])
