"""Binary cross-entropy traced as softplus(-f) + (1 - y) f: torch's values, gradients and curvature, with one exp."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.infer.graph import trace

LOGITS = torch.tensor([-800.0, -40.0, -3.0, 0.0, 0.5, 30.0, 800.0], dtype=torch.float64)
TARGETS = torch.tensor([0.0, 1.0, 0.3, 1.0, 0.0, 1.0, 1.0], dtype=torch.float64)


def _loss(f: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(f, TARGETS, reduction="none").sum()


def _twin(f: Tensor) -> Tensor:
    """The sign of a class swapped."""
    return (F.softplus(-f) + TARGETS * f).sum()


@pytest.mark.parametrize("times", [0, 1, 2])
def test_values_gradients_and_curvature_are_torchs(times: int) -> None:
    """Mapped over rows; closed forms in softplus and sigmoid."""
    right = {
        0: (-TARGETS * F.logsigmoid(LOGITS) - (1 - TARGETS) * F.logsigmoid(-LOGITS)).sum(),
        1: LOGITS.sigmoid() - TARGETS,
        2: torch.diag(LOGITS.sigmoid() * (-LOGITS).sigmoid()),
    }[times]

    def derived(loss):
        return {0: loss, 1: torch.func.grad(loss), 2: torch.func.jacrev(torch.func.grad(loss))}[times]

    rows = torch.stack([LOGITS, LOGITS])
    found = trace(lambda u: (torch.func.vmap(derived(_loss))(u),), [rows])(rows)[0]
    for row in found:
        torch.testing.assert_close(row, right, rtol=1e-12, atol=1e-12)
    assert times == 2 or not torch.allclose(derived(_twin)(LOGITS), right)


def test_value_and_slope_share_one_exponential() -> None:
    rows = torch.stack([LOGITS, LOGITS])
    graph = trace(lambda u: torch.func.vmap(torch.func.grad_and_value(_loss))(u), [rows])
    names = [str(node.target) for node in graph.graph.nodes]
    assert names.count("aten.exp.default") == names.count("aten.log1p.default") == 1
    assert not any("softplus" in name for name in names)


@pytest.mark.parametrize("kwargs", [{"reduction": "mean"}, {"pos_weight": TARGETS + 2}, {"weight": TARGETS + 2}])
def test_weights_and_reductions_are_left_as_they_are(kwargs: dict) -> None:
    def loss(f: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(f, TARGETS, **kwargs)

    torch.testing.assert_close(trace(lambda f: (loss(f),), [LOGITS])(LOGITS)[0], loss(LOGITS), rtol=1e-12, atol=1e-12)
