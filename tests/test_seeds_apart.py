"""Draws and the noise of their predictions are different numbers, and no generator is left as another's."""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from zoo.core import computed, predictive, randomness, sites, stable
from zoo.infer import seeds
from zoo.infer.methods import exact

F64 = torch.float64
X, Y = torch.tensor([[0.6], [0.5]], dtype=F64), torch.tensor([0.4, 0.1], dtype=F64)
DRAWS = 20_000
NOISE, ROW = 0.6, 0.8


def predicted(method: str, seed: int = 0) -> tuple[float, float]:
    """Variance of y's draws at one row, and the posterior sd of w there."""
    problem = zoo.Problem("line", zoo.linear_regression.model, zoo.Data(X, Y), hyper={"bias": False}, exact=EXACT)
    fit = zoo.run(problem, method, draws=DRAWS, seed=seed)
    y = fit.predict(torch.tensor([[ROW]], dtype=F64), seed=seed)["y"]
    precision = 1 + (float(X.square().sum()) / NOISE**2 if method == "exact" else 0.0)
    return float(y.var()), precision**-0.5


EXACT: Any = zoo.linear_regression.exact


@pytest.mark.parametrize("method", ["exact", "prior"])
def test_the_noise_of_y_is_not_the_draws_of_theta(method: str) -> None:
    """Var y = x^2 sd^2 + noise^2 to 4 standard errors of a variance."""
    var, sd = predicted(method)
    right = (ROW * sd) ** 2 + NOISE**2
    assert var == pytest.approx(right, abs=4 * right * (2 / DRAWS) ** 0.5)


def test_twin_with_one_seed_for_both_sds_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """(x sd + noise)^2: the same normals twice."""
    monkeypatch.setattr(exact, "block_seed", lambda seed, *_: seed)
    var, sd = predicted("exact")
    wrong = (ROW * sd + NOISE) ** 2
    assert var == pytest.approx(wrong, abs=4 * wrong * (2 / DRAWS) ** 0.5)


def test_every_purpose_has_a_seed_of_its_own() -> None:
    assert len({0, *(seeds.block_seed(0, 0, 0, what) for what in ("exact", "prior", "guide"))}) == 4


# -- generators --------------------------------------------------------------------------------------------


def test_predictions_seed_the_cpu_with_the_numbers_they_had() -> None:
    """As torch.manual_seed; and the generator is put back."""
    before = torch.get_rng_state()
    with predictive.seeded(7, torch.device("cpu")):
        ours = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert torch.equal(ours, torch.rand(3))


def test_predictions_leave_other_devices_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.manual_seed seeds every CUDA device, now or when it wakes; ours asks for none."""
    asked: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", asked.append)
    with predictive.seeded(7, torch.device("cpu")):
        pass
    assert not asked
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
    assert asked == [7]


def test_what_looks_at_a_model_keeps_the_generators_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """fork_rng is asked for the problem's device, as a fake one shows; twin: the CPU needs none."""
    forked: list[list[Any]] = []

    @contextlib.contextmanager
    def fork_rng(devices: Any) -> Any:
        forked.append(list(devices))
        yield

    monkeypatch.setattr(torch.random, "fork_rng", fork_rng)
    for device in ("cuda:0", "cpu"):
        with randomness.untouched(device):
            pass
    assert forked == [[torch.device("cuda:0")], []]
    for module in (sites, stable, computed):
        assert "untouched(problem.tensor.device)" in inspect.getsource(module)
        assert "fork_rng" not in inspect.getsource(module)


def test_blocks_of_two_threads_wait_for_each_other() -> None:
    """A seed set between another's seed and its draws would decide them, and be what is put back."""
    before, right, found = torch.get_rng_state(), dict[int, Tensor](), dict[int, Tensor]()

    def draw(seed: int, into: dict[int, Tensor]) -> None:
        with randomness.seeded(seed):
            time.sleep(0.02)
            into[seed] = torch.randn(3)
            time.sleep(0.02)

    for seed in range(6):
        draw(seed, right)
    threads = [threading.Thread(target=draw, args=(seed, found)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(right[seed], found[seed]) for seed in range(6))
    assert torch.equal(torch.get_rng_state(), before)
