"""Training with dropout and weight decay is variational inference: gradients, the decay, and T passes."""

from __future__ import annotations

import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import stats

import zoo
from tests.refusals import refused
from tests.test_guides import variational
from zoo.core.decay import weight_decay
from zoo.core.passes import COUNTS, log_likelihood_of_passes, moments_of_passes, scores_by_passes
from zoo.infer.prepared import Batch, quiet

F64 = torch.float64
N, ROWS, HIDDEN, P, L, TAU = 12, 5, 4, (0.3, 0.1), 1.7, 3.0


def net(x, y=None):
    """2-4-1, ReLU, prior N(0, 1 / l^2), noise 1 / sqrt(tau)."""
    s = 1 / L
    w1 = pyro.sample("w1", dist.Normal(x.new_zeros(2, HIDDEN), s).to_event(2))
    b1 = pyro.sample("b1", dist.Normal(x.new_zeros(HIDDEN), s).to_event(1))
    w2 = pyro.sample("w2", dist.Normal(x.new_zeros(HIDDEN, 1), s).to_event(2))
    f = pyro.deterministic("f", ((x @ w1 + b1).relu() @ w2)[:, 0])
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, TAU**-0.5), obs=y)


def setting():
    """The fit, a batch of rows, noise, and the masks (row, 2) and (row, 4) that the noise means."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(N, 2, generator=generator, dtype=F64)
    problem = zoo.Problem("net", net, zoo.Data(x, torch.randn(N, generator=generator, dtype=F64)))
    q = variational(problem, "bernoulli_dropout", rate=P)
    flat = q.start + 0.3 * torch.randn(q.start.shape, generator=generator, dtype=F64)
    noise = q.noise(5, 0, 0, (1, 1, ROWS))
    e = noise[0, 0]
    z1, z2 = e[:, :2] > stats.norm.ppf(P[0]), e[:, 2:] > stats.norm.ppf(P[1])
    batch = Batch(x[3 : 3 + ROWS], problem.data.y[3 : 3 + ROWS])
    return q, flat, noise, batch, (z1.to(F64), z2.to(F64))


def loss_gradient(q, flat, batch, masks, loss: str, inverted: bool, decays) -> list[torch.Tensor]:
    """d L / d (w1, b1, w2) of a plain network with these masks and penalties."""
    parts = q.layout.split(flat[0])
    shrink = [1 - p if inverted else 1.0 for p in P]
    w1 = (parts["w1.weight"] * shrink[0]).requires_grad_()
    b1 = parts["b1.point"].clone().requires_grad_()
    w2 = (parts["w2.weight"] * shrink[1]).requires_grad_()
    z1, z2 = (z / s for z, s in zip(masks, shrink, strict=True))
    f = ((((batch.x * z1) @ w1 + b1).relu() * z2) @ w2)[:, 0]
    square = (batch.y - f).square().sum() / ROWS
    penalty = decays[0] * w1.square().sum() + decays[1] * w2.square().sum() + decays[2] * b1.square().sum()
    return list(torch.autograd.grad(square * (0.5 if loss == "half_squared" else 1.0) + penalty, (w1, b1, w2)))


def expected(q, flat, noise, batch, loss: str, inverted: bool) -> list[torch.Tensor]:
    """-grad ELBO / (N tau) in the network's own weights V = (1 - p) M, twice that for the squared loss."""
    with quiet():
        grad = q.gradient(flat, noise, batch, N / ROWS)[0][0]
    parts = q.layout.split(-grad / (N * TAU) * (2 if loss == "squared" else 1))
    shrink = [1 - p if inverted else 1.0 for p in P]
    return [parts["w1.weight"] / shrink[0], parts["b1.point"], parts["w2.weight"] / shrink[1]]


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("loss", ["half_squared", "squared"])
def test_dropout_with_weight_decay_is_the_gradient_of_the_elbo(loss, inverted) -> None:
    """grad L = -grad ELBO / (N tau), the same masks, to 1e-12. Twin: each other combination's decay."""
    q, flat, noise, batch, masks = setting()
    right = expected(q, flat, noise, batch, loss, inverted)

    def gap(of: str, scaled: bool) -> float:
        decays = [weight_decay(L, TAU, p, N, loss=of, inverted=scaled) for p in P]
        decays.append(weight_decay(L, TAU, 0.0, N, loss=of))
        found = loss_gradient(q, flat, batch, masks, loss, inverted, decays)
        return max(float((a - b).abs().max()) for a, b in zip(found, right, strict=True))

    assert gap(loss, inverted) < 1e-12
    others = [(of, scaled) for of in ("half_squared", "squared") for scaled in (False, True)]
    assert all(gap(*other) > 1e-4 for other in others if other != (loss, inverted))


def test_the_decay_is_the_formula() -> None:
    assert weight_decay(0.01, 0.2, 0.05, 455) == pytest.approx(0.01**2 * 0.95 / (2 * 455 * 0.2), rel=1e-15)
    assert weight_decay(2.0, 1.0, 0.5, 100, loss="nll") == pytest.approx(4 * 0.5 / 200, rel=1e-15)
    assert weight_decay(2.0, 3.0, 0.2, 10, inverted=True) == pytest.approx(4 / (2 * 10 * 3 * 0.8), rel=1e-15)


def test_torchs_weight_decay_is_twice_lambda() -> None:
    decay = weight_decay(L, TAU, 0.2, N)
    w = torch.tensor([0.7, -1.1], dtype=F64, requires_grad=True)
    by_hand = (w - 0.1 * torch.autograd.grad(decay * w.square().sum(), w)[0]).detach()
    w.grad = torch.zeros_like(w)
    torch.optim.SGD([w], lr=0.1, weight_decay=2 * decay).step()
    torch.testing.assert_close(w.detach(), by_hand, rtol=1e-14, atol=0)


def test_bad_decays_are_refused() -> None:
    refused(lambda: weight_decay(1.0, 1.0, 1.0, 10), "0 <= p < 1")
    refused(lambda: weight_decay(0.0, 1.0, 0.1, 10), "length_scale must be a positive")
    refused(lambda: weight_decay(1.0, 1.0, 0.1, 0), "n must be a positive")
    refused(lambda: weight_decay(1.0, 1.0, 0.1, 10, loss="mse"), "half_squared, squared, nll", "'mse'")
    refused(lambda: weight_decay(1.0, 2.0, 0.1, 10, loss="nll"), "tau=1")
    for wrong in ("a", None, True, [0.1, 0.2], torch.tensor([0.1, 0.2]), math.nan):
        refused(lambda wrong=wrong: weight_decay(wrong, 1.0, 0.1, 10), "length_scale must be a positive finite number")
        refused(lambda wrong=wrong: weight_decay(1.0, wrong, 0.1, 10), "tau must be a positive finite number")
        refused(lambda wrong=wrong: weight_decay(1.0, 1.0, wrong, 10), "0 <= p < 1, got", "each layer")
        refused(lambda wrong=wrong: weight_decay(1.0, 1.0, 0.1, wrong), "n must be a positive whole number")
    refused(lambda: weight_decay(1.0, 1.0, 0.1, 2.5), "n must be a positive whole number", "2.5")
    refused(lambda: weight_decay(1.0, 1.0, 0.1, 10, inverted="no"), "inverted must be True or False", "'no'")


def test_numbers_of_other_kinds_give_a_plain_one() -> None:
    found = weight_decay(torch.tensor(2.0), np.float32(1.0), torch.tensor(0.5, dtype=F64), np.int64(100))
    assert type(found) is float
    assert found == weight_decay(2.0, 1.0, 0.5, 100)


# -- T passes ----------------------------------------------------------------------------------------------


def passes(t: int, rows: int) -> torch.Tensor:
    """(t, rows, 2): both outputs of x = (1, 2), W = ((1, -1), (.5, 2)) with inverted dropout p = .2."""
    z = (torch.rand(t, rows, 2, generator=torch.Generator().manual_seed(0), dtype=F64) > 0.2) / 0.8
    return (torch.tensor([1.0, 2.0], dtype=F64) * z) @ torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=F64)


RIGHT = torch.tensor([[0.5, 0.75], [0.75, 4.25]], dtype=F64)


def test_two_passes_tell_the_divisors_apart() -> None:
    """Over 1e5 repetitions of T = 2, within 5 standard errors (alpha 2e-6). Twins: 1 / T, and the slide's 1 / T."""
    f, tau = passes(2, 100_000), 4.0
    mean, cov = moments_of_passes(f, tau)
    error = cov.std(0) / 100_000**0.5
    right = RIGHT + torch.eye(2, dtype=F64) / tau
    assert ((cov.mean(0) - right).abs() < 5 * error).all()
    torch.testing.assert_close(mean, f.mean(0))
    biased = moments_of_passes(f, tau, unbiased=False)[1].mean(0)
    assert ((biased - right).abs() > 10 * error).all()
    torch.testing.assert_close(biased - torch.eye(2, dtype=F64) / tau, RIGHT / 2, rtol=0.05, atol=0.05)
    total = f.sum(0)
    slide = torch.eye(2) / tau + torch.einsum("tmi,tmj->mij", f, f) / 2 - total[:, :, None] * total[:, None] / 2
    assert float(slide.mean(0)[0, 0]) < 0  # a negative variance
    assert float(slide.mean(0)[1, 1]) < 0


def test_one_output_is_the_diagonal() -> None:
    f = passes(7, 3)
    variance = moments_of_passes(f[..., 1], 2.0)[1]
    torch.testing.assert_close(variance, moments_of_passes(f, 2.0)[1][:, 1, 1])
    torch.testing.assert_close(variance, f[..., 1].var(0) + 0.5)


def test_the_log_likelihood_averages_probabilities() -> None:
    """Twin: the mean of log likelihoods. Far from all passes it stays finite, where the mean of densities is 0."""
    f, y = passes(9, 4), torch.ones(4, 2, dtype=F64)
    normal = stats.norm(f.numpy(), 0.5).pdf(y.numpy()).prod(-1)
    found = log_likelihood_of_passes(f, y, 4.0)
    torch.testing.assert_close(found, torch.from_numpy(normal).mean(0).log())
    assert (found > torch.from_numpy(normal).log().mean(0) + 0.1).all()
    far = log_likelihood_of_passes(f[..., 0], y[:, 0] + 1e3, 4.0)
    assert torch.isfinite(far).all()
    one = log_likelihood_of_passes(f[..., 0], y[:, 0], 4.0)
    torch.testing.assert_close(one, torch.from_numpy(stats.norm(f[..., 0], 0.5).pdf(1.0)).mean(0).log())


def test_the_error_falls_with_the_passes() -> None:
    """Passes N(m, s^2): RMSE^2 = (m - y)^2 + s^2 / T within 4 standard errors (alpha 6e-5). Twin: that of one pass."""
    generator, rows, s, off = torch.Generator().manual_seed(0), 50, 0.5, 0.3
    y = torch.randn(rows, generator=generator, dtype=F64)
    f = y + off + s * torch.randn(4000, rows, generator=generator, dtype=F64)
    found = scores_by_passes(f, y, 4.0)
    for count, (rmse, log_lik) in zip(COUNTS, found, strict=True):
        spread, groups = s**2 / count, 4000 // count * rows
        error = (2 * spread**2 + 4 * off**2 * spread) ** 0.5 / groups**0.5
        assert float(rmse**2) == pytest.approx(off**2 + spread, abs=4 * error)
        if count >= 5:
            assert abs(float(rmse**2) - off**2 - s**2) > 10 * error
        limit = stats.norm(0, (s**2 + 0.25) ** 0.5).logpdf(off)  # of passes without end: y ~ N(m, s^2 + 1 / tau)
        assert float(log_lik) < limit + 0.01
    assert float(found[-1, 1]) == pytest.approx(limit, abs=0.02)
    assert (found[1:, 1] > found[:-1, 1]).all()
    torch.testing.assert_close(scores_by_passes(f, y, 4.0, [4000])[0, 1], log_likelihood_of_passes(f, y, 4.0).mean())
    refused(lambda: scores_by_passes(f[:50], y, 4.0), "between 1 and the 50 passes", "100")


def test_one_pass_is_refused() -> None:
    refused(lambda: moments_of_passes(torch.zeros(1, 3), 1.0), "at least 2 passes", "got 1")
    refused(lambda: moments_of_passes(torch.zeros(3), 1.0), r"\(T, m\)")
    for tau in (0.0, math.nan, "a", True):
        refused(lambda tau=tau: moments_of_passes(torch.zeros(3, 2), tau), "positive precision", "got")
    refused(lambda: moments_of_passes(torch.zeros(3, 2, dtype=torch.int64), 1.0), "real numbers", "int64")
    refused(lambda: moments_of_passes([[1.0], [2.0]], 1.0), "real numbers", "list")
    assert math.isfinite(float(log_likelihood_of_passes(torch.zeros(1, 3), torch.zeros(3), 1.0)[0]))
