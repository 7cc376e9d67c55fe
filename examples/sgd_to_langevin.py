"""From SGD to Langevin: y = W x by SGD, with weight decay, with noise (SGLD), with an accept step (MALA).

Look for: decay leads SGD from the MLE to the MAP, noise to the posterior, slide (i) to half its variance, (ii),
without 1/M, to a twentieth; MALA is exact, until a minibatch accepts. `--broken`: decay and noise as the slides print.

Source: Ambrogioni I, "Regularised loss"; Ambrogioni, "Stochastic gradient Langevin dynamics"; Welling & Teh 2011.
"""

import argparse

import torch

import zoo
from zoo.report import canvas

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
    **{f"{m} of 10 accept": ("minibatch_mh", 1.0, {"batch_size": m}, None) for m in (5, 2, 1)},
}
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer chains")
parser.add_argument("--broken", action="store_true", help="what the slides print")
parser.add_argument("--picture", metavar="FILE", help="draw SGD's paths on the loss, and draws against the posterior")
args, _, w, path = parser.parse_args(), torch.manual_seed(0), MAP * 0, [torch.zeros(3, 2).double()]
optimiser, decay = torch.optim.SGD([w], lr=0.02, weight_decay=1 / 4), X.new_tensor([[1 / 4 - args.broken / 2], [0]])
for j in (torch.randperm(10)[:5] for _ in range(3000)):
    w.grad, by_hand = 10 / 5 * X[j].T @ (X[j] @ w - Y[j]), path[-1][:2]  # by hand with decay, and without
    by_hand = by_hand - 0.02 * (10 / 5 * (by_hand @ X[j].T - Y[j]) @ X[j] + decay * by_hand)
    optimiser.step(), path.append(torch.cat([by_hand, w[None]]))
path, right = torch.stack(path), torch.stack([MAP, X.T @ Y / (A - 1 / 4)])
mean, off = path[500:, :2].mean(0), float((path[:, 0] - path[:, 2]).abs().max())
print(f"SGD, with decay and without: means {mean.tolist()}, MAP and MLE {right.tolist()}; off torch's by {off:.0e}")
assert bool(off < 1e-12 and abs(mean / right - 1).max() < 0.02) != args.broken
drawn, exact = [], zoo.run(LINE, "exact", draws=(n := 400 if args.quick else 4000))
for name, (method, h, options, law) in list(RUNS.items())[3 * args.broken :]:
    options |= {"step_size": h, "thin": (thin := 25 if h < 0.2 else 5), "warmup": 8 * thin}
    fit = zoo.run(LINE, method, init=exact, chains=n, draws=5, mass="unit", engine="eager", **options)
    w, weights = fit.draws["w"].flatten(0, 1), None if fit.weights is None else fit.weights.flatten()
    seen = A * w.T.cov(aweights=weights).diag()
    print(f"{name}: variances {seen.numpy().round(3)} times the right, by theory", law if law is None else law.numpy())
    close = [bool(abs(seen / right - 1).max() < 4 * (2 / n) ** 0.5) for right in (1, seen if law is None else law)]
    assert close == [name in list(RUNS)[:3], True]
    drawn.append((name, w[:, 0] - MAP[0], weights))
if args.picture:
    (first, *rest), (x, y) = canvas.panels(None, 6, (5, 3.5)), (MAP[:, None] + torch.linspace(-4, 4, 65))
    first.contour(x, y, (x - MAP[0]) ** 2 + 4 * (y[:, None] - MAP[1]) ** 2, [0.1, 1, 4, 9, 16], colors="0.7")
    first.plot(*path[:400, 0].T, "k-", *path[:400, 1].T, "k:", *right.T, "k*", lw=0.8, ms=14), canvas.dress(first)
    first.set(title="SGD to the MAP; without decay (...) to the MLE", xlabel="W1", ylabel="W2")
    for i, (axes, (name, w1, weights)) in enumerate(zip(rest, drawn, strict=False)):
        axes.hist(w1, x - MAP[0], weights=weights, density=True, **canvas.fill(i)), canvas.dress(axes)
        axes.plot(x - MAP[0], (-((x - MAP[0]) ** 2) / 2).exp() / 2.5066, "k"), axes.set(title=name, xlabel="W1 - MAP")
    first.figure.savefig(args.picture, dpi=150)
