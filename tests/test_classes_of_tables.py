"""Models that serve measured targets and classes, on a table of your own: `classify`, or `classes`, says which."""

from __future__ import annotations

import pytest
import torch

import zoo
from tests.refusals import refused
from zoo.__main__ import main

BOTH = ["mc_dropout", "gaussian_dropout", "stochastic_activation"]


@pytest.fixture
def table(tmp_path):
    """60 rows: a, b, a kind in words, a code of three whole numbers."""
    draws = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)).tolist()
    rows = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'},{i % 3}" for i, (a, b) in enumerate(draws)]
    path = tmp_path / "table.csv"
    path.write_text("a,b,kind,code\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("name", BOTH)
def test_a_tables_target_may_be_a_class(name, table) -> None:
    """Twin: unasked, a code is a measurement, and standardised."""
    for asked in ({"classify": True}, {"classes": 3}):
        problem = zoo.load(name, table, target="code", ignore="kind", hidden=2, **asked)
        assert problem.hyper["classes"] == 3
        assert problem.data.info["classes"] == ["0", "1", "2"]
        assert sorted(problem.data.y.unique().tolist()) == [0, 1, 2]
    words = zoo.load(name, table, target="kind", ignore="code", hidden=2, classify=True)
    assert words.hyper["classes"] == 2
    assert words.data.info["classes"] == ["no", "yes"]
    measured = zoo.load(name, table, target="code", ignore="kind", hidden=2)
    assert "classes" not in measured.data.info
    assert abs(float(measured.data.y.mean())) < 1e-6


def test_a_fit_on_classes_of_a_table(table) -> None:
    problem = zoo.load("mc_dropout", table, target="kind", ignore="code", hidden=4, classes=2)
    fitted = zoo.run(problem, "svi", steps=3, draws=5, engine="eager")
    p = fitted.predict({"a": [2.0], "b": [2.0]})["mean"]
    assert p.shape == (1, 5, 1)
    assert ((p >= 0) & (p <= 1)).all()


def test_the_shell_asks_in_the_same_words(table, capsys) -> None:
    words = ["run", "mc_dropout", "-m", "svi", "--data", str(table), "--target", "kind", "--ignore", "code"]
    quick = ["--opt", "steps=2", "--opt", "draws=4", "--opt", "engine=eager", "--set", "hidden=2"]
    for asked in (["--classify"], ["--set", "classes=2"]):
        assert main([*words, *quick, *asked]) == 1  # two steps have not converged
        assert "y = 1 stands for kind = yes" in capsys.readouterr().out
    assert main([*words, *quick]) == 2
    assert "classify" in capsys.readouterr().err


def test_what_does_not_fit_is_refused(table) -> None:
    refused(lambda: zoo.load("mc_dropout", table, target="kind", ignore="code"), "holds text", "classify=True")
    refused(lambda: zoo.load("mc_dropout", table, target="kind", ignore="code", classify="yes"), "classify must be")
    refused(
        lambda: zoo.load("mc_dropout", table, target="kind", ignore="code", classify=True, classes=0),
        "classes=0 is a regression",
    )
    refused(
        lambda: zoo.load("bnn_classification", table, target="kind", ignore="code", classify=False),
        "unknown option 'classify'",
    )
    refused(lambda: zoo.load("linear_regression", table, target="kind", ignore="code", classify=True), "regression")
