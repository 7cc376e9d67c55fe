"""MAP beside scikit-learn and scipy: multinomial L2, L1 with its zeros, weights >= 0 that combine predictors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.linear_model import Lasso, LogisticRegression

import zoo
from zoo.infer.corners import settle
from zoo.infer.lbfgs import Descent, lbfgs

F64 = torch.float64


def table(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=F64)


def best(problem: zoo.Problem, site: str = "w") -> np.ndarray:
    fit = zoo.run(problem, "map", seed=0)
    return fit.draws[site][fit.settings["best"], 0].numpy()


def test_softmax_map_is_the_multinomial_of_scikit_learn():
    """C = prior variance; half of it, the prior exp(-w^2 / s^2), is another answer."""
    x = table(60, 4)
    y = (x @ table(4, 3, seed=1) + table(60, 3, seed=2)).argmax(1)
    w = best(zoo.load("softmax_regression", zoo.Data(x, y), bias=False, prior_scale=2.0))
    theirs, twin = (
        LogisticRegression(C=c, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x.numpy(), y.numpy()).coef_.T
        for c in (4.0, 2.0)
    )
    assert w == pytest.approx(theirs, abs=1e-5)
    assert np.abs(w - twin).max() > 1e-2


def test_a_laplace_prior_is_l1_logistic_regression():
    """C = b, zeros at the same weights; a Normal prior shrinks and leaves none at 0."""
    x = table(80, 8)
    y = (x[:, 0] - 0.7 * x[:, 1] + 0.5 * table(80, 1, seed=1)[:, 0] > 0).long()
    data = zoo.Data(x, y)
    w = best(zoo.load("logistic_regression", data, bias=False, prior="laplace", prior_scale=0.1))
    fit = LogisticRegression(C=0.1, l1_ratio=1.0, solver="saga", fit_intercept=False, tol=1e-10, max_iter=100_000)
    theirs = fit.fit(x.numpy(), y.numpy()).coef_[0]
    assert w == pytest.approx(theirs, abs=1e-3)
    assert (theirs == 0).sum() >= 3
    assert np.abs(w[theirs == 0]).max() < 1e-3
    normal = best(zoo.load("logistic_regression", data, bias=False, prior_scale=0.1))
    assert np.abs(normal).min() > 1e-3


@pytest.mark.slow
def test_a_laplace_prior_on_inputs_that_go_together_has_the_same_zeros(monkeypatch):
    """Breast cancer: 19 of its 31 weights are 0, exactly; the twin, a descent by gradients alone, stalls before.

    Its inputs are correlated up to .998, so that single weights are worth little: compared is the log joint, too.
    """
    problem = zoo.load("logistic_regression", data="breast_cancer", prior="laplace")
    x = np.c_[problem.data.x.double().numpy(), np.ones(len(problem.data.x))]
    y = problem.data.y.double().numpy()
    fit = LogisticRegression(C=1.0, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-12, max_iter=100_000)
    theirs = fit.fit(x, y).coef_[0]

    def height(w: np.ndarray) -> float:
        return float((y * (x @ w) - np.logaddexp(0, x @ w)).sum() - np.abs(w).sum())

    def ours() -> np.ndarray:
        found = zoo.run(problem, "map", restarts=1)
        return np.r_[found.draws["w"][0, 0].double().numpy(), found.draws["b"][0].double().numpy()]

    w = ours()
    assert height(w) == pytest.approx(height(theirs), abs=1e-6)
    assert ((w == 0) == (theirs == 0)).all()
    assert (w == 0).sum() == 19
    monkeypatch.setattr("zoo.infer.modes.settle", lambda function, slopes, ended, *rest: ended)
    twin = ours()
    assert height(twin) < height(theirs) - 1e-2
    assert not (twin == 0).any()


def test_a_corner_held_in_vain_is_let_go():
    """f = (x - 3)^2 / 2 + |x| + |z| + (z - x)^2 + |v| + (v - .4)^2: minimum (1, .5, 0).

    From 0 z is a corner, until x has moved to 2 / 3: its slopes there are then -4 / 3 +- 1. v stays. The twin holds z.
    """

    def function(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, z, v = at.unbind(-1)
        value = (x - 3) ** 2 / 2 + (z - x) ** 2 + (v - 0.4) ** 2 + at.abs().sum(-1)
        return value, torch.stack([x - 3 - 2 * (z - x), 2 * (z - x), 2 * (v - 0.4)], -1) + at.sign()

    start = torch.zeros(1, 3, dtype=F64)
    ended = Descent(start, *function(start), torch.tensor([True]), 0)
    found = settle(function, lambda at: function(at)[1], ended, torch.tensor([True]), lbfgs)
    assert found.x[0].tolist() == pytest.approx([1.0, 0.5, 0.0], abs=1e-6)
    assert found.x[0, 2] == 0
    held = torch.tensor([[False, True, True]])
    twin = lbfgs(lambda at: (function(at)[0], function(at)[1].masked_fill(held, 0.0)), start)
    assert float(twin.f) > float(found.f) + 0.05


def test_a_laplace_prior_is_the_lasso_in_the_zoos_own_model():
    x = table(40, 8)
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * table(40, 1, seed=1)[:, 0]
    w = best(zoo.load("linear_regression", zoo.Data(x, y), bias=False, noise=0.5, prior="laplace", alpha=100.0))
    theirs = Lasso(alpha=0.25 / 0.1 / 40, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y).coef_
    assert (theirs == 0).sum() >= 2
    assert w == pytest.approx(theirs, abs=1e-3)


def test_an_exponential_prior_combines_five_predictors():
    """Weights >= 0: w = argmin |y - P w|^2 / (2 s^2) + sum w / scale, w >= 0, by scipy's nnls; useless ones get 0."""
    x = torch.linspace(-2, 2, 60, dtype=F64)
    predictors = torch.stack([x.sin(), x, x.cos() - 0.5, -x, x**2 / 4 - 0.3], 1)
    y = 0.8 * x.sin() + 0.6 * x + 0.1 * table(60, 1)[:, 0]
    hyper = {"bias": False, "noise": 0.1, "prior": "exponential", "prior_scale": 0.2}
    w = best(zoo.load("linear_regression", zoo.Data(predictors, y), **hyper))
    p, target = predictors.numpy(), y.numpy()
    root = np.linalg.cholesky(p.T @ p / 0.1**2 + 1e-12 * np.eye(5))
    right, _ = optimize.nnls(root.T, np.linalg.solve(root, p.T @ target / 0.1**2 - 1 / 0.2))
    assert w == pytest.approx(right, abs=1e-4)
    assert (right == 0).sum() >= 2
    assert (w >= 0).all()
    twin = best(zoo.load("linear_regression", zoo.Data(predictors, y), bias=False, noise=0.1, prior_scale=0.2))
    assert twin.min() < -0.05  # a Normal prior lets a predictor count negatively
