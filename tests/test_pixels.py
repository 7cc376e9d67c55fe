"""The Bernoulli decoder's log probability: the cross entropy's value and slope, far out in the tails as well."""

import pyro.distributions as dist
import pytest
import torch

from zoo.core.pixels import Pixels

LOGITS = torch.tensor([-800.0, -40.0, -3.0, -1e-9, 0.0, 0.5, 3.0, 40.0, 800.0], dtype=torch.float64)


@pytest.mark.parametrize("y", [0.0, 0.25, 1.0])
def test_value_and_slope_are_the_cross_entropys(y):
    f = LOGITS.clone().requires_grad_()
    value = torch.full_like(f, y)
    log_prob = Pixels(logits=f).log_prob(value)
    expected = -y * torch.nn.functional.softplus(-LOGITS, threshold=1e4) - (1 - y) * torch.nn.functional.softplus(
        LOGITS, threshold=1e4
    )
    torch.testing.assert_close(log_prob, expected.where(LOGITS.abs() < 700, -(y - (LOGITS > 0).double()).abs() * 800))
    (slope,) = torch.autograd.grad(log_prob.sum(), f)
    torch.testing.assert_close(slope, y - LOGITS.sigmoid())


def test_black_and_white_are_bernoullis():
    f, y = torch.randn(5, 7, dtype=torch.float64), (torch.rand(3, 5, 7) < 0.5).double()
    torch.testing.assert_close(Pixels(logits=f).log_prob(y), dist.Bernoulli(logits=f).log_prob(y))
    assert not torch.allclose(Pixels(logits=f).log_prob(1 - y), dist.Bernoulli(logits=f).log_prob(y))
