"""q(omega) = ?: five noises that multiply a network's weights, and a sixth of your own in five lines, beside NUTS.

Look for: any distribution of mean 1 is a q. Noise of whole units, and noise of finitely many values, has no density:
its KL is undefined, and what is printed is an objective. Continuous noise of single weights has an ELBO.

Source: Gal, "q(omega) = ?"; Wan, Zeiler, Zhang, LeCun & Fergus 2013.
"""

from __future__ import annotations

import argparse

import pyro.distributions as dist
import torch
from torch.distributions.transforms import AffineTransform

import zoo
from guides.multiplicative import multiplicative

BERNOULLI = dist.TransformedDistribution(dist.Bernoulli(torch.tensor(0.9)), [AffineTransform(0.0, 1 / 0.9)])
NOISES = {
    "dropout .1": {"noise": BERNOULLI, "on": "units"},
    "MGN N(1, .3)": {"noise": dist.Normal(1.0, 0.3), "on": "units"},
    "uniform units": {"noise": dist.Uniform(0.5, 1.5), "on": "units"},
    "DropConnect .1": {"noise": BERNOULLI, "on": "connections"},
    "Gaussian weights": {"noise": dist.Normal(1.0, 0.3), "on": "weights"},
}


def spikes(model):  # your own: each weight is multiplied by log-normal noise of mean 1
    noise = dist.LogNormal(-0.045, 0.3)
    return multiplicative(model, noise=noise, on="weights", bias="normal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and draws")
    args = parser.parse_args()
    problem = zoo.load("mc_dropout", zoo.mc_dropout.data(n=40), hidden=10, noise=0.2)
    svi = {"steps": 400 if args.quick else 5000, "lr": 0.03, "engine": "eager"}
    few = {"warmup": 60, "draws": 30, "max_depth": 4, "engine": "eager"} if args.quick else {}
    fits = {n: zoo.run(problem, "svi", guide=multiplicative, guide_options=o, **svi) for n, o in NOISES.items()}
    fits |= {"your own": zoo.run(problem, "svi", guide=spikes, **svi), "nuts": zoo.run(problem, "nuts", **few)}
    print("                  sd at 0  sd at 6")
    for name, fit in fits.items():
        sd = fit.predict(torch.tensor([[0.0], [6.0]]))["f"].flatten(0, 1).std(0)
        bound = fit.settings.get("elbo_is_bound")
        undefined = "objective {:.0f}, KL undefined" if fit.settings.get("no_density") else "{:.0f}, biases are points"
        text = "ELBO {:.0f}" if bound else undefined
        print(f"{name:17s} {sd[0]:7.3f}  {sd[1]:7.3f}  {text.format(fit.settings['elbo']) if name != 'nuts' else ''}")
        assert name == "nuts" or bound == (name == "your own")
        assert sd.min() > 0


if __name__ == "__main__":
    main()
