"""Models as strangers write them: plain Pyro on a dict, one for each habit that a library could stumble over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import constraints
from pyro.distributions.transforms import AffineTransform, ExpTransform
from pyro.infer.reparam import LocScaleReparam, TransformReparam
from pyro.nn import PyroModule, PyroSample
from torch import Tensor, nn

import zoo

F64 = torch.float64
Y = torch.tensor([0.3, -0.4, 1.1, 0.8, 1.9, 1.4], dtype=F64)
X = torch.linspace(-1, 1, 6, dtype=F64)


def two_observed(x: Tensor, y: Tensor, counts: Tensor) -> None:
    """One slope behind two observed sites of different length, in two plates."""
    w = pyro.sample("w", dist.Normal(x.new_zeros(()), 1.0))
    with pyro.plate("reals", y.shape[0]):
        pyro.sample("y", dist.Normal(w * x, 0.5), obs=y)
    with pyro.plate("events", counts.shape[0]):
        pyro.sample("counts", dist.Poisson(w.exp()), obs=counts)


def nested_plates(y: Tensor) -> None:
    """Schools (dim -1) of classes (dim -2): y is (3, 2)."""
    tau = pyro.sample("tau", dist.HalfNormal(y.new_ones(())))
    with pyro.plate("school", y.shape[1], dim=-1):
        mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), tau))
        with pyro.plate("class", y.shape[0], dim=-2):
            pyro.sample("y", dist.Normal(mu, 0.5), obs=y)


def crossed_plates(y: Tensor) -> None:
    """Rows and columns with an effect each; the plates are made first and entered together."""
    rows, columns = pyro.plate("rows", y.shape[0], dim=-2), pyro.plate("columns", y.shape[1], dim=-1)
    with rows:
        a = pyro.sample("a", dist.Normal(y.new_zeros(()), 1.0))
    with columns:
        b = pyro.sample("b", dist.Normal(y.new_zeros(()), 1.0))
    with rows, columns:
        pyro.sample("y", dist.Normal(a + b, 0.5), obs=y)


def sequential_plates(y: Tensor) -> None:
    """`for i in pyro.plate(...)`: a site a school, each with a name of its own."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
    for i in pyro.plate("school", y.shape[0]):
        pyro.sample(f"y_{i}", dist.Normal(mu, 1.0), obs=y[i])


def constrained(y: Tensor) -> None:
    """Every support in one model: positive, unit interval, simplex, ordered, Cholesky, an interval that moves."""
    scale = pyro.sample("scale", dist.LogNormal(y.new_zeros(()), 1.0))
    mix = pyro.sample("mix", dist.Beta(y.new_full((), 2.0), 2.0))
    shares = pyro.sample("shares", dist.Dirichlet(y.new_ones(3)))
    cuts = pyro.sample(
        "cuts", dist.ImproperUniform(constraints.ordered_vector, torch.Size(()), torch.Size((2,)))
    )  # fmt: skip
    pyro.factor("cuts_prior", dist.Normal(0.0, 1.0).log_prob(cuts).sum())
    chol = pyro.sample("chol", dist.LKJCholesky(2, y.new_ones(())))
    top = pyro.sample("top", dist.Gamma(y.new_full((), 3.0), 1.0))
    inside = pyro.sample("inside", dist.Uniform(y.new_zeros(()), top))
    mean = mix * shares[0] + cuts.sum() + chol[1, 0] + inside
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(mean, scale), obs=y)


def funnel(y: Tensor) -> None:
    tau = pyro.sample("tau", dist.HalfNormal(y.new_ones(())))
    with pyro.plate("data", y.shape[0]):
        theta = pyro.sample("theta", dist.Normal(y.new_zeros(()), tau))
        pyro.sample("y", dist.Normal(theta, 0.5), obs=y)


def log_scale(y: Tensor) -> None:
    base = dist.TransformedDistribution(dist.Normal(y.new_zeros(()), 1.0), [AffineTransform(0.5, 2.0), ExpTransform()])
    s = pyro.sample("s", base)
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(0.0, s), obs=y)


def no_outputs(y: Tensor) -> None:
    """No f, no plate, returns nothing; a scalar prior against a vector."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
    pyro.sample("seen", dist.Normal(mu, 1.0).expand(y.shape).to_event(1), obs=y)


def potential(y: Tensor) -> None:
    """A prior by pyro.factor, a deterministic site of interest, a likelihood that is scaled and masked."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
    pyro.factor("soft", -(mu**4))
    pyro.deterministic("double", 2 * mu)
    with pyro.plate("data", y.shape[0]), poutine.scale(scale=0.5), poutine.mask(mask=y > 0):
        pyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def missing(y: Tensor, seen: Tensor) -> None:
    """Targets that are there for some rows only: obs_mask makes the others latent."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 1.0))
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.Normal(mu, 1.0), obs=y, obs_mask=seen)


def vector_targets(y: Tensor) -> None:
    """Rows that are vectors: MultivariateNormal with an LKJ correlation."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(2), 1.0).to_event(1))
    chol = pyro.sample("chol", dist.LKJCholesky(2, y.new_ones(())))
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.MultivariateNormal(mu, scale_tril=chol), obs=y)


def mixture(y: Tensor) -> None:
    """Marginal mixture: no discrete latent."""
    w = pyro.sample("w", dist.Dirichlet(y.new_ones(2)))
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(2), 2.0).to_event(1))
    with pyro.plate("data", y.shape[0]):
        pyro.sample("y", dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(mu, 0.5)), obs=y)


def chain_of_states(y: Tensor) -> None:
    """A random walk by pyro.markov: latents made in a Python loop."""
    state = y.new_zeros(())
    for t in pyro.markov(range(y.shape[0])):
        state = pyro.sample(f"z_{t}", dist.Normal(state, 1.0))
        pyro.sample(f"y_{t}", dist.Normal(state, 0.5), obs=y[t])


class Network(PyroModule):
    """nn.Linear whose weights are latents by PyroSample."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = PyroModule[nn.Linear](1, 1)
        self.linear.weight = PyroSample(dist.Normal(torch.zeros(1, 1, dtype=F64), 1.0).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(torch.zeros(1, dtype=F64), 1.0).to_event(1))

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        f = self.linear(x[:, None]).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.Normal(f, 0.5), obs=y)
        return f


Own = tuple[Callable[..., Any], dict[str, Any]]
OWN: dict[str, Own] = {
    "two observed": (two_observed, {"x": X, "y": Y, "counts": torch.tensor([1.0, 0.0, 2.0, 3.0], dtype=F64)}),
    "nested plates": (nested_plates, {"y": Y.reshape(3, 2)}),
    "crossed plates": (crossed_plates, {"y": Y.reshape(3, 2)}),
    "sequential plates": (sequential_plates, {"y": Y}),
    "constrained": (constrained, {"y": Y}),
    "centred": (funnel, {"y": Y}),
    "LocScaleReparam": (poutine.reparam(funnel, {"theta": LocScaleReparam(0.0)}), {"y": Y}),
    "LocScaleReparam half": (poutine.reparam(funnel, {"theta": LocScaleReparam(0.5)}), {"y": Y}),
    "TransformReparam": (poutine.reparam(log_scale, {"s": TransformReparam()}), {"y": Y}),
    "handlers": (poutine.scale(poutine.condition(crossed_plates, {"b": Y[:2]}), 0.5), {"y": Y.reshape(3, 2)}),
    "no outputs": (no_outputs, {"y": Y}),
    "factor": (potential, {"y": Y}),
    "missing": (missing, {"y": Y, "seen": Y > 0}),
    "vector targets": (vector_targets, {"y": Y.reshape(3, 2)}),
    "mixture": (mixture, {"y": Y}),
    "chain of states": (chain_of_states, {"y": Y}),
    "PyroModule": (Network(), {"x": X, "y": Y}),
}  # fmt: skip


def own(name: str) -> zoo.Problem:
    """The problem of that name."""
    model, data = OWN[name]
    return zoo.Problem(name, model, data)


# -- posteriordb's models, as their authors would write them in Pyro -------------------------------------------


def flat(shape: tuple[int, ...], support: Any = constraints.real) -> Any:
    """p(theta) = 1 on the support."""
    return dist.ImproperUniform(support, torch.Size(), torch.Size(shape))


def blr(x: Tensor, y: Tensor) -> None:
    """sblrc: beta ~ N(0, 10), sigma ~ HalfNormal(10), y ~ N(X beta, sigma)."""
    beta = pyro.sample("beta", dist.Normal(x.new_zeros(x.shape[1]), 10.0).to_event(1))
    sigma = pyro.sample("sigma", dist.HalfNormal(x.new_full((), 10.0)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def eight_schools(y: Tensor, sigma: Tensor) -> None:
    """Non-centred: mu ~ N(0, 5), tau ~ HalfCauchy(5), theta = mu + tau eta."""
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(y.new_full((), 5.0)))
    with pyro.plate("school", y.shape[0]):
        eta = pyro.sample("eta", dist.Normal(y.new_zeros(()), 1.0))
        theta = pyro.deterministic("theta", mu + tau * eta)
        pyro.sample("y", dist.Normal(theta, sigma), obs=y)


def kid_score(mom_hs: Tensor, mom_iq: Tensor, score: Tensor) -> None:
    """kidiq: beta flat, sigma ~ HalfCauchy(2.5), score ~ N(b0 + b1 hs + b2 iq, sigma), all on the raw scale."""
    beta = pyro.sample("beta", flat((3,)))
    sigma = pyro.sample("sigma", dist.HalfCauchy(score.new_full((), 2.5)))
    with pyro.plate("child", score.shape[0]):
        pyro.sample("score", dist.Normal(beta[0] + beta[1] * mom_hs + beta[2] * mom_iq, sigma), obs=score)


def log_earnings(height: Tensor, male: Tensor, log_earn: Tensor) -> None:
    """earnings: all flat; log earn ~ N(b0 + b1 height + b2 male + b3 height male, sigma), height in inches."""
    beta = pyro.sample("beta", flat((4,)))
    sigma = pyro.sample("sigma", flat((), constraints.positive))
    mean = beta[0] + beta[1] * height + beta[2] * male + beta[3] * height * male
    with pyro.plate("person", log_earn.shape[0]):
        pyro.sample("log_earn", dist.Normal(mean, sigma), obs=log_earn)
