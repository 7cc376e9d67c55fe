"""From SGD to Langevin: y = W x by SGD, with weight decay, with noise (SGLD), with an accept step (MALA).

Look for: decay leads SGD to the MAP, noise to the posterior, slide (i) to half its variance, (ii), without 1/M,
to a twentieth; MALA is exact, until a minibatch accepts. `--broken`: decay, noise, max(ratio, 1) as the slides print.

Source: Ambrogioni I, "Regularised loss"; Ambrogioni, "Stochastic gradient Langevin dynamics"; Welling & Teh 2011.
"""

import argparse
from dataclasses import replace

import torch

import zoo
from zoo.infer.kernels import mala
from zoo.infer.mass import unit

X = torch.tensor([[0.075, 0.375]] * 10).double().sqrt() * torch.tensor([[1.0, 1.0], [1.0, -1.0]] * 5)
Y = X @ torch.tensor([4.0, -2.0]).double() + torch.randn(10, generator=torch.Generator().manual_seed(1)).double()
A = torch.tensor([1.0, 4.0]).double()  # W ~ N(0, lambda = 4), noise 1: the posterior is N(MAP, 1 / A)
MAP, LINE = X.T @ Y / A, zoo.load("linear_regression", zoo.Data(X, Y), bias=False, noise=1.0, prior_scale=2.0)
RUNS = {  # method, step size, options and, by theory, the variances of W1 and W2, times A; the first three are right
    "SGLD": ("sgld", 0.01, {"gamma": 0}, 1 / (1 - 0.01 * A / 4)),
    "step falls": ("sgld", 0.1, {"gamma": 0.55, "b": 10.0}, A / A),
    "MALA": ("mala", 0.25, {}, A / A),
    "slide (i)": ("printed_sgld", 0.01, {"slip": "noise"}, 1 / (2 - 0.01 * A)),
    "slide (ii)": ("printed_sgld", 0.01, {"slip": "both", "batch_size": 10}, 1 / (20 - A)),
    "all accepted": ("sgld", 0.5, {"gamma": 0}, 1 / (1 - 0.25 * A / 2)),
    **{f"{m} of 10 accept": ("minibatch_mh", 1.0, {"batch_size": m}, None) for m in (5, 2, 1)},
}
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer chains")
parser.add_argument("--broken", action="store_true", help="what the slides print")
parser.add_argument("--picture", metavar="FILE", help="draw the posterior and the draws of SGLD, right and as printed")
args, _, w, by_hand, path = parser.parse_args(), torch.manual_seed(0), MAP * 0, MAP * 0, []
optimiser = torch.optim.SGD([w], lr=0.02, weight_decay=1 / 4)
for j in (torch.randperm(10)[:5] for _ in range(4000)):
    w.grad = 10 / 5 * X[j].T @ (X[j] @ w - Y[j])
    by_hand = by_hand - 0.02 * (10 / 5 * X[j].T @ (X[j] @ by_hand - Y[j]) + by_hand / (-4 if args.broken else 4))
    optimiser.step(), path.append(torch.stack([by_hand, w]))
mean, off = torch.stack(path)[500:, 0].mean(0), float(torch.stack(path).diff(dim=1).abs().max())
print(f"SGD with decay: mean {mean.numpy()}, MAP {MAP.numpy()}; off torch's weight_decay by {off:.0e}")
assert bool(off < 1e-12 and abs(mean / MAP - 1).max() < 0.02) != args.broken
fits = [zoo.run(LINE, "exact", draws=(n := 400 if args.quick else 4000))]
for name, (method, h, options, law) in list(RUNS.items())[3 * args.broken :]:
    options |= {"step_size": h, "thin": (thin := 25 if h < 0.2 else 5), "warmup": 8 * thin}
    fit = zoo.run(LINE, method, init=fits[0], chains=n, draws=5, mass="unit", engine="eager", **options)
    fits, weights = [*fits, replace(fit, method=name)], None if fit.weights is None else fit.weights.flatten()
    seen = A * fit.draws["w"].flatten(0, 1).T.cov(aweights=weights).diag()
    print(f"{name}: variances {seen.numpy().round(3)} times the right, by theory", law if law is None else law.numpy())
    close = [bool(abs(seen / right - 1).max() < 4 * (2 / n) ** 0.5) for right in (1, seen if law is None else law)]
    assert close == [name in list(RUNS)[:3], True]
for h, right in {1.0: 0.783653, 0.5: 0.920833, 0.2: 0.979875, 0.1: 0.992883, 0.05: 0.997484, 0.01: 0.999775}.items():
    old, noise = torch.randn(2, 200_000, 1).double()
    ends = [(w, -(w[:, 0] ** 2) / 2, -w) for w in (old, old - h * old + (2 * h) ** 0.5 * noise)]
    accept = mala.log_ratio(*ends, A.new_tensor(h), unit(A[:1])).exp().clamp(**{"min" if args.broken else "max": 1})
    print(f"MALA on N(0, 1), h {h}: accepts {accept.mean():.6f} ({right}); without, variance {1 / (1 - h / 2):.4f}")
    assert (abs(accept.mean() - right) < 4 * accept.std() / 200_000**0.5) != args.broken
if args.picture:
    zoo.plot([fit for fit in fits if fit.method.startswith(("exact", "SGLD", "slide"))], "density", args.picture)
