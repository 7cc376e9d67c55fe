"""Latents of single rows: predictions never take the training rows', files keep the encoder, memory is bounded.

Twins: a prediction that answers the rows' latents with the draws of the training rows.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.refusals import refused
from zoo.core import local, predictive, row_predictive
from zoo.core.decoder import encode
from zoo.core.handlers import Values, pyro_state
from zoo.core.local import FixedParameters
from zoo.core.quantities import quantities
from zoo.infer import large
from zoo.infer.methods import svi


@pytest.fixture(scope="module")
def fit() -> zoo.Posterior:
    problem = zoo.load("vae", n=30, m=12, hidden=4)
    return zoo.run(problem, "svi", steps=60, draws=6, restarts=2, engine="eager", batch_size=10)


def images(fit: zoo.Posterior) -> Tensor:
    y = fit.problem.data.y_test  # type: ignore[union-attr]
    assert y is not None
    return y


def far_codes(fit: zoo.Posterior) -> zoo.Posterior:
    """The fit, its training rows' codes a hundred sds from their prior and its decoder one that shows them."""
    draws = dict(fit.draws)
    draws["z"] = torch.full_like(draws["z"], 100.0)
    draws["w1"], draws["w2"] = torch.ones_like(draws["w1"]), torch.ones_like(draws["w2"])
    draws["b1"], draws["b2"] = torch.zeros_like(draws["b1"]), torch.zeros_like(draws["b2"])
    return dataclasses.replace(fit, draws=draws)


def test_as_many_new_rows_as_training_rows_get_codes_of_their_own(fit: zoo.Posterior) -> None:
    """f is sum relu(z_1 + z_2) over four units: below 50 for every z of the prior, 800 for the training rows'."""
    far = far_codes(fit)
    for m in (30, 5):
        f = far.predict(torch.empty(m, 0))["f"]
        assert f.shape == (2, 6, m, 64)
        assert float(f.max()) < 50
    f = far.predict()["f"]
    assert float(f.max()) < 50
    rows = f[..., 0].reshape(12, 30)
    assert len(torch.unique(rows[0])) > 5  # a code for each row
    assert not torch.equal(rows[0], rows[1])  # and for each draw


def test_the_twin_takes_the_training_rows_codes(fit: zoo.Posterior) -> None:
    values, _ = predictive.flat_draws(far_codes(fit), None)
    arguments = fit.problem.inputs(torch.empty(30, 0))
    with pyro_state(validate=False), torch.no_grad():
        out = predictive.vectorised(fit.problem, values, arguments, answer=lambda value: Values({"z": value["z"]}))
    assert out is not None
    assert float(out["f"].min()) == 800


def test_predictions_are_seeded_and_thinned(fit: zoo.Posterior) -> None:
    x = torch.empty(3, 0)
    one, again, other = (fit.predict(x, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one["y"], again["y"])
    assert not torch.equal(one["f"], other["f"])
    assert fit.predict(x, draws=4)["f"].shape == (2, 2, 3, 64)
    state = torch.random.get_rng_state()
    fit.reconstruct(images(fit))
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_reconstruction_is_of_the_codes_at_the_given_rows(fit: zoo.Posterior) -> None:
    """encode is the network of the fit's parameters; reconstruct decodes its draws, and one by one gives the same."""
    y = images(fit)
    found = fit.encode(y)
    for chain in range(2):
        own = {name: value[chain] for name, value in fit.params.items()}
        with pyro_state(validate=False), FixedParameters(own):
            loc, scale = encode(y, y.new_empty(len(y), 0), 2, hidden=4, activation="relu")
        torch.testing.assert_close(found["loc"][chain], loc)
        torch.testing.assert_close(found["scale"][chain], scale)
    sharp = dataclasses.replace(fit, params={n: _sharp(n, v) for n, v in fit.params.items()})
    f = sharp.reconstruct(y)["f"]
    w1, b1, w2, b2 = (fit.draws[name][:, 0] for name in ("w1", "b1", "w2", "b2"))
    right = (found["loc"] @ w1 + b1[:, None]).relu() @ w2 + b2[:, None]
    torch.testing.assert_close(f, right[:, None].expand_as(f), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(fit.predict(given=y, seed=3)["f"], fit.reconstruct(y, seed=3)["f"])


def _sharp(name: str, value: Tensor) -> Tensor:
    """The encoder with sds of e^-20."""
    if name == "encoder.b2":
        return torch.cat([value[..., :2], torch.full_like(value[..., 2:], -20.0)], -1)
    return torch.cat([value[..., :2], 0 * value[..., 2:]], -1) if name == "encoder.w2" else value


def test_draw_by_draw_is_the_same(fit: zoo.Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the model cannot be mapped over draws, the same codes come out."""
    mapped = fit.reconstruct(images(fit), seed=5)
    monkeypatch.setattr(row_predictive, "vectorised", lambda *args, **kwargs: None)
    looped = fit.reconstruct(images(fit), seed=5)
    torch.testing.assert_close(looped["f"][0], mapped["f"][0], rtol=1e-4, atol=1e-4)  # later chains: other noise


def test_a_file_keeps_the_encoder(fit: zoo.Posterior, tmp_path: Path) -> None:
    again = zoo.open(fit.save(tmp_path / "vae.nc"))
    assert set(again.params) == set(fit.params)
    for name, value in fit.params.items():
        assert torch.equal(again.params[name], value)
    assert torch.equal(again.reconstruct(images(fit))["y"], fit.reconstruct(images(fit))["y"])
    assert torch.equal(zoo.log_marginal(again, y=images(fit)), zoo.log_marginal(fit, y=images(fit)))


def test_arviz_names_the_rows(fit: zoo.Posterior) -> None:
    found = fit.to_arviz()
    assert found.posterior["z"].dims == ("chain", "draw", "data", "z_dim_1")
    assert "z" not in found.posterior_predictive


def test_new_rows_have_no_conditional_likelihood(fit: zoo.Posterior) -> None:
    """At the training rows log p(y | z, w); at new ones log_marginal, which lies above the bound row by row."""
    assert fit.log_likelihood().shape == (2, 6, 30)
    refused(lambda: fit.log_likelihood(torch.empty(12, 0), images(fit)), "log_marginal", "z")
    terms = zoo.bound(fit, y=images(fit), draws=400)
    found = zoo.log_marginal(fit, y=images(fit), draws=400)
    assert found.shape == (2, 12)
    assert bool((found > terms["reconstruction"] - terms["kl"]).all())
    assert "log_lik" in str(zoo.scores(fit))


def test_a_model_without_latents_of_rows_averages_its_draws() -> None:
    fit = zoo.run("linear_regression", "exact", draws=300)
    right = fit.log_likelihood().exp().mean(1).log()
    torch.testing.assert_close(zoo.log_marginal(fit), right.double(), rtol=1e-5, atol=1e-5)


def test_draws_are_as_many_as_memory_likes(
    fit: zoo.Posterior, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """5,000 rows x 20 x 1,000 draws must not be kept or predicted unless asked for; it is said."""
    monkeypatch.setattr(local, "MOST", 5000)
    monkeypatch.setattr(row_predictive, "MOST", 30 * 64 * 4)
    with caplog.at_level(logging.INFO, logger="zoo"):
        few = zoo.run(fit.problem, "svi", steps=2, draws=1000, engine="eager")
        assert few.shape == (1, 5000 // (30 * 2 + 2 * 4 + 4 + 4 * 64 + 64))
        assert few.settings["draws"] == few.shape[1]
        assert few.predict()["f"].shape[1] == 4
        assert few.predict(draws=10)["f"].shape[1] == 10
    assert "draws instead of 1000" in caplog.text
    assert "4 of 12 draws are used" in caplog.text


# -- models of the user's own --------------------------------------------------------------------------------


def shifts(x: Tensor, y: Tensor | None = None) -> Tensor:
    """A row's own Gamma rate: a latent that is no function of normals, no f, no guide."""
    scale = pyro.sample("scale", dist.HalfNormal(x.new_ones(())))
    with pyro.plate("data", x.shape[0]):
        rate = pyro.sample("rate", dist.Gamma(x.new_full((x.shape[0],), 2.0), 1.0))
        pyro.sample("y", dist.Normal(scale * rate, 1.0), obs=y)
    return rate


def test_a_users_model_with_gamma_rows() -> None:
    """Predicted by the loop, compared on `scale` alone; what needs an encoder says so."""
    problem = zoo.Problem("shifts", shifts, zoo.Data(torch.zeros(8, 1), torch.arange(8.0)))
    fit = zoo.run(problem, "svi", steps=30, draws=40, engine="eager")
    out = fit.predict(torch.zeros(8, 1))
    assert out["y"].shape == (1, 40, 8)
    assert set(quantities(fit, out)) == {"scale"}
    named = dataclasses.replace(fit, problem=dataclasses.replace(problem, compare=("scale", "rate")))
    assert "rate" in quantities(named, out)
    for call in (lambda: fit.encode(torch.zeros(3), torch.zeros(3, 1)), lambda: zoo.log_marginal(fit)):
        refused(call, "encoder", "svi")
    refused(lambda: fit.predict(torch.zeros(2, 1), given=torch.zeros(2)), "encoder", "svi")


# -- bad input -----------------------------------------------------------------------------------------------


def square(values: Any, **more: Any) -> zoo.Data:
    y = torch.as_tensor(values)
    return zoo.Data(torch.empty(len(y), 0), y, **more)


def test_bad_images_are_refused_in_one_line() -> None:
    grey = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    refused(lambda: zoo.load("vae", square(16 * grey)), "[0, 1]", "likelihood='normal'")
    zoo.load("vae", square(16 * grey), likelihood="normal")
    refused(lambda: zoo.load("vae", square(grey), likelihood="bernouli"), "bernoulli")
    refused(lambda: zoo.load("vae", square(grey), pixels=5), "5 pixels", "4")
    refused(lambda: zoo.load("vae", zoo.Data(torch.empty(6, 0), grey[:, 0])), "(n, pixels)")
    refused(lambda: zoo.load("vae", square(grey, info={"image_shape": [3, 3]})), "image_shape", "9 pixels")
    tests = {"x_test": torch.empty(6, 0), "y_test": grey[:, :2]}
    refused(lambda: zoo.load("vae", square(grey, **tests)), "size of the training images")
    for option, value in (("latent", 0), ("hidden", 0), ("noise", -1.0), ("prior_scale", 0.0), ("binarise", 2)):
        options = {option: value} | ({"likelihood": "normal"} if option == "noise" else {})
        refused(lambda o=options: zoo.run(zoo.load("vae", square(grey), **o), "svi", steps=1), option)
    refused(
        lambda: zoo.run(zoo.load("vae", square(grey)), "svi", steps=1, guide_options={"weights": "x"}),
        "point",
        "normal",
    )


def test_grey_and_whole_numbers_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    whole = torch.randint(256, (6, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with caplog.at_level(logging.INFO, logger="zoo"):
        problem = zoo.load("vae", square(whole))
        zoo.run(problem, "svi", steps=3, draws=2, engine="eager")
    assert caplog.text.count("divided by 255") == 1
    assert caplog.text.count("shades of grey") == 1
    data: Any = problem.data
    torch.testing.assert_close(data.y, whole.flatten(1) / 255)
    assert data.info["image_shape"] == [2, 2]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="zoo"):
        hard = zoo.load("vae", square(whole), binarise=True)
    assert "grey" not in caplog.text
    fit = zoo.run(hard, "svi", steps=3, draws=2, engine="eager")
    black = zoo.run(zoo.load("vae", square((whole >= 128).float())), "svi", steps=3, draws=2, engine="eager")
    torch.testing.assert_close(fit.history["elbo"], black.history["elbo"])


def test_what_is_no_target_is_refused_by_all_doors(fit: zoo.Posterior) -> None:
    for door in (fit.reconstruct, fit.encode, lambda y: zoo.log_marginal(fit, torch.empty(12, 0), y)):
        refused(lambda door=door: door(None), "targets y")
        refused(lambda door=door: door(fit.problem.data), "targets y", "Data")
        refused(lambda door=door: door("abc"), "y must be a tensor")
    for draws in ("a", 1.5, True, 0):
        refused(lambda draws=draws: zoo.bound(fit, draws=draws), "draws must be a positive whole number")
    refused(lambda: zoo.log_marginal(fit, seed=None), "seed must be a whole number")


def test_new_images_are_read_as_the_training_images_were() -> None:
    """Bytes to a Gaussian decoder fitted to [0, 1]: no answer is better than an infinite one."""
    whole = torch.randint(256, (6, 2, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    fit = zoo.run(
        zoo.load("vae", square(whole), likelihood="normal", hidden=3), "svi", steps=3, draws=2, engine="eager"
    )
    y = whole / 255
    for shape in (y, y[:, None]):
        assert torch.equal(fit.encode(shape)["loc"], fit.encode(y.flatten(1))["loc"])
    refused(lambda: fit.encode(whole), r"y must lie in \[0, 1\] as in training, got \d to 25", "bytes by 255")
    refused(lambda: fit.reconstruct(y.mT), r"\(6,\)", r"\(3, 2\)")
    noisy = (y + 0.2 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))).flatten(1)
    assert noisy.min() < 0 or noisy.max() > 1
    assert torch.isfinite(fit.encode(noisy)["scale"]).all()
    twin = zoo.run(zoo.load("autoencoder", square(whole), hidden=3), "svi", steps=3, draws=2, engine="eager")
    refused(lambda: twin.predict(whole.flatten(1)), r"x must lie in \[0, 1\] as in training")


def test_options_that_would_change_nothing_are_refused() -> None:
    problem = zoo.load("vae", square((torch.rand(6, 4) > 0.5).float()), hidden=3)
    for options in ({"noise": 0.1}, {"noise": -1}):
        wrong = zoo.load("vae", problem.data, **options)
        refused(lambda wrong=wrong: zoo.run(wrong, "svi", steps=1), "Bernoulli decoder has no noise", "normal")
    refused(lambda: zoo.run(problem, "svi", steps=1, guide_options={"init_scale": 0}), "init_scale")
    refused(lambda: zoo.run(problem, "svi", steps=1, point=("w7",)), "point must name", "w7")


def test_bad_rows_to_reconstruct_are_refused(fit: zoo.Posterior) -> None:
    y = images(fit)
    refused(lambda: fit.reconstruct(y[:, :5]), "(64,)", "(5,)")
    refused(lambda: fit.reconstruct(16 * y), r"y must lie in \[0, 1\]", "bytes by 255")
    refused(lambda: fit.reconstruct(1.5 * y), "Divide pixels")
    refused(lambda: fit.encode(y[0]), "y must have")
    refused(lambda: fit.reconstruct(y, torch.zeros(12, 3)), "x must be")
    refused(lambda: zoo.log_marginal(fit, y=y, draws=0), "draws")
    refused(lambda: zoo.bound(zoo.run(fit.problem, "prior", draws=2)), "encoder", "prior")


def test_a_large_fit_is_tried_out_on_a_few_rows_if_an_encoder_takes_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """A q with parameters of single rows is tied to all of them."""
    monkeypatch.setattr(large, "MOST_COORDINATES", 10)
    problem = zoo.load("vae", n=30, m=12, hidden=4)
    for guide, rows in ((problem.guide, large.FEW_ROWS), ("normal", None)):
        fit = svi.set_up(problem, guide, {}, (), 1, seed=0)
        found = large.few_rows(fit.problem, fit.layout.size, fit.check_batch)
        assert found[2] == rows
        assert found[1] == (1.0 if rows is None else 30 / rows)
    assert large.few_rows(problem, 11)[2] is None
