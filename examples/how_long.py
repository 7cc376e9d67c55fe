"""How large is large enough? 1,000 chains from W = 10: how far their law at step n is from the exact law.

Look for: on logistic regression and the double well the law is right long before R-hat of four chains says so; at
temperature .1 (a barrier of 10 nats) mh fills one well, hmc falls across into the other: R-hat says yes and is wrong.

Source: Ambrogioni, "How large is large enough?"; Vehtari et al. 2021.
"""

import argparse

import numpy as np
import pyro
import torch
from scipy.stats import wasserstein_distance as distance

import zoo
from zoo.core.diagnostics import rhat
from zoo.infer.kernels import mh
from zoo.report import canvas


def well():  # U = -2 w^2 + w^4
    w = pyro.sample("w", pyro.distributions.ImproperUniform(pyro.distributions.constraints.real_vector, (), (1,)))
    pyro.factor("minus_U", (2 * w**2 - w**4).sum())


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="250 chains, fewer steps")
parser.add_argument("--broken", action="store_true", help="mh accepts with the slide's max(ratio, 1)")
parser.add_argument("--picture", metavar="FILE", help="distance against n, a marker where R-hat < 1.01")
args, random, end, W = parser.parse_args(), np.random.default_rng(0), {}, np.linspace(-60, 60, 24_001)
chains, steps = (1000, 250)[args.quick], {"mh": (4096, 1024), "mala": (1024, 64), "hmc": (256, 32), "nuts": (128, 16)}
if args.broken:
    mh.log_ratio, steps = lambda lp, new: (new - lp).clamp(min=0), {"mh": (1024, 256)}
one_weight = zoo.load("logistic_regression", zoo.Data([[-1.0], [1.0]], [0, 1]), bias=False)
laws = (  # log density, temperature, E W or E W^2, step sizes of the methods, hmc's length
    (one_weight, -(W**2) / 2 - 2 * np.logaddexp(0, -W), 1.0, 0.7042799208, (2.0, 0.5, 0.5, 0.5), 1.5),
    (zoo.Problem("double well", well, {}), 2 * W**2 - W**4, 1.0, 0.8327454871, (0.7, 0.002, 0.04, 0.04), 0.5),
    (zoo.Problem("well at .1", well, {}), 2 * W**2 - W**4, 0.1, 0.97252276, (0.25, 2e-4, 0.013, 0.013), 0.2),
)
for axes, (problem, log_p, t, right, sizes, length) in zip(canvas.panels(None, 3, sharey=True), laws, strict=True):
    cdf = (p := np.exp((log_p - log_p.max()) / t) / np.exp((log_p - log_p.max()) / t).sum()).cumsum()
    assert min(abs(p @ W - right), abs(p @ W**2 - right)) < 1e-8
    floor = np.quantile([distance(np.interp(random.random(chains), cdf, W), W, None, p) for _ in range(100)], 0.99)
    print(f"{problem.name}: step n: distance (R-hat of draws n / 2 to n); of exact draws {floor:.2f} at most")
    how = {"warmup": 0, "chains": chains, "temperature": t, "mass": "unit", "engine": "eager", "dtype": "float64"}
    how["init"] = zoo.Posterior(problem, "start", "iid", {"w": torch.full((chains, 1, 1), 10.0)})
    for i, (method, draws) in enumerate(steps.items()):
        more = {"draws": draws[args.quick], "step_size": sizes[i]} | ({"length": length} if method == "hmc" else {})
        w = zoo.run(problem, method, **how, **more).draws["w"].flatten(1).numpy()
        n = 2 ** np.arange(3, w.shape[1].bit_length())
        far, r = np.array([(distance(w[:, k - 1], W, None, p), rhat(w[:4, k // 2 : k])) for k in n]).T
        print(f"  {method:5}" + "  ".join(f"{k}: {d:.2f} ({s:.2f})" for k, d, s in zip(n, far, r, strict=True)))
        end[problem.name, method], yes = (far[-1] < floor, r[-1] < 1.01), list(np.flatnonzero((r < 1.01) & (n >= 64)))
        axes.loglog(n, far, label=method, **canvas.line(i), marker=canvas.marker(i), markevery=yes, markersize=12)
    axes.set(title=problem.name, xlabel="step n", ylabel="1-Wasserstein distance", ylim=(0.01, 15))
    axes.axhspan(1e-3, floor, color="0.88"), canvas.dress(axes)
assert [m for (_, m), (good, yes) in end.items() if yes > good] == ["mh", "hmc"][: 0 if args.broken else 2 - args.quick]
assert all(good != args.broken for (law, _), (good, _) in end.items() if args.broken or law == "logistic_regression")
_ = args.picture and [canvas.legend(axes), axes.figure.savefig(args.picture, dpi=150)]
