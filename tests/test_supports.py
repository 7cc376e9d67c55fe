"""Every bijection to a support: lands inside, inverts, and its Jacobian is autograd's."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import constraints

from guides.supports import VectorToLowerCholesky, VectorToPositiveDefinite, unconstrain
from tests.supports import F64, PRIORS, log_det


def _coordinates(fn, count: int = 3):
    shape = unconstrain(fn.support, "v").inverse_shape(fn.shape())
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(3), dtype=F64)


@pytest.mark.parametrize("name", PRIORS)
def test_bijection(name) -> None:
    fn = PRIORS[name]()
    transform = unconstrain(fn.support, "v")
    for u in _coordinates(fn):
        value = transform(u)
        assert value.shape == fn.shape()
        assert torch.as_tensor(fn.support.check(value)).all()
        torch.testing.assert_close(transform.inv(value), u, rtol=0, atol=1e-7)
        claimed = transform.log_abs_det_jacobian(u, value).sum()
        torch.testing.assert_close(claimed, log_det(fn.support, u), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("transform", [VectorToLowerCholesky(), VectorToPositiveDefinite()], ids=["L", "LL^T"])
def test_matrices_of_any_size_batched_and_under_vmap(k, transform) -> None:
    u = torch.randn(4, k * (k + 1) // 2, generator=torch.Generator().manual_seed(k), dtype=F64)
    value = transform(u)
    assert value.shape == (4, k, k)
    assert transform.forward_shape(u.shape) == value.shape
    assert transform.inverse_shape(value.shape) == u.shape
    torch.testing.assert_close(torch.func.vmap(transform)(u), value)
    torch.testing.assert_close(transform.inv(value), u, rtol=1e-9, atol=1e-9)
    claimed = transform.log_abs_det_jacobian(u, value)
    exact = torch.stack([log_det(transform.codomain, row) for row in u])
    torch.testing.assert_close(claimed, exact, rtol=1e-9, atol=1e-9)


def test_the_jacobian_check_tells_a_wrong_one() -> None:
    """Twin: leaving out the k log 2 of d(L L^T) is seen."""
    u = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=F64)
    transform = VectorToPositiveDefinite()
    broken = transform.log_abs_det_jacobian(u, transform(u)) - 3 * torch.tensor(2.0, dtype=F64).log()
    assert abs(broken - log_det(constraints.positive_definite, u)) > 2


@pytest.mark.parametrize(
    "support", [constraints.sphere, dist.Bernoulli(0.5).support, dist.Poisson(1.0).support], ids=str
)
def test_refused_supports_name_the_site(support) -> None:
    with pytest.raises(ValueError, match="direction_of_w") as error:
        unconstrain(support, "direction_of_w")
    assert "\n" not in str(error.value)
