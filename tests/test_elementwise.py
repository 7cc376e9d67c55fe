"""tanh and softplus as they are traced: torch's values and slopes to the digits that are promised."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.infer.elementwise import LOG1P, TANH_P, TANH_Q, polynomial, softplus, softplus_slope, tanh
from zoo.infer.graph import trace

ENDS = [0.0, -0.0, float("inf"), -float("inf"), 1e30, -1e30]
DTYPES = [(torch.float32, 5e-7), (torch.float64, 1e-15)]


def _many(dtype: torch.dtype) -> Tensor:
    """Numbers of both signs, from 1e-30 to 100, dense where formulas change."""
    x = torch.cat([torch.logspace(-30, 2, 20_001, dtype=dtype), torch.linspace(0.2, 10, 20_001, dtype=dtype)])
    return torch.cat([x, -x])


def _softplus(x: Tensor) -> Tensor:
    return F.softplus(x, threshold=40.0)


def _traced(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return trace(lambda v: (function(v),), [x])(x)[0]


def _error(value: Tensor, right: np.ndarray) -> float:
    return float(np.abs(value.numpy().astype(np.longdouble) / right - 1).max())


@pytest.mark.parametrize(("dtype", "limit"), DTYPES)
def test_tanh_keeps_its_digits(dtype: torch.dtype, limit: float) -> None:
    """Against one of more digits, from 1e-30 to where it is 1; by exp alone it is wrong near 0."""
    x = _many(dtype)
    right = np.tanh(x.numpy().astype(np.longdouble))
    found = _traced(torch.tanh, x)
    assert _error(found, right) < limit
    assert float(found.abs().max()) <= 1
    assert _error(1 - 2 / (torch.exp(2 * x) + 1), right) > 0.5


def test_without_its_end_the_rational_function_leaves_the_unit_interval() -> None:
    """The twin of the line above: P / Q falls far below 1 beyond where it was fitted."""
    x = torch.tensor([7.9, 50.0])
    value = x * polynomial(TANH_P, x * x) / polynomial(TANH_Q, x * x)
    assert abs(float(value[0]) - 1) < 1e-6
    assert abs(float(value[1]) - 1) > 0.1
    assert float(tanh(x)[1]) == pytest.approx(1, abs=5e-7)


@pytest.mark.parametrize(("dtype", "limit"), DTYPES)
def test_softplus_and_its_slope_keep_their_digits(dtype: torch.dtype, limit: float) -> None:
    """Against log1p and 1 / (1 + e^-x) of more digits; log(1 + e^x) itself loses all digits at -30."""
    x = _many(dtype)
    wide = x.numpy().astype(np.longdouble)
    low = np.maximum(wide, -80)  # below e^-80 float32 has fewer digits, torch's own too
    x = torch.as_tensor(low.astype(np.float64)).to(dtype)
    wide = x.numpy().astype(np.longdouble)
    value = _traced(_softplus, x)
    slope = _traced(torch.func.grad(lambda v: _softplus(v).sum()), x)
    assert _error(value, np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))) < max(limit, 4e-16)
    assert _error(slope, 1 / (1 + np.exp(-wide))) < 2 * limit
    assert _error(torch.log(1 + torch.exp(x)), np.logaddexp(0, wide)) > 0.5


def test_log1p_is_as_close_as_it_says() -> None:
    x = torch.linspace(1e-6, 1, 10_001, dtype=torch.float64)
    assert float((x * polynomial(LOG1P, x) / torch.log1p(x) - 1).abs().max()) < 3.2e-8
    twin = (*LOG1P[:-1], LOG1P[-1] * 1.001)
    assert float((x * polynomial(twin, x) / torch.log1p(x) - 1).abs().max()) > 3.2e-8


@pytest.mark.parametrize(("dtype", "limit"), DTYPES)
def test_ends_are_torchs(dtype: torch.dtype, limit: float) -> None:
    x = torch.tensor([*ENDS, float("nan")], dtype=dtype)
    for function in (torch.tanh, _softplus):
        torch.testing.assert_close(_traced(function, x), function(x), rtol=limit, atol=0, equal_nan=True)


def test_other_forms_are_left_to_the_library() -> None:
    x = torch.linspace(-3, 3, 7)
    assert tanh(x.half()) is NotImplemented
    assert softplus(x, beta=2) is NotImplemented
    assert softplus(x, threshold=5) is NotImplemented
    assert softplus_slope(x, x, 1, 5) is NotImplemented
    for options in ({"beta": 2}, {"threshold": 2}):
        own = functools.partial(F.softplus, **options)
        assert torch.equal(_traced(own, x), own(x))


def test_whole_numbers_take_the_librarys_tanh() -> None:
    x = torch.arange(-3, 4)
    assert torch.equal(_traced(torch.tanh, x), x.tanh())
