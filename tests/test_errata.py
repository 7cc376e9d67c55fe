"""The slides' misprints (docs/errata.md): the printed formula fails where the right one, and the zoo, pass.

Most use the smallest logistic regression, x = -1, 1, y = 0, 1, w ~ N(0, 1), or a location with known noise.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, special

import zoo
from tests import right_answers as right
from tests.statistics import quadrature
from zoo.core.conjugate import linear_gaussian
from zoo.core.handlers import LogProb, Values, pyro_state
from zoo.core.priors import weights
from zoo.core.trial import log_joint, run

ROOT = Path(__file__).parents[1]
F64 = torch.float64
SIGNS = torch.tensor([[-1.0], [1.0]], dtype=F64)
LABELS = torch.tensor([0.0, 1.0], dtype=F64)
# Quadrature and Newton's method, x = -1, 1, y = 0, 1, w ~ N(0, 1), no bias.
TWO_POINTS = {
    "log_evidence": -1.2262898683,
    "map": 0.6748316143,
    "laplace_sd": 0.8312770916,
    "p_at_2": 0.7204790512,
}


@pytest.fixture(scope="module")
def two_points() -> zoo.Problem:
    return zoo.load("logistic_regression", zoo.Data(SIGNS, LABELS), bias=False)


def joint(problem: zoo.Problem, w: np.ndarray) -> np.ndarray:
    """The zoo's log joint at points (m, 1)."""
    with pyro_state(validate=False):
        return np.array([float(log_joint(problem, {"w": torch.tensor(v)})) for v in w])


def log_prior(w: np.ndarray) -> np.ndarray:
    return -(w[:, 0] ** 2) / 2 - np.log(2 * np.pi) / 2


# -- Thome: Bayesian logistic regression, Laplace -----------------------------------------------------------


def test_row_7_the_likelihood_is_of_the_labels_seen(two_points):
    """prod p(y_i | x_i, w), not prod p(y_i = 1 | x_i, w)."""
    box = [(-12.0, 12.0)]
    zoos = quadrature(lambda w: joint(two_points, w), box, nodes=200)
    assert zoos.log_z == pytest.approx(TWO_POINTS["log_evidence"], abs=1e-8)

    def printed(w):
        return log_prior(w) + special.log_expit(w[:, 0]) + special.log_expit(-w[:, 0])  # label 1 at x = -1 and 1

    wrong = quadrature(printed, box, nodes=200)
    assert abs(wrong.log_z - TWO_POINTS["log_evidence"]) > 0.3
    assert abs(float(wrong.mean(lambda w: w[:, 0]))) < 1e-10  # it learns nothing of the sign of w


def test_row_9_the_precision_is_minus_the_hessian_of_the_log(two_points):
    """Sigma^-1 = -d^2 log p(w | X, Y), not +d^2 p(w | X, Y)."""
    fit = zoo.run(two_points, "laplace", draws=1)
    w = np.array([[TWO_POINTS["map"]]])
    step = 1e-3
    points = np.concatenate([w - step, w, w + step])
    log_p = joint(two_points, points) - TWO_POINTS["log_evidence"]
    of_the_log = -(log_p[0] - 2 * log_p[1] + log_p[2]) / step**2
    assert of_the_log**-0.5 == pytest.approx(TWO_POINTS["laplace_sd"], rel=1e-5)
    evidence = log_p[1] + TWO_POINTS["log_evidence"] + 0.5 * np.log(2 * np.pi / of_the_log)
    assert fit.settings["log_evidence"] == pytest.approx(evidence, abs=1e-5)
    p = np.exp(log_p)
    printed = (p[0] - 2 * p[1] + p[2]) / step**2
    assert printed < 0  # a mode is a maximum: this "precision" is negative


def test_row_10_the_predictive_is_a_mean_over_draws(two_points):
    """(1/S) sum_s sigmoid(w_s x), not sum_s; within 4 standard errors of quadrature."""
    grid = np.linspace(-8, 10, 20001)
    mass = np.exp(joint_of_two_points(grid))
    uniform = (np.random.default_rng(0).random(20000) * (len(grid) - 1)).astype(int)
    share = mass[uniform] / mass.max()
    kept = grid[uniform[np.random.default_rng(1).random(20000) < share]]  # rejection sampling: exact draws
    p = special.expit(2 * kept)
    assert abs(p.mean() - TWO_POINTS["p_at_2"]) < 4 * p.std() / len(p) ** 0.5
    draws = torch.tensor(kept)[None, :, None]
    posterior = zoo.Posterior(two_points, "by hand", "iid", {"w": draws})
    mean = posterior.predict(torch.tensor([[2.0]], dtype=F64))["mean"]
    assert float(mean.mean()) == pytest.approx(float(p.mean()), abs=1e-9)
    assert p.sum() > 1  # the printed sum is no probability


def joint_of_two_points(w: np.ndarray) -> np.ndarray:
    return log_prior(w[:, None]) + 2 * special.log_expit(w)


# -- Thome: Bayesian linear regression and networks ---------------------------------------------------------

LINE_X = torch.stack([torch.ones(25, dtype=F64), torch.linspace(0, 2, 25, dtype=F64)], 1)
LINE_Y = torch.tensor(right.LINE_Y, dtype=F64)[:, None]


def test_row_12_a_product_of_posteriors_counts_the_prior_n_times():
    """p(w) prod p(y_i | x_i, w), not prod p(w | x_i, y_i)."""
    answer = linear_gaussian(LINE_X, LINE_Y, prior_scale=2**-0.5, noise=0.2)
    assert answer.mean[:, 0].tolist() == pytest.approx(right.LINE["mean"], abs=1e-9)
    printed = linear_gaussian(LINE_X, LINE_Y, prior_scale=(2 * 25) ** -0.5, noise=0.2)
    assert printed.mean[:, 0].tolist() == pytest.approx((-0.1915, 0.4068), abs=1e-4)
    assert printed.covariance.diagonal().sqrt().tolist() == pytest.approx((0.0644, 0.0557), abs=1e-4)


def test_row_16_the_taylor_predictive_has_the_weights_variance_too():
    """N(f_MAP, noise^2 + g^T A^-1 g), not N(f, noise^2); exact where f is linear."""
    data = zoo.Data(LINE_X[:, 1:], LINE_Y[:, 0])
    exact = zoo.linear_regression.exact(data, prior_scale=2**-0.5, noise=0.2)
    at = torch.tensor(right.LINE["predictive_at"], dtype=F64)
    g = torch.stack([torch.ones(4, dtype=F64), at], 1)
    covariance = linear_gaussian(LINE_X, LINE_Y, 2**-0.5, 0.2).covariance
    taylor = 0.2**2 + ((g @ covariance) * g).sum(1)
    torch.testing.assert_close(exact.predictive(at[:, None]).variance, taylor)
    assert taylor.tolist() == pytest.approx(right.LINE["predictive_variance"], abs=1e-9)
    assert float(taylor[-1]) > 9 * 0.2**2  # the printed variance, far from the data


# -- Thome: stochastic variational inference ----------------------------------------------------------------

N, M = 100, 10
OBSERVED = 0.5 + torch.randn(N, generator=torch.Generator().manual_seed(0), dtype=F64)
POSTERIOR_MEAN, POSTERIOR_VARIANCE = float(OBSERVED.sum()) / (N + 1), 1 / (N + 1)


def negative_elbo(m: torch.Tensor, log_s: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """-(scale E_q sum log N(y_i | theta, 1) - KL(N(m, s^2), N(0, 1))), without constants."""
    s2 = (2 * log_s).exp()
    fit = ((y - m).square() + s2).sum() / 2
    return scale * fit + (m**2 + s2) / 2 - log_s


def location() -> zoo.Problem:
    x = torch.ones(N, 1, dtype=F64)
    return zoo.load("linear_regression", zoo.Data(x, OBSERVED), bias=False, noise=1.0)


def scaled_likelihood(problem: zoo.Problem, rows: slice, scale: float) -> float:
    """The zoo's log likelihood of a batch at w = .3, with the plate scaled."""
    with (
        pyro_state(validate=False),
        LogProb("data", scale) as terms,
        Values({"w": torch.tensor([0.3], dtype=F64)}),
    ):
        problem.model(problem.data.x[rows], problem.data.y[rows], **problem.hyper)
    return float(terms.sites["y"])


def test_row_14_a_minibatch_counts_n_over_m_times():
    """(N/M) sum over the batch log p - KL; without N/M the optimum is the posterior of M points."""
    problem = location()
    batches = [slice(i, i + M) for i in range(0, N, M)]
    full = scaled_likelihood(problem, slice(None), 1.0)
    means = [np.mean([scaled_likelihood(problem, b, scale) for b in batches]) for scale in (N / M, 1.0)]
    assert means[0] == pytest.approx(full, rel=1e-12)
    assert abs(means[1] - full) > 0.5 * abs(full)

    def variance_at_optimum(scale: float) -> float:
        """d/d log s of the mean over batches is scale M s^2 + s^2 - 1."""
        return 1 / (1 + scale * M)

    exact = float(problem.exact(problem.data, **problem.hyper).posterior["w"].variance)
    assert variance_at_optimum(N / M) == pytest.approx(exact, rel=1e-12)
    assert variance_at_optimum(1.0) > 9 * exact  # as printed
    point = torch.tensor([0.1, -0.5], dtype=F64, requires_grad=True)
    loss = sum(negative_elbo(point[0], point[1], OBSERVED[b]) for b in batches) / len(batches)
    gradient = torch.autograd.grad(loss, point)[0][1]
    assert float(gradient) == pytest.approx((1 + M) * np.exp(-1.0) - 1, rel=1e-12)


def test_row_15_the_step_goes_down_the_negative_elbo():
    """theta - eta Delta, Delta the gradient of -ELBO; with + the mean runs away."""

    def descend(sign: float) -> torch.Tensor:
        point = torch.tensor([0.0, -1.0], dtype=F64)
        for _ in range(1500):
            point.requires_grad_(True)
            delta = torch.autograd.grad(negative_elbo(point[0], point[1], OBSERVED), point)[0]
            point = (point + sign * 5e-3 * delta).detach()
            if not bool(point.isfinite().all()) or float(point.abs().max()) > 1e6:
                break
        return point

    m, log_s = descend(-1.0).tolist()
    assert m == pytest.approx(POSTERIOR_MEAN, abs=1e-6)
    assert np.exp(2 * log_s) == pytest.approx(POSTERIOR_VARIANCE, rel=1e-2)
    printed = descend(+1.0)
    assert not bool(printed.isfinite().all()) or abs(float(printed[0]) - POSTERIOR_MEAN) > 1.0


def test_row_2_kl_and_elbo_add_up_to_the_evidence():
    """KL(q, posterior) = log p(Y | X) - ELBO: equal up to a constant, not proportional."""
    constant = float(-negative_elbo(torch.tensor(0.2), torch.tensor(-1.0), OBSERVED)) - elbo_in_full(0.2, -1.0)
    for m, log_s in ((0.2, -1.0), (0.6, -2.3), (1.5, 0.3)):
        s2 = np.exp(2 * log_s)
        gap = ((m - POSTERIOR_MEAN) ** 2 + s2) / POSTERIOR_VARIANCE - 1 - np.log(s2 / POSTERIOR_VARIANCE)
        problem = location()
        evidence = problem.exact(problem.data, **problem.hyper).log_evidence
        assert elbo_in_full(m, log_s) + gap / 2 == pytest.approx(evidence, rel=1e-12)
        short = -negative_elbo(torch.tensor(m, dtype=F64), torch.tensor(log_s, dtype=F64), OBSERVED)
        assert float(short) - constant == pytest.approx(elbo_in_full(m, log_s), rel=1e-6)


def elbo_in_full(m: float, log_s: float) -> float:
    s2 = np.exp(2 * log_s)
    likelihood = -((OBSERVED - m).square().sum().item() + N * s2) / 2 - N / 2 * np.log(2 * np.pi)
    return likelihood - (m**2 + s2 - 1 - np.log(s2)) / 2


# -- Ambrogioni: regularised loss and its gradient ----------------------------------------------------------

LAMBDA = 0.5  # prior variance
WX = torch.randn(8, 2, generator=torch.Generator().manual_seed(3), dtype=F64) * 0.4
WY = torch.randn(8, generator=torch.Generator().manual_seed(4), dtype=F64)


def ridge() -> zoo.Problem:
    return zoo.load("linear_regression", zoo.Data(WX, WY), bias=False, noise=1.0, prior_scale=LAMBDA**0.5)


def gradient(loss, w: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss(w.requires_grad_(True)), w)[0]


def minus_log_joint(w: torch.Tensor) -> torch.Tensor:
    with pyro_state(validate=False):
        return -log_joint(ridge(), {"w": w})


def squares(w: torch.Tensor) -> torch.Tensor:
    return (WY - WX @ w).square().sum() / 2


def test_row_28_the_regularised_loss_is_minus_the_log_joint():
    """R = -sum log p - log p(W) = +1/2 sum (..)^2 + 1/(2 lambda) sum W^2 + c."""
    points = torch.randn(6, 2, generator=torch.Generator().manual_seed(5), dtype=F64)

    def spread(loss) -> float:
        """How far the loss is from minus the zoo's log joint plus a constant."""
        return float(torch.stack([loss(w) - minus_log_joint(w) for w in points]).std())

    assert spread(lambda w: squares(w) + w.square().sum() / (2 * LAMBDA)) < 1e-12
    assert spread(lambda w: -squares(w) + w.square().sum() / (2 * LAMBDA)) > 0.1  # as printed, right-hand side
    assert spread(lambda w: -minus_log_joint(w)) > 0.1  # as printed, left-hand side


def test_row_29_weight_decay_pulls_towards_zero():
    """W - eta (grad L + W / lambda) ends at the posterior mean; with - W / lambda the weights grow."""
    best = ridge().exact(ridge().data, **ridge().hyper).posterior["w"].mean

    def train(sign: float) -> torch.Tensor:
        w = torch.zeros(2, dtype=F64)
        for _ in range(2000):
            w = w - 0.05 * (gradient(squares, w.clone()) + sign * w / LAMBDA)
        return w.detach()

    torch.testing.assert_close(train(+1.0), best, rtol=1e-9, atol=1e-12)
    assert float(train(-1.0).abs().max()) > 1e6


def one_row(j: int, w: torch.Tensor, scale: float) -> torch.Tensor:
    """-scale log p(y_j | W, x_j) by the zoo's likelihood."""
    problem = ridge()
    with pyro_state(validate=False), LogProb("data", scale) as terms, Values({"w": w}):
        problem.model(WX[j : j + 1], WY[j : j + 1], **problem.hyper)
    return -terms.sites["y"]


def minus_log_prior(w: torch.Tensor) -> torch.Tensor:
    return -weights("normal", LAMBDA**0.5, (2,), WX).log_prob(w)


def test_row_32_the_loss_of_one_row_is_unbiased():
    """R_j = -N log p(y_j | W, x_j) - log p(W) has mean R; N log p - log p(W) has not."""
    n, w = len(WX), torch.tensor([0.7, -0.2], dtype=F64)
    whole = float(minus_log_joint(w))
    mine = np.mean([float(one_row(j, w, n) + minus_log_prior(w)) for j in range(n)])
    assert mine == pytest.approx(whole, rel=1e-12)
    printed = np.mean([float(-one_row(j, w, n) + minus_log_prior(w)) for j in range(n)])
    assert abs(printed - whole) > 1.0


def test_row_33_a_minibatch_gradient_is_a_mean():
    """(1/M) sum of grad R_j has mean grad R; the printed sum is M grad R, and cools a sampler by M."""
    n, m, w = len(WX), 4, torch.tensor([0.7, -0.2], dtype=F64)
    each = [gradient(lambda v, j=j: one_row(j, v, n) + minus_log_prior(v), w.clone()) for j in range(n)]
    batches = [torch.stack(each[i : i + m]) for i in range(0, n, m)]
    right_one = gradient(minus_log_joint, w.clone())
    torch.testing.assert_close(torch.stack([b.mean(0) for b in batches]).mean(0), right_one)
    printed = torch.stack([b.sum(0) for b in batches]).mean(0)
    torch.testing.assert_close(printed, m * right_one)
    assert float((printed - right_one).abs().max()) > 0.1

    def stationary(drift: float, noise: float) -> float:
        """Variance of theta' = theta - drift theta + noise n, by iterating v' = (1 - drift)^2 v + noise^2."""
        v = 1.0
        for _ in range(20000):
            v = (1 - drift) ** 2 * v + noise**2
        return v

    eta = 0.01  # target N(0, 1); drift eta/2 with noise sqrt(eta) is right up to O(eta)
    assert stationary(eta / 2, eta**0.5) == pytest.approx(1 / (1 - eta / 4), rel=1e-9)
    assert stationary(10 * eta, eta**0.5) == pytest.approx(0.0526315789, rel=1e-8)


# -- Yandex: losses and priors ------------------------------------------------------------------------------


def test_row_45_the_logistic_loss_takes_logs(two_points):
    """-sum [y log s + (1 - y) log(1 - s)] + w^2 / 2, not -sum [y s + (1 - y)(1 - s)], nor log p(w) + P(Y)."""

    def optimum(loss) -> float:
        return float(optimize.minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x)

    s = special.expit
    assert optimum(lambda w: -joint(two_points, np.array([[w]]))[0]) == pytest.approx(TWO_POINTS["map"], abs=1e-6)
    logs = optimum(lambda w: -2 * np.log(s(w)) + w**2 / 2)
    assert logs == pytest.approx(TWO_POINTS["map"], abs=1e-6)
    no_logs = optimum(lambda w: -2 * s(w) + w**2 / 2)
    no_log_of_p = optimum(lambda w: -(s(w) ** 2) + w**2 / 2)
    no_half = optimum(lambda w: -2 * np.log(s(w)) + w**2)
    for printed in (no_logs, no_log_of_p, no_half):
        assert abs(printed - TWO_POINTS["map"]) > 0.1
    fit = zoo.run(two_points, "map", restarts=1)
    assert float(fit.draws["w"].reshape(())) == pytest.approx(TWO_POINTS["map"], abs=1e-6)


def test_row_45_a_normal_prior_has_a_half():
    """exp(-(t - mu)^2 / (2 s^2)): with s^2 alone the sd is s / sqrt(2)."""
    s = 1.7
    prior = weights("normal", s, (), torch.zeros((), dtype=F64))

    def sd(log_density) -> float:
        found = quadrature(log_density, [(-20.0, 20.0)])
        return float(found.mean(lambda t: t[:, 0] ** 2)) ** 0.5

    assert sd(lambda t: prior.log_prob(torch.tensor(t[:, 0]))) == pytest.approx(s, rel=1e-9)
    assert sd(lambda t: -(t[:, 0] ** 2) / s**2) == pytest.approx(s / 2**0.5, rel=1e-9)


def test_row_46_log_p_is_the_log_of_a_mean_of_densities():
    """log E_a N(y; a, .25), a ~ N(.3, .75), by quadrature is N(y; .3, 1); E_a a, as printed, is .3 whatever y is."""
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    a, weights = 0.3 + np.sqrt(0.75) * points, weights / weights.sum()
    x, y = torch.zeros(3, 1, dtype=F64), torch.tensor([-1.0, 0.3, 2.0], dtype=F64)
    at = {name: torch.zeros(1, 1, dtype=F64) for name in ("w_mu", "w_s")} | {"w_out": torch.ones(1, 1, dtype=F64)}
    at |= {name: torch.tensor([value], dtype=F64) for name, value in (("b_mu", 0.3), ("b_out", 0.0))}
    at["b_s"] = torch.tensor([0.75], dtype=F64).log() / 2
    options = {"objective": "marginal", "hidden": (), "units": 1, "noise": 0.5}
    task = zoo.load("stochastic_activation", zoo.Data(x, y), **options)
    found = run(task, at)["y"]["fn"].log_prob(y).numpy()
    each = -0.5 * (y.numpy()[:, None] - a) ** 2 / 0.25 - 0.5 * np.log(2 * np.pi * 0.25)
    right, slides_bound, printed = np.log(np.exp(each) @ weights), each @ weights, a @ weights
    np.testing.assert_allclose(found, right, rtol=1e-6)
    assert (right > slides_bound + 0.1).all()
    assert (np.abs(printed - right) > 0.1).all()


# -- the page itself ----------------------------------------------------------------------------------------

CHANGES_THE_RESULT = {7, 9, 10, 14, 15, 28, 29, 32, 33, 45, 46}


def page() -> dict[str, str]:
    """{row number: line} of docs/errata.md."""
    lines = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8").splitlines()
    return {found[1]: line for line in lines if (found := re.match(r"\|\s*(\d+|-)\b", line))}


def test_the_page_names_tests_that_exist():
    named = {pair for line in page().values() for pair in re.findall(r"`(tests/\w+\.py)::(\w+)`", line)}
    assert len(named) >= len(CHANGES_THE_RESULT)
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, f"{path} lacks {name}"


def test_every_row_that_changes_the_result_has_a_test():
    rows = page()
    for row in CHANGES_THE_RESULT:
        assert "**!**" in rows[str(row)]
        assert f"test_row_{row}_" in rows[str(row)]


def test_docstrings_say_what_the_slide_prints():
    for name in ("coin_flip", "linear_regression", "logistic_regression", "bnn_regression"):
        doc = ast.get_docstring(ast.parse((ROOT / "zoo" / f"{name}.py").read_text(encoding="utf-8"))) or ""
        assert "Slide prints" in doc
        assert "this computes" in doc
