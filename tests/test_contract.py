"""Every model keeps the contract at any number of rows and columns; its check catches every broken twin."""

from __future__ import annotations

import random
import types

import pyro
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from tests.cases import CASES, problem
from zoo.core.sites import sites
from zoo.core.trial import local_rows, row_log_prob, run
from zoo.infer.density import density

X, Y = torch.randn(9, 2, generator=torch.Generator().manual_seed(1)), torch.linspace(-1, 1, 9)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])


def test_every_model_has_a_line_in_the_table():
    assert {case.model for case in CASES} == set(zoo.names())


@EVERY_CASE
def test_the_contract(case):
    report = zoo.check(problem(case))
    assert report.ok, str(report)


LARGE = ("lenet", "segmentation")  # their small cases above are quick
BY_NAME = [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in zoo.names()]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_model_file_by_name(name):
    report = zoo.check(name)
    assert report.ok, str(report)
    assert report.rows[0].name == "file"


@EVERY_CASE
@settings(max_examples=8, deadline=None, derandomize=True)
@given(n=st.integers(1, 6), d=st.integers(1, 4), seed=st.integers(0, 99), data=st.data())
def test_shapes_and_rows_at_any_size(case, n, d, seed, data):
    task = problem(case, n, d, seed)
    found = sites(task, seed)
    messages = run(task, found.values)
    target = density(task, "eager")
    assert target.dim == case.dim(d) + n * case.local
    assert target.log_prob(torch.zeros(2, target.dim)).shape == (2,)
    assert messages["f"]["value"].shape == (*task.data.y.shape, *([case.scores] if case.scores else []))
    assert row_log_prob(task, messages["y"]).shape == (n,)
    # any rows, in any order, repeated or not: f and log p(y) of a row are that row's
    index = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5)))
    part = zoo.Problem("part", task.model, zoo.Data(task.data.x[index], task.data.y[index]), hyper=task.hyper)
    again = run(part, local_rows(task, messages, found.values, index))
    torch.testing.assert_close(again["f"]["value"], messages["f"]["value"][index], rtol=1e-5, atol=1e-5)
    whole = row_log_prob(task, messages["y"])
    torch.testing.assert_close(row_log_prob(part, again["y"]), whole[index], rtol=1e-4, atol=1e-4)


# -- broken twins --------------------------------------------------------------------------------------------


def twin(change=lambda w, x: w, *, size=None, prior=None, links=lambda f: f):
    """Linear regression with one thing broken; with nothing broken it keeps the contract."""

    def model(x, y=None):
        w = pyro.sample("w", prior(x) if prior else dist.Normal(x.new_zeros(2), 1.0).to_event(1))
        f = pyro.deterministic("f", links(x @ change(w, x)))
        with pyro.plate("data", size(x) if size else x.shape[0]):
            pyro.sample("y", dist.Normal(f, 1.0), obs=y)

    return model


def _prints(w, x):
    print("hello")
    return w


def _stores(w, x):
    return w + pyro.param("shift", x.new_zeros(2))


def _in_place(w, x):
    out = x.new_zeros(2)
    out[0], out[1] = w[0], w[1]
    return out


def _draws(w, x):
    return w + 0 * torch.rand(2)


def _draws_python(w, x):
    return w + 0 * random.random()


def _local_outside(x, y=None):
    z = pyro.sample("z", dist.Normal(x.new_zeros(x.shape[0]), 1.0).to_event(1))
    f = pyro.deterministic("f", z)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, 1.0), obs=y)


def _no_plate(x, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))
    pyro.sample("y", dist.Normal(pyro.deterministic("f", x @ w), 1.0).to_event(1), obs=y)


def _always_scores(x, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))
    f = pyro.deterministic("f", x @ w)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, 1.0), obs=Y if y is None else y)


def _no_f(x, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


TWINS = {
    "names: no plate": (_no_plate, "names"),
    "names: no f": (_no_f, "names"),
    "names: model(x) does not sample y": (_always_scores, "names"),
    "device: zeros on the CPU": (twin(lambda w, x: w + torch.zeros(2, dtype=x.dtype)), "device"),
    "device: a prior on the CPU": (
        twin(prior=lambda x: dist.Normal(torch.zeros(2, dtype=x.dtype), 1.0).to_event(1)),
        "device",
    ),
    "dtype: torch.zeros": (twin(prior=lambda x: dist.Normal(torch.zeros(2), 1.0).to_event(1)), "dtype"),
    "dtype: float32 inside": (twin(lambda w, x: w.float(), links=lambda f: f), "dtype"),
    "traceable: item": (twin(lambda w, x: w * (1 + 0 * w.sum().item())), "traceable"),
    "traceable: a branch": (twin(lambda w, x: w if w[0] > 0 else 2 * w), "traceable"),
    "traceable: in place": (twin(_in_place), "traceable"),
    "any rows: len(x)": (twin(size=lambda x: len(x)), "any rows"),
    "any rows: 9 rows": (twin(size=lambda x: 9), "any rows"),
    "rows: 9 rows": (twin(size=lambda x: 9), "rows"),
    "rows: batch normalisation": (twin(links=lambda f: f - f.mean()), "rows"),
    "rows: a running sum": (twin(links=lambda f: f.cumsum(0)), "rows"),
    "pure: prints": (twin(_prints), "pure"),
    "parameters: a parameter": (twin(_stores), "parameters"),
    "pure: torch's generator": (twin(_draws), "pure"),
    "pure: Python's generator": (twin(_draws_python), "pure"),
    "local latents: outside the plate": (_local_outside, "local latents"),
    "finite start: infinite": (twin(lambda w, x: w * 1e30), "finite start"),
    "finite start: the gradient": (twin(lambda w, x: w + (0 * w).sqrt() * 0), "finite start"),
    "event dims: no to_event": (twin(prior=lambda x: dist.Normal(x.new_zeros(2), 1.0)), "event dims"),
}


def test_the_unbroken_twin_keeps_the_contract():
    report = zoo.check(zoo.Problem("whole", twin(), zoo.Data(X, Y)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", list(TWINS))
def test_a_broken_twin_is_caught_by_its_check(name, capsys):
    model, promise = TWINS[name]
    report = zoo.check(zoo.Problem(name, model, zoo.Data(X, Y)))
    assert promise in report.failed, str(report)
    assert not report.ok
    row = next(row for row in report.rows if row.name == promise)
    assert "Still works: " in row.text
    assert "\n" not in row.text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name", ["device: zeros on the CPU", "any rows: len(x)", "pure: prints", "rows: batch normalisation"]
)
def test_a_twin_breaks_only_what_it_breaks(name):
    model, promise = TWINS[name]
    assert zoo.check(zoo.Problem(name, model, zoo.Data(X, Y))).failed == [promise]


def test_len_is_answered_by_what_to_write():
    report = zoo.check(zoo.Problem("mine", twin(size=len), zoo.Data(X, Y)))
    assert "x.shape[0] instead of len()" in next(row for row in report.rows if row.name == "any rows").text


def test_what_could_not_be_checked_is_not_called_broken():
    """Without the plate of rows three promises are unknown; the one that was looked at and failed is counted."""
    text = str(zoo.check(zoo.Problem("mine", _no_plate, zoo.Data(X, Y)))).splitlines()
    assert text[0] == "mine breaks 1 of 12 promises, 3 could not be checked"
    assert [line.split("  ")[1] for line in text if "  ?  " in line] == ["any rows", "rows", "local latents"]


def test_the_prior_on_a_latent_with_a_row_each_is_local():
    def model(x, y=None):
        mu = pyro.sample("mu", dist.Normal(x.new_zeros(()), 1.0))
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("z", dist.Normal(mu, x.new_ones(())))
            pyro.deterministic("f", z)
            pyro.sample("y", dist.Normal(z, 1.0), obs=y)

    report = zoo.check(zoo.Problem("local", model, zoo.Data(X, Y)))
    assert report.ok, str(report)
    assert "z" in next(row for row in report.rows if row.name == "local latents").text


def test_a_users_problem_on_a_dict():
    def schools(y, sigma):
        mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 5.0))
        tau = pyro.sample("tau", dist.HalfCauchy(y.new_full((), 5.0)))
        with pyro.plate("data", y.shape[0]):
            eta = pyro.sample("eta", dist.Normal(y.new_zeros(()), 1.0))
            theta = pyro.deterministic("theta", mu + tau * eta)
            pyro.sample("y", dist.Normal(theta, sigma), obs=y)

    data = {
        "y": torch.tensor([28.0, 8, -3, 7, -1, 1, 18, 12]),
        "sigma": torch.tensor([15.0, 10, 16, 11, 9, 11, 10, 18]),
    }
    report = zoo.check(zoo.Problem("eight schools", schools, data, names={"f": "theta"}))
    assert report.ok, str(report)


def test_a_model_that_cannot_be_traced_gets_one_line():
    def model(x, y=None):
        k = pyro.sample("k", dist.Bernoulli(x.new_tensor(0.5)))
        pyro.sample("y", dist.Normal(k, 1.0), obs=y)

    report = zoo.check(zoo.Problem("discrete", model, zoo.Data(X, Y)))
    assert report.failed == ["sites"]
    assert "'k' is discrete" in str(report)


def test_a_module_of_your_own_and_what_it_lacks():
    module = types.ModuleType("mine", "y ~ N(x w, 1)")
    module.model = twin()
    assert "lacks data" in str(zoo.check(module))
    module.data = lambda seed=0: zoo.Data(torch.randn(5, 2), torch.zeros(5))
    assert "manual_seed" in str(zoo.check(module))
    module.data = lambda seed=0: zoo.Data(X, Y)
    assert zoo.check(module).ok
    module.__doc__ = ""
    assert "a docstring" in str(zoo.check(module))


def test_check_refuses_other_things():
    with pytest.raises(ValueError, match="mean 'coin_flip'"):
        zoo.check("coinflip")
    with pytest.raises(TypeError, match="got int"):
        zoo.check(3)
