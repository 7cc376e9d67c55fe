"""UCI's benchmarks: the published splits, a linear model's published floor, and clear words without the files."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from tests import right_answers as right
from tests.real_data import concrete, german_credit
from tests.refusals import refused
from zoo.__main__ import main
from zoo.data import tables, uci
from zoo.report.scores import headline

F64 = torch.float64


@pytest.mark.data
@pytest.mark.parametrize("split", [0, 3, 19])
def test_the_splits_are_gals(zoo_data, split) -> None:
    """Against the permutations written out in tests/real_data.py; twin: another split."""
    want, got = concrete(zoo_data, split), uci.load("concrete", split)
    torch.testing.assert_close(got.x, want.x[:, :-1].float())
    torch.testing.assert_close(got.y_test, want.y_test.float())
    other = uci.load("concrete", (split + 1) % 20)
    assert not torch.allclose(other.y_test, got.y_test)
    assert got.info["y_scale"] == pytest.approx(want.info["y_scale"], rel=1e-12)


@pytest.mark.data
def test_the_exact_line_on_concrete_has_the_published_scores(zoo_data) -> None:
    """Closed form, in original units. Twin: the density of the standardised y is log y_scale too large."""
    problem = zoo.load("linear_regression", data="uci/concrete", noise=0.6)
    fit = zoo.run(problem, "exact", draws=20_000, dtype="float64", seed=1)
    answer, data = right.CONCRETE, fit.problem.data
    assert fit.exact.log_evidence == pytest.approx(answer["log_evidence"], rel=1e-6)
    predictive = fit.exact.predictive(data.x_test)
    scale = data.info["y_scale"]
    rmse = scale * float((predictive.mean - data.y_test).square().mean().sqrt())
    score = float(predictive.log_prob(data.y_test).mean()) - math.log(scale)
    assert rmse == pytest.approx(answer["rmse"], rel=1e-6)
    assert score == pytest.approx(answer["test_log_likelihood"], rel=1e-6)
    found = headline(fit, fit.predict(data.x_test))  # by draws: Monte Carlo errors of about 5e-4 and 2e-4
    assert found["rmse"] == pytest.approx(answer["rmse"], abs=3e-3)
    assert found["log_lik"] == pytest.approx(answer["test_log_likelihood"], abs=1e-3)
    assert abs(found["log_lik"] + math.log(scale) - answer["test_log_likelihood"]) > 2


# Closed form, MacKay's evidence maximisation on each split; means over 20 splits (5 for protein).
FLOOR = {
    "boston": (4.595143, -2.969628),
    "concrete": (10.318335, -3.754578),
    "yacht": (8.934820, -3.621345),
    "kin8nm": (0.202268, 0.178954),
    "protein": (5.212778, -3.070054),
}


def _evidence_maximised(data: zoo.Data) -> tuple[float, float]:
    """Test RMSE and log likelihood in original units of the line whose alpha and beta maximise the evidence."""
    ones = [torch.cat([v.to(F64), torch.ones(len(v), 1, dtype=F64)], 1) for v in (data.x, data.x_test)]
    x, at, y = *ones, data.y.to(F64)
    gram, alpha, beta = torch.linalg.eigh(x.T @ x), 1.0, 1.0
    rotated = gram.eigenvectors.T @ (x.T @ y)
    for _ in range(1000):
        eigen = beta * gram.eigenvalues
        m = gram.eigenvectors @ (beta * rotated / (alpha + eigen))
        gamma = float((eigen / (alpha + eigen)).sum())
        new = gamma / float(m @ m), (len(y) - gamma) / float((y - x @ m).square().sum())
        done = abs(new[0] / alpha - 1) + abs(new[1] / beta - 1) < 1e-10
        alpha, beta = new
        if done:
            break
    spread = ((at @ gram.eigenvectors).square() / (alpha + beta * gram.eigenvalues)).sum(1) + 1 / beta
    scale, truth = data.info["y_scale"], data.y_test.to(F64)
    log_lik = torch.distributions.Normal(at @ m, spread.sqrt()).log_prob(truth).mean() - math.log(scale)
    return scale * float((at @ m - truth).square().mean().sqrt()), float(log_lik)


@pytest.mark.data
@pytest.mark.parametrize("name", ["boston", "concrete", "yacht", "kin8nm"])
def test_twenty_splits_have_the_published_floor(zoo_data, name) -> None:
    found = np.array([_evidence_maximised(uci.load(name, split)) for split in range(20)])
    np.testing.assert_allclose(found.mean(0), FLOOR[name], rtol=2e-5)
    with pytest.raises(AssertionError):  # the twin: ten splits only
        np.testing.assert_allclose(found[:10].mean(0), FLOOR[name], rtol=2e-5)


@pytest.mark.data
@pytest.mark.slow
def test_five_splits_of_protein(zoo_data) -> None:
    found = np.array([_evidence_maximised(uci.load("protein", split)) for split in range(5)])
    np.testing.assert_allclose(found.mean(0), FLOOR["protein"], rtol=2e-5)


@pytest.mark.data
def test_german_credit_whole_is_the_published_problem(zoo_data) -> None:
    want, got = german_credit(zoo_data), uci.load("german_credit", None)
    torch.testing.assert_close(got.x, want.x[:, :-1].float())
    assert torch.equal(got.y.double(), want.y)
    assert got.x_test is None
    assert len(uci.load("german_credit", 0).x_test) == 100


@pytest.mark.data
def test_raw_rows_of_a_benchmark(zoo_data) -> None:
    fit = zoo.run(zoo.load("linear_regression", data="uci/yacht", split=2), "exact", draws=50)
    table = np.loadtxt(zoo_data / "uci" / "yacht" / "data.txt")
    rows = {name: table[:5, i] for i, name in enumerate(uci.SETS["yacht"].columns.split())}
    assert fit.predict(rows)["mean"].shape == (1, 50, 5)
    assert fit.log_likelihood(rows).shape == (1, 50, 5)


# -- without the files -----------------------------------------------------------------------------------------


def test_without_the_folder_it_says_where_and_how(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.delenv("ZOO_DATA", raising=False)
    refused(lambda: uci.load("boston"), "ZOO_DATA is not set", "bostonHousing", "source='openml'")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    refused(lambda: uci.load("boston"), "no such file", "source='openml'")
    assert main(["run", "linear_regression", "-m", "exact", "--data", "uci/boston", "--split", "1"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_other_files_of_that_name(monkeypatch, tmp_path) -> None:
    file = tmp_path / "uci" / "yacht" / "data.txt"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    file.write_text("1 2 3\n4 5 6\n\n\n")
    refused(lambda: uci.load("yacht"), "2 x 3", "308 x 7")
    file.write_text("<html>\n")
    refused(lambda: uci.load("yacht"), "is not the table of yacht", error=ValueError)


@pytest.mark.parametrize("split", [-1, 20, 1.0, True, "0"])
def test_splits_that_there_are_not(split) -> None:
    refused(lambda: uci.load("boston", split), r"0 \.\.\. 19")


def test_unknown_names_and_options() -> None:
    refused(lambda: tables.load("uci/concret"), "'concrete'")
    refused(lambda: uci.load("boston", source="web"), "'files' or 'openml'")
    refused(lambda: tables.load("uci/boston", test=0.5), "prepared as published", "test")
    refused(lambda: zoo.load("linear_regression", "uci/protein", split=5), r"0 \.\.\. 4")


def test_openml_is_asked_only_when_named(monkeypatch) -> None:
    asked = []

    def fetch(name, **options):
        asked.append(name)
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({f"v{i}": rng.normal(size=308) for i in range(7)})
        return type("Bunch", (), {"frame": frame, "target_names": ["v0"]})()

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.delenv("ZOO_DATA", raising=False)
    with pytest.raises(ValueError, match="ZOO_DATA"):
        uci.load("yacht")
    assert asked == []
    data = uci.load("yacht", source="openml")
    assert asked == ["yacht_hydrodynamics"]
    assert data.info["y_name"] == "v0"
    assert len(data.x) == 277

    def broken(name, **options):
        raise OSError("no\nnetwork")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", broken)
    refused(lambda: uci.load("yacht", source="openml"), "could not be fetched from OpenML .no network.", "ZOO_DATA")
