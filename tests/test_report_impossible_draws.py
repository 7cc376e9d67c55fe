"""Draws that a posterior cannot have, or that weigh unequally: weights, k-hat, ESS, scores; infinite draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy.special import logsumexp
from torch import Tensor

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.core.diagnostics import constant, ess, kish, mcse_mean, rhat
from zoo.core.psis import psis
from zoo.infer.verdict import verdict
from zoo.report import density_ratio
from zoo.report.judged import judge
from zoo.report.loo import left_out_weights
from zoo.report.scores import headline

F64 = torch.float64


def uniform(x: Tensor, y: Tensor | None = None) -> None:
    """top ~ U(0, 4); y ~ U(0, top): top below the largest y is impossible."""
    top = pyro.sample("top", dist.Uniform(x.new_zeros(()), 4.0))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Uniform(x.new_zeros(()), top, validate_args=False), obs=y)


def uniform_fit(y: list[float], draws: int = 4000) -> zoo.Posterior:
    """q is the prior of `uniform`, at its quantiles: p / q is the likelihood, 0 where top < max y."""
    data = zoo.Data(torch.zeros(len(y), 1, dtype=F64), torch.tensor(y, dtype=F64))
    top = 4 * (torch.arange(draws, dtype=F64) + 0.5) / draws
    lp = torch.where(top > max(y), -len(y) * top.log() - math.log(4), -math.inf)
    stats = {"lp": lp[None], "logq": torch.full((1, draws), -math.log(4), dtype=F64)}
    return zoo.Posterior(zoo.Problem("uniform", uniform, data), "svi", "iid", {"top": top[None]}, stats=stats)


def without(y: list[float]) -> list[float]:
    """log p(y_i | the others), by quadrature over top."""
    top = 4 * (np.arange(400_000) + 0.5) / 400_000
    out = []
    for i, own in enumerate(y):
        others = [value for j, value in enumerate(y) if j != i]
        prior = np.where(top > max(others), top ** -float(len(others)), 0.0)
        out.append(math.log((prior * np.where(top > own, 1 / top, 0.0)).sum() / prior.sum()))
    return out


# -- weights of impossible draws ---------------------------------------------------------------------------


def test_one_impossible_draw_does_not_make_q_the_posterior() -> None:
    """k-hat of heavy ratios stays what it is without that draw; equal ratios have -inf, none that is finite NaN."""
    heavy = np.random.default_rng(0).pareto(1.2, 2000)
    ratio = np.log(heavy)
    right = density_ratio.khat(ratio)
    assert right > 0.7
    assert density_ratio.khat(np.append(ratio, -np.inf)) == pytest.approx(right, abs=0.02)
    assert density_ratio.khat(np.full(100, 3.0)) == -np.inf
    assert np.isnan(density_ratio.khat(np.full(100, -np.inf)))


def test_a_draw_of_weight_0_keeps_it_and_few_others_are_no_tail() -> None:
    ratio = np.full(200, -np.inf)
    ratio[:30] = np.random.default_rng(1).standard_normal(30)
    log_w, k_hat = psis(ratio)
    assert np.isneginf(log_w[30:]).all()
    assert np.isfinite(log_w[:30]).all()
    assert np.isfinite(k_hat)
    assert np.exp(log_w).sum() == pytest.approx(1)
    ratio[4:] = -np.inf
    log_w, k_hat = psis(ratio)
    assert np.isposinf(k_hat)
    assert log_w[:4] == pytest.approx(ratio[:4] - logsumexp(ratio[:4]))


def test_ratios_that_are_no_numbers_have_the_worst_k_hat() -> None:
    fine = np.random.default_rng(2).standard_normal(100)
    sets = np.array([fine, np.append(fine[:-1], np.nan), np.append(fine[:-1], np.inf), np.full(100, -np.inf)])
    log_w, k_hat = psis(sets)
    assert np.isfinite(k_hat[0])
    assert np.isposinf(k_hat[1:]).all()
    assert np.exp(log_w[0]).sum() == pytest.approx(1)
    assert np.isnan(log_w[1:]).any(axis=1).all()


def test_loo_with_impossible_draws_is_the_integral() -> None:
    """Draws of the prior, a quarter of them impossible: each row but the largest within 0.01 of quadrature."""
    y = [0.2, 0.9, 0.5, 0.8, 1.0]
    fit, right = uniform_fit(y), without(y)
    found = zoo.loo(fit)
    assert found.rows[:4] == pytest.approx(right[:4], abs=0.01)
    assert np.isfinite(found.elpd)
    assert np.isfinite(found.mcse)
    weights = left_out_weights(fit, np.array([0, 3]))
    impossible = fit.draws["top"][0].numpy() < 1.0
    assert (weights[:, impossible] == 0).all()
    assert weights.sum(1) == pytest.approx(1)
    # The twin: the same draws with equal weights are of the prior, far from it.
    equal = logsumexp(np.where(impossible, -np.inf, -np.log(fit.draws["top"][0].numpy()))) - math.log(4000)
    assert abs(equal - right[0]) > 0.1


def test_a_draw_of_weight_that_cannot_give_a_row_is_refused() -> None:
    fit = uniform_fit([0.2, 0.9, 0.5])
    sampled = dataclasses.replace(fit, method="exact")
    refused(lambda: zoo.loo(sampled), "got 900 of 4000", "Run exact or nuts")
    refused(lambda: left_out_weights(sampled, np.array([1])), "got 900 of 4000")


# -- weighted draws ------------------------------------------------------------------------------------------


def test_weighted_draws_have_the_effective_size_of_their_weights() -> None:
    """Every second draw of weight 0: half the size; `judge` and the verdict say so, R-hat stays."""
    fit = cases.line_fit(shape=(4, 500))
    weights = torch.zeros(4, 500, dtype=F64)
    weights[:, ::2] = 1.0
    assert kish(weights.numpy()) == 0.5
    assert kish(np.full((2, 3), 7.0)) == pytest.approx(1)
    plain, weighted = (judge("nuts", each).row for each in (fit, dataclasses.replace(fit, weights=weights)))
    assert weighted["min_ess"] == pytest.approx(plain["min_ess"] / 2)
    assert weighted["rhat_f"] == plain["rhat_f"]
    few = torch.full((4, 500), 1e-9, dtype=F64)
    few[:, :50] = 1.0
    assert verdict(fit) == []
    lines = verdict(dataclasses.replace(fit, weights=few))
    assert any("ESS of" in line and "limit 400" in line for line in lines)
    assert not any("R-hat" in line for line in lines)


def test_the_marginal_likelihood_of_weighted_draws_counts_the_weights() -> None:
    """Weights 3 and 1 are three draws and one; the twin without weights differs."""
    once = cases.line_fit(shape=(2, 50))
    both = {n: v.repeat_interleave(torch.tensor([3, 1]).repeat(25), dim=1) for n, v in once.draws.items()}
    repeated = dataclasses.replace(once, draws=both, stats={})
    weighted = dataclasses.replace(once, weights=torch.tensor([0.3, 0.1], dtype=F64).repeat(2, 25), stats={})
    right = zoo.log_marginal(repeated)
    assert right.shape == (2, 12)
    torch.testing.assert_close(zoo.log_marginal(weighted), right, rtol=0, atol=1e-6)
    assert (zoo.log_marginal(once) - right).abs().max() > 1e-3


# -- one-hot targets -------------------------------------------------------------------------------------------


def one_hot(x: Tensor, y: Tensor | None = None) -> Tensor:
    """w ~ N(0, 1) (d, 3); y ~ OneHotCategorical(x w)."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(x.shape[1], 3), 1.0).to_event(2))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.OneHotCategorical(logits=f), obs=y)
    return f


def test_accuracy_of_one_hot_targets_is_that_of_the_classes() -> None:
    """Two of four rows right: .5, where entry by entry 8 of 12 are."""
    x, label = torch.eye(4, dtype=F64), torch.tensor([0, 1, 2, 0])
    w = 4 * torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 1]), 3).to(F64)
    data = zoo.Data(x, torch.nn.functional.one_hot(label, 3).to(F64))
    fit = zoo.Posterior(zoo.Problem("one hot", one_hot, data), "exact", "iid", {"w": w.expand(1, 5, 4, 3)})
    assert headline(fit, fit.predict())["accuracy"] == 0.5 == zoo.scores(fit)["accuracy"]


# -- infinite draws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_infinite_draw_is_no_constant(bad: float) -> None:
    """Nothing is known of a quantity with a draw that is not finite; its neighbours are judged as before."""
    draws = np.random.default_rng(0).standard_normal((4, 100, 3))
    draws[:, :, 2] = 5.0
    right = [rhat(draws), *(ess(draws, kind) for kind in ("bulk", "tail", "mean", "sd")), mcse_mean(draws)]
    draws[1, 7, 0] = bad
    assert constant(draws).tolist() == [False, False, True]
    found = [rhat(draws), *(ess(draws, kind) for kind in ("bulk", "tail", "mean", "sd")), mcse_mean(draws)]
    for before, now in zip(right, found, strict=True):
        assert np.isnan(now[0])
        assert now[1:].tolist() == before[1:].tolist()
    assert not constant(np.full((2, 5), bad))
