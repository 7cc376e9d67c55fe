"""A user's model whose rows have latents, and an encoder of theirs: right answers, files, and what is said without it.

y_i = z_i W + noise is probabilistic PCA: log p(y_i) is a Normal's, and the twin scores by another one.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.refusals import refused

NOISE = 0.3


def factors(x: Tensor, y: Tensor | None = None) -> Tensor:
    w = pyro.sample("w", dist.Normal(x.new_zeros(2, 6), 1.0).to_event(2))
    with pyro.plate("data", x.shape[0]):
        z = pyro.sample("z", dist.Normal(x.new_zeros(x.shape[0], 2), 1.0).to_event(1))
        f = pyro.deterministic("f", z @ w)
        pyro.sample("y", dist.Normal(f, NOISE).to_event(1), obs=y)
    return f


def linear_encoder(model: Any) -> Any:
    def q(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.param("w_point", lambda: 0.1 * torch.randn(2, 6))
        a, log_sd = pyro.param("a", lambda: 0.1 * torch.randn(6, 2)), pyro.param("log_sd", torch.zeros(2))
        pyro.sample("w", dist.Delta(w, event_dim=2))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("z", dist.Normal(y @ a, log_sd.exp()).to_event(1))

    return q


def other(model: Any) -> Any:
    return linear_encoder(model)


@functools.cache
def fitted() -> zoo.Posterior:
    generator = torch.Generator().manual_seed(0)
    z, e = torch.randn(200, 2, generator=generator), torch.randn(200, 6, generator=generator)
    w = torch.tensor([[1.0, 2, 0, 0, 1, 0], [0, 0, 1, 2, 0, 1]])
    data = zoo.Data(torch.empty(200, 0), z @ w + NOISE * e)
    problem = zoo.Problem("factors", factors, data)
    return zoo.run(problem, "svi", guide=linear_encoder, steps=800, lr=0.02, batch_size=50, draws=4, engine="eager")


def log_p(fit: zoo.Posterior, noise: float = NOISE) -> Tensor:
    """log N(y_i; 0, W^T W + noise^2 I), (n,)."""
    w = fit.draws["w"][0, 0].double()
    y = fit.problem.data.y.double()  # type: ignore[union-attr]
    cov = w.T @ w + noise**2 * torch.eye(6, dtype=torch.float64)
    return dist.MultivariateNormal(torch.zeros(6, dtype=torch.float64), cov).log_prob(y)


def test_the_bound_and_log_p_of_a_users_encoder() -> None:
    """The exact posterior is in the family: both are within .02 nats of the closed form, the twin's is far."""
    fit = fitted()
    terms, right = zoo.bound(fit), log_p(fit)
    bound = (terms["reconstruction"] - terms["kl"])[0].mean()
    assert float(bound - right.mean()) == pytest.approx(0, abs=0.02)
    assert float((zoo.log_marginal(fit)[0] - right).mean()) == pytest.approx(0, abs=0.02)
    assert abs(float(bound - log_p(fit, 2 * NOISE).mean())) > 0.5


def test_a_file_and_the_guide_that_made_it(tmp_path: Path) -> None:
    fit = fitted()
    path, y = fit.save(tmp_path / "fit.nc"), fit.problem.data.y[:5]  # type: ignore[union-attr,index]
    back = zoo.open(path, factors, guide=linear_encoder)
    for name, value in fit.encode(y).items():
        assert torch.equal(back.encode(y)[name], value)
    assert torch.equal(back.reconstruct(y)["f"], fit.reconstruct(y)["f"])
    refused(lambda: zoo.open(path, factors).encode(y), r"zoo\.open\(path, model=factors, guide=linear_encoder\)")
    refused(lambda: zoo.open(path, guide=linear_encoder), "a guide needs its model")
    refused(lambda: zoo.open(path, factors, guide=other), "made with the guide 'linear_encoder', got 'other'")


def test_what_has_no_encoder_says_what_it_has() -> None:
    line = zoo.run("linear_regression", "exact", draws=5)
    for call in (lambda: line.encode(torch.zeros(3)), lambda: zoo.bound(line)):
        refused(call, "'linear_regression' has no latents of rows .* is in predict")
    problem = zoo.Problem("factors", factors, fitted().problem.data)
    refused(lambda: zoo.run(problem, "prior", draws=3).encode(torch.zeros(2, 6)), "by prior.*guide=your_guide")


@pytest.mark.parametrize("guide", ["normal", "AutoNormal"])
def test_a_guide_that_comes_along_is_nobodys_own(guide: str) -> None:
    """It has a parameter for each row and infers none from its y: opening a file with it would not help."""
    data = zoo.Data(torch.empty(5, 0), torch.rand(5, 6))
    for problem in (zoo.Problem("factors", factors, data), zoo.load("vae", data, hidden=2)):
        fit = zoo.run(problem, "svi", guide=guide, steps=2, draws=2, engine="eager")
        refused(lambda fit=fit: fit.encode(data.y), f"an encoder; this fit is by svi with guide='{guide}'")


def test_a_plain_guide_is_told_to_become_a_factory() -> None:
    """A function of (x, y), as Pyro's SVI takes it, is no factory: one line says how it is given."""

    def plain(x: Tensor, y: Tensor | None = None) -> None:
        linear_encoder(None)(x, y)

    problem = zoo.Problem("factors", factors, fitted().problem.data)
    refused(
        lambda: zoo.run(problem, "svi", guide=plain, steps=2),
        "guide=lambda model: plain",
        error=(TypeError, ValueError),
    )
    given = zoo.run(problem, "svi", guide=lambda model: plain, steps=3, draws=2, engine="eager")
    assert given.encode(torch.zeros(1, 6))["loc"].shape == (1, 1, 2)


def test_so_many_rows_of_a_model_without_inputs() -> None:
    fit = fitted()
    assert torch.equal(fit.predict(7, draws=2)["y"], fit.predict(torch.empty(7, 0), draws=2)["y"])
    refused(lambda: fit.predict(0), "at least 1 row, got 0")
    line = zoo.run("linear_regression", "exact", draws=5)
    refused(lambda: line.predict(5), "the number 5: 'linear_regression' has some")


def test_what_many_targets_print_fits_a_screen() -> None:
    """Scores count rows, and a check of every pixel shows the most extreme ones; problems print shapes, no numbers."""
    fit = zoo.run(zoo.load("vae", n=30, m=12, hidden=4, binarise=True), "svi", steps=5, draws=50, engine="eager")
    found = zoo.scores(fit)
    assert str(found).splitlines()[0] == "vae, svi: 12 test rows of 64 targets; se: standard error over them"
    check = zoo.check_predictive(fit)
    lines = str(check).splitlines()
    assert len(check.frame) == 256
    assert len(lines) < 46
    assert "The 216 least extreme statistics are left out" in str(check)
    kept = {tuple(line.split()[:2]) for line in lines[1:41]}
    worst = check.frame.assign(far=(check.frame["tail"] - 0.5).abs()).nlargest(40, "far")["far"].min()
    for row in check.frame.itertuples():
        if abs(row.tail - 0.5) > worst:
            assert (row.site, row.statistic) in kept
    text = repr(fit.problem)
    assert text.startswith("Problem(vae, ")
    assert "y_test (12, 64)" in text
    assert len(text) < 250
