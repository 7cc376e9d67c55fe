"""More data: what is not known for lack of data falls, what is noise stays.

    var y*  =  E[noise^2]  +  var f*            aleatoric + epistemic, at x = 1

Look for: for the line epistemic variance is known exactly, from 2 with no data to about noise^2 / n; the network's
falls too, while aleatoric comes down to the .01 that made the data: that is how one knows whether more data would help.
(svi, of `--quick`, takes lack of data for noise when it has 40 rows.)

Source: Leal-Taixe, "Aleatoric and epistemic uncertainty"; Thome, "Bayesian linear regression"; Kendall & Gal 2017.
"""

import argparse

import torch

import zoo
from zoo import linear_regression

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="the network by svi, on two data sets")
args, at = parser.parse_args(), torch.ones(1, 1)
line = linear_regression.data(n=1000)
print("line, n: epistemic, aleatoric variance at x = 1")
before = float("inf")
for n in (0, 1, 2, 5, 10, 100, 1000):
    found = linear_regression.parts(line, at, rows=n)
    epistemic, aleatoric = float(found["epistemic"]), float(found["aleatoric"])
    print(f"{n:8}{epistemic:10.5f}{aleatoric:8.3f}")
    assert epistemic < before
    before = epistemic
    assert n or epistemic == 2.0  # the prior: var w + var b at x = 1
assert 0.8 < before * 1000 / 0.36 < 8

quick = ("svi", {"steps": 2500, "lr": 0.03, "engine": "eager"})
method, options = quick if args.quick else ("chees", {"warmup": 600, "draws": 300})
print("network, n: epistemic, aleatoric variance at x = 1 (verdict)")
parts = []
for n in (40, 400) if args.quick else (5, 20, 100, 1000):
    fit = zoo.run(zoo.load("bnn_regression", n=n, hidden=10 if args.quick else 50), method, seed=0, **options)
    found = zoo.uncertainty(fit, at)
    parts.append((float(found.epistemic[0]), float(found.aleatoric[0])))
    print(f"{n:8}{parts[-1][0]:10.5f}{parts[-1][1]:8.3f}  {fit.outcome[:60]}", flush=True)
assert parts[-1][0] < parts[0][0] / (2 if args.quick else 20)
assert 0.007 < parts[-1][1] < 0.015
