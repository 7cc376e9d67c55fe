"""Missing inputs are latent sites like any other: nothing is thrown away, and nothing is made up.

    x_i ~ N(0, I) (2,),  y_i ~ N(x_i w, .5),  w ~ N(0, I): three of five second entries of x are missing

Look for: with the missing entries as a site, w's posterior is that of the exact marginal, in which a row without its
second entry has the wider law y_i ~ N(x_i1 w_1, sqrt(.25 + w_2^2)) (quadrature over w). Dropping those rows throws
away what they say of w: sd of w_1 a quarter larger. Filling in the mean, 0, is a quarter too sure of w_1.

Source: Thome, "Bayesian linear regression"; Little & Rubin 2019, chapter 11.
"""

import argparse

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from scipy import stats

import zoo
from zoo.core.diagnostics import mcse_mean

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer draws")
args, noise, n, g = parser.parse_args(), 0.5, 40, torch.Generator().manual_seed(1)
x = torch.randn(n, 2, generator=g, dtype=torch.float64)
y = x @ torch.tensor([1.0, -0.6], dtype=torch.float64) + noise * torch.randn(n, generator=g, dtype=torch.float64)
gone = torch.arange(n) % 5 < 3  # (n,)


def model(x, place, y=None):
    w = pyro.sample("w", dist.Normal(x.new_zeros(2), 1.0).to_event(1))  # (2,)
    unseen = pyro.sample("unseen", dist.Normal(x.new_zeros(place.shape[1]), 1.0).to_event(1))  # (missing,)
    f = pyro.deterministic("f", x @ w + (place @ unseen) * w[1])  # (n,)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, noise), obs=y)


def exact(seen, sd_of_rest):
    """Mean and sd (2,) of w on a grid: y_i ~ N(x_i w, sqrt(noise^2 + sd_of_rest_i^2 w_2^2))."""
    w1, w2 = np.meshgrid(np.linspace(0, 2, 401), np.linspace(-2, 1, 401), indexing="ij")
    sd = np.sqrt(noise**2 + np.multiply.outer(sd_of_rest**2, w2**2))
    lp = stats.norm.logpdf(y.numpy()[: len(seen), None, None], np.tensordot(seen, [w1, w2], 1), sd).sum(0)
    p = np.exp((lp := lp - w1**2 / 2 - w2**2 / 2) - lp.max()) / np.exp(lp - lp.max()).sum()
    mean = np.array([(p * w).sum() for w in (w1, w2)])
    return mean, np.sqrt([(p * (w - m) ** 2).sum() for w, m in zip((w1, w2), mean, strict=True)])


seen, place = torch.where(gone[:, None] & torch.tensor([False, True]), 0.0, x), torch.eye(n).double()[:, gone]
problem = zoo.Problem("missing", model, {"x": seen, "place": place, "y": y}, compare=("w",))
fit = zoo.run(problem, "nuts", engine="eager", draws=200 if args.quick else 2000, warmup=200, seed=0)
(mean, sd), filled = exact(seen.numpy(), gone.double().numpy()), exact(seen.numpy(), np.zeros(n))
y, rows, w = y[~gone], x[~gone].numpy(), fit.draws["w"].numpy()
dropped, site = exact(rows, np.zeros(len(rows))), (w.mean((0, 1)), w.std((0, 1)))
print("w: mean, sd of both", fit.outcome)
for name, (m, s) in {"a site": site, "exact": (mean, sd), "dropped": dropped, "by 0": filled}.items():
    print(f"{name:8}{m[0]:7.3f}{m[1]:7.3f}  {s[0]:6.3f}{s[1]:6.3f}")
assert (np.abs(w.mean((0, 1)) - mean) < 4 * mcse_mean(w)).all()
assert np.abs(w.std((0, 1)) / sd - 1).max() < 0.15
assert filled[1][0] / 0.8 < sd[0] < dropped[1][0] / 1.2
