"""`heteroscedastic_regression`: formula, the grouped Gaussian, aleatoric and epistemic variance apart, units."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats

import zoo
from tests.refusals import refused
from zoo.core.trial import log_joint
from zoo.data import toy

F64 = torch.float64
MEANS, NOISES = torch.tensor([1.0, -2.0, 4.0], dtype=F64), torch.tensor([0.3, 1.0, 2.0], dtype=F64)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def groups(each: int, seed: int = 0) -> zoo.Data:
    """Three groups of their own mean and noise, x one-hot."""
    which = torch.arange(3).repeat(each)
    return zoo.Data(torch.eye(3, dtype=F64)[which], MEANS[which] + NOISES[which] * normal(3 * each, seed=seed))


def moments(data: zoo.Data) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and sd (divided by n_g) of each group."""
    each = data.y.reshape(-1, 3)
    return each.mean(0), each.std(0, correction=0)


EYE = torch.eye(3, dtype=F64)


# -- the formula -------------------------------------------------------------------------------------------


def test_the_density_is_the_formula() -> None:
    """Twin: exp in softplus' place."""
    x, y = normal(8, 3), normal(8, seed=1)
    w1, b1, w2, b2 = normal(3, 4, seed=2), normal(4, seed=3), normal(4, 2, seed=4), normal(2, seed=5)
    heads = (x @ w1 + b1).tanh() @ w2 + b2
    f, a = heads[:, 0], heads[:, 1]

    def right(noise: torch.Tensor) -> float:
        log_p = stats.norm.logpdf(y, f, noise).sum()
        for w, scale in ((w1, 2 / 3**0.5), (w2, 2 / 4**0.5), (b1, 2.0), (b2, 2.0)):
            log_p += stats.norm.logpdf(w, scale=scale).sum()
        return float(log_p)

    problem = zoo.load("heteroscedastic_regression", zoo.Data(x, y), hidden=4, prior_scale=2.0, least_noise=0.01)
    found = float(log_joint(problem, {"w1": w1, "b1": b1, "w2": w2, "b2": b2}))
    assert found == pytest.approx(right(0.01 + (1 + a.exp()).log()), rel=1e-10)
    assert abs(found - right(0.01 + a.exp())) > 0.1


def test_the_noise_is_positive_and_finite_far_out() -> None:
    """a = -1e4, 0, 1e4, where exp(a) is 0 or infinite in float32."""
    data = zoo.Data(torch.tensor([[-1e4], [0.0], [1e4]]), torch.zeros(3))
    problem = zoo.load("heteroscedastic_regression", data, hidden=())
    fit = zoo.run(problem, "prior", draws=1, chains=1)
    head = {"w1": torch.tensor([[[[0.0, 1.0]]]]), "b1": torch.zeros(1, 1, 2)}
    noise = dataclasses.replace(fit, draws=head).predict()["noise"][0, 0]
    assert noise.tolist() == pytest.approx([1e-3, 1e-3 + math.log(2), 1e4], rel=1e-6)
    assert torch.isfinite(dataclasses.replace(fit, draws=head).log_likelihood()).all()


def test_options_out_of_range_are_refused() -> None:
    for options in ({"least_noise": 0.0}, {"outputs": 0}, {"hidden": -1}, {"scaling": "fan"}, {"activation": "tan"}):
        refused(lambda options=options: zoo.run(zoo.load("heteroscedastic_regression", **options), "prior", draws=2))


def test_the_toy_data_have_the_noise_they_say() -> None:
    """Residuals over noise_at(x) are standard normal, Kolmogorov-Smirnov, alpha 1e-4; over a constant they are not."""
    data = toy.noisier_to_the_right(seed=1, n=4000)
    residual = data.y - (data.x.sin() + data.x)[:, 0]
    assert stats.kstest(residual / toy.noise_at(data.x), "norm").pvalue > 1e-4
    assert stats.kstest(residual / residual.std(), "norm").pvalue < 1e-4


# -- the grouped Gaussian ----------------------------------------------------------------------------------


def test_map_reaches_the_grouped_gaussian() -> None:
    """log likelihood -sum_g n_g / 2 (log(2 pi s_g^2) + 1), f the means, noise the s_g; twin: one noise for all."""
    data = groups(20)
    mean, sd = moments(data)
    best = float(-(20 / 2 * ((2 * math.pi * sd**2).log() + 1)).sum())
    fit = zoo.run(zoo.load("heteroscedastic_regression", data, hidden=(), prior_scale=1e3), "map")
    assert fit.ok, fit.outcome
    assert float(fit.log_likelihood().sum(-1).max()) == pytest.approx(best, abs=1e-3)
    found = fit.predict(EYE)
    torch.testing.assert_close(found["f"][0, 0], mean, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found["noise"][0, 0], sd, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found["mean"], found["f"])
    torch.testing.assert_close(found["var"], found["noise"] ** 2)
    twin = zoo.run(zoo.load("bnn_regression", data, hidden=(), prior_scale=1e3), "map")
    assert float(twin.log_likelihood().sum(-1).max()) < best - 20


METHODS = {
    "laplace": {},
    "svi": {"guide": "full_rank", "steps": 4000, "lr": 0.05, "engine": "eager"},
    "nuts": {"draws": 250, "warmup": 250, "engine": "eager"},
    "chees": {"draws": 100, "warmup": 250, "engine": "eager"},
}
slow = pytest.mark.slow


@pytest.mark.parametrize("method", ["laplace", pytest.param("svi", marks=slow), pytest.param("nuts", marks=slow),
                                    pytest.param("chees", marks=slow)])  # fmt: skip
def test_every_method_finds_both_parts(method: str) -> None:
    """300 rows a group: aleatoric s_g^2 and epistemic s_g^2 / n_g, within 6 and 35 %.

    The posterior mean of noise^2 lies 1 / 300 of s_g^2 off; the rest is the error of the draws. Its twin is below.
    The first group has no column, the biases are its: with one for each, weights and biases would be tied together.
    """
    data = groups(300)
    _, sd = moments(data)
    problem = zoo.load("heteroscedastic_regression", zoo.Data(data.x[:, 1:], data.y), hidden=(), prior_scale=5.0)
    fit = zoo.run(problem, method, seed=0, **METHODS[method])
    found = zoo.uncertainty(fit, EYE[:, 1:])
    np.testing.assert_allclose(found.aleatoric, sd**2, rtol=0.06)
    np.testing.assert_allclose(found.epistemic, sd**2 / 300, rtol=0.35)


def test_one_noise_for_all_fails_to_see_it() -> None:
    """The homoscedastic twin: one aleatoric variance, though the groups' sds differ more than five-fold."""
    data = groups(300)
    twin = zoo.uncertainty(zoo.run(zoo.load("bnn_regression", data, hidden=(), prior_scale=5.0), "laplace"), EYE)
    assert twin.aleatoric.max() < 1.01 * twin.aleatoric.min()
    _, sd = moments(data)
    assert float(sd.max() / sd.min()) > 5


def test_more_data_shrinks_the_epistemic_part_only() -> None:
    """16 times the rows: epistemic falls 16-fold, within the scatter of the groups' sds; aleatoric stays."""
    few, many = (
        zoo.uncertainty(
            zoo.run(zoo.load("heteroscedastic_regression", groups(n), hidden=(), prior_scale=5.0), "laplace"), EYE
        )
        for n in (50, 800)
    )
    assert ((few.epistemic / many.epistemic > 8) & (few.epistemic / many.epistemic < 32)).all()
    np.testing.assert_allclose(few.aleatoric, many.aleatoric, rtol=0.5)
    np.testing.assert_allclose(many.aleatoric, NOISES**2, rtol=0.2)


# -- units -------------------------------------------------------------------------------------------------


def test_predictions_are_in_original_units_and_noise_in_the_models() -> None:
    """y = 100 + 50 z: mean and var are those of y, `noise` that of z; map of z itself is the right answer."""
    data = groups(20)
    told = dataclasses.replace(data, info={"y_loc": 100.0, "y_scale": 50.0})
    plain, fit = (zoo.run(zoo.load("heteroscedastic_regression", d, hidden=()), "map") for d in (data, told))
    z, y = plain.predict(EYE), fit.predict(EYE)
    torch.testing.assert_close(y["noise"], z["noise"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(y["mean"], 100 + 50 * z["mean"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y["f"], 100 + 50 * z["f"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y["var"], (50 * z["noise"]) ** 2, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(zoo.uncertainty(fit, EYE).aleatoric, y["var"][0].mean(0), rtol=1e-6)


def test_a_table_and_several_targets() -> None:
    fit = zoo.run(zoo.load("heteroscedastic_regression", "diabetes", hidden=2), "prior", draws=5)
    assert fit.predict()["noise"].shape == fit.predict()["mean"].shape
    two = zoo.Data(normal(6, 2), normal(6, 3, seed=1))
    problem = zoo.load("heteroscedastic_regression", two, hidden=3, outputs=3)
    fit = zoo.run(problem, "prior", draws=5, chains=1)
    assert fit.predict()["noise"].shape == fit.predict()["f"].shape == (1, 5, 6, 3)
    assert zoo.uncertainty(fit).aleatoric.shape == (6, 3)
