"""A gradient summed over pieces of rows: that of all rows, for models whose rows are independent, and for no others.

Right answers: the density of all rows at once. Twins: a piece left out, the prior in every piece, a gradient that is
not pulled back to the mean of f; models whose rows depend on each other.
"""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from zoo.infer import centred as centring
from zoo.infer import in_pieces as cutting
from zoo.infer import piece_size
from zoo.infer.centred import centred
from zoo.infer.density import Density, density
from zoo.infer.in_pieces import InPieces
from zoo.infer.piece_size import in_pieces, is_sum, numbers_of_a_row

F64 = torch.float64
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
MODELS: dict[str, dict[str, Any]] = {
    "linear_regression": {},
    "softmax_regression": {},
    "bnn_regression": {"hidden": (7, 5), "prior_scale": "learned"},
    "bnn_classification": {"hidden": 6},
    "heteroscedastic_regression": {"hidden": 6},
    "two outputs": {"hidden": 6, "outputs": 2, "noise": 0.3},
}


def target(name: str, centre: bool, temperature: float = 1.0) -> Density:
    """A model's density in float64, with or without the mean of f in its intercept's place."""
    if name == "two outputs":
        x = torch.linspace(-2, 2, 90, dtype=F64)[:, None]
        problem = zoo.load("bnn_regression", zoo.Data(x, torch.cat([x.sin(), x.cos()], 1)), **MODELS[name])
    else:
        problem = zoo.load(name, **MODELS[name])
    plain = density(problem.to(dtype=F64), temperature=temperature)
    return centred(plain) if centre else plain


def points(of: Density, count: int = 3) -> Tensor:
    return torch.randn(count, of.dim, generator=torch.Generator().manual_seed(1), dtype=F64)


def close(found: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> bool:
    return all(torch.allclose(mine, other, **CLOSE) for mine, other in zip(found, right, strict=True))


@pytest.mark.parametrize("centre", [False, True], ids=["plain", "centred"])
@pytest.mark.parametrize("name", MODELS)
def test_pieces_are_all_rows(name: str, centre: bool) -> None:
    """Value and gradient to 1e-9, whatever is left over: one row, some, a whole piece."""
    whole = target(name, centre, temperature=0.7)
    at, n = points(whole), len(whole.problem.data.x)
    right = whole.value_and_grad(at)
    for size in (n - 1, n // 2, 17, 7):
        assert close(InPieces(whole, size).value_and_grad(at), right), size


@pytest.mark.parametrize("size", [1, 7, 33, 99])
def test_every_row_is_in_one_piece_or_left_over(size: int) -> None:
    """And what is left over has from one row to a piece. Twin: numbers that divide would leave none."""
    x = torch.arange(100)
    found = [rows for rows, _ in cutting.cut_up(x, x, size)]
    cut = cutting.in_whole_pieces(100, size)
    assert torch.cat([*found, x[cut:]]).tolist() == x.tolist()
    assert all(len(rows) == size for rows in found)
    assert 1 <= 100 - cut <= size
    assert cutting.in_whole_pieces(99, 33) == 66


def test_twin_that_leaves_a_piece_out_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = target("bnn_classification", True)
    real = cutting.cut_up
    monkeypatch.setattr(cutting, "cut_up", lambda *args: list(real(*args))[1:])
    monkeypatch.setattr(cutting, "AT_ONCE", 1)
    assert not close(InPieces(whole, 7).value_and_grad(points(whole)), whole.value_and_grad(points(whole)))


def test_twin_with_the_prior_in_every_piece_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = target("bnn_classification", True)
    monkeypatch.setattr(cutting, "in_plate", lambda *_: True)
    assert not close(InPieces(whole, 7).value_and_grad(points(whole)), whole.value_and_grad(points(whole)))


def test_twin_whose_gradient_is_not_pulled_back_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the intercept itself it is another one, at the same value."""
    whole = target("bnn_classification", True)
    real = InPieces._uncentred
    monkeypatch.setattr(InPieces, "_uncentred", lambda self, *args: (real(self, *args)[0], lambda grad: grad))
    found, right = InPieces(whole, 7).value_and_grad(points(whole)), whole.value_and_grad(points(whole))
    torch.testing.assert_close(found[0], right[0], **CLOSE)
    assert not torch.allclose(found[1], right[1], rtol=1e-3, atol=1e-3)


def test_the_mean_of_a_few_rows_keeps_the_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of rows, here 40 for some 10: the same density at the same values, back again, in pieces too.

    The twin is the mean of all rows, another coordinate.
    """
    all_rows = target("heteroscedastic_regression", True)
    plain = all_rows.with_intercept(None)
    at = points(plain)
    values = plain.constrain(at)
    before = all_rows.unconstrain(values)
    monkeypatch.setattr(centring, "ALL", 40)
    monkeypatch.setattr(centring, "SOME", 10)
    few = centred(plain)
    assert few.intercept == all_rows.intercept
    moved = few.unconstrain(values)
    assert not torch.allclose(moved, before)
    torch.testing.assert_close(few.log_prob(moved), plain.log_prob(at), **CLOSE)
    for name, value in few.constrain(moved).items():
        torch.testing.assert_close(value, values[name], **CLOSE)
    assert close(InPieces(few, 17).value_and_grad(moved), few.value_and_grad(moved))


def test_few_rows_are_all_of_them_and_many_some_512() -> None:
    count = {n: len(centring.some_rows(torch.zeros(n, 2))) for n in (1, 4096, 4097, 10**6)}
    assert count == {1: 1, 4096: 4096, 4097: 513, 10**6: 513}


def own(f: Any, n: int = 300, noise: Any = None) -> Density:
    """y ~ N(f(x, w), 1), or N(f, noise(x))."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
        value = f(x[:, 0], w)
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(value, noise(x) if noise else 1.0), obs=y)

    x = torch.linspace(-1, 3, n)[:, None]
    return density(zoo.Problem("own", model, zoo.Data(x, x[:, 0] ** 2)))


TABLE = torch.arange(300.0).div(100).round()  # 50 rows alike at a time: a few rows do not see it
DEPENDENT: dict[str, Any] = {
    "the mean": lambda x, w: w * (x - x.mean()),
    "the spread": lambda x, w: w * x / x.std(),
    "the number of rows": lambda x, w: w * x / len(x),
    "another row": lambda x, w: w * x.roll(1),
    "the first row": lambda x, w: w * (x - x[0]),
    "a table": lambda x, w: w * x + TABLE[: len(x)],
    "a table of that size": lambda x, w: w * x + TABLE,
    "many rows": lambda x, w: w * x if len(x) > 150 else w * x + 1,
    "few rows": lambda x, w: w * x if len(x) != 20 else w * x + 0.1,
}


@pytest.mark.parametrize("what", [*(name for name in DEPENDENT if name != "few rows"), "numpy"])
def test_no_model_that_depends_on_its_rows_is_cut_or_fails(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule itself; nor one whose features numpy makes, though its rows are independent: each piece's graph would
    hold those of the first. The twin is cut."""
    monkeypatch.setattr(piece_size, "PIECE", 4 * 16)
    monkeypatch.setattr(piece_size, "PROBED", 31)
    by_numpy = lambda x, w: w * torch.as_tensor(x.numpy() ** 2)  # noqa: E731
    f = DEPENDENT.get(what, by_numpy)
    assert type(in_pieces(own(f), 4)) is Density
    assert type(in_pieces(own(lambda x, w: w * x), 4)) is InPieces


@pytest.mark.parametrize("what", DEPENDENT)
def test_rows_that_depend_on_each_other_are_told(what: str) -> None:
    """In float32, too. The twin's rows are independent."""
    assert not is_sum(InPieces(own(DEPENDENT[what]), 20))
    assert is_sum(InPieces(own(lambda x, w: (w * x).tanh()), 20))


def small(monkeypatch: pytest.MonkeyPatch, numbers: int = 16) -> None:
    """Lets pieces be small, and the mean of f that of a few rows."""
    monkeypatch.setattr(piece_size, "PIECE", numbers)
    monkeypatch.setattr(piece_size, "PROBED", 11)
    monkeypatch.setattr(piece_size, "ALL", 40)
    monkeypatch.setattr(centring, "ALL", 40)
    monkeypatch.setattr(centring, "SOME", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


def test_where_rows_depend_on_each_other_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    dependent, independent = own(DEPENDENT["the mean"]), own(lambda x, w: w * x)
    assert in_pieces(dependent, 1) is dependent
    assert isinstance(in_pieces(independent, 1), InPieces)


def local(x: Tensor, y: Tensor | None = None) -> None:
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", dist.Normal(x[:, 0], 1.0))
        pyro.sample("y", dist.Normal(z, 1.0), obs=y)


def outside(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    pyro.sample("y", dist.Normal(w * x[:, 0], 1.0).to_event(1), obs=y)


def on_a_dict(rows: Tensor) -> None:
    outside(rows[:, None], rows)


def test_data_that_are_asked_for_numbers_stay_whole() -> None:
    """Those of some rows are no answer, whatever it is: the largest of the first 251 is not that of all."""
    f = {"asked": lambda x, w: w * x * int(x.max() > 9), "computed": lambda x, w: w * x * (x.max() > 9)}
    assert {name: numbers_of_a_row(own(g), 4) > 0 for name, g in f.items()} == {"asked": False, "computed": True}


def test_data_that_have_no_rows_to_cut_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latents of single rows, data outside the plate, a dict, one chain at a time. Twin: the same data in a plate."""
    small(monkeypatch)
    monkeypatch.setattr(piece_size, "PIECE", 256)
    x = torch.linspace(-1, 3, 4000)[:, None]
    for model in (local, outside):
        found = density(zoo.Problem("own", model, zoo.Data(x, x[:, 0])))
        assert in_pieces(found, 1) is found
    found = density(zoo.Problem("own", on_a_dict, {"rows": x[:, 0]}))
    assert in_pieces(found, 1) is found
    line = own(lambda x, w: w * x, 4000)
    alone = Density(line.problem, "loop")
    assert in_pieces(alone, 1) is alone
    assert isinstance(in_pieces(line, 1), InPieces)


def test_the_size_is_by_numbers_rows_chains_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four chains of 50 units: 200 numbers a row, 656 rows to 131,072 of them; eight such pieces are not cut.

    Small problems are not even traced; nor are those whose weights are as many as a piece's numbers.
    """
    problem = zoo.load("bnn_regression", n=5300)
    found = density(problem)
    assert numbers_of_a_row(found, 4) == 200
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        new = in_pieces(found, 4 * threads)
        assert isinstance(new, InPieces)
        assert new.size == 656
        assert (in_pieces(found, 4) is found) == (threads == 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(piece_size, "numbers_of_a_row", lambda *_: pytest.fail("traced"))
    for other, chains in ((density(zoo.load("bnn_regression", n=1700)), 4), (found, 1000)):
        assert in_pieces(other, chains) is other


def test_eight_pieces_are_the_border() -> None:
    """8 x 656 = 5,248 rows stay whole, one more is cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 1)
        for n, cut in ((5248, False), (5249, True)):
            assert isinstance(in_pieces(density(zoo.load("bnn_regression", n=n)), 4), InPieces) == cut


def test_of_centred_rows_there_are_more_than_their_mean_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,096 rows whose mean is that of all are left whole. Twin: their plain density."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    plain = density(zoo.load("bnn_regression", n=4096))
    new = centred(plain)
    assert in_pieces(new, 8) is new
    assert isinstance(in_pieces(plain, 8), InPieces)
