"""Where is the noise? A network with a head for the mean and one for the noise, by MAP, SVI and NUTS.

    y ~ N(f(x), noise(x)^2),    var y* = E[noise(x)^2] + var f(x)      aleatoric + epistemic

Look for: all three find that noise grows to the right, .1 to .7, which a network with one noise cannot. MAP has no
epistemic part (but for what its starts disagree by); that of NUTS grows where there are no data, at x = 8.

Source: Yandex, "Linear regression: mu and sigma heads"; Leal-Taixe, "Aleatoric and epistemic uncertainty"; Kendall &
Gal 2017.
"""

import argparse

import numpy as np
import torch

import zoo
from zoo.data.toy import noise_at

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="few steps and draws")
args = parser.parse_args()
at = torch.tensor([[-3.5], [-2.0], [0.0], [2.0], [3.5], [8.0]])
true = noise_at(at).numpy()
hidden, n = (4, 250) if args.quick else (20, 500)
svi = {"steps": 1000 if args.quick else 6000, "lr": 0.02}
nuts = {"draws": 50, "warmup": 80, "chains": 2, "max_depth": 5} if args.quick else {"draws": 500, "warmup": 500}
if args.quick:
    svi, nuts = svi | {"engine": "eager"}, nuts | {"engine": "eager"}
print("x:                   " + "".join(f"{float(x):8.1f}" for x in at))
print("true noise           " + "".join(f"{s:8.3f}" for s in true))
parts = {}
for method, options in (("map", {}), ("svi", svi), ("nuts", nuts)):
    fit = zoo.run(zoo.load("heteroscedastic_regression", n=n, hidden=hidden), method, seed=0, **options)
    found = zoo.uncertainty(fit, at)
    parts[method] = found.aleatoric**0.5, found.epistemic**0.5
    print(f"{method:5}aleatoric, sd   " + "".join(f"{s:8.3f}" for s in parts[method][0]), f" {fit.outcome[:40]}")
    print("     epistemic, sd   " + "".join(f"{s:8.3f}" for s in parts[method][1]), flush=True)
for method, (aleatoric, epistemic) in parts.items():
    assert (np.abs(np.log(aleatoric[:5] / true[:5])) < np.log(1.6)).all(), method
    assert aleatoric[4] > 2.5 * aleatoric[0]
    assert method == "map" or epistemic.min() > 0.01
assert parts["map"][1].max() < 0.01
assert parts["nuts"][1][5] > parts["nuts"][1][4]
