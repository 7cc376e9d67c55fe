"""Gold files: what they hold is right, what is not good enough is refused, what differs from them is told."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from zoo.__main__ import main
from zoo.core.diagnostics import mcse_quantile
from zoo.core.quantities import Quantity
from zoo.report import certificates
from zoo.report.gold import Gold, find_gold, folder, key, open_gold, probe_rows
from zoo.report.make_gold import LEAST_ESS, add_stock, long_run, make_gold, shortcoming, write_gold

from .refusals import refused

NAMES = sorted(path.stem for path in folder().glob("*.json"))


@pytest.fixture(scope="module")
def coin() -> Gold:
    """Two heads, Beta(1, 1)."""
    return open_gold("coin_flip")


def test_gold_of_the_coin_is_its_exact_posterior(coin: Gold) -> None:
    """Beta(3, 1): mean .75, sd .1936491673, quantile p^(1/3); within 4 errors, which are below 1 % of the sd."""
    right = {"mean": 0.75, "sd": 0.1936491673, "mean_square": 0.6}
    for what, value in right.items():
        error = coin.numbers("theta", f"mcse_{what}")[0]
        assert abs(coin.numbers("theta", what)[0] - value) < 4 * error
        assert error < 0.02 * 0.1936
    entry = coin.facts["quantities"]["theta"]
    for percent, (value,) in entry["quantiles"].items():
        assert abs(value - (int(percent) / 100) ** (1 / 3)) < 4 * entry["mcse_quantiles"][percent][0]
    assert abs(coin.draws("theta").mean() - 0.75) < 4 * 0.1936 / math.sqrt(1000)
    assert coin.draws("theta").shape == (1000, 1)


def test_certificates_say_what_was_measured(coin: Gold) -> None:
    proof = coin.facts["certificates"]
    assert proof["density"]["largest_error"] < 1e-9
    assert proof["sampler"]["method"] == "chees"
    assert proof["sampler"]["least_ess"] > 1000
    assert proof["exact"]["largest_z"] < proof["exact"]["limit"]
    assert "2 heads" not in str(coin)
    bare = Gold(coin.facts | {"hyper": {}})
    assert str(bare).startswith("gold 'coin_flip': coin_flip, data ")
    assert "nuts, 16 x 1000 draws" in str(coin)


def test_a_gold_file_is_written_whole_and_read_back(coin: Gold, tmp_path: Path) -> None:
    path = write_gold(coin, tmp_path / "coin.json")
    assert open_gold(path).facts == json.loads(json.dumps(coin.facts))
    assert [p.name for p in tmp_path.iterdir()] == ["coin.json"]
    path.write_text(path.read_text()[:200])
    refused(lambda: open_gold(path), "no gold file of format 1, or is damaged")
    refused(
        lambda: open_gold("unicorn"),
        "there is no gold 'unicorn'; there is: ",
        "zoo gold MODEL",
        error=FileNotFoundError,
    )


def test_compare_with_gold(coin: Gold) -> None:
    """The exact posterior agrees with it; the twins, another posterior and a gold that is off, do not."""
    problem = zoo.load("coin_flip")
    exact = zoo.run(problem, "exact", draws=4000)
    frame = zoo.compare(coin, exact).frame
    assert list(frame["method"]) == ["gold", "exact"]
    assert frame["verdict"][1] == "agrees"
    assert frame["off"][1] < 0.06
    assert abs(frame["z"][1]) < 4
    assert abs(frame["sd_ratio"][1] - 1) < 0.05
    assert frame["w1"][1] < 3 * frame["w1_floor"][1]
    assert frame["mmd_p"][1] > 0.01
    other = zoo.run(zoo.load("coin_flip", a=2.0, b=8.0), "exact", draws=4000)
    found = zoo.compare(coin, other)
    assert found.frame["verdict"][1] != "agrees"
    assert "exact is of coin_flip with {'a': 2.0, 'b': 8.0}, gold of coin_flip with its defaults" in str(found.notes)
    shifted = json.loads(json.dumps(coin.facts))
    shifted["quantities"]["theta"]["mean"] = [0.6]
    assert "wrong" in zoo.compare(Gold(shifted), exact).frame["verdict"][1]
    data = zoo.Data(torch.empty(3, 0), torch.tensor([1.0, 0.0, 1.0]))
    three = zoo.run(zoo.load("coin_flip", data), "exact", draws=10)
    refused(lambda: zoo.compare(coin, three), "exact was run on other data", "Run both on one problem")


def test_too_short_a_run_is_no_gold(tmp_path: Path) -> None:
    """Chains that sit apart, and chains that hardly move, are named with the limit; a good one passes."""
    generator = np.random.default_rng(0)
    good = generator.normal(size=(16, 1000, 2))
    assert shortcoming({"f": Quantity(good, ["f[0]", "f[1]"])}, LEAST_ESS) == ""
    apart = good.copy()
    apart[3, :, 1] += 3
    assert shortcoming({"f": Quantity(apart, ["f[0]", "f[1]"])}, LEAST_ESS).startswith("R-hat of f[1] is 1.")
    slow = good.copy()
    for i in range(1, 1000):
        slow[:, i, 0] = 0.7 * slow[:, i - 1, 0] + math.sqrt(0.51) * slow[:, i, 0]
    assert "bulk ESS of f[0]" in shortcoming({"f": Quantity(slow, ["f[0]", "f[1]"])}, LEAST_ESS)
    fixed = np.ones((16, 1000, 1))
    assert shortcoming({"f": Quantity(fixed, ["f"])}, LEAST_ESS) == ""
    options = {"engine": "eager", "warmup": 20, "draws": 10, "seed": 0}
    refused(
        lambda: long_run(zoo.load("coin_flip"), "nuts", options, LEAST_ESS, 100.0, tmp_path / "run"),
        "no gold for coin_flip by nuts: ", "limit", error=RuntimeError,
    )  # fmt: skip


@pytest.mark.slow
def test_a_refused_run_is_kept_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draws of a run that had no time left are the first of the same command's, given more of it."""
    monkeypatch.setattr("zoo.report.make_gold.DRAWS", 40)
    problem = zoo.load("coin_flip").to(dtype=torch.float64)
    options = {"engine": "eager", "warmup": 50, "seed": 0, "chains": 4}
    refused(
        lambda: long_run(problem, "nuts", options, 60.0, 0.3, tmp_path / "run"),
        "in the time given|before its first draw", error=RuntimeError,
    )  # fmt: skip
    fit, _ = long_run(problem, "nuts", options, 60.0, 300.0, tmp_path / "run")
    again, _ = long_run(problem, "nuts", options, 60.0, 300.0, tmp_path / "run")
    whole, _ = long_run(problem, "nuts", options, 60.0, 300.0, tmp_path / "other")
    assert fit.shape[1] > 40
    assert torch.equal(fit.draws["theta"], whole.draws["theta"])
    assert torch.equal(again.draws["theta"], whole.draws["theta"])


def test_two_runs_that_differ_are_refused(coin: Gold) -> None:
    """Differences of 1 error pass; of 6 they do not."""
    numbers = {"theta": dict(coin.facts["quantities"]["theta"])}
    error = numbers["theta"]["mcse_mean"][0]

    def other(by: float) -> dict[str, dict[str, object]]:
        return {"theta": numbers["theta"] | {"mean": [numbers["theta"]["mean"][0] + by * error * math.sqrt(2)]}}

    assert certificates.agreement(numbers, other(1), "coin")["largest_z"] == pytest.approx(1, abs=0.01)
    refused(
        lambda: certificates.agreement(numbers, other(6), "coin"),
        "two runs differ in mean of theta",
        error=RuntimeError,
    )


def test_a_wrong_density_is_refused() -> None:
    fit = zoo.run(zoo.load("coin_flip"), "nuts", engine="eager", dtype="float64", draws=50, warmup=100, seed=0)
    assert certificates.density(fit)["largest_error"] < 1e-9
    wrong = dataclasses.replace(fit, stats=fit.stats | {"lp": fit.stats["lp"] + 1e-6})
    refused(lambda: certificates.density(wrong), "log density differs from Pyro's by", error=RuntimeError)


def test_the_error_of_a_quantile() -> None:
    """The sd of the 5 % quantile of 2,000 normals, over 400 sets, is the error that is stated, within 15 %."""
    draws = np.random.default_rng(1).normal(size=(4, 500, 400))
    stated = mcse_quantile(draws, 0.05).mean()
    seen = np.quantile(draws.reshape(2000, 400), 0.05, axis=0).std()
    assert stated == pytest.approx(seen, rel=0.15)
    assert stated != pytest.approx(1 / math.sqrt(2000), rel=0.15)  # the twin: the error of the mean
    assert mcse_quantile(np.ones((2, 10, 1)), 0.5) == 0


def test_probes_are_evenly_spaced_rows_of_x_test() -> None:
    assert probe_rows(zoo.load("coin_flip")) is None
    rows = probe_rows(zoo.load("bnn_regression"))
    assert rows is not None
    assert rows[0] == 0
    assert rows[-1] == 120
    assert len(rows) == 20
    assert set(np.diff(rows)) <= {6, 7}


def test_models_with_equal_posteriors_share_a_key() -> None:
    default = key(zoo.load("bnn_regression"))
    assert (
        default == key(zoo.load("bnn_regression", hidden=50)) == key(zoo.load("bnn_regression").to(dtype=torch.float64))
    )
    assert default != key(zoo.load("bnn_regression", hidden=51))
    assert default != key(zoo.load("bnn_regression", seed=1))
    dropout = key(zoo.load("mc_dropout"))
    assert dropout == key(zoo.load("mc_dropout", p=0.3, where="inner")) == key(zoo.load("gaussian_dropout"))
    assert dropout != key(zoo.load("gaussian_dropout", length_scale=2.0))


def test_there_is_gold_for_the_small_models() -> None:
    assert {"coin_flip", "linear_regression", "logistic_regression", "softmax_regression"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_gold_files_keep_their_promises(name: str) -> None:
    gold = open_gold(name)
    for quantity in gold.facts["quantities"]:
        varies = gold.numbers(quantity, "sd") > 0
        assert gold.numbers(quantity, "rhat").max() < 1.01
        assert min(gold.numbers(quantity, kind)[varies].min() for kind in ("ess_bulk", "ess_tail")) > LEAST_ESS
    run, proof = gold.facts["run"], gold.facts["certificates"]
    assert run["divergences"] <= run["chains"] * run["draws"] / 1000
    assert run.get("least_bfmi", 1) > 0.3
    assert proof["sampler"]["largest_z"] < proof["sampler"]["limit"]
    assert proof["sampler"]["least_ess"] > 1000
    problem = zoo.load(gold.facts["model"], **gold.facts["hyper"])
    assert find_gold(problem).facts["data"]["hash"] == problem.hash
    assert gold.facts["command"].startswith(f"python -m zoo gold {gold.facts['model']}")
    for quantity in gold.compared:
        apart = gold.draws(quantity).mean(0) - gold.numbers(quantity, "mean")
        assert (np.abs(apart) < 6 * gold.numbers(quantity, "sd") / math.sqrt(500)).all()


def test_gold_of_a_line_is_its_exact_posterior() -> None:
    """f at the probes: exact means and sds within 4.5 errors (40 comparisons); those of another noise are not."""
    gold, problem = open_gold("linear_regression"), zoo.load("linear_regression").to(dtype=torch.float64)
    x = gold.probes(problem.tensor)
    assert x is not None
    assert problem.exact is not None

    def z(noise: float) -> float:
        answer = problem.exact(problem.data, noise=noise).predictive(x)  # type: ignore[misc]
        mean, sd = answer.mean.numpy(), np.sqrt(answer.variance.numpy() - noise**2)
        errors = (gold.numbers("f", "mean") - mean) / gold.numbers("f", "mcse_mean")
        return max(np.abs(errors).max(), np.abs((gold.numbers("f", "sd") - sd) / gold.numbers("f", "mcse_sd")).max())

    assert z(0.6) < 4.5 < z(0.65)


def test_there_is_no_gold_for_other_hyperparameters() -> None:
    problem = zoo.load("linear_regression", prior_scale=3.0)
    refused(
        lambda: find_gold(problem), "there is no gold for linear_regression", "prior_scale", error=FileNotFoundError
    )


def test_stock_nuts_too_slow_to_certify_is_refused(coin: Gold) -> None:
    refused(
        lambda: add_stock(coin, zoo.load("coin_flip"), seconds=0.5),
        "stock NUTS|before its first draw",
        error=RuntimeError,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coin_flip", "linear_regression"])
def test_gold_made_again_with_another_seed_agrees(name: str) -> None:
    gold = open_gold(name)
    again = make_gold(zoo.load(name), seed=11)
    certificates.agreement(gold.facts["quantities"], again.facts["quantities"], name)


@pytest.mark.slow
def test_stock_nuts_certifies_the_coin(coin: Gold) -> None:
    proof = add_stock(coin, zoo.load("coin_flip")).facts["certificates"]["stock"]
    assert proof["largest_z"] < proof["limit"]
    assert proof["least_ess"] > 400


def test_a_refusal_names_no_folder_that_is_gone(tmp_path: Path) -> None:
    """Twin: a folder that was given stays, and is named."""
    options = {"engine": "eager", "warmup": 50}
    problem = zoo.load("coin_flip")
    said = refused(
        lambda: make_gold(problem, options=options, seconds=1e-3), "before its first draw", "say --checkpoint DIR",
        error=RuntimeError,
    )  # fmt: skip
    assert "zoo resume" not in said
    assert tempfile.gettempdir() not in said
    kept = tmp_path / "kept"
    refused(
        lambda: make_gold(problem, options=options, seconds=1e-3, kept=kept), f"zoo resume {kept}", error=RuntimeError
    )


def test_what_gold_does_not_cover_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """LeNet by its size, a VAE by its rows' codes. The help says it, too."""
    assert main(["gold", "vae"]) == 2
    assert "gold does not cover vae: every row has a 'z' of its own" in capsys.readouterr().err
    assert main(["gold", "lecture_bnn"]) == 2
    assert "made again by: python -m zoo gold bnn_regression" in capsys.readouterr().err
    images = zoo.load("lenet", zoo.Data(torch.zeros(10, 1, 28, 28), torch.arange(10)))
    refused(lambda: make_gold(images), "gold does not cover lenet with 431,080 unknowns", "zoo.lenet.features")
    with pytest.raises(SystemExit):
        main(["gold", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert "lenet's last layer alone" in words
    assert "codes belong to single rows" in words


def test_find_gold_takes_a_name_and_says_what_gold_does_not_cover() -> None:
    """Twin: a small model without gold is sent to nuts."""
    assert find_gold("linear_regression").facts == find_gold(zoo.load("linear_regression")).facts
    refused(lambda: find_gold(3), "must be a zoo.Problem or a model's name, got int", error=TypeError)  # type: ignore[arg-type]
    said = refused(lambda: find_gold("vae"), "gold does not cover vae: every row has a", error=FileNotFoundError)
    assert "nuts" not in said
    refused(lambda: find_gold(zoo.load("coin_flip", a=3.5)), "'nuts'", error=FileNotFoundError)


def test_no_file_takes_the_place_of_a_pipe(coin: Gold, tmp_path: Path) -> None:
    pipe = tmp_path / "coin.json"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="a device or pipe"):
        write_gold(coin, pipe)
    assert pipe.is_fifo()
