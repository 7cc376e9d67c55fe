"""Variational inference by hand: Algorithm 1 in plain torch, then the same in one line of zoo, then NUTS.

Look for: both find the same q; a network in place of a line changes f and nothing else; q is narrower than NUTS.
`--picture FILE` draws the network's probabilities by MAP, Laplace, mean field and NUTS.

Source: Thome, "Stochastic variational inference, Algorithm 1"; Blundell et al. 2015.
"""

import argparse

import torch

import zoo


def line(x, w):  # (..., 2), (..., 3) -> (...,)
    return (x * w[..., :2]).sum(-1) + w[..., 2]


def network(x, w):  # 2-20-1: w (..., 81) is w1 (2, 20), b1 (20,), w2 (20,), b2 (1,) end to end
    h = (x.unsqueeze(-1) * w[..., :40].unflatten(-1, (2, 20))).sum(-2) + w[..., 40:60]
    return (h.tanh() * w[..., 60:80]).sum(-1) + w[..., 80]


def by_hand(f, size, x, y, steps, batch=50, lr=0.02):  # q = prod N(m_j, s_j^2), prior N(0, I): m, s, ELBO
    def log_p(x, y, w):
        return -torch.nn.functional.softplus((1 - 2 * y) * f(x, w))

    m, log_s = torch.zeros(size, requires_grad=True), torch.full((size,), -2.0, requires_grad=True)
    adam = torch.optim.Adam([m, log_s], lr)
    slower = torch.optim.lr_scheduler.LambdaLR(adam, lambda t: (1 - t / steps) ** 2)
    for _ in range(steps):
        adam.zero_grad()
        rows, w = torch.randperm(len(x))[:batch], m + log_s.exp() * torch.randn(batch, size)  # one eps a row
        kl = ((2 * log_s).exp() + m.square() - 1 - 2 * log_s).sum() / 2
        (kl - len(x) / batch * log_p(x[rows], y[rows], w).sum()).backward()
        adam.step(), slower.step()
    m, s = m.detach(), log_s.detach().exp()
    draws = [log_p(x, y, m + s * torch.randn(200, 1, size)).sum(1).mean() for _ in range(100)]  # 20,000
    return m, s, float(sum(draws) / 100 - kl.detach())


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer steps")
parser.add_argument("--picture", metavar="FILE", help="draw the four probability maps")
args, data, _ = parser.parse_args(), zoo.bnn_classification.data(), torch.manual_seed(0)
flat, net = zoo.load("logistic_regression", data), zoo.load("bnn_classification", data, hidden=20, scaling="none")
for f, size, problem, steps in ((line, 3, flat, 6000), (network, 81, net, 2000 if args.quick else 40_000)):
    m, s, elbo = by_hand(f, size, data.x, data.y, steps)
    fit = zoo.run(problem, "svi", steps=steps // 2, lr=0.02, particles=16, draws=20_000, engine="eager")
    print(f"{f.__name__}: ELBO {elbo:.3f} by hand, {fit.settings['elbo']:.3f} by zoo ({fit.outcome})")
    if f is line:
        fits = {"svi": fit, "nuts": zoo.run(flat, "nuts", warmup=100, draws=150, engine="eager")}
        w = {k: torch.cat([p.draws["w"], p.draws["b"][..., None]], -1).flatten(0, 1) for k, p in fits.items()}
        for name, mean, sd in (("by hand", m, s), *((k, v.mean(0), v.std(0)) for k, v in w.items())):
            print(f"  {name:8s} mean {mean.numpy().round(3)}, sd {sd.numpy().round(3)}")
        assert abs(elbo - fit.settings["elbo"]) < 0.05
        assert ((m - w["svi"].mean(0)).abs() / s).max() < 0.05
if args.picture:
    zoo.plot([zoo.run(net, "map"), zoo.run(net, "laplace"), fit, zoo.run(net, "nuts")], "surface", args.picture)
