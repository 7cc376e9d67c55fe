"""svi: ELBO and gradients against closed forms, minibatches, restarts, outcomes, guides of all kinds."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, autoguide
from torch import Tensor

import zoo
from tests.refusals import refused
from tests.test_guides import own, schools, variational
from zoo.__main__ import main
from zoo.core.handlers import LogProb
from zoo.core.randomness import seeded
from zoo.infer import ascent, estimate
from zoo.infer.adam import Pace, adam, schedule
from zoo.infer.ascent import choose_engine
from zoo.infer.batches import batch_rows
from zoo.infer.convergence import at_rest, still_climbing
from zoo.infer.families import REFUSED, autoguides
from zoo.infer.looped import Looped
from zoo.infer.methods import svi
from zoo.infer.prepared import Batch, prepare, quiet

F64 = torch.float64
N, D, NOISE = 12, 2, 0.7


def line(rows: int = N) -> zoo.Problem:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, D, generator=generator, dtype=F64)
    y = x @ torch.tensor([1.0, -0.5], dtype=F64) + NOISE * torch.randn(rows, generator=generator, dtype=F64)
    return zoo.load("linear_regression", zoo.Data(x, y), bias=False, noise=NOISE, prior_scale=1.5)


def beta_guide(model):
    """The exact family of the coin: no function of standard normals, so only the loop engine runs it."""

    def guide(x, y=None):
        a = pyro.param("a", x.new_tensor(2.0), constraint=dist.constraints.positive)
        b = pyro.param("b", x.new_tensor(2.0), constraint=dist.constraints.positive)
        pyro.sample("theta", dist.Beta(a, b))

    return guide


# -- the ELBO ----------------------------------------------------------------------------------------------


def analytic_elbo(problem: zoo.Problem, m: torch.Tensor, s: torch.Tensor) -> float:
    """ELBO of prod N(w_j | m_j, s_j^2) on linear regression with known noise, prior sd 1.5."""
    x, y = problem.data.x, problem.data.y
    square = (y - x @ m).square().sum() + (x.square() * s.square()).sum()
    likelihood = -0.5 * len(y) * math.log(2 * math.pi * NOISE**2) - 0.5 * square / NOISE**2
    t = 1.5
    kl = (torch.log(t / s) + (s.square() + m.square()) / (2 * t**2) - 0.5).sum()
    return float(likelihood - kl)


def sigma_points(size: int) -> torch.Tensor:
    """2 size points whose average is the expectation of any quadratic of standard normals."""
    axes = math.sqrt(size) * torch.eye(size, dtype=F64)
    return torch.cat([axes, -axes])


def expected(q, params: torch.Tensor, batch: Batch, scale: float) -> tuple[torch.Tensor, float]:
    """The expectation over the guide's noise of the gradient and of the ELBO on a batch."""
    with quiet():
        grad, terms = q.gradient(params[None], sigma_points(q.noise_size)[None], batch, scale)
    return grad[0], float(terms.elbo[0])


def fixed(problem: zoo.Problem):
    q = variational(problem)
    m, s = torch.tensor([0.3, -0.2], dtype=F64), torch.tensor([0.4, 0.15], dtype=F64)
    return q, torch.cat([m, s.log()]), analytic_elbo(problem, m, s)


@pytest.mark.parametrize("size", [1, 5, 10, N])
def test_every_batch_size_has_the_same_expected_loss_and_gradient(size) -> None:
    """Averaged over whole epochs: equal to the analytic ELBO and to the full gradient, to 1e-10."""
    problem = line()
    q, params, right = fixed(problem)
    full, elbo = expected(q, params, Batch(), 1.0)
    assert elbo == pytest.approx(right, abs=1e-10)
    count = math.lcm(N, size) // size
    rows = batch_rows(N, size, seed=0, restart=0, first=0, count=count)
    assert rows.shape == (count, size)

    def mean(scale: float) -> tuple[torch.Tensor, float]:
        found = [expected(q, params, Batch(problem.data.x[r], problem.data.y[r]), scale) for r in rows]
        return torch.stack([g for g, _ in found]).mean(0), sum(e for _, e in found) / count

    grad, elbo = mean(N / size)
    torch.testing.assert_close(grad, full, rtol=1e-10, atol=1e-10)
    assert elbo == pytest.approx(right, abs=1e-10)
    if size < N - 2:  # twins: without n / M; the prior scaled as well (the slide's: counted M times)
        assert abs(mean(1.0)[1] - right) > 1
        kl = -analytic_elbo(problem, *_moments(params)) + _likelihood(problem, params)
        assert abs(elbo - (N / size - 1) * kl - right) > 1


def _moments(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return params[:D], params[D:].exp()


def _likelihood(problem: zoo.Problem, params: torch.Tensor) -> float:
    m, s = _moments(params)
    t = 1.5
    kl = (torch.log(t / s) + (s.square() + m.square()) / (2 * t**2) - 0.5).sum()
    return analytic_elbo(problem, m, s) + float(kl)


def test_the_sign_of_kl() -> None:
    """Twin: likelihood + KL is not the ELBO."""
    q, params, right = fixed(line())
    terms = q.estimate(params, sigma_points(q.noise_size))
    assert float(terms.elbo.mean()) == pytest.approx(right, abs=1e-10)
    assert abs(float((terms.expected_log_likelihood + terms.kl).mean()) - right) > 1


@pytest.mark.parametrize("problem", [line, lambda: own(schools)], ids=["line", "local latents"])
def test_the_estimate_is_stock_pyros(problem) -> None:
    """Within 4 standard errors (alpha 6e-5) of Trace_ELBO on the same guide."""
    problem = problem()
    q = variational(problem)
    ours = q.estimate(q.start[0], q.noise(0, 0, 0, (20_000,))).elbo
    args, kwargs = problem.arguments()
    with quiet(), seeded(1):
        store = pyro.get_param_store()
        store.set_state({"params": q.layout.split(q.start[0].clone()), "constraints": dict(q.layout.constraints)})
        stock = -torch.tensor([Trace_ELBO().loss(problem.model, q.guide, *args, **kwargs) for _ in range(300)])
    error = math.hypot(float(ours.std()) / 20_000**0.5, float(stock.std()) / 300**0.5)
    assert float(ours.mean()) == pytest.approx(float(stock.mean()), abs=4 * error)


def test_lp_is_the_density_and_lp_minus_logq_the_elbo() -> None:
    problem = own(schools)
    q = variational(problem, autoguide.AutoMultivariateNormal)
    noise = q.noise(0, 0, 0, (6,))
    values, lp, logq = q.draw(q.start[0], noise)
    torch.testing.assert_close(lp - logq, q.estimate(q.start[0], noise).elbo)
    from zoo.infer.density import density

    target = density(problem)
    torch.testing.assert_close(lp, target.log_prob(target.unconstrain(values)))


def test_a_float32_elbo_of_many_rows_keeps_its_digits() -> None:
    """Sums run in float64: 10^5 rows of log density -0.92 lose less than .01 nat."""
    big = zoo.Problem(
        "rows", line().model, zoo.Data(torch.zeros(100_000, D), torch.zeros(100_000)), hyper={"bias": False}
    )
    q = variational(big, init=lambda site: torch.zeros(D))
    got = float(q.estimate(q.start[0], q.noise(0, 0, 0, (1,))).expected_log_likelihood)
    assert got == pytest.approx(-1e5 * (0.5 * math.log(2 * math.pi) + math.log(0.6)), abs=0.01)


# -- guides of all kinds -----------------------------------------------------------------------------------


# Pyro says that the masks of an autoregressive network are no parameters.
@pytest.mark.filterwarnings("ignore:.*was not registered in the param store")
@pytest.mark.parametrize(
    "name",
    [
        "AutoNormal",
        "AutoDelta",
        "AutoDiagonalNormal",
        "AutoMultivariateNormal",
        "AutoLowRankMultivariateNormal",
        "AutoIAFNormal",
    ],
)
def test_pyros_autoguides_run_on_the_pure_engine(name) -> None:
    """Same parameters, same draws in distribution: the loop engine's ELBO within 5 standard errors."""
    problem = own(schools)
    make = getattr(autoguide, name)
    prepared = prepare(make(problem.model), problem, 0)
    q = variational(problem, make)
    assert q.engine == "vmap"
    ours = q.estimate(q.start[0], q.noise(0, 0, 0, (5000,))).elbo
    loop = Looped(problem, [prepared])
    theirs = loop.estimate(q.start[0], loop.noise(0, 0, 0, (100,))).elbo
    error = math.hypot(float(ours.std()) / 5000**0.5, float(theirs.std()) / 10) + 1e-9
    assert float(ours.mean()) == pytest.approx(float(theirs.mean()), abs=5 * error)
    with quiet():
        grad, _ = q.gradient(q.start, q.noise(0, 0, 0, (1, 4)))
    assert torch.isfinite(grad).all()
    assert (grad != 0).any()


def test_gradients_of_the_two_engines_agree() -> None:
    """In the mean over draws: 4,000 particles against 400, within 5 standard errors of the latter."""
    problem = line()
    q = variational(problem)
    loop = Looped(problem, [prepare(q.guide, problem, 0)])
    with quiet():
        ours, _ = q.gradient(q.start, q.noise(0, 0, 0, (1, 4000)))
        rows = [loop.gradient(q.start, loop.noise(0, 0, k, (1, 20)))[0][0] for k in range(20)]
    theirs = torch.stack(rows)
    error = theirs.std(0) / 20**0.5 + 1e-9
    assert ((ours[0] - theirs.mean(0)).abs() < 5 * error + 0.02 * ours[0].abs()).all()


def test_any_guide_runs_by_loop_and_finds_the_exact_family() -> None:
    """A Beta guide of the coin: ELBO = log evidence, every draw's lp - logq too."""
    problem = zoo.load("coin_flip", n=10, heads=7).to(dtype=F64)
    q = svi.fit(problem, guide=beta_guide, steps=300, lr=0.05, particles=4, draws=200, seed=1)
    assert q.settings["engine"] == "loop"
    evidence = problem.exact(problem.data).log_evidence
    assert q.settings["elbo"] == pytest.approx(evidence, abs=0.01)
    assert float((q.stats["lp"] - q.stats["logq"]).std()) < 0.1


def test_a_network_inside_a_guide_trains() -> None:
    """Parameters hidden in a module the guide closes over: an encoder shared by the local latents."""

    def family(model):
        net = torch.nn.Linear(1, 2).double()

        def guide(x, y=None):
            pyro.module("net", net)
            out = net(y.unsqueeze(-1))
            with pyro.plate("data", x.shape[0]):
                pyro.sample("z", dist.Normal(out[:, 0], out[:, 1].exp()))

        return guide

    def model(x, y=None):
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("z", dist.Normal(x.new_zeros(()), 1.0))
            pyro.sample("y", dist.Normal(z, 0.5), obs=y)

    problem = own(model)
    q = svi.fit(problem, guide=family, steps=600, lr=0.05, batch_size=3, draws=10, seed=0)
    evidence = float(dist.Normal(0.0, 1.25**0.5).log_prob(problem.data.y).sum())
    assert q.settings["engine"] == "loop"
    assert q.settings["elbo"] == pytest.approx(evidence, abs=0.1)


def test_what_guide_may_be() -> None:
    problem, short = line(), {"steps": 3, "draws": 2}
    made = autoguide.AutoDiagonalNormal(problem.model)
    for guide in (
        None,
        "normal",
        "point",
        autoguide.AutoNormal,
        made,
        lambda model: variational(problem).guide,
    ):
        assert svi.fit(problem, guide=guide, **short).shape == (1, 2)
    assert made.prototype_trace is None  # an instance is copied, not changed
    assert not pyro.get_param_store().keys()
    for guide, text in (
        ("nomal", "Did you mean 'normal'"),
        (3, "guide must be a name"),
        (lambda model: None, "factory"),
    ):
        with pytest.raises((ValueError, TypeError), match=text):
            svi.fit(problem, guide=guide, **short)
    with pytest.raises(ValueError, match="Did you mean 'init_scale'"):
        svi.fit(problem, guide_options={"init_scales": 1.0}, **short)
    with pytest.raises(ValueError, match="missing"):
        svi.fit(problem, guide=lambda model: lambda *args, **kwargs: None, **short)


def test_a_models_own_guide_is_the_default() -> None:
    problem = zoo.Problem("coin", zoo.coin_flip.model, zoo.load("coin_flip").data, guide=beta_guide)
    assert svi.fit(problem, steps=2, draws=2).settings["engine"] == "loop"


@pytest.mark.filterwarnings("ignore:.*was not registered in the param store")
@pytest.mark.parametrize("name", sorted(set(autoguides()) - set(REFUSED) - {"AutoNormalizingFlow"}))
def test_every_autoguide_is_served_by_its_name(name) -> None:
    problem = zoo.load("logistic_regression", n=20)  # float32: some of Pyro's networks know no other
    fit = zoo.run(problem, "svi", guide=name, steps=2, draws=2, engine="loop")
    assert fit.settings["guide"] == name
    assert math.isfinite(fit.settings["elbo"])


def test_autoguides_that_cannot_be_served_are_refused() -> None:
    problem = line()
    for name in REFUSED:
        for guide in (name, getattr(autoguide, name)):
            refused(lambda guide=guide: svi.fit(problem, guide=guide), f"svi can't fit guide={name}: ", "(Use|Sum) ")
    refused(lambda: svi.fit(problem, guide="AutoNormalizingFlow"), "needs .'init_transform_fn'.", "guide_options=")
    refused(lambda: svi.fit(problem, guide="AutoNorml"), "Did you mean 'AutoNormal'", "full_rank", "low_rank")
    refused(lambda: svi.fit(problem, guide="AutoIAFNormal"), "RuntimeError: .*dtype", "use dtype='float32'")
    made = autoguide.AutoNormalMessenger(problem.model)
    refused(lambda: svi.fit(problem, guide=made), "an instance of AutoNormalMessenger", "Give the class")


def test_an_autoguide_from_the_shell(capsys) -> None:
    words = ["run", "coin_flip", "-m", "svi", "--opt", "steps=200", "--opt", "draws=20"]
    main([*words, "--opt", "guide=AutoNormal", "--opt", "guide_options={'init_scale': 0.3}"])
    assert "theta" in capsys.readouterr().out
    main([*words, "--opt", "guide=low_rank", "--opt", "guide_options={'rank': 1}"])
    assert "theta" in capsys.readouterr().out
    assert main([*words, "--opt", "guide=AutoNorml"]) != 0
    assert "Did you mean 'AutoNormal'" in capsys.readouterr().err
    assert main([*words, "--opt", "guide_options=rank"]) != 0
    assert "guide_options must be a dict, got 'rank'" in capsys.readouterr().err


def guide_of(site: str = "w", **change):
    """A hand-written mean-field guide of the line, with one thing changed."""

    def guide(x, y=None, **hyper):
        loc = pyro.param("loc", x.new_zeros(change.get("shape", 2)).to(change.get("dtype", F64)))
        law = dist.Normal(loc + change.get("shift", 0.0), change.get("scale", 1.0)).to_event(1)
        w = pyro.sample(site, law, obs=x[0] if change.get("observed") else None)
        if change.get("second"):
            pyro.sample("v", dist.Normal(loc, 1.0).to_event(1))
        if change.get("branch") and w.sum() > 0:
            return
        if change.get("raises"):
            raise RuntimeError("two\nlines")

    return lambda model: guide


def no_parameters(model):
    return lambda x, y=None, **hyper: pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))


@pytest.mark.parametrize(
    ("guide", "patterns"),
    [
        (no_parameters, ["no parameters", "pyro.param"]),
        (guide_of("v"), [r"missing \['w'\], unknown \['v'\]"]),
        (guide_of(second=True), [r"missing \[\], unknown \['v'\]", "is_auxiliary"]),
        (guide_of(observed=True), [r"missing \['w'\]"]),
        (guide_of(shape=3), [r"site 'w' shape \(3,\), the model wants \(2,\)"]),
        (guide_of(raises=True), ["the guide fails .*RuntimeError: two lines", "takes what the model takes"]),
        (guide_of(scale=-1.0), ["the guide fails", "scale"]),
        (guide_of(shift=float("nan")), ["the guide fails", "nan"]),
        (guide_of(dtype=torch.float32), ["the model fails on the guide's values .*dtype", "dtype='float32'"]),
        (lambda model: lambda x: None, ["the guide fails .*unexpected keyword argument"]),
    ],
    ids=["no params", "misses", "unknown", "observed", "shape", "raises", "scale", "nan", "dtype", "arguments"],
)
def test_guides_that_do_not_fit_are_refused_in_one_line(guide, patterns) -> None:
    refused(lambda: svi.fit(line(), guide=guide, steps=2), *patterns)


def test_guides_and_models_with_python_control_flow_run_one_by_one(caplog) -> None:
    """vmap refuses them; said with the reason, and the ELBO is that of the same guide without the branch."""
    options = {"steps": 3, "draws": 3, "restarts": 2, "particles": 2}
    with caplog.at_level("INFO", "zoo"):
        fit = svi.fit(line(), guide=guide_of(branch=True), **options)
    assert fit.settings["engine"] == "loop"
    assert "one particle at a time" in caplog.text
    plain = svi.fit(line(), guide=guide_of(), **options)
    error = math.hypot(fit.settings["elbo_se"], plain.settings["elbo_se"])
    assert fit.settings["elbo"] == pytest.approx(plain.settings["elbo"], abs=5 * error)

    def branching(x, y=None):
        a = pyro.sample("a", dist.Normal(x.new_zeros(()), 1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(a, 2.0 if a > 0 else 1.0), obs=y)

    for guide in ("normal", "full_rank", "low_rank", "point"):
        assert svi.fit(own(branching), guide=guide, **options).settings["engine"] == "loop"


def test_options_of_the_wrong_kind_are_refused() -> None:
    refused(lambda: svi.fit(line(), guide_options="rank=3"), "must be a dict, got 'rank=3'")
    refused(lambda: svi.fit(line(), point=3), "names of latent sites, got 3")
    refused(lambda: svi.fit(line(), stop="early"), "'steps' or 'converged', got 'early'")


# -- batches, steps, schedule ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "size"), [(12, 5), (7, 7), (10, 1), (9, 6)])
def test_batches_are_whole_and_every_row_comes_once_an_epoch(n, size) -> None:
    rows = batch_rows(n, size, seed=1, restart=2, first=0, count=3 * n)
    epochs = rows.reshape(-1)[: n * (3 * size)].reshape(-1, n)
    assert (epochs.sort(1).values == torch.arange(n)).all()
    pieces = [batch_rows(n, size, seed=1, restart=2, first=k, count=1)[0] for k in range(3 * n)]
    assert torch.equal(torch.stack(pieces), rows)
    assert not torch.equal(batch_rows(n, size, seed=1, restart=3, first=0, count=3 * n), rows) or n == 1


def test_adam_is_torchs() -> None:
    x = torch.tensor([[1.0, -2.0]], dtype=F64)
    theirs = x.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([theirs], lr=0.1, maximize=True)
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    pace = schedule(40, 0.1, x)
    for t in range(20):  # the first half: a constant rate
        x, m, v = adam(x, m, v, -x.pow(3), Pace(*(p[t] for p in pace)))
        optimiser.zero_grad()
        (-theirs.pow(4).sum() / 4).backward()
        optimiser.step()
    torch.testing.assert_close(x, theirs.detach(), rtol=1e-12, atol=1e-12)
    assert (pace.lr[:20] == 0.1).all()
    assert float(pace.lr[-1]) == pytest.approx(0.001)
    assert (pace.lr.diff() <= 0).all()


def test_q_of_single_rows_refuses_batches() -> None:
    with pytest.raises(ValueError, match=r"does not fit a batch of 2 of 6 rows.*batch_size=None"):
        svi.fit(own(schools), batch_size=2, steps=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 13}, "between 1 and the 12 rows"),
        ({"batch_size": 0}, "between 1 and the 12 rows"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"particles": 0}, "particles must be"),
        ({"engine": "fast"}, "engine must be one of"),
    ],
)
def test_options_out_of_range_are_refused(options, text) -> None:
    with pytest.raises(ValueError, match=text):
        svi.fit(line(), steps=2, **options)


# -- restarts, seeds, outcomes -----------------------------------------------------------------------------


def test_restarts_are_independent_runs_on_the_chain_axis() -> None:
    problem, options = line(), {"steps": 40, "draws": 5, "seed": 4, "batch_size": 5}
    alone, together = svi.fit(problem, **options), svi.fit(problem, restarts=3, **options)
    assert together.draws["w"].shape == (3, 5, D)
    assert together.history["elbo"].shape == (3, 40)
    torch.testing.assert_close(together.history["elbo"][:1], alone.history["elbo"])
    torch.testing.assert_close(together.draws["w"][:1], alone.draws["w"])
    assert not torch.allclose(together.history["elbo"][0], together.history["elbo"][1])
    assert len(together.settings["elbo_restarts"]) == 3
    assert together.settings["elbo"] == together.settings["elbo_restarts"][together.settings["best"]]


def test_restarts_share_the_particles_and_the_best_gets_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """ELBO and error of the best are those of a fit alone; the twin that shares them all out has a larger error."""
    monkeypatch.setattr(estimate, "LEAST", 500)
    fit = svi.set_up(line(), "normal", {}, (), 4, seed=0)
    params = fit.start.clone()
    params[2] -= 3 * params[2]
    found = estimate.estimate(fit, params, seed=0)
    alone = estimate._of(fit, params[found.best], found.best, 0, estimate.particles(fit))
    shared = estimate._of(fit, params[found.best], found.best, 0, estimate.particles(fit) // 4)
    assert (found.elbo, found.error) == alone
    assert found.best != 2
    assert found.each[2] < found.elbo == found.each[found.best]
    assert shared[1] > 1.5 * found.error
    elbo = fit.estimate(params[0], fit.noise(0, 0, 0, (estimate.particles(fit) // 4,), "elbo")).elbo
    assert estimate._of(fit, params[0], 0, 0, len(elbo)) == pytest.approx(
        (float(elbo.mean()), float(elbo.std() / len(elbo) ** 0.5)), rel=1e-6
    )


def test_a_seed_gives_the_same_bits_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second = (svi.fit(line(), steps=20, draws=3, seed=5) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.history["elbo"], second.history["elbo"])
    assert torch.equal(first.draws["w"], second.draws["w"])
    assert not torch.equal(first.draws["w"], svi.fit(line(), steps=20, draws=3, seed=6).draws["w"])


def test_the_history_adds_up_and_the_final_elbo_is_the_optimum() -> None:
    """Closed form: the mean-field optimum has the exact means and the sds 1 / sqrt(precision diagonal)."""
    problem = line()
    q = svi.fit(problem, steps=1500, lr=0.02, draws=1000, seed=0)
    assert q.ok, q.outcome
    h = q.history
    torch.testing.assert_close(h["elbo"], h["expected_log_likelihood"] - h["kl"])
    x, y = problem.data.x, problem.data.y
    precision = x.T @ x / NOISE**2 + torch.eye(D, dtype=F64) / 1.5**2
    mean = torch.linalg.solve(precision, x.T @ y / NOISE**2)
    best = analytic_elbo(problem, mean, precision.diagonal().rsqrt())
    assert q.settings["elbo"] == pytest.approx(best, abs=0.02 + 4 * q.settings["elbo_se"])
    assert q.settings["elbo"] <= problem.exact(problem.data, **problem.hyper).log_evidence + 4 * q.settings["elbo_se"]
    assert q.settings["elbo_is_bound"]


def test_point_estimates_are_no_bound() -> None:
    q = svi.fit(line(), steps=5, draws=2, guide="point")
    assert not q.settings["elbo_is_bound"]
    assert q.settings["point"] == ["w"]


def test_the_check_for_rest_tells_noise_from_a_climb() -> None:
    """At alpha 5 % of false alarms: at most 12 % seen in 200 curves of pure noise; a climb is always seen."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 2000, generator=generator, dtype=F64)
    assert sum(not at_rest(curve) for curve in noise) <= 24
    climb = torch.linspace(0, 20, 2000, dtype=F64)
    assert not any(at_rest(curve + climb) for curve in noise[:50])
    assert at_rest(torch.full((200,), 3.0, dtype=F64))
    assert not at_rest(torch.zeros(199))  # too few steps to tell


def test_a_climb_is_seen_where_the_rate_still_stands() -> None:
    """A climb that the falling rate stops: the last tenths lie still within their noise, the middle does not.

    Like the lecture's network after 5,000 steps: 10 nats a quarter at the full rate, noise of 20 nats.
    """
    generator = torch.Generator().manual_seed(1)
    t = torch.arange(5000, dtype=F64) / 5000
    rate = torch.where(t < 0.5, torch.ones_like(t), 0.5 * (1 + torch.cos(math.pi * (2 * t - 1))))
    noise = 20 * torch.randn(40, 5000, generator=generator, dtype=F64)
    curves = 100 * rate.cumsum(0) / rate.sum() + noise
    assert all(still_climbing(curve) for curve in curves)
    assert sum(at_rest(curve, pieces=10) for curve in curves) > 10  # the twin: judged at the end, over tenths
    assert sum(still_climbing(curve) for curve in noise) <= 5  # false alarms: 2.3 % each, 5 in 40 at alpha 1e-3
    assert still_climbing(torch.zeros(199))


def test_what_jitter_costs_is_allowed_for() -> None:
    """1.4 nats between the sixths of a q of 242 parameters are no climb; those of 10 parameters are."""
    generator = torch.Generator().manual_seed(2)
    curve = torch.cat([torch.zeros(500), 1.4 * torch.ones(100)]) + torch.randn(600, generator=generator)
    assert at_rest(curve, parameters=242)
    assert not at_rest(curve, parameters=10)


def test_too_few_steps_are_named() -> None:
    q = svi.fit(line(), guide="point", steps=60, lr=1e-3, draws=2)
    assert q.outcome == "not converged: raise steps or lower lr"


def test_a_value_that_is_not_finite_ends_the_run_and_is_named() -> None:
    problem = zoo.load("linear_regression", noise=None)
    q = svi.fit(problem, steps=300, lr=1e4, draws=5)
    assert "not finite at step" in q.outcome
    assert q.history["elbo"].shape[1] < 300
    assert all(torch.isfinite(value).all() for value in q.draws.values())


def slope(x: Tensor, y: Tensor | None = None) -> None:
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(w * x[:, 0], 1.0), obs=y)


def test_what_is_kept_is_where_the_last_finite_step_was_taken() -> None:
    """A single row overflows: batches of others are finite again, and move nothing. Twin: a step later."""
    x = torch.linspace(-1, 1, 100)[:, None].clone()
    y = 2 * x[:, 0]
    x[50] = 3e38
    problem = zoo.Problem("slope", slope, zoo.Data(x, y))
    options = {"engine": "eager", "steps": 300, "draws": 10, "batch_size": 1, "seed": 0}
    q = zoo.run(problem, "svi", **options)
    step = int(q.outcome.partition("at step ")[2].partition(":")[0])
    assert step % 64 not in (0, 63)
    torch.testing.assert_close(q.draws["w"], climb_to(problem, step - 1), rtol=1e-6, atol=0)
    assert (q.draws["w"] - climb_to(problem, step)).abs().max() > 1e-3


def climb_to(problem: zoo.Problem, step: int) -> Tensor:
    """Draws of the same fit where no step came after this one: the block is cut there."""
    short = {"rows": 0}

    def stop() -> str:
        short["rows"] += 1
        return "enough" if short["rows"] >= step else ""

    fit = svi.set_up(problem, "normal", {}, (), 1, 0)
    found = ascent.climb(
        fit, steps=300, lr=0.01, particles=1, batch_size=1, seed=0, engine="eager", stop=stop
    )  # fmt: skip
    return svi._draws(fit, found.params, 10, 0)[0]["w"]


@pytest.mark.parametrize(("scale", "dtype"), [(1e9, "float64"), (1e12, "float32")])
def test_a_climb_too_small_to_show_in_the_elbo_is_no_rest(scale: float, dtype: str) -> None:
    """y of 1e9: each step gains less than the ELBO's own rounding. Twin: y of 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=generator)
    y = x @ torch.tensor([1.0, -2.0]) + 0.3 * torch.randn(30, generator=generator)
    options = {"engine": "eager", "draws": 50, "steps": 2000, "dtype": dtype, "seed": 0}
    far, near = (zoo.run(zoo.load("linear_regression", zoo.Data(x, y * s)), "svi", **options) for s in (scale, 1.0))
    assert far.outcome.startswith("not converged")
    assert near.outcome == "ok"


def test_a_run_that_is_stopped_keeps_what_it_has() -> None:
    q = svi.fit(line(), steps=10**6, max_seconds=0.5, draws=5, engine="eager")
    assert q.outcome.startswith("max_seconds=0.5 reached after ")
    assert q.history["elbo"].shape[1] == int(q.outcome.split()[3])
    assert q.draws["w"].shape == (1, 5, D)


def test_the_rule_of_the_engine() -> None:
    q = variational(line())
    assert choose_engine("auto", q, 3999) == "eager"
    assert choose_engine("compiled", q, 10) == "compiled"
    loop = Looped(line(), [prepare(q.guide, line(), 0)])
    assert choose_engine("auto", loop, 5000) == "loop"
    with pytest.raises(ValueError, match="loop"):
        choose_engine("compiled", loop, 5000)


# -- early stop --------------------------------------------------------------------------------------------


def test_an_early_stop_is_a_shorter_run_bit_for_bit() -> None:
    """At rest after t steps, ended after 2 t: the same as steps=2 t, and within .02 + 4 se of the optimum."""
    options = {"lr": 0.02, "draws": 5, "seed": 2, "engine": "eager"}
    early = svi.fit(line(), steps=20_000, stop="converged", restarts=2, **options)
    taken = early.settings["steps_taken"]
    assert early.ok, early.outcome
    assert 1000 <= taken < 10_000
    assert early.history["elbo"].shape == (2, taken)
    whole = svi.fit(line(), steps=taken, restarts=2, **options)
    assert torch.equal(early.draws["w"], whole.draws["w"])
    assert torch.equal(early.history["elbo"], whole.history["elbo"])


def test_steps_are_the_most_and_a_climb_does_not_stop() -> None:
    """Twin of the early stop: at a rate so small that the ELBO climbs all the time."""
    fit = svi.fit(line(), steps=1500, stop="converged", lr=1e-5, guide="point", draws=2, engine="eager")
    assert fit.settings["steps_taken"] == 1500
    assert fit.outcome.startswith("not converged: use stop='steps'")


@pytest.mark.slow
def test_compiled_is_eager() -> None:
    problem = zoo.load("bnn_regression", hidden=5)
    options = {"steps": 50, "draws": 5, "restarts": 2, "batch_size": 20}
    compiled, eager = (svi.fit(problem, engine=engine, **options) for engine in ("compiled", "eager"))
    assert (compiled.settings["engine"], eager.settings["engine"]) == ("compiled", "eager")
    torch.testing.assert_close(compiled.history["elbo"], eager.history["elbo"], rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(compiled.draws["w1"], eager.draws["w1"], rtol=1e-2, atol=1e-2)


def test_a_models_scale_and_mask_are_kept() -> None:
    """poutine.scale and mask inside a model weigh its sites, in the ELBO as in the density."""

    def model(x, y=None):
        w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
        with (
            pyro.plate("data", x.shape[0]),
            pyro.poutine.mask(mask=x[:, 0] > 0),
            pyro.poutine.scale(scale=3.0),
        ):
            pyro.sample("y", dist.Normal(w, 1.0), obs=y)

    x = torch.tensor([[1.0], [-1.0], [1.0]], dtype=F64)
    problem = zoo.Problem("weighted", model, zoo.Data(x, torch.tensor([0.0, 5.0, 1.0], dtype=F64)))
    q = variational(problem, init=lambda site: torch.zeros((), dtype=F64), init_scale=1.0)
    got = float(q.estimate(q.start[0], torch.zeros(1, 1, dtype=F64)).expected_log_likelihood)
    assert got == pytest.approx(3 * (2 * -0.5 * math.log(2 * math.pi) - 0.5))
    with quiet(), LogProb() as log_prob:
        pyro.poutine.condition(model, {"w": torch.zeros((), dtype=F64)})(*problem.arguments()[0])
    assert got == pytest.approx(float(log_prob.sites["y"]))
