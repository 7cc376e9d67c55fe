"""Files: what is saved is what is opened, in another process too; nothing foreign or damaged opens."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import xarray as xr
from matplotlib.figure import Figure

import zoo
from tests import report_cases as cases
from tests.refusals import refused
from zoo.report import canvas, contents, files
from zoo.report.arviz import arviz
from zoo.report.encode import decode, encode

az = arviz()
FILES = Path(__file__).parent / "files"


def same(a: zoo.Posterior, b: zoo.Posterior) -> None:
    """Everything but the model is equal, bit for bit and dtype for dtype."""
    for kind in ("draws", "stats", "history"):
        mine, yours = getattr(a, kind), getattr(b, kind)
        assert mine.keys() == yours.keys()
        assert list(a.draws) == list(b.draws)
        for name in mine:
            assert mine[name].dtype == yours[name].dtype, name
            assert torch.equal(mine[name], yours[name]), name
    assert (a.weights is None) == (b.weights is None)
    assert a.weights is None or torch.equal(a.weights, b.weights)
    for word in ("method", "kind", "outcome", "seconds", "settings"):
        assert getattr(a, word) == getattr(b, word), word
    assert (a.warmup is None) == (b.warmup is None)
    for kind, values in (a.warmup or {}).items():
        assert values.keys() == b.warmup[kind].keys()
        assert all(torch.equal(v, b.warmup[kind][n]) and v.dtype == b.warmup[kind][n].dtype for n, v in values.items())
    assert a.problem.hash == b.problem.hash
    for word in ("name", "hyper", "names", "compare"):
        assert getattr(a.problem, word) == getattr(b.problem, word), word


def test_a_users_fit_round_trips_with_and_without_its_model(tmp_path: Path) -> None:
    fit = cases.line_fit(
        weights=torch.rand(4, 250, generator=cases.generator()),
        history={"elbo": torch.randn(2, 30), "kl": torch.randn(2, 10)},
        settings={"seed": 3, "options": {"scale": (1.0, 2.0), "dtype": "float32"}, "nan": None},
        outcome="interrupted after 250 draws",
    )
    path = fit.save(tmp_path / "fit.nc")
    assert path == tmp_path / "fit.nc"
    for opened in (zoo.open(path), zoo.open(path, model=cases.line)):
        same(fit, opened)
        for x in (None, fit.problem.data.x_test):
            for name, value in fit.predict(x).items():
                assert torch.equal(value, opened.predict(x)[name]), name
        data = fit.problem.data
        torch.testing.assert_close(fit.log_likelihood(), opened.log_likelihood())
        torch.testing.assert_close(
            fit.log_likelihood(data.x_test, data.y_test), opened.log_likelihood(data.x_test, data.y_test)
        )
        assert torch.equal(fit.predict(draws=20)["f"], opened.predict(draws=20)["f"])
        assert str(zoo.compare(fit, opened)) != ""


def test_without_its_model_only_new_inputs_are_refused(tmp_path: Path) -> None:
    opened = zoo.open(cases.line_fit().save(tmp_path / "fit.nc"))
    opened.to_arviz()
    assert zoo.compare(opened, opened).frame["verdict"].tolist() == ["gold", "agrees"]
    for call in (
        lambda: opened.predict(torch.randn(3, 2)),
        lambda: opened.predict(seed=1),
        lambda: opened.log_likelihood(torch.randn(3, 2), torch.randn(3)),
    ):
        with pytest.raises(ValueError, match=r"zoo.open\(path, model="):
            call()
    with pytest.raises(ValueError, match="at least 1"):
        opened.predict(draws=0)
    again = zoo.open(opened.save(tmp_path / "again.nc"))  # what was kept is kept
    assert torch.equal(again.predict()["f"], opened.predict()["f"])


OTHER_PROCESS = """
import sys, torch, zoo
for name in ("float32", "float64"):
    fit = zoo.open(name + ".nc")
    x = torch.linspace(-3, 3, 7, dtype=getattr(torch, name))[:, None]
    torch.save((fit.predict(x, seed=5), fit.problem.hyper), name + ".pt")
assert not any(m in sys.modules for m in ("arviz", "matplotlib")), "opening is light"
"""


def test_a_lecture_model_opens_in_another_process(tmp_path: Path) -> None:
    fits = {}
    for dtype in ("float32", "float64"):
        problem = zoo.load("bnn_regression", hidden=(4, 3), prior_scale=0.7).to(dtype=getattr(torch, dtype))
        fits[dtype] = zoo.run(problem, "prior", draws=20)
        fits[dtype].save(tmp_path / f"{dtype}.nc")
    command, path = [sys.executable, "-c", OTHER_PROCESS], {"PYTHONPATH": os.getcwd()}
    subprocess.run(command, check=True, cwd=tmp_path, env=os.environ | path)
    for dtype, fit in fits.items():
        there, hyper = torch.load(tmp_path / f"{dtype}.pt")
        assert hyper == fit.problem.hyper == {"hidden": (4, 3), "prior_scale": 0.7}
        x = torch.linspace(-3, 3, 7, dtype=getattr(torch, dtype))[:, None]
        for name, value in fit.predict(x, seed=5).items():
            assert there[name].dtype == value.dtype == getattr(torch, dtype)
            torch.testing.assert_close(there[name], value, rtol=1e-6, atol=1e-6)


def test_exact_and_models_without_inputs(tmp_path: Path) -> None:
    fit = zoo.run(zoo.load("coin_flip", n=10, heads=7), "exact", draws=50)
    opened = zoo.open(fit.save(tmp_path / "coin.nc"))
    same(fit, opened)
    assert opened.exact.log_evidence == fit.exact.log_evidence
    assert opened.problem.data.x.shape == (10, 0)


def test_point_estimates_and_half_precision(tmp_path: Path) -> None:
    fit = cases.line_fit(settings={"point": ["noise"]})
    fit.stats["lp"] = fit.stats["lp"].to(torch.bfloat16)
    same(fit, zoo.open(fit.save(tmp_path / "fit.nc")))


def test_data_in_a_dict(tmp_path: Path) -> None:
    problem = zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS), compare=("tau",))
    draws = {"mu": torch.randn(2, 20), "tau": torch.rand(2, 20) + 0.5, "eta": torch.randn(2, 20, 8)}
    fit = zoo.Posterior(problem, "nuts", "markov", draws)
    path = fit.save(tmp_path / "fit.nc")
    for opened in (zoo.open(path), zoo.open(path, model=cases.schools)):
        same(fit, opened)
        assert opened.problem.data["J"] == 8
        assert torch.equal(opened.predict()["effect"], fit.predict()["effect"])
        opened.to_arviz()


def test_both_generations_of_arviz_open_it(tmp_path: Path) -> None:
    """One layout: the file is the same whichever ArviZ is installed, and ArviZ reads it as its own."""
    fit = cases.line_fit(cases.line_problem(x_names=["age", "height"]))
    tree = az.from_netcdf(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(tree["posterior"]["w"], fit.draws["w"])
    assert tree["posterior"]["w"].dims == ("chain", "draw", "feature")
    assert tree["sample_stats"]["diverging"].dtype == bool
    assert tree["observed_data"]["y"].dims == ("data",)
    az.summary(tree)


def test_warm_up_weights_and_several_observed_sites(tmp_path: Path) -> None:
    """Counts, labels and an index as data; leave-one-out and predictive checks after opening, without the model."""
    fit = cases.two_sites_fit()
    fit = dataclasses.replace(fit, weights=torch.rand(2, 100, generator=cases.generator(1)))
    path = fit.save(tmp_path / "fit.nc")
    for opened in (zoo.open(path), zoo.open(path, model=cases.two_sites)):
        same(fit, opened)
        assert opened.problem.data["label"].dtype == torch.int64
        for site in ("count", "effect"):
            assert zoo.loo(opened, site=site).elpd == pytest.approx(zoo.loo(fit, site=site).elpd, abs=1e-6)
        assert zoo.check_predictive(opened).frame.equals(zoo.check_predictive(fit).frame)
        tree = opened.to_arviz(warmup=True)
        assert tree["warmup_posterior"]["rate"].shape == (2, 20, 3)
        assert tree["posterior"]["w"].dims == fit.to_arviz()["posterior"]["w"].dims
    same(fit, zoo.open(zoo.open(path).save(tmp_path / "again.nc")))
    tree = az.from_netcdf(path)
    assert tree["warmup_posterior"]["rate"].shape == (2, 20, 3)
    assert tree["log_likelihood"]["effect"].shape == (2, 100, 9)


def test_a_lecture_models_warm_up_and_class_labels(tmp_path: Path) -> None:
    fit = zoo.run("softmax_regression", "prior", draws=20)
    draws = {n: v[:, :5] for n, v in fit.draws.items()}
    fit = dataclasses.replace(fit, warmup={"draws": draws, "stats": {}})
    opened = zoo.open(fit.save(tmp_path / "fit.nc"))
    same(fit, opened)
    assert opened.problem.data.y.dtype == fit.problem.data.y.dtype
    assert opened.to_arviz(warmup=True)["warmup_posterior"]["w"].shape[1] in (2, 5)


@pytest.mark.parametrize("name", ["arviz_0.nc", "arviz_1.nc"])
def test_files_written_beside_either_arviz_open_beside_this_one(name: str) -> None:
    """The same fit saved on Python 3.11 with ArviZ 0.23 and on 3.12 with ArviZ 1.3: bit for bit, and by ArviZ too."""
    opened, other = zoo.open(FILES / name), zoo.open(FILES / "arviz_0.nc")
    same(opened, other)
    assert opened.warmup["draws"]["rate"].shape == (2, 20, 3)
    assert opened.weights.shape == (2, 40)
    assert zoo.loo(opened, site="effect").elpd == zoo.loo(other, site="effect").elpd
    tree = az.from_netcdf(FILES / name)
    assert len(az.summary(tree)) == 9
    assert tree["warmup_sample_stats"]["acceptance_rate"].shape == (2, 20)
    assert tree["log_likelihood"]["count"].shape == (2, 40, 6)


def test_a_file_from_before_original_units() -> None:
    """Written when predictions were of the standardised y: opened without its model it answers in original units."""
    path = FILES / "before_units.nc"
    without, by_model = zoo.open(path), zoo.open(path, model=cases.line)
    assert without.warmup is None
    for x in (None, by_model.problem.data.x_test):
        for name, value in by_model.predict(x).items():
            torch.testing.assert_close(without.predict(x)[name], value, msg=name)
    data = by_model.problem.data
    for given in ((), (data.x_test, data.y_test)):
        torch.testing.assert_close(without.log_likelihood(*given), by_model.log_likelihood(*given))
    seen = without.to_arviz()["observed_data"]["y"].values
    np.testing.assert_allclose(seen, 50 + 10 * data.y.numpy(), rtol=1e-6)
    assert not np.allclose(seen, data.y.numpy())  # the twin: as it was kept


def test_attributes_are_strings_and_numbers_and_nothing_is_pickled(tmp_path: Path) -> None:
    path = cases.line_fit().save(tmp_path / "fit.nc")
    with h5py.File(path) as file:
        assert np.ravel(file.attrs["zoo_format"]).tolist() == [1]
        facts = json.loads(file.attrs["zoo"])
        assert all(isinstance(v, (str, bytes)) or np.asarray(v).dtype.kind in "if" for v in file.attrs.values())
    assert facts["method"] == "nuts"
    assert b"cpickle" not in path.read_bytes().lower()


def test_a_long_settings_string_fits(tmp_path: Path) -> None:
    fit = cases.line_fit(settings={"long": "x" * 200_000})
    assert zoo.open(fit.save(tmp_path / "fit.nc")).settings == fit.settings


def test_only_lecture_models_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names another module opens as a fit without a model: the name is never imported."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    fit = zoo.run(zoo.load("coin_flip"), "exact", draws=10)
    facts, groups = contents.pack(fit)
    for name in ("evil", "core.problem", "../evil", "os"):
        opened = contents.unpack(facts | {"lecture_model": name}, groups, None)
        with pytest.raises(ValueError, match="your own"):
            opened.problem.model()
    assert "evil" not in sys.modules


def test_a_users_model_with_a_lecture_models_name_is_not_confused(tmp_path: Path) -> None:
    problem = cases.line_problem()
    mine = zoo.Problem("linear_regression", cases.line, problem.data, hyper=problem.hyper)
    opened = zoo.open(cases.line_fit(mine).save(tmp_path / "fit.nc"))
    with pytest.raises(ValueError, match="your own"):
        opened.predict(torch.randn(2, 2))


def test_the_wrong_model_is_refused(tmp_path: Path) -> None:
    path = cases.line_fit().save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"its draws are of .*the model samples") as caught:
        zoo.open(path, model=lambda x, y=None, *, sd=1.0: cases.line(x[:, :1], y))
    assert "\n" not in str(caught.value)


def edit(path: Path, change: Any) -> Path:
    with h5py.File(path, "a") as file:
        change(file)
    return path


def test_files_that_are_not_opened(tmp_path: Path) -> None:
    path = cases.line_fit().save(tmp_path / "fit.nc")
    whole = path.read_bytes()

    def refused(word: str, target: Path = path, error: type[Exception] = ValueError) -> None:
        with pytest.raises(error, match=word) as caught:
            zoo.open(target)
        assert "\n" not in str(caught.value)
        assert target.name in str(caught.value)

    refused("no file", tmp_path / "none.nc", FileNotFoundError)
    refused("no file", tmp_path, FileNotFoundError)
    (tmp_path / "text.nc").write_text("not a netCDF file")
    refused("no netCDF", tmp_path / "text.nc")
    (tmp_path / "empty.nc").write_bytes(b"")
    refused("no netCDF", tmp_path / "empty.nc")
    for part in (0.1, 0.5, 0.99):
        path.write_bytes(whole[: int(part * len(whole))])
        refused("cut off")
    xr.Dataset({"a": ("b", [1.0])}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    refused("Posterior.save", tmp_path / "foreign.nc")
    for word, change in (
        ("zoo_format 7", lambda f: f.attrs.__setitem__("zoo_format", 7)),
        ("changed", lambda f: f["posterior/w"].__setitem__((0, 0, 0), 99.0)),
        ("changed", lambda f: f.attrs.__setitem__("zoo", f.attrs["zoo"].replace("my line", "my lime"))),
        ("changed", lambda f: f.__delitem__("zoo_data")),
        ("changed", lambda f: f.attrs.__delitem__("zoo_sha256")),
    ):
        path.write_bytes(whole)
        refused(word, edit(path, change))


def test_a_flipped_bit_in_the_draws_is_seen(tmp_path: Path) -> None:
    fit = cases.line_fit()
    path = fit.save(tmp_path / "fit.nc")
    whole = bytearray(path.read_bytes())
    place = whole.find(fit.draws["w"].numpy().tobytes()[:64])
    assert place > 0
    whole[place + 5] ^= 1
    path.write_bytes(bytes(whole))
    with pytest.raises(ValueError, match="changed or damaged"):
        zoo.open(path)


def test_facts_of_the_wrong_form_are_one_line(tmp_path: Path) -> None:
    """A file with a right checksum and wrong contents: still one line."""
    facts, groups = contents.pack(cases.line_fit())
    for change in ({"sites": ["nothing"]}, {"dtypes": {}}, {"kind": "magic"}, {"layout": {}}, {"data": 3}):
        text = json.dumps(facts | change)
        attrs = {"zoo_format": 1, "zoo": text, "zoo_sha256": files.digest(text, groups)}
        tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **groups})
        tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
        with pytest.raises(ValueError, match=r"can't be opened") as caught:
            zoo.open(tmp_path / "fit.nc")
        assert "\n" not in str(caught.value)


def test_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = cases.line_fit()
    path = fit.save(tmp_path / "fit.nc")
    before = path.read_bytes()

    def breaks(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", breaks)
    with pytest.raises(OSError, match="disk full"):
        fit.save(path)
    with pytest.raises(OSError, match="disk full"):
        fit.save(tmp_path / "new.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
    assert path.read_bytes() == before


def test_a_disk_that_is_read_only_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    fit, figure = cases.line_fit(), Figure()
    monkeypatch.setattr(Path, "open", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    for write in (lambda: fit.save(tmp_path / "fit.nc"), lambda: canvas.write(figure, tmp_path / "a.png")):
        refused(write, "can't be written: Read-only file system", "choose a folder", error=OSError)


def test_paths_that_cant_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder"):
        cases.line_fit().save(tmp_path)
    with pytest.raises(ValueError, match="no folder"):
        cases.line_fit().save(tmp_path / "none" / "fit.nc")


def test_too_many_draws_are_thinned_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "CAP", 1000)
    fit = cases.line_fit(weights=torch.rand(4, 250))
    fit = dataclasses.replace(fit, warmup={"draws": {"noise": fit.draws["noise"][:, :7]}, "stats": {}})
    with caplog.at_level(logging.WARNING, logger="zoo"):
        opened = zoo.open(fit.save(tmp_path / "fit.nc"))
    assert "every 4." in caplog.text
    assert torch.equal(opened.draws["w"], fit.draws["w"][:, ::4])
    assert torch.equal(opened.stats["lp"], fit.stats["lp"][:, ::4])
    assert torch.equal(opened.weights, fit.weights[:, ::4])
    assert torch.equal(opened.warmup["draws"]["noise"], fit.warmup["draws"]["noise"][:, ::4])
    assert opened.settings["thinned_in_file"] == 4


def test_hyperparameters_keep_their_types() -> None:
    values = {
        "tuple": (1, (2.5, "a")),
        "list": [1, None, True],
        "tensor": torch.tensor([[0.1, 0.2]], dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "dtype": torch.float32,
        "dict": {"a": {"b": -0.0}},
        "numpy": np.float64(0.1),
        "inf": float("inf"),
    }
    back = decode(json.loads(json.dumps(encode(values, "hyper"))))
    assert torch.equal(back.pop("tensor"), values.pop("tensor"))
    assert back.pop("empty").shape == values.pop("empty").shape
    assert back == values
    assert isinstance(back["tuple"][1], tuple)


def test_what_cant_be_encoded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TypeError, match=r"hyper\['f'\] is a function"):
        encode({"f": torch.tanh.__call__ and (lambda v: v)}, "hyper")
    # A long run of a user's model is not lost for it: the value is left out, and said.
    problem = zoo.Problem("mine", lambda x, y=None, *, link: cases.line(x, y), cases.line_problem().data,
                          hyper={"link": lambda v: v})  # fmt: skip
    with caplog.at_level(logging.WARNING, logger="zoo"):
        opened = zoo.open(cases.line_fit(problem).save(tmp_path / "fit.nc"))
    assert "link" in caplog.text
    assert opened.problem.hyper == {}
    opened.predict()
