"""SGD with momentum: torch's optimiser, a pendulum with friction, and, with noise put on top, a sampler that is wrong.

Look for: p' = (1 - b) p - b g, W' = W + eta p' is torch's SGD; as friction vanishes it becomes leapfrog, momenta half
a step behind; with noise its variance is 5.01 where 1 is due. `--broken`: W + eta p with the old p, "good old Euler".

Source: Ambrogioni II, "Momentum gradient descent"; Ambrogioni, "Momentum Monte Carlo"; Chen, Fox & Guestrin 2014.
"""

import argparse

import torch

import zoo
from zoo.infer import leapfrog, mass
from zoo.report import canvas

A, START = torch.tensor([[1.0, 25.0], [-2.0, 0.4]]).double()  # U = sum A W^2 / 2, a valley; as a posterior:
VALLEY = zoo.load("linear_regression", zoo.Data((A - 1).sqrt()[None], A[:1] * 0), bias=False, noise=1.0)


def descend(b, eta, steps, noise=0.0, force=None, p=0 * START):  # p' = (1 - b) p - b g; noise: sd of a minibatch's g
    path = [START]
    for _ in range(steps):
        old, p = p, (1 - b) * p - (force or b) * (A * path[-1] + noise * torch.randn(2))
        path.append(path[-1] + eta * (old if args.broken else p))
    return torch.stack(path)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer chains")
parser.add_argument("--broken", action="store_true", help="good old Euler: W + eta p with the old p")
parser.add_argument("--picture", metavar="FILE", help="draw SGD, momentum, Langevin and HMC in one valley")
args, _, w, by_torch = parser.parse_args(), torch.manual_seed(0), START.clone(), [START]
n, optimiser = 400 if args.quick else 4000, torch.optim.SGD([w], lr=0.03 * 0.1, momentum=1 - 0.1)
for _ in range(200):
    w.grad = A * w
    optimiser.step(), by_torch.append(w.clone())
off = float((torch.stack(by_torch) - descend(0.1, 0.03, 200)).abs().max())
print(f"off torch.optim.SGD(lr=eta b, momentum=1 - b) by {off:.0e} in 200 steps")
right, at = off < 1e-12, [torch.stack([START, 0 * START, -A * START])[None]]
for _ in range(50):
    at.append(leapfrog.leapfrog(at[-1], lambda w: (w[:, 0], -A * w), A.new_tensor(0.1), mass.unit(A))[0])
shifted = {b: descend(b, 0.1, 50, 0.0, 0.1, 0.05 * A * START) - torch.cat(at)[:, 0] for b in (0.1, 0.01, 0.001, 0)}
print("off leapfrog in 50 steps, by friction b:", {b: f"{off.abs().max():.0e}" for b, off in shifted.items()})
assert {right, float(shifted[0].abs().max()) < 1e-12} == {not args.broken}
for b, eta in ((0.1, 0.1), (0.5, 0.2)):
    options = {"mass": "unit", "engine": "eager", "warmup": 100, "thin": 20, "draws": 25, "chains": n}
    fit = zoo.run(VALLEY, "naive_momentum", friction=b, step_size=eta, **options)
    variance, law = fit.draws["w"].flatten(0, 1).var(0), (2 - b) * eta / (A * b**2 * (4 - 2 * b - eta * A * b))
    print(f"{fit.outcome[:6]}, b {b}, eta {eta}: variances {variance.numpy()}, formula {law.numpy()}; right: 1, .04")
    assert max(abs(variance / law - 1)) < 4 * (2 / 25 / n) ** 0.5
if args.picture:  # Langevin, step .03, is SGD with noise of that size; a trajectory is momentum without friction
    laws = {"SGD": (1, 0.03, 50, 3), "momentum": (0.3, 0.1, 50, 3), "Langevin": (1, 0.015, 50, 2 / 0.03**0.5)}
    laws["HMC: one trajectory"] = (0, 0.12, 50, 0, 0.12, 1.2 + 0.06 * A * START)
    panels, x = canvas.panels(None, 4, (6, 3.5), 2, sharex=True, sharey=True), torch.linspace(-3, 3, 99)
    for panel, (name, law) in zip(panels, laws.items(), strict=True):
        panel.contour(x, x / 5, (x**2 + x[:, None] ** 2).sqrt(), levels=[0.5, 1, 1.5, 2, 2.5], colors="0.7")
        panel.plot(*descend(*law).T, "k.-", lw=1)
        panel.set(title=name, xlabel="W1 (posterior sd 1)", ylabel="W2 (sd .2)"), canvas.dress(panel)
    panels[0].figure.savefig(args.picture, dpi=150)
