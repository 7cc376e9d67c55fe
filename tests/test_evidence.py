"""The bar of the evidence: ELBO + KL(q, posterior) = log p(y) at every moment of training."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import zoo
from tests import right_answers as right
from tests.refusals import refused
from zoo.infer.evidence import evidence_bar

F64 = torch.float64


def line() -> zoo.Problem:
    x = torch.linspace(0, 2, 25, dtype=F64)[:, None]
    data = zoo.Data(x, torch.tensor(right.LINE_Y, dtype=F64))
    return zoo.load("linear_regression", data=data, prior_scale=0.5**0.5, noise=0.2)


def lengths(bar) -> list[float]:
    return [moment.elbo + moment.kl for moment in bar]


def test_the_bar_of_the_line_never_changes_its_length() -> None:
    """-.7451726760 = -.0893331200 - .6558395609 at the mean-field optimum; the KL is the closed form."""
    bar = evidence_bar(line(), steps=800, lr=0.04, particles=8)
    assert [moment.step for moment in bar] == [0, 50, 200, 450, 800]
    assert lengths(bar) == pytest.approx([right.LINE["log_evidence"]] * 5, abs=1e-6)
    assert bar[-1].elbo == pytest.approx(right.LINE["mean_field_elbo"], abs=5e-3)
    assert bar[-1].kl == pytest.approx(0.6558395609, abs=5e-3)
    assert bar[0].elbo < bar[1].elbo < bar[-1].elbo <= right.LINE["mean_field_elbo"] + 1e-9


def test_the_parts_are_computed_apart() -> None:
    """Twin: the posterior of half the precision (the course code's) breaks the sum."""
    wrong = dataclasses.replace(
        line(), exact=lambda data, **hyper: zoo.linear_regression.exact(data, **{**hyper, "noise": 0.2 * 2**0.5})
    )
    bar = evidence_bar(wrong, steps=40)
    assert max(abs(length - moment.log_evidence) for length, moment in zip(lengths(bar), bar, strict=True)) > 0.1


def test_a_posterior_that_is_no_gaussian_has_a_bar_too() -> None:
    problem = zoo.load("coin_flip", n=10, heads=7)
    bar = evidence_bar(problem, steps=300, moments=3)
    assert lengths(bar) == pytest.approx([problem.exact(problem.data).log_evidence] * 3, abs=1e-6)
    assert bar[-1].kl < 0.02 < bar[0].kl


def test_what_has_no_bar_is_refused() -> None:
    refused(lambda: evidence_bar(zoo.load("logistic_regression")), "'logistic_regression' has none")
    refused(lambda: evidence_bar(line(), moments=1), "from 2 to steps", "got 1")
    refused(lambda: evidence_bar(line(), guide="point", steps=5), "standard normals", "Try 'normal'")
