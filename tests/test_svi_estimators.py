"""svi's gradient estimators: score against pathwise, noise a row against noise a batch; means and variances."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import zoo
from tests.refusals import refused
from tests.test_svi import NOISE, D, N, analytic_elbo, line
from zoo.infer.methods import svi
from zoo.infer.prepared import quiet
from zoo.infer.score import surrogate

F64 = torch.float64
DRAWS = 100_000
Z = 4.0  # standard errors, alpha 6e-5 a comparison


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def far(values: Tensor, right: Any) -> Tensor:
    """How many standard errors the mean of values (draw, k) lies from the right answer (k,)."""
    right = torch.as_tensor(right, dtype=F64)
    return (values.mean(0) - right).abs() / (values.std(0) / len(values) ** 0.5)


def squared(values: Tensor) -> Tensor:
    """Squared deviations, whose mean is the variance."""
    return (values - values.mean(0)) ** 2


# -- E w^2, w ~ N(1, 1): the lecture's example ---------------------------------------------------------------


def of_square(e: Tensor, how: str) -> Tensor:
    """Gradients (draw, 2) by mu and sigma at 1, 1 of E w^2, from e (draw, particle)."""

    def estimate(at: Tensor, row: Tensor) -> Tensor:
        w = at[0] + at[1] * row
        if how == "pathwise":
            return (w**2).mean()
        held = w if how == "attached" else w.detach()
        log_q = dist.Normal(at[0], at[1], validate_args=False).log_prob(held)
        if how == "own baseline":
            return ((held**2 - (held**2).mean()) * log_q).mean()
        return surrogate((held**2).detach(), log_q)

    return torch.func.vmap(torch.func.grad(estimate), (None, 0))(torch.ones(2, dtype=F64), e)


def test_both_estimators_of_a_square_have_mean_2_and_the_variances_of_closed_form() -> None:
    """E (1+e)^4 = 10 and so on: pathwise 4 and 12, score 30 and 136. The twin: draws that keep their gradient."""
    e = normals(DRAWS, 1)
    for how, variances in (("pathwise", [4.0, 12.0]), ("score", [30.0, 136.0])):
        found = of_square(e, how)
        assert (far(found, [2.0, 2.0]) < Z).all()
        assert (far(squared(found), variances) < Z).all()
    twin = of_square(e, "attached")
    assert (far(twin, [2.0, 2.0]) > Z).any()
    assert (far(squared(of_square(e, "score")), [4.0, 12.0]) > Z).all()


def test_the_other_particles_mean_is_a_baseline_that_leaves_the_mean_alone() -> None:
    """Four particles. The twin takes the mean of all four, and its mean is 3/4 of 2."""
    e = normals(DRAWS, 4, seed=1)
    found = of_square(e, "score")
    assert (far(found, [2.0, 2.0]) < Z).all()
    assert (found.var(0) < torch.tensor([30.0, 136.0]) / 4 * torch.tensor([0.75, 0.95])).all()
    twin = of_square(e, "own baseline")
    assert (far(twin, [2.0, 2.0]) > Z).all()
    assert (far(twin, [1.5, 1.5]) < Z).all()


# -- in svi --------------------------------------------------------------------------------------------------


def prepared(problem: zoo.Problem, guide: Any = "normal", point: Any = (), **options: Any) -> Any:
    return svi.set_up(problem, guide, {}, point, 1, 0, **options)


def each(q: Any, params: Tensor, noise: Tensor) -> Tensor:
    """A gradient (draw, size) for each of noise (draw, particle, ...)."""
    with quiet():
        pieces = [q.gradient(params.expand(len(part), -1), part)[0] for part in noise.split(10_000)]
    return torch.cat(pieces)


M, S = torch.tensor([0.3, -0.2], dtype=F64), torch.tensor([0.4, 0.15], dtype=F64)


def right_gradient(problem: zoo.Problem) -> Tensor:
    """Of the ELBO in closed form, by loc and log scale."""
    x, y = problem.data.x, problem.data.y
    by_m = x.T @ (y - x @ M) / NOISE**2 - M / 1.5**2
    by_s = -(x**2).sum(0) * S / NOISE**2 + 1 / S - S / 1.5**2
    return torch.cat([by_m, by_s * S])


def test_the_right_gradient_is_the_slope_of_the_closed_form() -> None:
    problem = line()
    h = 1e-6
    up, down = (analytic_elbo(problem, M + s * torch.tensor([h, 0.0], dtype=F64), S) for s in (1, -1))
    assert float(right_gradient(problem)[0]) == pytest.approx((up - down) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("particles", [1, 3])
def test_svis_score_gradient_has_the_mean_of_the_closed_form(particles) -> None:
    problem = line()
    q = prepared(problem, gradient="score")
    params = torch.cat([M, S.log()])
    found = each(q, params, normals(DRAWS, particles, q.noise_size, seed=2))
    assert (far(found, right_gradient(problem)) < Z).all()
    path = each(prepared(problem), params, normals(DRAWS, particles, q.noise_size, seed=2))
    assert (found.var(0) > path.var(0)).all()
    with quiet():
        terms = q.gradient(params[None], normals(1, 20_000, q.noise_size))[1]
    assert float(terms.elbo[0]) == pytest.approx(analytic_elbo(problem, M, S), abs=0.3)


def test_points_keep_their_gradient_under_score() -> None:
    """Of a point it is the mean pathwise one; the twin's, which cuts points off as well, is 0."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        w = pyro.sample("w", dist.Normal(x.new_zeros(D), 1.5).to_event(1))
        b = pyro.sample("b", dist.Normal(x.new_zeros(()), 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(x @ w + b, NOISE), obs=y)

    problem = zoo.Problem("affine", model, line().data)
    q, path = (prepared(problem, point=("b",), gradient=how) for how in ("score", "pathwise"))
    place = [i for i, name in enumerate(_names(q)) if name == "b.point"]
    noise = normals(20_000, 1, q.noise_size, seed=3)
    found, other = (each(one, one.start[0], noise)[:, place] for one in (q, path))
    torch.testing.assert_close(found, other)
    assert (far(found, [0.0]) > Z).all()


def _names(q: Any) -> list[str]:
    return [name for name, shape in q.layout.shapes.items() for _ in range(shape.numel())]


KAPPA, PRIOR = 4.0, 0.8


def compass() -> zoo.Problem:
    """An angle with a von Mises prior, seen through von Mises noise: its posterior is von Mises."""

    def model(x: Tensor, y: Tensor | None = None) -> None:
        angle = pyro.sample("angle", dist.VonMises(x.new_zeros(()), x.new_tensor(PRIOR)))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.VonMises(angle, x.new_tensor(KAPPA)), obs=y)

    y = torch.tensor([0.9, 1.4, 0.6, 1.1, 1.2], dtype=F64)
    return zoo.Problem("compass", model, zoo.Data(torch.zeros(5, 0, dtype=F64), y))


def compass_posterior() -> tuple[float, float, float]:
    """Direction, concentration and log evidence: exp(R cos(t - m)) with R e^im = sum kappa e^iy + prior.

    p(y) = I0(R) / ((2 pi)^n I0(kappa)^n I0(prior)).
    """
    y = compass().data.y
    east, north = KAPPA * float(y.cos().sum()) + PRIOR, KAPPA * float(y.sin().sum())
    length = math.hypot(east, north)
    log_i0 = [float(torch.special.i0(torch.tensor(v, dtype=F64)).log()) for v in (length, KAPPA, PRIOR)]
    return math.atan2(north, east), length, log_i0[0] - 5 * (math.log(2 * math.pi) + log_i0[1]) - log_i0[2]


def von_mises(model: Any) -> Any:
    def guide(x: Tensor, y: Tensor | None = None) -> None:
        loc = pyro.param("loc", x.new_tensor(0.5))
        length = pyro.param("length", x.new_tensor(5.0), constraint=dist.constraints.positive)
        pyro.sample("angle", dist.VonMises(loc, length))

    return guide


def test_a_guide_that_cannot_be_reparameterised_finds_the_posterior_by_score() -> None:
    """The von Mises family holds the posterior: direction, concentration, and ELBO = log evidence."""
    assert not dist.VonMises.has_rsample
    direction, length, evidence = compass_posterior()
    q = svi.fit(compass(), guide=von_mises, gradient="score", particles=4, steps=150, lr=0.1, draws=200, seed=0)
    assert q.settings["engine"] == "loop"
    assert q.settings["elbo"] == pytest.approx(evidence, abs=0.02)
    sd = float(q.draws["angle"].std())
    assert float(q.draws["angle"].mean()) == pytest.approx(direction, abs=0.05 + 4 * sd / 200**0.5)
    assert sd == pytest.approx(length**-0.5, rel=0.25)
    refused(lambda: svi.fit(compass(), guide=von_mises, steps=2), r"\['angle'\] cannot be repara", "gradient='score'")


def test_what_score_cannot_do_is_refused() -> None:
    network = zoo.load("mc_dropout", n=12)
    refused(
        lambda: svi.fit(network, guide="bernoulli_dropout", gradient="score", steps=2),
        "gradient='score' needs log q, but a draw",
        "Use gradient='pathwise'",
    )
    masked = {"noise": dist.Normal(1.0, 0.2), "on": "weights", "bias": "normal"}
    refused(
        lambda: svi.fit(network, guide="multiplicative", guide_options=masked, gradient="score", steps=2),
        "masks that of '_w1.noise'",
    )
    refused(lambda: svi.fit(line(), guide="point", gradient="score", steps=2), "has points only")
    refused(lambda: svi.fit(line(), gradient="scores", steps=2), "'pathwise' or 'score', got 'scores'")
    refused(lambda: svi.fit(line(), gradient="score", noise_per="row", steps=2), "noise_per='row' needs gradient=")


# -- noise a row ---------------------------------------------------------------------------------------------


def variances(problem: zoo.Problem, per: str) -> Tensor:
    """Of the gradient by loc j: sum_k (sum_i x_ij x_ik s_k)^2 / noise^4, by rows sum_ik (x_ij x_ik s_k)^2 / noise^4.

    The likelihood's gradient at w = m + s e is sum_i x_i (y_i - x_i m - x_i s e_i) / noise^2.
    """
    x = problem.data.x
    each_row = x[:, :, None] * (x * S)[:, None, :]
    return ((each_row.sum(0) ** 2).sum(-1) if per == "batch" else (each_row**2).sum((0, 2))) / NOISE**4


def test_noise_a_row_keeps_the_mean_gradient_and_shrinks_its_variance() -> None:
    """Closed forms of both variances; each is the other's twin."""
    problem = line()
    params = torch.cat([M, S.log()])
    found = {}
    for per, shape in (("batch", (DRAWS, 1, D)), ("row", (DRAWS, 1, N, D))):
        q = prepared(problem, noise_per=per)
        assert q.by_row == (per == "row")
        found[per] = each(q, params, normals(*shape, seed=4))
        assert (far(found[per], right_gradient(problem)) < Z).all()
        assert (far(squared(found[per])[:, :D], variances(problem, per)) < Z).all()
    assert (far(squared(found["row"])[:, :D], variances(problem, "batch")) > Z).all()
    assert found["row"].var(0).sum() < 0.3 * found["batch"].var(0).sum()  # of every single number it need not be


def test_noise_a_row_on_the_joint_gaussian_keeps_the_mean() -> None:
    """full_rank differentiates log q along the draws only; its gradient by rows has the mean of the one by batch."""
    problem = line()
    batch, row = (prepared(problem, "full_rank", noise_per=per) for per in ("batch", "row"))
    ours = each(row, row.start[0], normals(20_000, 1, N, row.noise_size, seed=5))
    theirs = each(batch, batch.start[0], normals(20_000, 1, row.noise_size, seed=6))
    error = torch.hypot(ours.std(0), theirs.std(0)) / 20_000**0.5
    assert ((ours.mean(0) - theirs.mean(0)).abs() <= Z * error + 1e-12).all()
    assert ours.var(0).sum() < theirs.var(0).sum()


def test_a_fit_by_rows_and_batches_finds_the_optimum() -> None:
    problem = line()
    q = svi.fit(problem, noise_per="row", batch_size=5, steps=400, lr=0.05, draws=20)
    x, y = problem.data.x, problem.data.y
    precision = x.T @ x / NOISE**2 + torch.eye(D, dtype=F64) / 1.5**2
    best = analytic_elbo(problem, torch.linalg.solve(precision, x.T @ y / NOISE**2), precision.diagonal().rsqrt())
    assert q.settings["elbo"] == pytest.approx(best, abs=0.3)


def test_dropout_draws_a_mask_a_row_unless_told() -> None:
    network = zoo.load("mc_dropout", n=12)
    for per, by_row in ((None, True), ("row", True), ("batch", False)):
        assert prepared(network, "bernoulli_dropout", noise_per=per).by_row == by_row


def test_noise_a_row_is_refused_where_it_is_not_defined() -> None:
    local = zoo.Problem("local", _local, line().data)
    refused(lambda: svi.fit(local, noise_per="row", steps=2), "latent 'z' has a value for every row", "per='batch'")
    whole = zoo.Problem("whole", _whole, line().data)
    refused(lambda: svi.fit(whole, noise_per="row", steps=2), "lies outside the data plate", "per='batch'")
    mean = zoo.Problem("mean", _of_all_rows, line().data)
    refused(lambda: svi.fit(mean, noise_per="row", steps=2), "cannot be evaluated row by row", "per='batch'")
    refused(
        lambda: svi.fit(compass(), guide=von_mises, gradient="pathwise", noise_per="row", steps=2),
        "noise_per='row' needs guide and model in vectorised form",
    )
    refused(lambda: svi.fit(line(), noise_per="rows", steps=2), "'batch' or 'row', got 'rows'")


def _local(x: Tensor, y: Tensor | None = None) -> None:
    with pyro.plate("data", x.shape[0]):
        z = pyro.sample("z", dist.Normal(x.new_zeros(()), 1.0))
        pyro.sample("y", dist.Normal(z, 1.0), obs=y)


def _whole(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(D), 1.0).to_event(1))
    pyro.sample("y", dist.Normal(x @ w, 1.0).to_event(1), obs=y)


def _of_all_rows(x: Tensor, y: Tensor | None = None) -> None:
    """Not row by row: each row's mean depends on all of x."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(D), 1.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal((x - x.mean(0)) @ w, 1.0), obs=y)
