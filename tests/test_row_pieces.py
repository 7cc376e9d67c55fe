"""Rows in pieces: the same answer as all at once, and less memory for it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from zoo.core import over_draws, row_pieces
from zoo.core.row_pieces import joined, pieces


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 60), pixels=st.integers(1, 9), most=st.integers(1, 200))
def test_pieces_are_all_rows_once_and_never_of_one_size_only(rows, pixels, most):
    x, other = torch.arange(rows), torch.zeros(3 * rows)
    parts = pieces(((x, None, other), {"k": x}), rows, pixels, most)
    assert torch.cat([args[0] for (args, _), _ in parts]).tolist() == x.tolist()
    assert all(len(args[0]) == size <= max(2, most // pixels) for (args, _), size in parts)
    assert all(args[2] is other and kwargs["k"] is x for (args, kwargs), _ in parts)
    assert len(parts) == 1 or len({size for _, size in parts}) > 1


def test_what_has_no_entry_a_row_is_taken_once():
    """A network's unit count may be a piece's number of rows; it is not all pieces'."""
    parts = [{"f": torch.zeros(5, n, 2), "one": torch.ones(5), "units": torch.ones(5, 3)} for n in (3, 2)]
    out = joined(parts, [3, 2])
    assert {name: tuple(value.shape) for name, value in out.items()} == {"f": (5, 5, 2), "one": (5,), "units": (5, 3)}


@pytest.mark.parametrize("name", ["bnn_regression", "heteroscedastic_regression", "logistic_regression"])
def test_predictions_and_log_likelihoods_are_the_same(name, monkeypatch):
    problem = zoo.load(name)
    fit = zoo.run(problem, "prior", draws=7, seed=0)
    whole = fit.predict(seed=3), fit.log_likelihood()
    monkeypatch.setattr(row_pieces.pieces, "__defaults__", (23,))
    seen = []
    real = over_draws._mapped
    monkeypatch.setattr(over_draws, "_mapped", lambda one, v, data, rows: seen.append(rows) or real(one, v, data, rows))
    parts = fit.predict(seed=3), fit.log_likelihood()
    assert max(seen) == 23
    assert len(seen) > 4
    torch.testing.assert_close(parts[0], whole[0])
    torch.testing.assert_close(parts[1], whole[1])


def test_a_model_of_ones_own_sees_all_rows():
    """Its f may look at other rows: x less its mean, say."""
    import pyro
    import pyro.distributions as dist

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(torch.zeros(()), 1.0))
        f = pyro.deterministic("f", (x[:, 0] - x[:, 0].mean()) * w)
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(f, 1.0), obs=y)

    x = torch.arange(50.0).unsqueeze(1)
    problem = zoo.Problem("own", model, zoo.Data(x, x[:, 0]))
    fit = zoo.run(problem, "prior", draws=3, seed=0)
    whole = fit.predict(seed=1)["f"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_pieces.pieces, "__defaults__", (10,))
        assert torch.equal(fit.predict(seed=1)["f"], whole)


def test_rows_with_latents_of_their_own_stay_together():
    """Their noise is a value of the draw and not an argument, so it could not be cut with them."""
    problem = zoo.load("vae", source="digits", n=60, m=30, latent=2, hidden=5)
    fit = zoo.run(problem, "svi", steps=3, draws=2, batch_size=20, seed=0, engine="eager")
    whole = fit.predict(seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_pieces.pieces, "__defaults__", (10,))
        torch.testing.assert_close(fit.predict(seed=1), whole)
