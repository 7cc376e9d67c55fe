"""Noisy activations: which of two objectives keeps their noise.

a ~ N(mu, s^2), y ~ N(a, .25), and y has variance 1, so that s^2 = .75 explains it. What to look for: E_a log p(y | a),
the objective of the slide, only ever falls with s and drives it to 0; log E_a p(y | a) has its maximum at .75, and so
does the bound of a q(a | x, y). E_a dense2(a), as the slide prints log p, is no log likelihood at all.

Source: Yandex, "Stochastic activations".
"""

import argparse
import math

import torch

import zoo

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer steps")
STEPS = 500 if parser.parse_args().quick else 3000

y = torch.randn(200, generator=torch.Generator().manual_seed(0))
y = (y - y.mean()) / y.std(unbiased=False)
one = {"hidden": (), "units": 1, "noise": 0.5, "prior_scale": 100.0}  # x is 0 and says nothing

print("objective  q(a)       s^2 of f   the row's bound")
spread = {}
for objective, q in (("expected", "prior"), ("expected", "encoder"), ("marginal", "prior")):
    problem = zoo.load("stochastic_activation", zoo.Data(y.new_zeros(200, 1), y), objective=objective, **one)
    fit = zoo.run(problem, "svi", steps=STEPS, lr=0.03, draws=2, engine="eager", guide_options={"q": q})
    w, s = fit.draws["w_out"][0, 0].squeeze(), fit.draws["b_s"][0, 0].exp().squeeze()
    spread[objective, q] = float((w * s) ** 2)
    bound = fit.history["expected_log_likelihood"][0, -50:].mean() / 200
    if q == "encoder":
        terms = zoo.bound(fit)
        bound = (terms["reconstruction"] - terms["kl"]).mean()
    print(f"{objective:9}  {q:9}  {spread[objective, q]:8.3f}   {bound:8.3f}")

print("\ns^2    E log p(y | a)   log E p(y | a)")
for variance in (0.01, 0.25, 0.75, 1.5):
    expected = -0.5 * math.log(2 * math.pi * 0.25) - (1 + variance) / 0.5
    marginal = -0.5 * math.log(2 * math.pi * (0.25 + variance)) - 0.5 / (0.25 + variance)
    print(f"{variance:4.2f}   {expected:14.3f}   {marginal:14.3f}")

assert spread["expected", "prior"] < 0.05
assert abs(spread["marginal", "prior"] - 0.75) < 0.05
assert abs(spread["expected", "encoder"] - 0.75) < 0.1
