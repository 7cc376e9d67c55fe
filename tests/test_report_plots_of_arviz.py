"""`az.summary`, `az.loo`, `az.compare` and `az.plot_*` run on every method's result, without a warning.

What a method's result can't mean is left out by name: points have no spread, no leave-one-out and no R-hat; draws
of the prior know no y; only samplers have an energy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch

import zoo
from tests import report_cases as cases
from tests.test_report_loo import refitted
from zoo.report.arviz import arviz

matplotlib.use("Agg")

import matplotlib.pyplot as plt

az = arviz()
ZERO = az.__version__.startswith("0.")
OPTIONS: dict[str, dict[str, Any]] = {
    "exact": {"draws": 600},
    "prior": {"draws": 600},
    "map": {"restarts": 2},
    "laplace": {"draws": 600},
    "svi": {"steps": 300, "draws": 600},
    "nuts": {"warmup": 150, "draws": 300, "chains": 2, "engine": "eager", "max_depth": 5},
    "hmc": {"warmup": 150, "draws": 300, "chains": 2, "engine": "eager"},
}
SAMPLERS = ("nuts", "hmc")
POSTERIORS = ("exact", "laplace", "svi", *SAMPLERS)


def line() -> zoo.Data:
    """40 rows with noise 1."""
    x = torch.linspace(-1, 1, 40)[:, None]
    return zoo.Data(x, x[:, 0] + torch.randn(40, generator=cases.generator()), info={"x_names": ["age"]})


@functools.cache
def exported(method: str) -> Any:
    """The line, fitted and exported; `exact` needs the noise known, so all have it."""
    return zoo.run(zoo.load("linear_regression", line(), noise=1.0), method, **OPTIONS[method]).to_arviz(prior=True)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("method", POSTERIORS)
def test_summary_loo_and_compare(method: str) -> None:
    tree = exported(method)
    with cases.silence():
        table = az.summary(tree)
        found = az.loo(tree, pointwise=True)
        ranked = az.compare({method: tree, "laplace too": exported("laplace")})
    assert table.index.tolist() == ["w[age]", "b"]
    assert np.isfinite(table.astype(float).to_numpy()).all()
    assert float(found.elpd_loo if ZERO else found.elpd) == pytest.approx(refitted(line(), noise=1.0).sum(), abs=0.5)
    assert len(ranked) == 2


@pytest.mark.parametrize("method", ["map", "prior"])
def test_summary_of_points_and_of_the_prior(method: str) -> None:
    tree = exported(method)
    with cases.silence():
        table = az.summary(tree, **({"kind": "stats"} if method == "map" else {"group": "prior"}))
    assert table.index.tolist() == ["w[age]", "b"]
    with pytest.raises(TypeError, match="log likelihood not found"):
        az.loo(tree)
    assert ("loo" in tree.attrs) == (method == "map")


# name: (options, the methods that it is run on)
Plot = tuple[dict[str, Any], tuple[str, ...]]
OLD: dict[str, Plot] = {
    "plot_trace": ({}, POSTERIORS),
    "plot_posterior": ({}, POSTERIORS),
    "plot_forest": ({}, (*POSTERIORS, "map")),
    "plot_rank": ({}, POSTERIORS),
    "plot_autocorr": ({}, POSTERIORS),
    "plot_ess": ({}, POSTERIORS),
    "plot_mcse": ({}, POSTERIORS),
    "plot_pair": ({}, (*POSTERIORS, "map")),
    "plot_density": ({}, POSTERIORS),
    "plot_violin": ({}, POSTERIORS),
    "plot_bpv": ({}, POSTERIORS),
    "plot_ppc": ({"num_pp_samples": 2}, (*POSTERIORS, "map")),
    "plot_loo_pit": ({"y": "y"}, POSTERIORS),
    "plot_dist_comparison": ({}, POSTERIORS),
    "plot_energy": ({}, SAMPLERS),
    "plot_parallel": ({}, SAMPLERS),
}
NEW: dict[str, Plot] = {
    "plot_trace": ({}, POSTERIORS),
    "plot_trace_dist": ({}, POSTERIORS),
    "plot_dist": ({}, (*POSTERIORS, "map")),
    "plot_forest": ({}, (*POSTERIORS, "map")),
    "plot_rank": ({}, POSTERIORS),
    "plot_rank_dist": ({}, POSTERIORS),
    "plot_autocorr": ({}, POSTERIORS),
    "plot_ess": ({}, POSTERIORS),
    "plot_ess_evolution": ({}, POSTERIORS),
    "plot_mcse": ({}, POSTERIORS),
    "plot_pair": ({}, (*POSTERIORS, "map")),
    "plot_ridge": ({}, POSTERIORS),
    "plot_convergence_dist": ({}, POSTERIORS),
    "plot_ppc_dist": ({"num_samples": 2}, (*POSTERIORS, "map")),
    "plot_ppc_pit": ({}, POSTERIORS),
    "plot_ppc_interval": ({}, POSTERIORS),
    "plot_ppc_tstat": ({}, POSTERIORS),
    "plot_loo_pit": ({}, POSTERIORS),
    "plot_loo_interval": ({}, POSTERIORS),
    "plot_prior_posterior": ({}, POSTERIORS),
    "plot_energy": ({}, SAMPLERS),
    "plot_parallel": ({}, SAMPLERS),
}
PLOTS = OLD if ZERO else NEW
EVERYWHERE = [(name, method) for name, (_, methods) in PLOTS.items() for method in methods]


def draw(name: str, method: str) -> None:
    with cases.silence():
        getattr(az, name)(exported(method), **PLOTS[name][0])


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_of_a_sampler(name: str) -> None:
    draw(name, "nuts")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [pair for pair in EVERYWHERE if pair[1] != "nuts"])
def test_every_plot_of_every_method(name: str, method: str) -> None:
    draw(name, method)


def prior_plots() -> dict[str, Callable[[Any], Any]]:
    if ZERO:
        return {
            "posterior": lambda tree: az.plot_posterior(tree, group="prior"),
            "ppc": lambda tree: az.plot_ppc(tree, group="prior", num_pp_samples=10),
        }
    return {
        "dist": lambda tree: az.plot_dist(tree, group="prior"),
        "ppc": lambda tree: az.plot_ppc_dist(tree, group="prior_predictive", num_samples=10),
    }


@pytest.mark.parametrize("name", prior_plots())
@pytest.mark.parametrize("method", ["prior", "svi"])
def test_plots_of_the_prior(name: str, method: str) -> None:
    with cases.silence():
        prior_plots()[name](exported(method))


def test_plots_of_what_loo_and_compare_gave() -> None:
    trees = {method: exported(method) for method in ("nuts", "laplace")}
    with cases.silence():
        az.plot_khat(az.loo(trees["nuts"], pointwise=True))
        az.plot_compare(az.compare(trees))


def test_a_warning_is_seen() -> None:
    """The twin of `silence`: R-hat of a constant is 0 / 0."""
    fit = cases.line_fit()
    fit.draws["noise"][:] = 1.0
    with pytest.raises(RuntimeWarning, match="invalid value"):
        with cases.silence():
            az.summary(fit.to_arviz())
