"""Options of the guides of weight matrices: what is none of them is said in one line, at once; edges that are one."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from torch.distributions.transforms import AffineTransform

import zoo
from guides.bernoulli_dropout import bernoulli_dropout
from guides.concrete_dropout import concrete_dropout
from guides.full_rank import full_rank
from guides.gaussian_dropout import gaussian_dropout
from guides.low_rank import low_rank
from guides.mixture import mixture
from guides.multiplicative import multiplicative
from guides.normal import normal
from tests.refusals import refused
from tests.test_dropout import START, net, problem, started
from tests.test_dropout_families import BIAS, SQUARES, kls, prior_only
from tests.test_guides import variational
from zoo.core.rates import drop_rates

NO_SIZES = [0, -1.0, math.nan, math.inf, True, "a", None, [0.1, 0.2], torch.tensor([0.1, 0.2])]
OVER_MATRICES = [bernoulli_dropout, gaussian_dropout, mixture, concrete_dropout, multiplicative]


@pytest.mark.parametrize("size", NO_SIZES, ids=str)
def test_a_size_is_a_positive_number(size) -> None:
    refused(lambda: mixture(net, scale=size), "scale must be positive and finite, got", "bernoulli_dropout")
    refused(lambda: concrete_dropout(net, temperature=size), "temperature must be positive and finite, got")
    for family in (*OVER_MATRICES, normal, full_rank, low_rank):
        refused(lambda family=family: family(net, init_scale=size), "init_scale must be positive and finite", "0.1")


@pytest.mark.parametrize("family", OVER_MATRICES)
def test_sizes_of_other_kinds_and_functions_are_taken(family) -> None:
    q = variational(problem(), family, bias="normal", init_scale=torch.tensor(0.1), init=None)
    assert "b1.scale" in q.layout.shapes
    for init in ("median", 3, torch.zeros(2)):
        refused(lambda init=init: family(net, init=init), "function site -> value", "init_to_median")


@pytest.mark.parametrize("family", [*OVER_MATRICES, normal, full_rank, low_rank])
def test_one_name_is_a_list_of_one(family) -> None:
    """Twin: its letters as names of sites."""
    one, listed = (variational(problem(), family, point=point) for point in ("b1", ("b1",)))
    assert one.points == listed.points == ("b1",)
    assert one.layout.shapes == listed.layout.shapes
    refused(lambda: variational(problem(), family, point=tuple("b1")), "point must name latent sites", r"\['b', '1'\]")
    for wrong in (1, None, [1]):
        refused(lambda wrong=wrong: family(net, point=wrong), "point must be names of latent sites", "got")


def test_sites_are_names() -> None:
    assert variational(problem(), "bernoulli_dropout", sites="w1").points == ("b1", "w2")
    for wrong in (1, [1], {"w1": 0.1, 2: 0.2}):
        refused(lambda wrong=wrong: bernoulli_dropout(net, sites=wrong), "sites must be names of latent sites")


def test_what_a_family_says_of_its_options_is_said_as_it_is() -> None:
    """Not that it is no factory, which is said of a function that is none."""

    def run(guide, **options):
        return zoo.run(problem(), "svi", guide=guide, guide_options=options, steps=1)

    refused(lambda: run("multiplicative", noise=0.5), "^noise must be a Pyro distribution, got float", error=TypeError)
    refused(lambda: run(lambda x, y: None), "must be a factory model -> guide", error=TypeError)
    refused(lambda: run(lambda model: len(model)), "must be a factory model -> guide", error=TypeError)


@pytest.mark.parametrize("p", [torch.tensor(0.1), torch.tensor([0.1, 0.2])], ids=str)
def test_rates_of_a_model_are_pythons_numbers(p) -> None:
    refused(lambda: drop_rates(p, "all", 2), "a number or a list of them, got Tensor", r"p\.tolist\(\)")
    assert drop_rates(p.double().numpy().tolist(), "all", 2) == pytest.approx(2 * [0.1] if p.dim() == 0 else [0.1, 0.2])


# -- edges of the noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "rate"), [(0.0, 0.2), (1e-15, 0.2), (0.7, 1e-300)])
def test_weight_noise_of_a_tiny_sd_has_a_finite_kl(m, rate) -> None:
    """float32: 1/2 [m^2 - 1 - log sd^2], sd the noise's, at least 1e-19. Twin: an sd of 1e-38, whose square is 0."""
    q = prior_only(gaussian_dropout, [[m]], rate=rate)
    single = q.problem.to(dtype=torch.float32)
    q = variational(single, gaussian_dropout, rate=rate, init=lambda site: torch.full((1, 1), m))
    sd = max((rate / (1 - rate)) ** 0.5 * m, torch.finfo(torch.float32).tiny ** 0.5)
    assert float(kls(q, 1)[0]) == pytest.approx((m**2 + sd**2 - 1 - 2 * math.log(sd)) / 2, rel=1e-5)
    twin = torch.distributions.kl_divergence(dist.Normal(torch.tensor(m), 1.2e-38), dist.Normal(0.0, 1.0))
    assert not torch.isfinite(twin)


STILL = dist.TransformedDistribution(dist.Bernoulli(torch.tensor(1.0)), [AffineTransform(0.0, 1.0)])


@pytest.mark.parametrize("noise", [STILL, dist.Delta(torch.tensor(1.0))], ids=["dropout", "delta"])
@pytest.mark.parametrize("on", ["units", "weights", "connections"])
def test_noise_that_never_moves_is_a_point(noise, on) -> None:
    """As p = 0 of dropout. Twin: noise that does move names the bias alone."""
    q = variational(problem(), multiplicative, noise=noise, on=on, init=started())
    assert set(q.points) == {"w1", "b1", "w2"}
    torch.testing.assert_close(kls(q, 1), torch.full((1,), SQUARES + BIAS, dtype=torch.float64))
    assert variational(problem(), multiplicative, noise=dist.Normal(1.0, 0.1), on=on, init=started()).points == ("b1",)


@pytest.mark.parametrize(
    "noise",
    [
        dist.Gamma(torch.tensor(4.0, dtype=torch.float64), torch.tensor(4.0, dtype=torch.float64)),
        dist.MixtureSameFamily(
            dist.Categorical(torch.tensor([0.5, 0.5])), dist.Normal(torch.tensor([0.5, 1.5]), torch.tensor(0.1))
        ),
    ],
    ids=["gamma, float64", "two hills"],
)
def test_noise_of_another_dtype_or_without_rsample_runs(noise) -> None:
    """Its law is given, so the gradient along M needs none along the noise: E z^2 |M|^2 / (2 s^2), in float32."""
    single = problem().to(dtype=torch.float32)
    options = {"noise": noise, "init": started({n: v.float() for n, v in START.items()})}
    fitted = zoo.run(single, "svi", guide=multiplicative, guide_options=options, steps=2, lr=1e-9, draws=20)
    assert fitted.settings["engine"] == "loop"
    assert fitted.draws["w1"].dtype == torch.float32
    right = float(noise.variance + noise.mean**2) * SQUARES + BIAS
    assert float(fitted.history["kl"][0, 0]) == pytest.approx(right, rel=1e-5)
    assert abs(right - SQUARES - BIAS) > 0.1
