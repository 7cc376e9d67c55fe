"""MAP with a Normal prior is ridge regression, L2 logistic regression, and weight decay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

import zoo
from zoo.infer.density import density

F64 = torch.float64


def _table(rows: int = 40, columns: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(rows, columns, generator=generator, dtype=F64)
    noise = torch.randn(rows, generator=generator, dtype=F64)
    return x, x @ torch.tensor([1.0, -0.5, 0.2], dtype=F64) + noise


def test_map_is_ridge() -> None:
    x, y = _table()
    problem = zoo.load("linear_regression", data=zoo.Data(x, y), bias=False, noise=0.6, prior_scale=0.5)
    found = zoo.run(problem, "map", seed=0).draws["w"][0, 0].numpy()
    ridge = Ridge(alpha=0.6**2 / 0.5**2, fit_intercept=False).fit(x.numpy(), y.numpy())
    assert found == pytest.approx(ridge.coef_, abs=1e-7)
    twin = Ridge(alpha=2 * 0.6**2 / 0.5**2, fit_intercept=False).fit(x.numpy(), y.numpy())  # N ~ exp(-w^2/s^2)
    assert np.abs(found - twin.coef_).max() > 1e-3


def test_map_is_sklearns_l2_logistic_regression() -> None:
    x, y = _table()
    labels = (y > 0).to(F64)
    problem = zoo.load("logistic_regression", data=zoo.Data(x, labels), bias=False, prior_scale=2.0)
    found = zoo.run(problem, "map", seed=0).draws["w"][0, 0].numpy()
    fit = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x.numpy(), labels.numpy())
    assert found == pytest.approx(fit.coef_[0], abs=1e-5)
    twin = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12).fit(x.numpy(), labels.numpy())
    assert np.abs(found - twin.coef_[0]).max() > 1e-2


def test_gradient_descent_on_the_log_joint_is_sgd_with_weight_decay() -> None:
    """W <- (1 - eta / lambda) W - eta grad L, lambda the prior's variance, noise 1."""
    x, y = _table()
    prior_variance, eta, steps = 0.25, 1e-3, 200
    problem = zoo.load("linear_regression", data=zoo.Data(x, y), bias=False, noise=1.0, prior_scale=0.5)
    target = density(problem)
    start = torch.tensor([[0.5, 0.5, -1.0]], dtype=F64)
    ours = start.clone()
    for _ in range(steps):
        ours = ours + eta * target.value_and_grad(ours)[1]
    theirs = _sgd(x, y, start[0], eta, 1 / prior_variance, steps)
    torch.testing.assert_close(ours[0], theirs, rtol=0, atol=1e-12)
    # Twin: the slide's grad L - W / lambda, whose decay has the wrong sign.
    assert (ours[0] - _sgd(x, y, start[0], eta, -1 / prior_variance, steps)).abs().max() > 0.05


def _sgd(x, y, start, eta, decay, steps):
    w = start.clone().requires_grad_(True)
    optimiser = torch.optim.SGD([w], lr=eta, weight_decay=max(decay, 0.0))
    for _ in range(steps):
        optimiser.zero_grad()
        loss = 0.5 * (y - x @ w).square().sum()
        if decay < 0:  # torch refuses a negative weight_decay: the twin writes it into the loss
            loss = loss + 0.5 * decay * w.square().sum()
        loss.backward()
        optimiser.step()
    return w.detach()


def test_a_product_of_likelihoods_underflows_where_the_sum_of_logs_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(2000, generator=generator, dtype=F64)
    problem = zoo.load("linear_regression", data=zoo.Data(torch.ones(2000, 1, dtype=F64), y), bias=False, noise=1.0)
    log_joint = density(problem).log_prob(torch.zeros(1, 1, dtype=F64))
    log_likelihood = torch.distributions.Normal(torch.zeros((), dtype=F64), 1.0).log_prob(y)
    assert float(log_likelihood.exp().prod()) == 0.0
    assert torch.isfinite(log_joint).all()
