"""Every kernel: temperature, refusals of options that mean nothing, weights, compiled = eager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
import zoo.infer.kernels as kernels
from tests.kernel_runs import ALPHA, linear_map, march, normals, p_of_normal, speed_of
from tests.test_kernel_exact import any_direction
from zoo.infer.density import Density

EYE = torch.eye(2, dtype=torch.float64)
HOT = 4.0


# kernel: step size, iterations, options, tuned numbers, whether its law is a linear map's (else: exact)
TEMPERED: dict[str, tuple[float, int, dict[str, Any], dict[str, float], bool]] = {
    "mh": (3.0, 15, {}, {}, False),
    "mala": (3.0, 10, {}, {}, False),
    "hmc": (1.0, 4, {}, {"length": 2.5}, False),
    "chees": (1.0, 4, {}, {"length": 2.5}, False),
    "nuts": (1.5, 4, {"max_depth": 3}, {}, False),
    "mclmc": (1.5, 6, {}, {"length": 3.0}, False),
    "mclmc_unadjusted": (0.15, 30, {}, {}, False),
    "sgld": (0.5, 15, {"gamma": 0}, {}, True),
    "sghmc": (0.4, 15, {}, {}, True),
    "naive_momentum": (0.4, 15, {}, {}, True),
    "printed_sgld": (0.4, 15, {}, {}, True),
    "minibatch_mh": (3.0, 15, {"batch_size": 4}, {}, False),
    "minibatch_hmc": (0.8, 4, {"batch_size": 4, "steps_each": 3}, {}, False),
}


def two_weights() -> zoo.Problem:
    """w ~ N(0, I) within 1e-6: orthogonal columns, four rows of noise 2."""
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    data = zoo.Data(x, torch.zeros(4, dtype=torch.float64))
    return zoo.load("linear_regression", data, bias=False, noise=2.0, prior_scale=1e3)


def test_every_kernel_is_in_the_table() -> None:
    files = {path.stem for path in Path(kernels.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == set(TEMPERED)


@pytest.mark.parametrize("name", TEMPERED)
def test_temperature(name: str) -> None:
    """The target is p^(1/T): on N(0, 1/a) the law for a / T, alpha 1e-4, with the full data. Twin: T = 1."""
    h, iterations, own, tuned, linear = TEMPERED[name]
    law = linear_map(name, EYE / HOT, h, **own).law() if linear else HOT * EYE
    start, speed = normals(law, 5000, 1), speed_of(name) if linear else None

    def begin(state: Any) -> Any:
        if name == "mclmc_unadjusted":
            return any_direction(state)
        return state._replace(**{speed: start[:, 2:]}) if speed else state

    def p(temperature: float) -> float:
        target = Density(two_weights(), temperature=temperature).value_and_grad
        found = march(name, start[:, :2], target, h, iterations, n=4, begin=begin, tuned=tuned, **own).position
        return p_of_normal(found, law[:2, :2])

    assert p(HOT) > ALPHA
    assert p(1.0) < ALPHA


# -- through zoo.run ---------------------------------------------------------------------------------------


def fit(method: str, problem: zoo.Problem | None = None, **options: Any) -> zoo.Posterior:
    fixed = {"engine": "eager", "dtype": "float64", "seed": 3, "progress": False, "warmup": 200, "draws": 400}
    return zoo.run(problem or zoo.load("logistic_regression", n=30), method, **(fixed | options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [("mclmc", {"warmup": 150, "draws": 150}), ("sgld", {"step_size": 0.4, "warmup": 150, "draws": 2000})],
)
def test_temperature_of_a_run(method: str, options: dict[str, Any]) -> None:
    """sd T^(1/2) within 10 %, mass learned in warm-up. Twin: T = 1."""
    for temperature, right in ((4.0, True), (1.0, False)):
        found = fit(method, two_weights(), temperature=temperature, **options)
        assert (abs(float(found.draws["w"].std()) / 2 - 1) < 0.1) == right


def test_draws_of_decreasing_steps_are_weighted_by_them() -> None:
    """Weights h_0 (1 + t / b)^-gamma from the first draw after warm-up on, thinned; none with a constant step."""
    fixed = {"warmup": 3, "draws": 40, "thin": 2, "step_size": 0.01, "chains": 2}
    found = fit("sgld", gamma=0.6, b=5.0, **fixed)
    assert found.weights is not None
    t = torch.arange(1, 80, 2, dtype=torch.float64)
    ratio = found.weights / found.weights[:, :1]
    torch.testing.assert_close(ratio, (((1 + t / 5) / (1 + 1 / 5)) ** -0.6).expand(2, -1), rtol=1e-10, atol=0)
    assert fit("sgld", gamma=0, **fixed).weights is None


BIASED = ["printed_sgld", "naive_momentum", "mclmc_unadjusted", "minibatch_mh", "minibatch_hmc", "sghmc"]


@pytest.mark.parametrize("method", ["sgld", *BIASED, "mh", "mala"])
def test_biased_kernels_say_so(method: str) -> None:
    """sgld with a constant step and all that have no exact accept step; twins: mh and mala."""
    own: dict[str, Any] = {"gamma": 0} if method == "sgld" else {"batch_size": 2} if "batch" in method else {}
    found = fit(method, two_weights(), warmup=0, draws=4, step_size=0.01, chains=4, **own)
    assert ("biased" in found.outcome) == (method in ("sgld", *BIASED))


def one_weight() -> zoo.Problem:
    return zoo.load("linear_regression", zoo.Data(torch.ones(4, 1), torch.zeros(4)), bias=False)


@pytest.mark.parametrize("method", ["mclmc", "mclmc_unadjusted"])
def test_mclmc_needs_two_coordinates_and_four_chains(method: str) -> None:
    with pytest.raises(ValueError, match=r"(two|2) coordinates"):
        fit(method, one_weight())
    with pytest.raises(ValueError, match="at least 4, got 3"):
        fit(method, chains=3)
    assert fit("mala", one_weight(), warmup=5, draws=5, chains=1).shape == (1, 5)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("sgld", {"gamma": 0.5}, "gamma must lie above .5 and be at most 1, or be 0"),
        ("sgld", {"gamma": 1.1}, "got 1.1"),
        ("sgld", {"b": 0.0}, "b must be a number above 0, got 0.0"),
        ("sgld", {"sampling": "shuffled"}, "sampling must be one of epochs, replacement, got 'shuffled'"),
        ("sgld", {"target_accept": 0.8}, "sgld accepts everything, so it takes no target_accept"),
        ("sgld", {"batch_size": 31}, "batch_size must be at most the 30 rows"),
        ("sghmc", {"friction": 0.0}, "friction must be a number above 0, at most 1, got 0.0"),
        ("sghmc", {"friction": 1.5}, "got 1.5"),
        ("sghmc", {"gradient_noise": -1.0}, "gradient_noise must be a number above 0, got -1.0"),
        ("sghmc", {"gradient_noise": 5.0}, "gradient_noise=5 is that of minibatches, and the gradient of all rows has"),
        ("naive_momentum", {"sigma": "1"}, "sigma must be a number above 0, got '1'"),
        ("naive_momentum", {"friction": True}, "friction must be a number above 0, at most 1, got True"),
        ("printed_sgld", {"slip": "drift"}, "slip must be one of noise, both, got 'drift'"),
        ("minibatch_hmc", {"accept": "some"}, "accept must be one of full, none, got 'some'"),
        ("minibatch_hmc", {"steps_each": 0}, "steps_each must be a whole number from 1 to 100, got 0"),
        ("mclmc", {"max_steps": 0}, "max_steps must be a whole number"),
        ("mclmc_unadjusted", {"length": 0}, "length must be a number above 0, got 0"),
        ("mh", {"target_accept": 1.0}, "target_accept must lie between 0 and 1, got 1.0"),
        ("mala", {"length": 1.0}, "length"),
        ("mala", {"engine": "pyro"}, "engine='pyro' has the kernels nuts, hmc"),
    ],
)
def test_options_that_mean_nothing(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fit(method, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["sgld", "sghmc", "naive_momentum", "printed_sgld", "minibatch_mh", "minibatch_hmc"])
@pytest.mark.parametrize("size", [0, -1, 2.5, True, "10"])
def test_batch_sizes_that_mean_nothing(method: str, size: Any) -> None:
    with pytest.raises(ValueError, match=r"batch_size must be") as caught:
        fit(method, batch_size=size, warmup=0, draws=2, step_size=0.01)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["sgld", "sghmc", "naive_momentum", "mclmc_unadjusted"])
def test_constants_do_not_change_the_dtype(method: str, dtype: str) -> None:
    """The kernel's numbers are float64; draws keep the problem's dtype, and float32 agrees with float64."""
    draws = fit(method, dtype=dtype, warmup=0, draws=5, step_size=0.01, chains=4).draws["w"]
    assert draws.dtype == getattr(torch, dtype)
    assert bool(torch.isfinite(draws).all())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "own"), [("mala", {}), ("mclmc", {}), ("sgld", {"batch_size": 7}), ("sghmc", {"batch_size": 7})]
)
def test_compiled_is_eager(method: str, own: dict[str, Any]) -> None:
    """The same draws in float64: four of them, no warm-up, the same minibatches."""
    fixed = {"warmup": 0, "draws": 4, "step_size": 0.1, "chains": 4, **own}
    compiled, eager = fit(method, engine="compiled", **fixed), fit(method, **fixed)
    assert compiled.settings["engine"] == "compiled"
    for name, value in eager.draws.items():
        torch.testing.assert_close(compiled.draws[name], value, rtol=1e-6, atol=1e-8)
