"""A user's own models by NUTS, against exact moments and posteriordb's 10,000 reference draws.

Raw scales throughout: nothing is centred or standardised for the sampler. Every model has a twin with one slip
(a wrong prior, a lost factor) that the same check refuses.

Source: Magnusson et al. 2024, "posteriordb".
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pyro.infer.reparam.reparam
import pytest
import torch
from torch import Tensor

import zoo
from tests import own_models as own
from tests.statistics import assert_close_mcmc, summarise, z_for

pytestmark = [pytest.mark.data]
LONG = {"chains": 4, "seed": 0}
# Closed form given sigma, quadrature over sigma.
SBLRC = {
    "mean": (0.9996512642, 0.9987217031, 0.9981839068, 0.9988373009, 0.9985900433, 1.0428511941),
    "sd": (0.000986679, 0.0010091933, 0.0010808223, 0.001016358, 0.0009745911, 0.0769743449),
    "log_evidence": -194.96758859,
}
KIDIQ = {
    "mean": (25.7315381751, 5.9501169137, 0.5639060499, 18.1469840856),
    "sd": (5.8822901696, 2.2144783692, 0.0606470994, 0.6189871699),
}


def _json(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def _data(folder: Path, name: str) -> dict[str, Tensor]:
    raw = _json(folder / "posteriordb" / f"{name}.data.json.zip")
    return {k: torch.tensor(v, dtype=own.F64) for k, v in raw.items() if isinstance(v, list)}


def _reference(folder: Path, name: str, sites: list[str]) -> np.ndarray:
    """(chain, draw, site): ten chains of a thousand."""
    chains = _json(folder / "posteriordb" / f"{name}.draws.json.zip")
    return np.stack([[chain[site] for site in sites] for chain in chains]).transpose(0, 2, 1)


def _columns(*draws: Tensor) -> np.ndarray:
    """(chain, draw, all coordinates)."""
    return torch.cat([d.reshape(*d.shape[:2], -1) for d in draws], -1).numpy()


def _agrees(draws: np.ndarray, reference: np.ndarray) -> None:
    """Means and sds at alpha = 1e-4 in all; the reference's own Monte Carlo errors count."""
    truth = summarise(reference)
    assert_close_mcmc(draws, truth.mean, se=truth.mcse_mean, alpha=5e-5)
    seen = summarise(draws)
    score = np.abs(seen.sd - truth.sd) / np.hypot(seen.mcse_sd, truth.mcse_sd)
    assert score.max() <= z_for(5e-5, len(score)), f"sd of coordinate {score.argmax()}: {score.max():.1f} errors apart"


def sblrc(folder: Path, model: Callable[..., Any] = own.blr) -> zoo.Problem:
    data = _data(folder, "sblrc")
    return zoo.Problem("sblrc", model, {"x": data["X"], "y": data["y"]})


def schools(folder: Path, model: Callable[..., Any] = own.eight_schools) -> zoo.Problem:
    return zoo.Problem("eight schools", model, _data(folder, "eight_schools"))


def kidiq(folder: Path, model: Callable[..., Any] = own.kid_score) -> zoo.Problem:
    data = _data(folder, "kidiq")
    return zoo.Problem("kidiq", model, {"mom_hs": data["mom_hs"], "mom_iq": data["mom_iq"], "score": data["kid_score"]})


def earnings(folder: Path, model: Callable[..., Any] = own.log_earnings) -> zoo.Problem:
    data = _data(folder, "earnings")
    return zoo.Problem(
        "earnings", model, {"height": data["height"], "male": data["male"], "log_earn": data["earn"].log()}
    )


def numbered(site: str, count: int) -> list[str]:
    """Stan's names of a vector's coordinates."""
    return [f"{site}[{i + 1}]" for i in range(count)]


def test_the_reference_draws_agree_with_the_exact_moments(zoo_data: Path) -> None:
    for name, exact, sites in (
        ("sblrc-blr", SBLRC, [*numbered("beta", 5), "sigma"]),
        ("kidiq-kidscore_momhsiq", KIDIQ, [*numbered("beta", 3), "sigma"]),
    ):
        reference = _reference(zoo_data, name, sites)
        assert_close_mcmc(reference, exact["mean"], exact["sd"])
        with pytest.raises(AssertionError):  # the twin: one coordinate a tenth of an sd off
            assert_close_mcmc(reference, np.array(exact["mean"]) + 0.1 * np.array(exact["sd"]), exact["sd"])


# -- twins ---------------------------------------------------------------------------------------------------


def variance_for_sd(x: Tensor, y: Tensor) -> None:
    """sblrc with sigma taken for a variance."""
    beta = pyro.sample("beta", dist.Normal(x.new_zeros(x.shape[1]), 10.0).to_event(1))
    sigma = pyro.sample("sigma", dist.HalfNormal(x.new_full((), 10.0)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ beta, sigma.sqrt()), obs=y)


def wider_tau(y: Tensor, sigma: Tensor) -> None:
    """Eight schools with the other prior that is in use for tau, HalfCauchy(25)."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(y.new_full((), 25.0)))
    with pyro.plate("school", y.shape[0]):
        eta = pyro.sample("eta", dist.Normal(y.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(pyro.deterministic("theta", mu + tau * eta), sigma), obs=y)


def _proper(model: Callable[..., None], scale: float) -> Callable[..., None]:
    """The model with N(0, scale^2) for its flat coefficients."""

    def twin(**data: Tensor) -> None:
        size = 3 if model is own.kid_score else 4
        prior = dist.Normal(next(iter(data.values())).new_zeros(size), scale).to_event(1)
        with pyro.poutine.reparam(config={"beta": _Instead(prior)}):
            model(**data)

    return twin


class _Instead(pyro.infer.reparam.reparam.Reparam):
    """Another prior for a site."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def apply(self, msg: Any) -> Any:
        return {"fn": self.fn, "value": msg["value"], "is_observed": msg["is_observed"]}


# -- the checks ----------------------------------------------------------------------------------------------


def _run(problem: zoo.Problem, draws: int, **options: Any) -> zoo.Posterior:
    return zoo.run(problem, "nuts", **LONG, draws=draws, **options)


def _sblrc(folder: Path, model: Callable[..., Any]) -> None:
    """Columns of sd 200 beside a noise of 1: the diagonal mass learns the scales."""
    fit = _run(sblrc(folder, model), 2000, warmup=500)
    draws = _columns(fit.draws["beta"], fit.draws["sigma"])
    assert_close_mcmc(draws, SBLRC["mean"], SBLRC["sd"])
    _agrees(draws, _reference(folder, "sblrc-blr", [*numbered("beta", 5), "sigma"]))


def _schools(folder: Path, model: Callable[..., Any]) -> None:
    fit = _run(schools(folder, model), 1500, warmup=500, target_accept=0.95)
    draws = _columns(fit.predict()["theta"], fit.draws["mu"], fit.draws["tau"])
    name = "eight_schools-eight_schools_noncentered"
    _agrees(draws, _reference(folder, name, [*numbered("theta", 8), "mu", "tau"]))


def _kidiq(folder: Path, model: Callable[..., Any]) -> None:
    fit = _run(kidiq(folder, model), 1500, warmup=500)
    draws = _columns(fit.draws["beta"], fit.draws["sigma"])
    assert_close_mcmc(draws, KIDIQ["mean"], KIDIQ["sd"])
    _agrees(draws, _reference(folder, "kidiq-kidscore_momhsiq", [*numbered("beta", 3), "sigma"]))


def _earnings(folder: Path, model: Callable[..., Any]) -> None:
    """Coefficients that correlate by .999: 5 leapfrog steps a draw with a dense mass, 130 with a diagonal one."""
    fit = _run(earnings(folder, model), 1500, warmup=1000, mass="dense")
    draws = _columns(fit.draws["beta"], fit.draws["sigma"])
    _agrees(draws, _reference(folder, "earnings-logearn_interaction", [*numbered("beta", 4), "sigma"]))


CHECKS = {
    "sblrc": (_sblrc, own.blr, variance_for_sd),
    "eight schools": (_schools, own.eight_schools, wider_tau),
    "kidiq": (_kidiq, own.kid_score, _proper(own.kid_score, 10.0)),
    "earnings": (_earnings, own.log_earnings, _proper(own.log_earnings, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHECKS))
def test_a_users_model_gives_the_reference(name: str, zoo_data: Path) -> None:
    check, model, _ = CHECKS[name]
    check(zoo_data, model)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHECKS))
def test_its_twin_does_not(name: str, zoo_data: Path) -> None:
    check, _, twin = CHECKS[name]
    with pytest.raises(AssertionError, match="errors apart"):
        check(zoo_data, twin)


@pytest.mark.slow
def test_a_mass_that_does_not_fit_is_slow_and_says_so(zoo_data: Path) -> None:
    fit = _run(earnings(zoo_data), 100, warmup=200, engine="compiled")
    assert "not converged" in fit.outcome
