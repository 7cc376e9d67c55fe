"""The gradient of an expectation from draws: along the draws (pathwise), or of their log probability (score).

Look for: the score needs no gradient of w^2 and pays with 7 and 11 times the variance (svi gradient="score"); an eps a
row in place of one a batch divides the variance by 9 (noise_per="row"); not every distribution has a pathwise gradient.

Source: Yandex, "Reparameterization: many but not all"; Thome, "Stochastic variational inference, Algorithm 1".
"""

import argparse

import pyro.distributions as dist
import torch

from zoo.report import canvas


def square(q, how):  # its gradient estimates that of E_q w^2
    return q.rsample() ** 2 if how == "pathwise" else (w := q.sample()) ** 2 * q.log_prob(w)


def rows(q, eps, m=20, times=1):  # times * sum over m of the 20 rows of log p(y | w x), noise sd 1
    w, chosen = q.rsample([eps]), torch.rand(20, 100_000).argsort(0)[:m]
    return -times / 2 * ((y[chosen] - w * x[chosen]) ** 2).sum(0)


def gradients(name, right, estimator, *options):  # 1e5 of d/dmu and d/dsigma at 1, 1: (2, 100,000); is the mean right?
    at = torch.ones(2, 100_000).double().requires_grad_()
    g = torch.autograd.grad(estimator(dist.Normal(*at), *options).sum(), at)[0]
    print(f"{name:27} mean {g.mean(1).numpy().round(3)}, right {right}, variance {g.var(1).numpy().round(2)}")
    return g, near(g, right)


def near(values, right):  # within 4 standard errors
    return bool(((values.mean(1) - torch.tensor(right)).abs() < 4 * values.std(1) / 100_000**0.5).all())


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="changes nothing: it takes seconds")
parser.add_argument("--broken", action="store_true", help="a minibatch without n / M")
parser.add_argument("--picture", metavar="FILE", help="histograms of the two estimators of d/dmu")
args, _, shown = parser.parse_args(), torch.manual_seed(0), canvas.panels(None, 2, sharex=True, sharey=True)
y = 0.5 * (x := torch.linspace(-1, 2, 20).double()) + torch.sin(9 * x)
for axes, how, variances in zip(shown, ("pathwise", "score"), ([4.0, 12.0], [30.0, 136.0]), strict=True):
    g, good = gradients(f"E w^2, {how}", [2.0, 2.0], square, how)
    assert [good, near((g - g.mean(1, True)) ** 2, variances)] == [True, True]
    axes.hist(g[0].clamp(-10, 30), torch.arange(-10, 31), log=True, **canvas.fill(how == "score"))
    axes.set(title=f"{how}: mean 2, variance {variances[0]:g}", xlabel="d/dmu of a draw (beyond: ends)", ylabel="draws")
    canvas.dress(axes)
right = [round(float(v), 4) for v in ((x * (y - x)).sum(), -(x**2).sum())]  # closed form
(batch, good), (row, too) = (gradients(f"E log p, {e} eps for 20 rows", right, rows, e) for e in (1, 20))
ratio, exact = (batch.var(1) / row.var(1)).numpy(), float((x**2).sum() ** 2 / (x**4).sum())
print(f"variance, one eps a batch / one a row: {ratio.round(1)}, of d/dmu in closed form {exact:.1f}")
assert [good, too, abs(ratio[0] / exact - 1) < 0.03, ratio[1] > 5] == [True] * 4
assert gradients("E log p, 5 of 20 rows", right, rows, 5, 5, 1 if args.broken else 4)[1] != args.broken
kinds = [c for c in vars(dist).values() if isinstance(c, type) and issubclass(c, torch.distributions.Distribution)]
can, cannot = ({c.__name__ for c in kinds if c.has_rsample is flag} for flag in (True, False))  # the rest: it depends
print(f"{len(can)} can be reparameterised:", *sorted(can), f"\n{len(cannot)} cannot:", *sorted(cannot))
assert [{"Normal", "Gamma", "Dirichlet"} <= can, {"Bernoulli", "Poisson"} <= cannot] == [True, True]
if args.picture:
    axes.figure.savefig(args.picture, dpi=150)
