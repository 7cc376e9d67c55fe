"""A model file's optional `complete(data, hyper) -> hyper`: called after `prepare`, by load and check alike."""

from __future__ import annotations

import types

import pytest
import torch

import zoo
from zoo import softmax_regression
from zoo.core import contract

from .refusals import refused

DATA = zoo.Data(torch.randn(9, 2, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3)


def test_complete_fills_in_what_the_data_say_and_refuses_what_they_contradict() -> None:
    assert zoo.load("softmax_regression", DATA).hyper["classes"] == 3
    assert zoo.load("softmax_regression", DATA, classes=5).hyper["classes"] == 5
    refused(
        lambda: zoo.load("softmax_regression", DATA, classes=2), "classes must be at least the 3 of the data, got 2"
    )


@pytest.mark.parametrize("named", [True, False])
def test_check_calls_it_after_prepare(named: bool) -> None:
    """Without it the model would take its own default of classes, and the labels would not fit."""
    seen: list[dict] = []
    module = types.ModuleType("mine", doc="A model.")
    module.model, module.data = softmax_regression.model, lambda seed=0: DATA  # type: ignore[attr-defined]
    if named:
        module.complete = lambda data, hyper: seen.append(hyper) or {"classes": 3, **hyper}  # type: ignore[attr-defined]
    report = zoo.check(module, bias=False)
    assert seen == ([{"bias": False}] if named else [])
    assert report.rows[1].ok
    assert "complete(data, hyper) -> hyper" in (contract.__doc__ or "")
