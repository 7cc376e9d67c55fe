"""Dropout with weight decay, trained by torch, and SVI with `bernoulli_dropout` by Pyro: the same gradients.

Look for: with the same masks grad L = -grad ELBO / (N tau) to the last digits, with the weight decay that prior, noise
and p ask for; that of p = 0 (the twin) fails. torch scales masks by 1 / (1 - p): its weights are V = (1 - p) M.

Source: Gal, "Dropout as a Bayesian approximation"; Thome, "MC dropout: the proof"; Gal & Ghahramani 2016.
"""

import argparse
from statistics import NormalDist

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import Trace_ELBO

import zoo
from guides.bernoulli_dropout import bernoulli_dropout

P, LENGTH_SCALE, TAU, HIDDEN, LR = 0.2, 1.0, 4.0, 20, 0.02


def network(x, y=None):
    prior = dist.Normal(x.new_zeros(()), 1 / LENGTH_SCALE)
    w1 = pyro.sample("w1", prior.expand([1, HIDDEN]).to_event(2))
    b1 = pyro.sample("b1", prior.expand([HIDDEN]).to_event(1))
    w2 = pyro.sample("w2", prior.expand([HIDDEN, 1]).to_event(2))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(((x @ w1 + b1).relu() @ w2)[:, 0], TAU**-0.5), obs=y)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer steps")
steps, data, _ = 300 if parser.parse_args().quick else 3000, zoo.bnn_regression.data(), torch.manual_seed(0)
x, y, n = data.x.double(), data.y.double(), len(data.x)
(guide := bernoulli_dropout(network, rate=P))(x, y)
ours = [pyro.param(name) for name in ("w1.weight", "b1.point", "w2.weight")]
keep, worst, twin = [1 - P, 1.0, 1 - P], 0.0, 0.0  # V = (1 - p) M; a bias has no mask
net = [(k * m.detach()).requires_grad_() for k, m in zip(keep, ours, strict=True)]
decays = [zoo.weight_decay(LENGTH_SCALE, TAU, p, n, inverted=True) for p in (P, 0.0, P)]
for step in range(steps):
    torch.manual_seed(step)
    masks = pyro.poutine.trace(guide).get_trace(x, y).nodes
    z1, z2 = ((masks[f"_{w}.noise"]["value"] > NormalDist().inv_cdf(P)) / (1 - P) for w in ("w1", "w2"))
    torch.manual_seed(step)
    elbo = -Trace_ELBO().differentiable_loss(network, guide, x, y)
    vi = [-g / (n * TAU) / k for g, k in zip(torch.autograd.grad(elbo, ours), keep, strict=True)]
    loss = (y - (((x * z1) @ net[0] + net[1]).relu() * z2 @ net[2])[:, 0]).square().mean() / 2
    plain = torch.autograd.grad(loss, net)  # torch adds weight_decay v to it, and weight_decay = 2 lambda
    sgd = [g + 2 * d * v.detach() for g, d, v in zip(plain, decays, net, strict=True)]
    worst = max(worst, *(float((a - b).abs().max()) for a, b in zip(sgd, vi, strict=True)))
    twin = max(twin, float((plain[0] + 2 * decays[1] * net[0].detach() - vi[0]).abs().max()))
    whole = loss.item() + sum(d * v.square().sum().item() for d, v in zip(decays, net, strict=True))
    if step % (steps // 5) == 0:
        print(f"step {step:4d}: torch {whole:.6f}, -ELBO / (N tau) {-elbo.item() / (n * TAU):.6f} + constant")
    with torch.no_grad():
        for m, v, g, h, k in zip(ours, net, vi, sgd, keep, strict=True):
            m, v = m.sub_(LR * k * g), v.sub_(LR * k * k * h)  # the same step, in M and in V
print(f"largest difference of gradients {worst:.1e}; with the decay of p = 0 (the twin) {twin:.1e}")
assert worst < 1e-6 < 1e-4 < twin
