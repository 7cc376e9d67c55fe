"""The density equals Pyro's own trace plus Jacobians, for every model and support, on every engine."""

from __future__ import annotations

import logging
import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

import zoo
from tests import cases
from tests.supports import F64, PRIORS, problem, reference, rows
from zoo.infer.density import density


def _positions(target, count: int = 3, scale: float = 0.7):
    generator = torch.Generator().manual_seed(11)
    return (scale * torch.randn(count, target.dim, generator=generator, dtype=F64)).to(target.dtype)


def _hierarchical(x, y=None):
    """Plates in plates, a masked and a scaled site, a factor and a deterministic."""
    tau = pyro.sample("tau", dist.HalfCauchy(x.new_ones(())))
    with pyro.plate("groups", 3), poutine.scale(scale=2.5):
        mu = pyro.sample("mu", dist.Normal(x.new_zeros(()), tau))
        with pyro.plate("weights", 2):
            share = pyro.sample("share", dist.Dirichlet(x.new_ones(4)))
    pyro.factor("extra", -(mu**2).sum() * share.max())
    f = pyro.deterministic("f", x[:, 0] * mu.sum())
    with pyro.plate("data", x.shape[0]), poutine.mask(mask=x[:, 0] > 0):
        pyro.sample("y", dist.StudentT(4.0, f, 1.0), obs=y)


def _ordinal(x, y=None):
    slope = pyro.sample("slope", dist.Normal(x.new_zeros(()), 1.0))
    base = dist.Normal(x.new_zeros(2), 1.0).to_event(1)
    cuts = pyro.sample("cuts", dist.TransformedDistribution(base, [dist.transforms.OrderedTransform()]))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.OrderedLogistic(x[:, 0] * slope, cuts), obs=y)


def _model(name):
    """A model on its own data, one of images on the table's few small ones."""
    case = next(case for case in cases.CASES if case.model == name)
    return cases.problem(case) if case.image else zoo.load(name)


CASES = {
    **{f"support {name}": (lambda name=name: problem(name)) for name in PRIORS},
    **{f"model {name}": (lambda name=name: _model(name).to(dtype=F64)) for name in zoo.names()},
    "hierarchical": lambda: zoo.Problem("hierarchical", _hierarchical, rows(F64)),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_pyros_trace_plus_jacobians(case) -> None:
    target = density(CASES[case]())
    position = _positions(target)
    right = [reference(target.problem, target.blocks, target.sites.latent, u) for u in position]
    torch.testing.assert_close(target.log_prob(position), torch.stack(right).to(F64), rtol=1e-9, atol=1e-9)


EVERY_CASE = pytest.mark.parametrize("case", cases.CASES, ids=[case.id for case in cases.CASES])


@EVERY_CASE
def test_a_model_with_options_is_pyros_trace_at_100_points(case) -> None:
    """Each line of the table. Twin: each point's value beside the point before it."""
    target = density(cases.problem(case).to(dtype=F64))
    position = _positions(target, 100)
    latent = target.sites.latent
    with pyro.validation_enabled(False):
        right = [reference(target.problem, target.blocks, latent, u, by_autograd=False) for u in position]
    seen, right = target.log_prob(position), torch.stack(right).to(F64)
    assert right.isfinite().all()
    torch.testing.assert_close(seen, right, rtol=1e-9, atol=1e-9)
    assert not torch.isclose(seen, right.roll(1), rtol=1e-9, atol=1e-9).any()


@pytest.mark.slow
@EVERY_CASE
def test_gradients_of_a_model_with_options_are_pyros_at_100_points(case) -> None:
    """Of both engines. Twin: each point's gradient beside the point before it."""
    eager, loop = (density(cases.problem(case).to(dtype=F64), engine) for engine in ("eager", "loop"))
    position = _positions(eager, 100)
    point = position.clone().requires_grad_(True)
    with pyro.validation_enabled(False):
        parts = [reference(eager.problem, eager.blocks, eager.sites.latent, u, by_autograd=False) for u in point]
    (right,) = torch.autograd.grad(torch.stack(parts).sum(), point)
    for target in (eager, loop):
        value, grad = target.value_and_grad(position)
        torch.testing.assert_close(value, torch.stack(parts).detach().to(F64), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(grad, right, rtol=1e-9, atol=1e-9)
        assert not torch.isclose(grad, right.roll(1, 0), rtol=1e-9, atol=1e-9).all(-1).any()


@pytest.mark.parametrize("case", CASES)
def test_gradient_is_autograds_and_engines_agree(case) -> None:
    eager, loop = density(CASES[case](), "eager"), density(CASES[case](), "loop")
    position = _positions(eager)
    value, grad = eager.value_and_grad(position)
    value_loop, grad_loop = loop.value_and_grad(position)
    torch.testing.assert_close(value, value_loop, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(grad, grad_loop, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(eager.log_prob(position), loop.log_prob(position), rtol=1e-9, atol=1e-9)
    assert grad.dtype == position.dtype
    assert value.dtype == F64
    for u, seen in zip(position, grad, strict=True):
        point = u.clone().requires_grad_(True)
        total = reference(eager.problem, eager.blocks, eager.sites.latent, point, by_autograd=False)
        (right,) = torch.autograd.grad(total, point)
        torch.testing.assert_close(seen, right, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_constrain_and_unconstrain_are_inverse(case) -> None:
    target = density(CASES[case]())
    position = _positions(target, 4).reshape(2, 2, target.dim)
    values = target.constrain(position)
    for block in target.blocks:
        assert values[block.name].shape == (2, 2, *block.shape)
        assert torch.as_tensor(target.sites.latent[block.name].fn.support.check(values[block.name])).all()
    torch.testing.assert_close(target.unconstrain(values), position, rtol=1e-7, atol=1e-7)


def _depends(x, y=None):
    """The support of v is (0, u), and that of w is (v, infinity)."""
    u = pyro.sample("u", dist.LogNormal(x.new_zeros(()), 1.0))
    v = pyro.sample("v", dist.Uniform(x.new_zeros(()), u))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(v, 1.0), obs=y)


def _closed_form(position, y):
    """u = exp(a), v = u s(b): N(a; 0, 1) [1/u] [u s(b) (1 - s(b))] prod N(y; v, 1)."""
    a, b = position.unbind(-1)
    v = a.exp() * b.sigmoid()
    prior = -0.5 * a**2 - 0.5 * math.log(2 * math.pi)
    jacobian = torch.nn.functional.logsigmoid(b) + torch.nn.functional.logsigmoid(-b)
    fit = (-0.5 * (y - v[:, None]) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1)
    return prior + jacobian + fit


@pytest.mark.parametrize("engine", ["eager", "loop"])
def test_a_support_that_depends_on_another_latent(engine) -> None:
    target = density(zoo.Problem("depends", _depends, rows(F64)), engine)
    position = _positions(target, 5, scale=2.0)
    y = target.problem.data.y
    torch.testing.assert_close(target.log_prob(position), _closed_form(position, y), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(target.unconstrain(target.constrain(position)), position, rtol=1e-7, atol=1e-7)
    _, grad = target.value_and_grad(position)
    point = position.clone().requires_grad_(True)
    (right,) = torch.autograd.grad(_closed_form(point, y).sum(), point)
    torch.testing.assert_close(grad, right, rtol=1e-9, atol=1e-9)


def test_twin_frozen_bounds_are_wrong() -> None:
    """Twin: the bounds of the first trace kept for all positions, as a frozen transform does."""
    target = density(zoo.Problem("depends", _depends, rows(F64)))
    position = _positions(target, 5, scale=2.0)
    frozen = reference_frozen(target, position)
    assert (frozen - _closed_form(position, target.problem.data.y)).abs().max() > 0.5


def reference_frozen(target, position):
    from guides.supports import unconstrain

    bound = target.sites.values["u"]
    move = unconstrain(dist.Uniform(torch.zeros((), dtype=F64), bound).support, "v")
    out = []
    for a, b in position:
        u, v = a.exp(), move(b)
        with pyro.validation_enabled(False):
            model = poutine.condition(_depends, {"u": u, "v": v})
            trace = poutine.trace(model).get_trace(*target.problem.arguments()[0])
            total = trace.log_prob_sum() + a + move.log_abs_det_jacobian(b, v)
        out.append(total.nan_to_num(neginf=-1e9))
    return torch.stack(out)


def test_ordered_logistic_falls_back_to_loop_and_says_so(caplog) -> None:
    data = zoo.Data(torch.linspace(-1, 1, 6, dtype=F64)[:, None], torch.tensor([0, 0, 1, 1, 2, 2]))
    with caplog.at_level(logging.INFO, logger="zoo"):
        target = density(zoo.Problem("ordinal", _ordinal, data))
    assert target.engine == "loop"
    assert any("loop" in r.getMessage() and "ordinal" in r.getMessage() for r in caplog.records)
    position = _positions(target)
    right = [reference(target.problem, target.blocks, target.sites.latent, u) for u in position]
    torch.testing.assert_close(target.log_prob(position), torch.stack(right), rtol=1e-9, atol=1e-9)


def _on_the_sphere(x, y=None):
    way = pyro.sample("way", dist.ProjectedNormal(x.new_ones(3)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x[:, 0] * way[0], 1.0), obs=y)


def _with_a_coin(x, y=None):
    side = pyro.sample("side", dist.Bernoulli(x.new_tensor(0.5)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x[:, 0] * side, 1.0), obs=y)


@pytest.mark.parametrize(("model", "site"), [(_on_the_sphere, "way"), (_with_a_coin, "side")])
def test_refused_by_name(model, site) -> None:
    with pytest.raises(ValueError, match=f"'{site}'") as error:
        density(zoo.Problem("refused", model, rows(F64)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda u: u[0],
        lambda u: u[:, :-1],
        lambda u: torch.cat([u, u], 1),
        lambda u: u[None],
        lambda u: u.float(),
        lambda u: u.to("meta"),
    ],
    ids=["one row", "short", "long", "three axes", "float32", "another device"],
)
def test_a_position_of_another_kind_is_refused(wrong) -> None:
    target = density(problem("simplex"))
    position = wrong(_positions(target))
    for function in (target.log_prob, target.value_and_grad):
        with pytest.raises(ValueError, match=rf"got .*{len(position.shape) and position.shape[-1]}") as error:
            function(position)
        assert "\n" not in str(error.value)


def test_float32_energy_differences_hold_at_many_rows() -> None:
    """At 10^5 rows the energy is about 10^5 and a step changes it by about 1: float32 sums lose that."""

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100_000, 3, generator=generator, dtype=F64)
    y = x @ torch.tensor([0.5, -1.0, 0.2], dtype=F64) + torch.randn(100_000, generator=generator, dtype=F64)
    exact = zoo.Problem("many rows", model, zoo.Data(x.float().double(), y.float().double()))
    rough = exact.to(dtype=torch.float32)
    truth = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float32)
    position = truth + 0.01 * torch.randn(20, 3, generator=generator)
    right = density(exact).log_prob(position.double())
    ours = density(rough).log_prob(position)
    sums = [_float32_sum(rough, u) for u in position]
    error = ((ours - ours[0]) - (right - right[0])).abs().max()
    twin = ((torch.stack(sums).double() - sums[0]) - (right - right[0])).abs().max()
    assert error < 1e-3
    assert twin > 0.01  # plain float32 sums
    assert twin > 100 * error


def _float32_sum(problem, w):
    trace = poutine.trace(poutine.condition(problem.model, {"w": w})).get_trace(*problem.arguments()[0])
    total = trace.log_prob_sum()
    assert total.dtype == torch.float32
    return total


def test_nothing_global_is_left_changed() -> None:
    before = torch.get_rng_state()
    pyro.get_param_store().clear()
    validation = torch.distributions.Distribution._validate_args, pyro.settings.get()
    target = density(zoo.Problem("hierarchical", _hierarchical, rows(F64)))
    target.value_and_grad(_positions(target))
    target.constrain(_positions(target))
    assert torch.equal(before, torch.get_rng_state())
    assert (torch.distributions.Distribution._validate_args, pyro.settings.get()) == validation
    assert len(pyro.get_param_store()) == 0
